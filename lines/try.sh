#!/bin/sh
# Boots a Linux kernel with the plugin and one program of guest/ as /init, and leaves the counts in OUT.json.
#   lines/try.sh LINUX OUT.json [exact|CPUS] [PROGRAM] [PLUGIN ARGUMENTS]
# With the program `jobs`, the words of $JOBS (a line each) are run one after another; what lies in $BENCH is in /bin.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
linux=$1 out=$2 how=${3:-exact} program=${4:-paths} more=${5:-}
plugin=${PLUGIN:-$here/../target/release/libdarter_lines.so}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/root"
musl-gcc -O2 -static -I"$here/guest" -o "$work/root/init" "$here/guest/$program.c"
musl-gcc -Os -static -o "$work/root/tiny" "$here/guest/tiny.c"
if [ "$program" = jobs ]; then
    echo "$JOBS" >"$work/root/jobs"
    mkdir "$work/root/bin"
    cp "$BENCH"/* "$work/root/bin"
fi
find "$work/root" -exec touch -h -d @0 {} +
(cd "$work/root" && find . | sort | cpio -o -H newc --quiet --reproducible) >"$work/root.cpio"
append="console=ttyS0 quiet nokaslr mitigations=off cryptomgr.notests=1 transparent_hugepage=never panic=-1 rdinit=/init ${APPEND:-}"
if [ "$how" = exact ]; then
    machine="-smp 1 -accel tcg,thread=single -icount shift=1,sleep=off -rtc base=2026-01-01,clock=vm -seed 1 -cpu max,-rdrand,-rdseed"
    mode=instructions
else
    machine="-smp $how -accel ${ACCEL:-tcg,thread=multi} -cpu max"
    mode=lines,tasks=$how
fi
# shellcheck disable=SC2086 # the words are meant to be split
timeout "${TIMEOUT:-300}" qemu-system-x86_64 -M q35 -m "${MEMORY:-512M}" -nodefaults -no-user-config -display none -no-reboot \
    -serial stdio -monitor none $machine -kernel "$linux" -initrd "$work/root.cpio" -append "$append" \
    ${NOPLUGIN:+} $([ -n "${NOPLUGIN:-}" ] || echo "-plugin $plugin,mode=$mode,out=$out$more") </dev/null
