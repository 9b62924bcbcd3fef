#!/bin/sh
# time limit: 400
# in pairs
# The gate of growth (make growth-gate) is red where the walk that getpriority makes along a user's processes is not allowed, and names it. A call that
# makes no such walk stays green.
. tests/boot/common
[ "$DARTER_KERNEL" != linux ] || skip 'the bounds are those of Darter'
gate() { "$DARTER" growth --gate --kernel "$DARTER_KERNEL" "$@" 2>"$work/err"; }
gate 'children getpriority-user' 'children getpid' >/dev/null
expect 'status with the walk allowed' $? 0
grep -v '^"children getpriority-user"' tests/gate/growth.toml >"$work/bounds"
out=$(gate --bounds "$work/bounds" 'children getpriority-user' 'children getpid')
expect 'status with a walk that is not allowed' $? 1
expect 'the walk, named' "$(printf '%s\n' "$out" | grep -c '^FAILED  children getpriority-user: grows as n, allowed is flat')" 1
expect 'what failed' "$(printf '%s\n' "$out" | grep -c '^FAILED')" 1
exit $status
