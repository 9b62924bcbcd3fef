#!/bin/sh
# time limit: 120
# One CPU ticks from the first program on: two processes that never enter the kernel take turns on it.
. tests/boot/common
build tests tests
# Which of the first tasks finds the CPU idle depends on when bytes arrive from the host: several machines.
for round in 1 2 3; do
    run --cpus 1 --memory 256M --timeout 30 --add "$TARGET/tests/abi/tools/turns:/abi/turns" -- /abi/turns 20 </dev/null
    expect "status, machine $round" "$rc" 0
    expect "output, machine $round" "$out" '40 turns'
done
exit $status
