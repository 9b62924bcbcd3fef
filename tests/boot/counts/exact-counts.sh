#!/bin/sh
# time limit: 300
# Two machines count the same instructions, to the last one, though this machine has other things to do beside one of them; a run with --deterministic sees the same
# times and interrupts in each. The figures stand in a plausible place.
. tests/boot/common
count() {
    "$DARTER" bench --instructions --kernel "$DARTER_KERNEL" --json "$work/json" getppid faultzf forkexit yield >"$work/out"
    expect status $? 0
    mv "$work/json" "$work/$1"
}
# What a program that says much at once, and sleeps, sees of time. Linux takes minutes to boot so.
schedule() {
    case $DARTER_KERNEL in linux) return 0 ;; esac
    run --deterministic --cpus 1 --timeout 120 -- sh -c '
        for part in 1 2 3; do seq 2000; sleep 0.1; cat /proc/self/schedstat /proc/schedstat /proc/interrupts /proc/1/sched; done' <&9
    expect 'status of a run' "$rc" 0
    mv "$work/out" "$work/$1-times"
}
# Input that never comes: even its end would come when this machine gets to it.
mkfifo "$work/silence"
exec 9<>"$work/silence"
count first
schedule first
busy=
for _ in 1 2 3; do
    timeout 200 sh -c 'while :; do :; done' &
    busy="$busy $!"
done
for again in second third; do
    count $again
    schedule $again
    expect "how the $again machine differs" "$(diff "$work/first" "$work/$again" | head)" ''
    case $DARTER_KERNEL in linux) continue ;; esac
    expect "how the $again run differs" "$(diff "$work/first-times" "$work/$again-times" | head)" ''
done
kill $busy
wait
# A page of zeros is 4096 iterations of stosb, or 512 of stosq.
iterations=$(grep -A 4 '"benchmark": "faultzf"' "$work/first" | sed -n 's/.*"iterations": \([0-9]*\).*/\1/p')
[ "${iterations:-0}" -ge 500 ] && [ "$iterations" -le 5000 ]
expect "iterations of a zero-fill fault ($iterations)" $? 0
exit $status
