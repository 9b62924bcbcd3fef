#!/bin/sh
# time limit: 60
# A kernel that checks lock order dies where two locks are taken the wrong way round, and names both locks and both places.
. tests/boot/common
case $DARTER_KERNEL in *lockdep*) ;; *) skip 'this kernel does not check lock order (make lockdep-test)' ;; esac
run --boot-timeout 30 -- true </dev/null
expect 'status without the planted inversion' "$rc" 0
run --boot-timeout 30 --append plant=lock-inversion -- true </dev/null
expect status "$rc" 125
place='kernel/src/lock_order.rs:[0-9]*:[0-9]*'
message="LockOrder: planted rename (Rename) taken at $place while planted directory (Directory) is held since $place"
printf '%s\n' "$err" | grep -q "$message" || { echo "no such message: $err"; status=1; }
# The panic screen says what the thread holds.
printf '%s\n' "$err" | grep -q "holds lock planted directory (Directory, 0x[0-9a-f]*), taken at $place" ||
    { echo "the lock held is not shown: $err"; status=1; }
exit $status
