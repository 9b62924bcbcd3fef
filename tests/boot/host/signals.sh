#!/bin/sh
# Signals reach the program; three Ctrl-C, or a SIGTERM that is not heeded, end the machine.
. tests/boot/common
start -- sh -c 'echo ready; exec sleep 60'
wait_for ready && kill -INT "$pid"
finish
expect 'SIGINT' "$rc" 130
start -- sh -c 'trap "echo caught; exit 9" TERM; echo ready; while :; do sleep 0.1; done'
wait_for ready && kill -TERM "$pid"
finish
expect 'SIGTERM caught' "$rc" 9
expect 'its output' "$out" 'ready
caught'
start -- sh -c 'trap "" TERM; echo ready; while :; do sleep 0.1; done'
wait_for ready && kill -TERM "$pid"
finish
expect 'SIGTERM ignored' "$rc" 143
start -- sh -c 'trap "" INT; echo ready; while :; do sleep 0.1; done'
wait_for ready && kill -INT "$pid" && sleep 0.5 && kill -INT "$pid" && sleep 0.5 && kill -INT "$pid"
finish
expect 'three SIGINT' "$rc" 130
exit $status
