#!/bin/sh
# time limit: 500
# in pairs
# Whatever an ordinary user calls without end, on one CPU a sleeper wakes in time, and SIGKILL ends the caller.
#
# Time is counted in instructions, so that it is the kernel's and not the host's.
. tests/boot/common
case $DARTER_KERNEL in linux) skip 'the limits are for Darter; Linux under --deterministic takes minutes to boot' ;; esac
build tests tests
run --deterministic --cpus 1 --memory 512M --timeout 480 --add "$TARGET/tests/abi/tools/starve:/abi/starve" -- sh -c 'cd /tmp; exec /abi/starve' </dev/null
[ "$rc" = 0 ] || echo "$out"
expect status "$rc" 0
exit $status
