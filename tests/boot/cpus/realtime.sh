#!/bin/sh
# time limit: 200
# Real-time loops on every CPU, several on each: the shell, a fair task, lives and ends them.
. tests/boot/common
for cpus in 1 2 5; do
    run --cpus $cpus --memory 256M --timeout 60 -- sh -c '
        for cpu in $(seq 0 $(($(nproc) - 1))); do
            taskset $((1 << cpu)) chrt -f 50 sh -c "while :; do :; done" &
            chrt -f 40 sh -c "while :; do :; done" &
            chrt -r 50 sh -c "while :; do :; done" &
        done
        sleep 2
        ls / | grep -q proc && echo lives
        kill -9 $(jobs -p)
        wait
        echo ended' </dev/null
    expect "status, $cpus CPUs" "$rc" 0
    expect "output, $cpus CPUs" "$out" "lives
ended"
done
exit $status
