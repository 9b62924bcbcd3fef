#!/bin/sh
# time limit: 240
# darter flame --lines counts every cache line that a CPU takes from another: threads that write to one event counter in turns take its line with each write, and are drawn so, by
# their calls and with who had written it, for 2 to 4 CPUs; threads that share nothing take none where they write; the sum is what the plugin counted.
. tests/boot/common
case $DARTER_KERNEL in linux) skip 'only Darter is counted so' ;; esac
"${MUSL_CC:-musl-gcc}" -static -O2 -pthread -o "$work/taken" tests/tools/taken.c || exit 1

# flame ARG...
flame() {
    rm -f "$work/folded" "$work/graph.svg"
    "$DARTER" flame --kernel "$DARTER_KERNEL" --timeout 100 -o "$work/graph.svg" --folded "$work/folded" --add "$work/taken:/taken" "$@" >"$work/out" 2>"$work/err" </dev/null
    rc=$?
    err=$(cat "$work/err")
}

# count PATTERN: of the stacks that it matches. total: of all. number: what was said.
count() { awk -v pattern="$1" '{ n = $NF; sub(/ [0-9]+$/, "") } $0 ~ pattern { some += n } END { printf "%.0f\n", some }' "$work/folded"; }
total() { count .; }
number() { sed -n 's/^darter: \([0-9]*\) transfers.*/\1/p' "$work/err"; }
# widest: the stack with the largest number, without that.
widest() { awk '{ n = $NF; sub(/ [0-9]+$/, "") } n > most { most = n; stack = $0 } END { print stack }' "$work/folded"; }

rounds=300
event='^taken;.*;work;add;write;.*Event as .*::write_\[k\]'
for cpus in 2 3 4; do
    # The first thread finds the line with nobody.
    moves=$((cpus * rounds - 1))
    flame --lines=all --cpus $cpus -- /taken shared $rounds
    expect "status with $cpus CPUs" "$rc" 6
    expect "lines of the counter that $cpus CPUs take" "$(count "$event;from .*Event as .*::write_\\[k\\]\$")" $moves
    expect "lines of the turn that $cpus CPUs take to pass it on" "$(count '^taken;.*;work;pass_turn;from [^;]*$')" $moves
    [ "$(count '^taken;.*;work;await_turn;from pass_turn$')" -ge $((moves - 5)) ] || { echo "$cpus CPUs wait for their turn without taking its line"; status=1; }
    expect "the sum with $cpus CPUs" "$(total)" "$(number)"

    # Of the kernel's, the first entry is a write to the counter.
    flame --lines --cpus $cpus -- /taken shared $rounds
    case $(widest) in *';work;add;write;'*'_[k]') ;; *) echo "the first entry with $cpus CPUs is $(widest)"; status=1 ;; esac
    expect "the kernel's lines of the counter with $cpus CPUs" "$(count "$event;")" $moves
    expect "programs' lines among the kernel's" "$(count ';pass_turn;from ')" 0
    case $err in *" more of programs' memory are not drawn"*) ;; *) echo "nothing is said of programs' memory: $err"; status=1 ;; esac
    expect "the sum of the kernel's lines" "$(total)" "$(number)"
    grep -q pass_turn "$work/graph.svg" && { echo 'programs are in the graph'; status=1; }
    grep -q 'Event as' "$work/graph.svg" || { echo 'the graph does not name the counter'; status=1; }
    cp "$work/folded" "$work/old"

    flame --lines --cpus $cpus --diff "$work/old" -- /taken apart $rounds
    expect "status of threads that share nothing" "$rc" 6
    expect "lines of their counters that $cpus CPUs take" "$(count "$event;")" 0
    [ "$(count ';work;add;')" -lt $((rounds / 20)) ] || { echo "threads that share nothing take $(count ';work;add;') lines as they write"; status=1; }
    expect "the sum of threads that share nothing" "$(total)" "$(number)"
done

flame --lines --cpus 1 -- /taken shared 10
expect 'status with one CPU' "$rc" 6
case $err in *'no CPU took a line from another: nothing is drawn'*) ;; *) echo "one CPU: $err"; status=1 ;; esac

# refused WORD ARG...: an error of usage that has the word.
refused() {
    word=$1
    shift
    "$DARTER" flame "$@" -o "$work/graph.svg" -- true >"$work/out" 2>"$work/err" </dev/null
    rc=$?
    err=$(cat "$work/err")
    expect "status of $*" "$rc" 2
    case $err in *"$word"*) ;; *) echo "$*: '$word' is not in: $err"; status=1 ;; esac
}
refused --rate --lines --rate 100
refused --exact --lines --exact
refused '--lines tells' --lines --kernel linux
refused '--lines counts' --lines --accel kvm
refused '--cpus 1' --lines --cpus 2 --deterministic
refused '--lines --cpus' --lines --cpus 64
refused kernel --lines=user
exit $status
