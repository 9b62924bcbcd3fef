#!/bin/sh
# time limit: 60
# QEMU ends with darter even when darter is killed outright.
. tests/boot/common
start -- sh -c 'echo ready; exec sleep 60'
wait_for ready || exit 1
qemu=$(cat "/proc/$pid/task/$pid/children")
[ -n "$qemu" ] || { echo 'no child'; exit 1; }
kill -KILL "$pid"
wait "$pid" 2>/dev/null
for _ in $(seq 50); do
    kill -0 $qemu 2>/dev/null || exit 0
    sleep 0.1
done
echo "QEMU ($qemu) still runs"
exit 1
