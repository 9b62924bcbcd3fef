#!/bin/sh
# time limit: 240
# darter flame --lines counts every cache line that a CPU takes from another: threads that write to one event counter in turns take its line with each write, and are drawn so, by
# their calls and with the calls that had written it, for 2 to 4 CPUs; threads that share nothing take none where they write; the sum is what the plugin counted.
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

# count TAKER [HOLDER]: of the transfers by stacks that TAKER matches from those that HOLDER does, which are the other way round. total: of all. number: what was said.
count() {
    awk -v taker="$1" -v holder="${2:-.}" '{
        n = $NF; sub(/ [0-9]+$/, ""); at = index($0, ";from ")
        if (at && substr($0, 1, at - 1) ~ taker && substr($0, at + 6) ~ holder) some += n
    } END { printf "%.0f\n", some }' "$work/folded"
}
total() { awk '{ all += $NF } END { printf "%.0f\n", all }' "$work/folded"; }
number() { sed -n 's/^darter: \([0-9]*\) transfers.*/\1/p' "$work/err"; }
# widest: the stack with the largest number, without that.
widest() { awk '{ n = $NF; sub(/ [0-9]+$/, "") } n > most { most = n; stack = $0 } END { print stack }' "$work/folded"; }

rounds=300
calls='([^;]*;)*'
event='[^;]*Event as [^;]*::write_[[]k]'
writes="^taken;${calls}work;add;write;$calls$event\$"
had_written="^$event;${calls}write;add;work;${calls}taken\$"
for cpus in 2 3 4; do
    # The first to write to the counter takes its line from nobody who had written to it so, the first to pass the turn on from those who wait.
    moves=$((cpus * rounds - 1))
    flame --lines=all --cpus $cpus -- /taken shared $rounds
    expect "status with $cpus CPUs" "$rc" 6
    expect "lines of the counter that $cpus CPUs take" "$(count "$writes" "$had_written")" $moves
    expect "lines of the turn that $cpus CPUs take to pass it on" "$(count "^taken;${calls}work;pass_turn\$")" $((moves + 1))
    expect "lines of the message that $cpus CPUs take to write it" "$(count "^taken;${calls}work;hand_over\$")" $((moves + 1))
    expect "lines of the message that $cpus CPUs take to read it" "$(count "^taken;${calls}work;take_over\$" "^hand_over;work;${calls}taken\$")" $moves
    [ "$(count "^taken;${calls}work;await_turn\$" "^pass_turn;work;${calls}taken\$")" -ge $((moves * 9 / 10)) ] || { echo "$cpus CPUs wait for their turn without taking its line"; status=1; }
    expect "the sum with $cpus CPUs" "$(total)" "$(number)"
    expect "lines from nobody knows whom with $cpus CPUs" "$(count . '^[[]unknown]$')" 0

    # Of the kernel's, the first entry is a write to the counter.
    flame --lines --cpus $cpus -- /taken shared $rounds
    expect "the first entry with $cpus CPUs, $(widest)" "$(widest | grep -Ec "^taken;${calls}work;add;write;${calls}[^;]*_[[]k];from [^;]*_[[]k];${calls}write;add;work;${calls}taken\$")" 1
    expect "the kernel's lines of the counter with $cpus CPUs" "$(count "$writes" "$had_written")" $moves
    expect "lines that the kernel takes, of its own" "$(count '_[[]k]$')" "$(total)"
    case $err in *" more of programs' memory are not drawn"*) ;; *) echo "nothing is said of programs' memory: $err"; status=1 ;; esac
    expect "the sum of the kernel's lines" "$(total)" "$(number)"
    grep -q 'Event as' "$work/graph.svg" || { echo 'the graph does not name the counter'; status=1; }
    cp "$work/folded" "$work/old"

    flame --lines --cpus $cpus --diff "$work/old" -- /taken apart 1000
    expect "status of threads that share nothing" "$rc" 6
    expect "lines of their counters that $cpus CPUs take" "$(count "$writes")" 0
    # Ticks and the scheduler's look at other CPUs come between calls, and as often as the host is slow. The call itself sees now and then that its CPU was sent something to run.
    own=$(($(count ';work;add;') - $(count ';work;add;.*(return_work|common_entry|vector_stubs)_[[]k]')))
    [ "$own" -le 10 ] || { echo "1000 calls of $cpus threads that share nothing take $own lines"; status=1; }
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
