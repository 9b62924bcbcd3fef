#!/bin/sh
# time limit: 120
# The machine waits for gdb, and the command that is printed brings it there, with the kernel's names.
. tests/boot/common
command -v gdb >/dev/null || skip "there is no gdb"
port=$((20000 + $$ % 10000))
start --gdb=$port --timeout 100 -- echo over
for _ in $(seq 100); do
    grep -q "waits for gdb" "$work/err" && break
    sleep 0.1
done
command=$(sed -n 's/^darter: the machine waits for //p' "$work/err")
[ -e "$work/out" ] && expect 'before gdb' "$(cat "$work/out")" ''
case $DARTER_KERNEL in
    linux) set -- ;;
    *) set -- -ex 'hbreak darter_kernel::boot::kernel_main' -ex c -ex bt ;;
esac
for _ in 1 2 3 4 5; do # QEMU may not listen yet
    eval "timeout 60 $command" -batch -nx '"$@"' -ex detach >"$work/gdb" 2>&1 && grep -q detached "$work/gdb" && break
    sleep 1
done
finish
expect 'after gdb' "$out $rc" 'over 0'
[ "$DARTER_KERNEL" = linux ] || grep -q '^#0 .*kernel_main' "$work/gdb" || { cat "$work/gdb"; status=1; }
exit $status
