#!/bin/sh
# time limit: 400
# The gate of system calls is red where a page fault bumps a counter that all CPUs share, and names the counter and both places. A call that
# takes no fault stays green.
. tests/boot/common
[ "$DARTER_KERNEL" != linux ] || skip 'the counter is planted in Darter'
gate() { "$DARTER" lines --calls --gate "$@" --kernel "$DARTER_KERNEL" --append plant=fault-counter 2>"$work/err"; }
out=$(gate 'madvise-dontneed processes')
expect status $? 1
expect 'the counter, named' "$(printf '%s\n' "$out" | grep -c 'turns .*PLANTED_FAULTS')" 1
expect 'both places, named' "$(printf '%s\n' "$out" | grep -c 'written in .*planted_fault.* by another CPU in .*planted_fault')" 1
gate 'getpid processes' >/dev/null
expect 'a call without faults' $? 0
exit $status
