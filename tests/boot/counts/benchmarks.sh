#!/bin/sh
# time limit: 240
# Every benchmark runs to its end on two CPUs, by processes, by threads and on shared objects.
set -eu
make --no-print-directory -s -C bench OUT="$TARGET/bench" >/dev/null
set --
for file in "$TARGET"/bench/*; do
    case $file in *.new | *-dynamic) continue ;; esac
    set -- "$@" --add "$file:/bench/$(basename "$file")"
done
"$DARTER" run --kernel "$DARTER_KERNEL" --timeout 230 "$@" -- sh -c '
    status=0
    b() { name=$1; shift; /bench/$name 2 -c 64 -w 8 -q "$@" || { echo "failed: $name $*"; status=1; }; }
    b doexec; b doexecsh; b forkexec; b forkexec -v -x /bench/tiny; b forkexit; b forkexit -m 8
    b faultzf -m 1; b faultzf -m 1 -t; b faultzf -m 1 -k; b faultzf -m 1 -k -t
    b faultfile -m 1; b faultfile -m 1 -o; b faultfile -m 1 -t -p
    b mmap; b mmap -t; b brk; b threads; b threads -t; b tmpfs; b tmpfs -o
    b getppid; b clock; b tick -c 20; b openclose; b openclose -o; b pipe; b raise; b raise -t
    /bench/faultzf 2 -s 1.2 | tail -1
    exit $status'
