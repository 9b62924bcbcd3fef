#!/bin/sh
# time limit: 120
# A file of /proc/PID is about one process, whoever has its number later.
. tests/boot/common
case $DARTER_KERNEL in linux) skip 'Linux uses a number again after 32,768 others at the earliest' ;; esac
build tests tests
run --cpus 1 --memory 256M --timeout 100 --add "$TARGET/tests/abi/tools/reuse:/abi/reuse" -- /abi/reuse 20000 </dev/null
[ "$rc" = 0 ] || echo "$out"
expect status "$rc" 0
exit $status
