#!/bin/sh
# /proc/darter/cpus counts what a program did, and that alone: forks, executed programs, ends, zero-fill faults, switches, and time.
. tests/boot/common
case $DARTER_KERNEL in linux) skip 'only Darter has /proc/darter' ;; esac

cat >"$work/script" <<'END'
# sum COLUMN...: over all CPUs.
sum() {
    awk -v names="$*" 'NR == 2 { for (i = 1; i <= NF; i++) at[$i] = i; n = split(names, name) }
        NR > 2 { for (i = 1; i <= n; i++) sum += $at[name[i]] } END { printf "%.0f\n", sum }' /proc/darter/cpus
}
head -1 /proc/darter/cpus
awk 'NR > 2' /proc/darter/cpus | wc -l
execs=$(sum execs) forks=$(sum forks) exits=$(sum exits)
i=0
while [ $i -lt 200 ]; do /bin/true; i=$((i + 1)); done
echo "$(($(sum execs) - execs)) $(($(sum forks) - forks)) $(($(sum exits) - exits))"
faults=$(sum zero-fill)
dd if=/dev/zero of=/dev/null bs=8M count=1 2>/dev/null
echo $(($(sum zero-fill) - faults))
user=$(sum user nice) at=$(sum at)
i=0
while [ $i -lt 100000 ]; do i=$((i + 1)); done
echo "$(($(sum user nice) - user)) $(($(sum at) - at))"
END
run --cpus 2 --timeout 100 --add "$work/script:/script" -- sh /script </dev/null
expect status "$rc" 0
set -- $out
expect 'the first line' "$1 $2" 'version 1'
expect 'lines of CPUs' "$3" 2
# Each sum is itself an awk, in a shell of its own.
for n in "$4" "$5" "$6"; do
    [ "$n" -ge 200 ] && [ "$n" -le 215 ] || { echo "200 programs were counted as $n"; status=1; }
done
[ "$7" -ge 2048 ] && [ "$7" -le 2700 ] || { echo "8 MiB were counted as $7 zero-fill faults"; status=1; }
# Of two CPUs' time between a fifth and what one has is the shell's.
[ "$8" -gt $(($9 / 5)) ] && [ "$8" -lt $(($9 * 3 / 5)) ] || { echo "a loop's time of $8 of $9"; status=1; }
exit $status
