#!/bin/sh
# time limit: 240
# Two CPUs that start, use and end programs at the same time do not wait for each other's end of a grace period.
. tests/boot/common
run --cpus 2 --timeout 220 -- sh -c 'i=0; while [ $i -lt 60 ]; do openclose 2 -q -c 50 >/dev/null || exit 1; i=$((i+1)); done'
expect status "$rc" 0
exit $status
