#!/bin/sh
# time limit: 240
# Under KVM, which an emulated machine with Linux offers: the program's streams and status come through both machines, and a machine that
# hangs ends at its limit with a clear message. What the kernel does differently there (KVM's clock, its interrupts, CPUID), it does right.
. tests/boot/common
limit=60
[ "$DARTER_KERNEL" = linux ] && limit=150
for cpus in 1 2; do
    run --accel nested --cpus $cpus --timeout $limit -- sh -c '
        nproc; echo err >&2; cat
        begin=$(cut -d . -f 1 /proc/uptime); sleep 2; end=$(cut -d . -f 1 /proc/uptime)
        echo slept $((end - begin >= 2 && end - begin < 10))
        seq 20000 | sort -n | tail -n 1
        forkexit -c 50 -q | cut -d " " -f 1-3
        exit 7' <<EOF
input
EOF
    expect "status with $cpus CPUs" "$rc" 7
    expect "stderr with $cpus CPUs" "$err" err
    expect "stdout with $cpus CPUs" "$out" "$cpus
input
slept 1
20000
bench=forkexit cpus=$cpus ops=$((50 * cpus))"
done
run --accel nested --timeout 12 -- sh -c 'echo begun; exec sleep 1000' </dev/null
expect 'status at the time limit' "$rc" 124
expect 'stdout before the time limit' "$out" begun
case $err in *'time limit of 12 s'*) ;; *) echo "stderr does not name the limit: $err"; status=1 ;; esac
exit $status
