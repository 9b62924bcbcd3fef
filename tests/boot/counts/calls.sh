#!/bin/sh
# time limit: 400
# The gate of system calls is red where a page fault, or a call that no benchmark makes, bumps a counter that all CPUs share, and names the
# counter and both places. Others stay green.
. tests/boot/common
[ "$DARTER_KERNEL" != linux ] || skip 'the counter is planted in Darter'
plant=fault-counter
gate() { "$DARTER" lines --calls --gate "$@" --kernel "$DARTER_KERNEL" --append "plant=$plant" 2>"$work/err"; }
out=$(gate 'madvise-dontneed processes')
expect status $? 1
expect 'the counter, named' "$(printf '%s\n' "$out" | grep -c 'turns .*PLANTED_FAULTS')" 1
expect 'both places, named' "$(printf '%s\n' "$out" | grep -c 'written in .*planted_fault.* by another CPU in .*planted_fault')" 1
gate 'getpid processes' >/dev/null
expect 'a call without faults' $? 0
plant=calls:uname,getrandom,capget
out=$(gate 'uname processes' 'uname threads' 'getrandom processes' 'getrandom threads' 'capget processes' 'capget threads')
expect 'status of calls' $? 1
expect 'the counter, named in each' "$(printf '%s\n' "$out" | grep -c 'turns .*PLANTED_CALLS')" 6
gate 'getpid processes' 'getpid threads' >/dev/null
expect 'a call without the counter' $? 0
exit $status
