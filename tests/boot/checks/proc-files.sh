#!/bin/sh
# time limit: 200
# The files of /proc and /sys that the compared Linux has and Darter lacks, and those that Darter alone has, are those of proc-files.known: a file that is added, or lost,
# changes that list in the same commit.
#     tests/boot/checks/proc-files.sh --write     writes the list anew
. tests/boot/common
known=tests/boot/checks/proc-files.known

# Numbers of processes, CPUs, nodes, memory and terminals are one name each. What a driver has that only one of the kernels drives is not compared.
cat >"$work/listing" <<'SH'
list() { find "$@" 2>/dev/null; }
{
    cd /proc/self && for f in *; do echo "/proc/PID/$f"; done
    cd /proc/thread-self && for f in *; do echo "/proc/PID/task/TID/$f"; done
    cd /proc && for f in *; do case $f in [0-9]*) ;; *) echo "/proc/$f" ;; esac; done
    list /proc/sys -type f
    list /sys/devices/system /sys/kernel/mm -maxdepth 5
} | grep -v '/power\|^/proc/sys/net\|^/sys/kernel/mm/damon\|^/sys/kernel/mm/ksm\|/hugepages-' |
    sed 's/cpu[0-9][0-9]*/cpuN/g; s/node[0-9][0-9]*/nodeN/g; s/memory[0-9][0-9]*/memoryN/g; s/index[0-9][0-9]*/indexN/g' | LC_ALL=C sort -u
SH

# listing TO: those of the kernel under test.
listing() {
    run --root busybox --add "$work/listing:/listing" -- sh /listing </dev/null
    [ "$rc" = 0 ] || { echo "no listing: $rc, $err"; exit 1; }
    printf '%s\n' "$out" | grep '^/' >"$1"
    [ "$(wc -l <"$1")" -gt 150 ] || { echo "too little is listed: $out"; exit 1; }
}
[ "$DARTER_KERNEL" = linux ] && skip "it compares Darter with Linux"
listing "$work/own"
DARTER_KERNEL=linux
listing "$work/linux"
{
    echo '# Made by proc-files.sh --write.'
    echo '# Linux has these, and Darter does not:'
    LC_ALL=C comm -23 "$work/linux" "$work/own"
    echo '# Darter has these, and Linux does not:'
    LC_ALL=C comm -13 "$work/linux" "$work/own"
} >"$work/found"
if [ "${1:-}" = --write ]; then
    cp "$work/found" "$known"
    exit 0
fi
expect 'files of /proc and /sys' "$(diff "$known" "$work/found")" ''
exit $status
