#!/bin/sh
# time limit: 600
# 48 CPUs in four nodes come up, and programs run on all of them at once.
. tests/boot/common
case $DARTER_KERNEL in linux) skip 'Linux takes minutes to start 48 emulated CPUs' ;; esac
run --cpus 48 --sockets 4 --memory 4G -- sh -c \
    'grep -c ^processor /proc/cpuinfo; doexec 48 -q -c 20 && faultzf 48 -q -c 512 && forkexec 48 -q -c 10' </dev/null
expect status "$rc" 0
expect CPUs "$(head -n 1 "$work/out")" 48
expect 'benchmarks that ended' "$(grep -c '^bench=' "$work/out")" 3
exit $status
