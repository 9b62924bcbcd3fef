#!/bin/sh
# time limit: 300
# in pairs
# Two sessions with one and with four tasks that spin, on two CPUs: half each where sessions have shares of their own, else one fifth and four fifths. A session
# with a worse nice value has less, and sessions that come and go leave nothing behind.
#
# Time is counted in instructions, so that it is the kernel's and not the host's.
. tests/boot/common
case $DARTER_KERNEL in linux) skip 'the limits are for Darter; Linux under --deterministic takes minutes to boot' ;; esac
cat >"$work/script" <<'END'
# used SESSION: the ticks that its processes have run for.
used() { cat /proc/[0-9]*/stat 2>/dev/null | awk -v s="$1" '$6 == s { t += $14 + $15 } END { print t + 0 }'; }
# part TASKS TASKS [NICE]: what part of the time the first session has, in percent, when both spin; the second has this nice value.
part() {
    for n in $1 $2; do
        setsid sh -c "for i in \$(seq $n); do while :; do :; done & done; wait" &
        eval "session_$n=$!"
    done
    eval "a=\$session_$1 b=\$session_$2"
    sleep 0.5
    [ -z "${3:-}" ] || echo "$3" >/proc/$b/autogroup
    sleep 0.5
    a0=$(used $a) b0=$(used $b)
    sleep 4
    a1=$(used $a) b1=$(used $b)
    [ -z "${rows:-}" ] || grep -c "^\($a\|$b\) " /proc/darter/groups
    kill -9 -$a -$b
    wait
    echo $((100 * (a1 - a0) / (a1 - a0 + b1 - b0)))
}
part 1 4
rows=1 part 1 4 5 | head -1
part 2 4 5
setsid sh /come_and_go &
wait
echo 0 >/proc/sys/kernel/sched_autogroup_enabled
part 1 4
END
cat >"$work/come_and_go" <<'END'
# Fifty sessions compete for the CPUs and end, again and again. This one has much of the CPUs, so that it does not wait for all of them.
echo -19 >/proc/self/autogroup
rounds() {
    for _ in $(seq $1); do
        sessions=
        for _ in $(seq 50); do
            setsid sh -c 'while :; do :; done' &
            sessions="$sessions $!"
        done
        sleep 0.2
        counted=$(awk 'NR > 2 && $6 > 0' /proc/darter/groups | wc -l)
        kill -9 $sessions
        wait
    done
    sleep 1
}
free() { awk '$1 == "MemFree:" { print $2 }' /proc/meminfo; }
# Caches fill first.
rounds 10
before=$(free) rows=$(wc -l </proc/darter/groups)
rounds 20
echo $counted $((before - $(free))) $(($(wc -l </proc/darter/groups) - rows))
END
run --deterministic --cpus 2 --memory 512M --timeout 280 --add "$work/script:/script" --add "$work/come_and_go:/come_and_go" -- sh /script </dev/null
expect status "$rc" 0
set -- $out
# between WHAT GOT LEAST MOST
between() {
    if [ "${2:-x}" -lt "$3" ] || [ "${2:-x}" -gt "$4" ]; then
        echo "$1: $2, not between $3 and $4"
        status=1
    fi
}
between 'one of five tasks in a session of its own' "${1:-0}" 45 55
expect 'rows of /proc/darter/groups' "${2:-}" 2
# 2 tasks at nice 0 beside 4 at nice 5: 1024 / (1024 + 335) of two CPUs.
between 'a session of nice 0 beside one of nice 5' "${3:-0}" 70 80
between 'sessions that were counted, of fifty' "${4:-0}" 25 55
between 'KiB that a thousand sessions have left' "${5:-9999}" -2048 512
expect 'groups that they have left' "${6:-}" 0
between 'one of five tasks, without groups' "${7:-0}" 16 25
[ $status = 0 ] || echo "$out"
exit $status
