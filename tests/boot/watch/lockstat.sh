#!/bin/sh
# time limit: 200
# darter lockstat shows the waits that a program's kernel had: as many as /proc/lockstat counts by itself, of the lock that is contended, from where it is taken; and
# leaves the program its streams and status.
. tests/boot/common
case $DARTER_KERNEL in linux) skip 'only Darter has /proc/darter' ;; esac

# lockstat ARG...: as run.
lockstat() {
    "$DARTER" lockstat --kernel "$DARTER_KERNEL" "$@" >"$work/out" 2>"$work/err" </dev/null
    rc=$?
    out=$(cat "$work/out")
    err=$(cat "$work/err")
}

# Six write into one pipe. What the class of its lock met meanwhile is told on stderr.
cat >"$work/script" <<'END'
met() { awk '$1 == "pipe" && $2 ~ /^[0-9]+$/ { print $2, $3 }' /proc/lockstat; }
before=$(met)
(for i in 1 2 3 4 5 6; do yes $i 2>/dev/null & done) | head -c 30000000 >/dev/null
echo "${before:-0 0} $(met)" >&2
echo out
exit 7
END
lockstat --cpus 4 --timeout 120 -o "$work/report" --add "$work/script:/script" -- sh /script
expect status "$rc" 7
expect 'the stdout of the program' "$out" out
set -- $err
taken=$(($3 - $1)) met=$(($4 - $2))
cat "$work/report"
grep -q '^Elapsed time: [0-9.]* seconds\.$' "$work/report" || { echo 'no time'; status=1; }
# The section of a kind: count of each line with this lock and caller.
count() { awk -v kind="-- $1" -v lock="$2" -v caller="$3" '/^-- / { on = $0 == kind } on && $1 ~ /^[0-9.]+$/ && $0 ~ " " lock " +" caller { sum += $2 } END { print sum + 0 }' "$work/report"; }
all=$(($(count Spinning pipe '<all>') + $(count Sleeping pipe '<all>')))
by=$(($(count Spinning pipe kernel/src/fs/) + $(count Sleeping pipe kernel/src/fs/)))
[ "$met" -gt 20 ] || { echo "the pipe's lock was not contended: $met"; status=1; }
# The shell itself, and who carries its streams, may have met at their own pipes before and after.
[ "$all" -ge "$met" ] && [ "$all" -le $((met + met / 20 + 20)) ] || { echo "$all waits; /proc/lockstat has $met"; status=1; }
expect "waits by callers beside those of all" "$by" "$all"
awk -v taken="$taken" '/^-- Acq/ { on = 1 } on && $4 == "pipe" && NF == 4 { found = $1 >= taken && $1 <= taken * 1.05 + 500 } END { exit !found }' "$work/report" ||
    { echo "acquisitions are not those of /proc/lockstat, $taken"; status=1; }

# Nothing is waited for where nobody else is.
lockstat --cpus 1 --timeout 60 --json -- sh -c 'echo out; i=0; while [ $i -lt 1000 ]; do i=$((i + 1)); done'
expect 'status with one CPU' "$rc" 0
expect 'the stdout of the program beside the object' "$err" out
case $out in *'"waits":[]'*'"status"'* | *'"status":0'*'"waits":[]'*) ;; *) echo "waits on one CPU: $out"; status=1 ;; esac

# A machine that fails leaves what it had, and says why.
lockstat --cpus 2 --timeout 60 --append plant=stall -- sh -c 'while :; do :; done'
[ "$rc" = 124 ] || [ "$rc" = 125 ] || { echo "status of a machine that fails: $rc"; status=1; }

"$DARTER" lockstat --kernel linux -- true >"$work/out" 2>"$work/err" </dev/null
rc=$?
expect 'status on Linux' "$rc" 2
exit $status
