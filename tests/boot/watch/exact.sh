#!/bin/sh
# time limit: 240
# darter flame --exact counts every instruction: functions that execute a known number have just that, below those that called them, without frame pointers, in several
# processes and on several CPUs; the sum is what QEMU counted; shares are those that samples show.
. tests/boot/common
case $DARTER_KERNEL in linux) skip 'only Darter is counted so' ;; esac
"${MUSL_CC:-musl-gcc}" -static -O2 -fomit-frame-pointer -o "$work/counted" tests/tools/counted.c || exit 1

# flame ARG...
flame() {
    rm -f "$work/folded" "$work/graph.svg"
    "$DARTER" flame --kernel "$DARTER_KERNEL" --cpus 2 --timeout 100 -o "$work/graph.svg" --folded "$work/folded" --add "$work/counted:/counted" "$@" >"$work/out" 2>"$work/err" </dev/null
    rc=$?
    err=$(cat "$work/err")
}

# count PATTERN: of the stacks that it matches. total: of all. number: what was said.
count() { awk -v pattern="$1" '{ n = $NF; sub(/ [0-9]+$/, "") } $0 ~ pattern { some += n } END { printf "%.0f\n", some }' "$work/folded"; }
total() { count .; }
number() { sed -n 's/^darter: \([0-9]*\) instructions: .*/\1/p' "$work/err"; }
# share NAME: of the program's, in a hundred, of what is in the function itself.
share() { awk -v name="$1" '{ n = $NF; sub(/ [0-9]+$/, "") } /^counted;/ { all += n; if ($0 ~ ";" name "$") some += n } END { printf "%.2f\n", all ? 100 * some / all : 0 }' "$work/folded"; }
# near A B: within three.
near() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a - b <= 3 && b - a <= 3) }'; }

rounds=4000
flame --exact -- /counted $rounds
expect status "$rc" 6
expect 'what six parts execute' "$(count '^counted;.*main;both;six_parts$')" $((rounds * 12012))
expect 'what three parts execute' "$(count '^counted;.*main;both;three_parts$')" $((rounds * 6006))
expect 'what one part executes' "$(count '^counted;.*main;one_part$')" $((rounds * 2002))
expect 'the sum of all stacks' "$(total)" "$(number)"
[ "$(count '^counted;.*_\[k\]$')" -gt 1000 ] || { echo 'a program of some seconds has nothing in the kernel'; status=1; }
grep -q six_parts "$work/graph.svg" || { echo 'the graph does not name it'; status=1; }
for name in six_parts three_parts one_part; do eval "exact_$name=$(share $name)"; done
cp "$work/folded" "$work/old"

# The same load by samples, long enough for many thousand.
flame --rate 1000 -- /counted 1600000
expect 'status of the sampled one' "$rc" 6
for name in six_parts three_parts one_part; do
    eval "exact=\$exact_$name"
    sampled=$(share $name)
    near "$exact" "$sampled" || { echo "$name: $exact of a hundred counted, $sampled sampled"; status=1; }
done

# Two processes at once, then one that the same shell waits for: each with its own calls, and a difference is drawn.
flame --exact --diff "$work/old" -- sh -c '/counted 2000 & /counted 1000; wait; /counted 500'
expect 'status of a shell' "$rc" 6
expect 'what six parts execute in three processes' "$(count '^counted;.*main;both;six_parts$')" $((3500 * 12012))
expect 'what they execute in all' "$(count 'six_parts$')" $((3500 * 12012))
expect 'the sum with three processes' "$(total)" "$(number)"
[ "$(count '^sh;.*sys_execve')" -gt 1000 ] || { echo 'the shell executes nothing'; status=1; }
grep -q six_parts "$work/graph.svg" || { echo 'the graph of the difference does not name it'; status=1; }

# The same run each time has the same count.
flame --exact --cpus 1 --deterministic -- /counted 100
first=$(number)
flame --exact --cpus 1 --deterministic -- /counted 100
expect 'the count of the same run' "$(number)" "$first"

# refused WORD ARG...: an error of usage that has the word.
refused() {
    word=$1
    shift
    "$DARTER" flame --exact "$@" -o "$work/graph.svg" -- true >"$work/out" 2>"$work/err" </dev/null
    rc=$?
    err=$(cat "$work/err")
    expect "status of --exact $*" "$rc" 2
    case $err in *"$word"*) ;; *) echo "--exact $*: '$word' is not in: $err"; status=1 ;; esac
}
refused --rate --rate 100
refused '--kernel linux' --kernel linux
refused --accel --accel kvm
refused --accel --accel nested
refused '--cpus 1' --cpus 2 --deterministic
refused 63 --cpus 64
exit $status
