#!/bin/sh
# time limit: 200
# Real-time loops on every CPU, several on each: a shell, a fair task, lives, and the loops are ended.
. tests/boot/common
build tests tests
for cpus in 1 2 5; do
    run --cpus $cpus --memory 256M --timeout 60 --add "$TARGET/tests/abi/tools/loops:/abi/loops" -- \
        /abi/loops sh -c 'ls / | grep proc; sleep 0.1; (exit 3) || echo lives' </dev/null
    expect "status, $cpus CPUs" "$rc" 0
    expect "output, $cpus CPUs" "$out" "proc
lives
exit 0
$((3 * cpus)) ended"
done
exit $status
