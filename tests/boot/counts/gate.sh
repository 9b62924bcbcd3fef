#!/bin/sh
# time limit: 400
# The gate is red where the page-fault path bumps a counter that all CPUs share, and names the counter and both places.
. tests/boot/common
[ "$DARTER_KERNEL" != linux ] || skip 'the counter is planted in Darter'
out=$("$DARTER" lines --gate faultzf --kernel "$DARTER_KERNEL" --cpus 2 --append plant=fault-counter 2>"$work/err")
expect status $? 1
line=$(printf '%s\n' "$out" | grep -A 1 'new shared line.*PLANTED_FAULTS')
expect 'the counter, named' $? 0
expect 'both places, named' "$(printf '%s\n' "$line" | grep -c 'written in .*planted_fault.* by another CPU in .*planted_fault')" 1
exit $status
