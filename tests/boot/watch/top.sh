#!/bin/sh
# darter top prints lines where there is no terminal: a busy CPU and an idle one are told apart, programs are counted, and the program's streams and status stay its own.
. tests/boot/common
case $DARTER_KERNEL in linux) skip 'only Darter has /proc/darter' ;; esac

"$DARTER" top --kernel "$DARTER_KERNEL" --cpus 2 --timeout 60 --interval 1 -- \
    taskset 2 sh -c 'echo out; i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done; exit 7' >"$work/out" 2>"$work/err" </dev/null
rc=$? err=$(cat "$work/err")
expect status "$rc" 7
expect 'the stdout of the program, on stderr' "$err" out
awk 'length($0) > 80' "$work/out" | grep . && { echo 'that is wider than 80 columns'; status=1; }
grep -q '^cpu  ' "$work/out" && grep -q '^total ' "$work/out" || { echo "no heading or total: $(cat "$work/out")"; status=1; }
# Columns that are blank make fields shift: the idle CPU has its idle time as the only large number, the busy one its user time.
awk '/^cpu  / { user = index($0, "usr%"); idle = index($0, "idl%") }
    /^cpu[01]/ { u = substr($0, user, 4) + 0; i = substr($0, idle, 4) + 0; n[$1]++; if ($1 == "cpu1" && u > 50) busy++; if ($1 == "cpu0" && i > 80) idling++ }
    END { if (n["cpu0"] < 2 || n["cpu0"] != n["cpu1"] || busy < n["cpu1"] / 2 || idling < n["cpu0"] / 2) { print n["cpu0"], n["cpu1"], busy, idling; exit 1 } }' "$work/out" ||
    { echo "cpu1 was busy and cpu0 was not: $(cat "$work/out")"; status=1; }

# Programs that were executed: the rate of each look times its length.
"$DARTER" top --kernel "$DARTER_KERNEL" --cpus 2 --timeout 60 --interval 0.5 --json -- \
    sh -c 'i=0; while [ $i -lt 400 ]; do /bin/true; i=$((i + 1)); done' >"$work/out" 2>"$work/err" </dev/null
expect 'status with --json' "$?" 0
execs=$(sed 's/.*"seconds":\([0-9.e-]*\),"total":{[^}]*"execs":\([0-9.e-]*\).*/\1 \2/' "$work/out" | awk '{ sum += $1 * $2 } END { printf "%.0f\n", sum }')
[ "$execs" -ge 395 ] && [ "$execs" -le 405 ] || { echo "400 programs were shown as $execs: $(cat "$work/out")"; status=1; }

# --sort holds for JSON too: the busy CPU comes first.
"$DARTER" top --kernel "$DARTER_KERNEL" --cpus 2 --timeout 60 --interval 0.5 --json --sort user -- \
    taskset 2 sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done' >"$work/out" 2>"$work/err" </dev/null
expect 'status of what is sorted' "$?" 0
sorted=$(grep -c '"cpus":\[{"cpu":1,' "$work/out") all=$(grep -c '"cpus":\[{"cpu":[01],' "$work/out")
[ "$all" -ge 2 ] && [ $((2 * sorted)) -gt "$all" ] || { echo "the busy CPU is first in $sorted of $all looks: $(cat "$work/out")"; status=1; }
exit $status
