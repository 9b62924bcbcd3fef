#!/bin/sh
# time limit: 200
# darter flame finds where time goes: the function of a program that has nine parts of ten, below those that call it; the kernel, where a program does nothing but
# call it; and leaves the program its streams and status.
. tests/boot/common
case $DARTER_KERNEL in linux) skip 'only Darter has /proc/darter' ;; esac
"${MUSL_CC:-musl-gcc}" -static -O0 -fno-omit-frame-pointer -o "$work/hot" tests/tools/hot.c || exit 1

# share PATTERN: samples whose stack has it, in a hundred of the program's.
share() { awk -v pattern="$1" '/^hot;/ { all += $NF; if ($0 ~ pattern) some += $NF } END { printf "%.0f\n", all ? 100 * some / all : 0 }' "$work/folded"; }
samples() { awk '/^hot;/ { all += $NF } END { print all + 0 }' "$work/folded"; }

# flame ARG...
flame() {
    rm -f "$work/folded" "$work/graph.svg"
    "$DARTER" flame --kernel "$DARTER_KERNEL" --cpus 2 --timeout 80 -o "$work/graph.svg" --folded "$work/folded" --add "$work/hot:/hot" "$@" >"$work/out" 2>"$work/err" </dev/null
    rc=$?
    err=$(cat "$work/err")
}

flame -- /hot
expect status "$rc" 5
n=$(samples)
# Three seconds at 250 a second, of one CPU.
[ "$n" -ge 300 ] && [ "$n" -le 1000 ] || { echo "$n samples of a program that runs for three seconds"; status=1; }
hot=$(share 'main;hot_function;spin') cool=$(share 'main;cool_function;spin')
[ "$hot" -ge 75 ] && [ "$cool" -ge 3 ] && [ "$cool" -le 20 ] || { echo "hot $hot, cool $cool of a hundred"; status=1; head -30 "$work/folded"; }
grep -q 'hot_function' "$work/graph.svg" || { echo 'the graph does not name it'; status=1; }
grep -q '^darter: [0-9]* samples' "$work/err" || { echo "nothing was said: $err"; status=1; }
cp "$work/folded" "$work/old"

flame --rate 1000 --diff "$work/old" -- /hot calls
expect 'status of a program that calls' "$rc" 5
calls=$(share '_\[k\]')
[ "$calls" -ge 40 ] || { echo "only $calls of a hundred samples are in the kernel"; status=1; head -30 "$work/folded"; }
more=$(samples)
# A host with other work lets ticks come late, but not so late.
[ "$more" -gt $((n * 5 / 4)) ] || { echo "$more samples at 1000 a second, $n at 250"; status=1; }
grep -q 'syscall_entry' "$work/graph.svg" || { echo 'the graph of the difference has no kernel'; status=1; }

# Nobody is busy in a machine that sleeps, but for what starts the program.
flame -- sleep 2
expect 'status of sleep' "$rc" 0
exit $status
