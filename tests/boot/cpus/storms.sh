#!/bin/sh
# time limit: 600
# in pairs
# Storms of an ordinary user: tasks, memory, open files, names, signals, timers, sockets. Beside each a sleeper wakes in time, and then memory is back.
#
# Time is counted in instructions, so that it is the kernel's and not the host's.
. tests/boot/common
case $DARTER_KERNEL in linux) skip 'the limits are for Darter; tests/storms prints the table of both' ;; esac
build tests tests
run --deterministic --cpus 1 --memory 256M --timeout 580 --add "$TARGET/tests/abi/tools/storm:/abi/storm" -- /abi/storm </dev/null
[ "$rc" = 0 ] || echo "$out"
expect status "$rc" 0
exit $status
