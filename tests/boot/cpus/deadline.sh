#!/bin/sh
# time limit: 240
# Loops with deadlines on every CPU, beside real-time and fair ones: each has its share and no more, a shell, a fair task, lives, and the loops are ended.
. tests/boot/common
build tests tests
for cpus in 1 2 5; do
    run --cpus $cpus --memory 256M --timeout 75 --add "$TARGET/tests/abi/tools/deadlines:/abi/deadlines" -- \
        /abi/deadlines sh -c 'ls / | grep proc; sleep 0.1; (exit 3) || echo lives' </dev/null
    expect "status, $cpus CPUs" "$rc" 0
    expect "output, $cpus CPUs" "$out" "$((3 * cpus)) had their share
proc
lives
exit 0
$((5 * cpus)) ended"
    case $err in
    *stall:*) expect "stalls, $cpus CPUs" "$err" '' ;;
    esac
done
exit $status
