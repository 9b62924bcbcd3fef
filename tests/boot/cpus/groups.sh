#!/bin/sh
# time limit: 300
# in pairs
# Two sessions with one and with four tasks that spin, on two CPUs: half each where sessions have shares of their own, else one fifth and four fifths. A session
# with a worse nice value has less, one with a quota no more than that, and sessions that come and go leave nothing behind.
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
# quota TASKS QUOTA PERIOD: how much of a CPU a session has whose tasks spin, in percent; then how it stands when the quota has gone again, and what a
# task of it is shown as that waits for the quota.
quota() {
    setsid sh -c "for i in \$(seq $1); do while :; do :; done & done; wait" &
    s=$!
    sleep 0.5
    echo "$s max $2 $3" >/proc/darter/groups
    sleep 0.5
    q0=$(used $s)
    sleep 2
    q1=$(used $s)
    echo $(((q1 - q0) / 2))
    cat /proc/[0-9]*/stat 2>/dev/null | awk -v s="$s" '$6 == s && $3 != "S" { print $3 }' | sort -u
    awk -v s="$s" '$1 == s { print $7, $8, ($9 > 10) }' /proc/darter/groups
    echo "$s max max $3" >/proc/darter/groups
    q0=$(used $s)
    sleep 1
    q1=$(used $s)
    echo $((q1 - q0))
    echo "$s weight 50" >/proc/darter/groups
    awk -v s="$s" '$1 == s { print $3, $7, $8 }' /proc/darter/groups
    kill -9 -$s
    wait
}
quota 5 30000 100000
for bad in x '1 weight 100' '99999 max 1000 10000' "$$ weight 0" "$$ max 10 10000"; do
    (echo "$bad" >/proc/darter/groups) 2>/dev/null && echo accepted
done
echo :
part 1 4
rows=1 part 1 4 5 | head -1
part 2 4 5
setsid sh /come_and_go &
wait
echo 0 >/proc/sys/kernel/sched_autogroup_enabled
part 1 4
END
cat >"$work/come_and_go" <<'END'
# Fifty sessions compete for the CPUs and end, again and again, some with quotas. This one has much of the CPUs, so that it does not wait for all of them.
echo -19 >/proc/self/autogroup
rounds() {
    for _ in $(seq $1); do
        sessions=
        for _ in $(seq 50); do
            setsid sh -c 'while :; do :; done' &
            sessions="$sessions $!"
        done
        for session in ${2:+$sessions}; do
            echo "$session max $2 100000" >/proc/darter/groups 2>/dev/null
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
rounds 6
rounds 4 2000
before=$(free) rows=$(wc -l </proc/darter/groups)
rounds 4 2000
rounds 14
echo $counted $((before - $(free))) $(($(wc -l </proc/darter/groups) - rows))
END
run --deterministic --cpus 2 --memory 512M --timeout 280 --add "$work/script:/script" --add "$work/come_and_go:/come_and_go" -- sh /script </dev/null
expect status "$rc" 0
case $out in
"${out%%:*}:"*) quotas=${out%%:*} out=${out#*:} ;;
esac
set -- $quotas
# between WHAT GOT LEAST MOST
between() {
    if [ "${2:-x}" -lt "$3" ] || [ "${2:-x}" -gt "$4" ]; then
        echo "$1: $2, not between $3 and $4"
        status=1
    fi
}
between 'a session with a quota of 30 %' "${1:-0}" 27 32
expect 'the state of who waits for a quota' "${2:-}" R
expect 'a quota, and that tasks have waited for it' "${3:-} ${4:-} ${5:-}" '30000 100000 1'
between 'the same without a quota, on two CPUs' "${6:-0}" 180 210
expect 'a weight' "${7:-} ${8:-} ${9:-}" '512 max -'
shift 9 2>/dev/null && expect 'what is refused' "$*" ''
set -- $out
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
