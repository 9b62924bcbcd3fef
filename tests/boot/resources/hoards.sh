#!/bin/sh
# time limit: 200
# Memory that CPUs freed and keep near is there for another CPU at once, and /proc/meminfo counts it as free.
. tests/boot/common
build tests tests
run --cpus 4 --memory 256M --add "$TARGET/tests/abi/tools/hoards:/abi/hoards" -- /abi/hoards 4 90 </dev/null
expect status "$rc" 0
exit $status
