#!/bin/sh
# time limit: 300
# A machine without PCI, emulated and under KVM: streams and input, the wall clock, sleeping, several CPUs, status.
. tests/boot/common
program='nproc; cat; echo err >&2
    [ $(date +%Y) -ge 2025 ] || echo "the date is $(date)"
    begin=$(cut -d . -f 1 /proc/uptime); sleep 2; end=$(cut -d . -f 1 /proc/uptime)
    echo slept $((end - begin >= 2 && end - begin < 10))
    exit 7'
# machine CPUS OPTION...
machine() {
    cpus=$1
    shift
    run --machine microvm --cpus "$cpus" "$@" -- sh -c "$program" <<EOF
input
EOF
    expect "status with $cpus CPUs $*" "$rc" 7
    expect "stderr with $cpus CPUs $*" "$err" err
    expect "stdout with $cpus CPUs $*" "$out" "$cpus
input
slept 1"
}
# Emulated, Linux finds no clock there.
if [ "$DARTER_KERNEL" != linux ]; then
    machine 1 --accel tcg --timeout 40
    machine 4 --accel tcg --timeout 40
fi
machine 2 --accel nested --timeout 200
run --machine microvm --cpus 2 --sockets 2 -- true </dev/null
expect 'status with two sockets' "$rc" 2
exit $status
