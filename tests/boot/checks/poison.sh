#!/bin/sh
# time limit: 90
# A kernel with assertions dies where memory is written that is free, or past what was asked for, and says which.
. tests/boot/common
case $DARTER_KERNEL in *lockdep*) ;; *) skip 'this kernel does not fill what is free (make lockdep-test)' ;; esac
planted() {
    run --boot-timeout 30 --append "plant=$1" -- true </dev/null
    expect "status with $1" "$rc" 125
    printf '%s\n' "$err" | grep -q "$2" || { echo "no such message with $1: $err"; status=1; }
}
planted page-after-free 'written after free: frame 0x[0-9a-f]* (program page) has 0x6b6b6b6b6b6b6b07 at 0x238'
planted object-after-free 'written after free: object 0x[0-9a-f]* of heap-128  *has 0x6b6b6b6b6b6b6b07 at 0x18'
planted past-object 'written past its end: object 0x[0-9a-f]* of heap-128  *has 0x6b6b6b6b6b6b6b07 at 0x68'
exit $status
