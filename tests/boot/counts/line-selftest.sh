#!/bin/sh
# time limit: 300
# The line detector finds what is planted, calls it by what it is, and stays silent on lines of one CPU.
. tests/boot/common
out=$("$DARTER" lines --self-test --kernel "$DARTER_KERNEL" --cpus 2,4)
expect status $? 0
expect 'wrong verdicts' "$(printf '%s\n' "$out" | grep -c WRONG)" 0
# Memory of the kernel is named only where the kernel says what it is.
case $DARTER_KERNEL in darter) lines=25 ;; *) lines=21 ;; esac
expect 'planted lines' "$(printf '%s\n' "$out" | grep -c right)" $lines
exit $status
