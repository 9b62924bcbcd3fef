#!/bin/sh
# time limit: 300
# Two machines count the same instructions, to the last one, and the figures stand in a plausible place.
. tests/boot/common
count() {
    "$DARTER" bench --instructions --kernel "$DARTER_KERNEL" --json "$work/json" getppid faultzf forkexit >"$work/out"
    expect status $? 0
    mv "$work/json" "$work/$1"
}
count first
count second
expect 'the second machine' "$(cat "$work/second")" "$(cat "$work/first")"
# A page of zeros is 4096 iterations of stosb, or 512 of stosq.
iterations=$(grep -A 4 '"benchmark": "faultzf"' "$work/first" | sed -n 's/.*"iterations": \([0-9]*\).*/\1/p')
[ "${iterations:-0}" -ge 500 ] && [ "$iterations" -le 5000 ]
expect "iterations of a zero-fill fault ($iterations)" $? 0
exit $status
