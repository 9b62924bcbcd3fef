#!/bin/sh
# time limit: 420
# Disks: what the guest writes is in the file of the host, and what the file has the guest reads; read-only disks stay as they are; sizes, errors, ioctls; many
# writers at once; with 1, 4 and 16 CPUs, with PCI and without.
. tests/boot/common
[ "$DARTER_KERNEL" = linux ] && skip "the compared Linux has no driver for disks built in"
make --no-print-directory -s -C tests OUT="$TARGET/tests" >/dev/null || exit 1
tool=$TARGET/tests/abi/tools/disks

# 4 MiB of a pattern, and what lies where the guest writes 100,001 bytes at an odd place.
seq -w 1 700000 | head -c 4194304 >"$work/pattern"
seq 1000000 1020000 | head -c 100001 >"$work/piece"
cp "$work/pattern" "$work/wanted"
dd if="$work/piece" of="$work/wanted" bs=7777 seek=3 conv=notrunc 2>/dev/null
sum() { md5sum <"$1" | cut -d ' ' -f 1; }

# machine CPUS OPTION...
machine() {
    cpus=$1
    shift
    cp "$work/pattern" "$work/disk"
    run "$@" --cpus "$cpus" --timeout 100 --disk "$work/disk" --add "$work/piece:/piece" -- sh -c '
        md5sum </dev/vda | cut -d " " -f 1
        dd if=/piece of=/dev/vda bs=7777 seek=3 2>/dev/null && sync /dev/vda && md5sum </dev/vda | cut -d " " -f 1' </dev/null
    expect "status with $cpus CPUs $*" "$rc" 0
    expect "what the guest reads with $cpus CPUs $*" "$out" "$(sum "$work/pattern")
$(sum "$work/wanted")"
    expect "the file with $cpus CPUs $*" "$(sum "$work/disk")" "$(sum "$work/wanted")"

    run "$@" --cpus "$cpus" --timeout 100 --disk "$work/disk:ro" -- sh -c '
        md5sum </dev/vda | cut -d " " -f 1
        echo x 2>&1 >/dev/vda; cat /sys/block/vda/ro /sys/block/vda/size' </dev/null
    expect "read-only with $cpus CPUs $*" "$out" "$(sum "$work/wanted")
sh: write error: Operation not permitted
1
8192"
    expect "the read-only file with $cpus CPUs $*" "$(sum "$work/disk")" "$(sum "$work/wanted")"
}
machine 1 --machine q35
machine 4 --machine q35
machine 16 --machine q35
machine 4 --machine microvm

# Calls one by one, and writers of neighbouring bytes that must not lose each other's; on two disks. disks.wanted is what Linux says, and says again where
# its driver is at hand (a module, which `make setup` unpacks).
# calls COMMAND OPTION...
calls() {
    command=$1
    shift
    truncate -s 0 "$work/disk" && truncate -s 1M "$work/disk"
    run "$@" --timeout 150 --disk "$work/disk" --disk "$work/small:ro" --add "$tool:/abi/disks" -- sh -c "$command" </dev/null
    expect "status of the tool with $*" "$rc" 0
    printf '%s\n' "$out" | diff tests/boot/devices/disks.wanted - || { echo "what it says with $* (>) is not what Linux says (<)"; status=1; }
}
truncate -s 64K "$work/small"
calls /abi/disks --machine q35 --cpus 4
calls /abi/disks --machine q35 --cpus 16
calls /abi/disks --machine microvm --cpus 2
module=.cache/linux/modules/virtio_blk.ko
if [ -e $module ]; then
    DARTER_KERNEL=linux
    calls 'insmod /virtio_blk.ko && /abi/disks' --cpus 2 --add $module:/virtio_blk.ko
fi
exit $status
