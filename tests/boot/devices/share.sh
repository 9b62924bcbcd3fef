#!/bin/sh
# time limit: 300
# A tree of the host's, mounted by 9P: what the guest lists, stats and reads is what the host has; nothing is written; what changes on the host is seen in the
# guest; programs run from there, and map it; many read at once; with 1 and 4 CPUs, with PCI and without.
. tests/boot/common
[ "$DARTER_KERNEL" = linux ] && skip "the compared Linux has no driver for shares built in"
make --no-print-directory -s -C tests OUT="$TARGET/tests" >/dev/null || exit 1

tree=$work/tree
mkdir -p "$tree/many" "$tree/a/b/c/d/e/f/g/h" "$tree/private"
: >"$tree/empty"
echo small >"$tree/small"
seq -w 1 600000 | head -c 3145728 >"$tree/big"
seq 5000 | head -c 4097 >"$tree/page-and-a-byte"
truncate -s 10000000000 "$tree/sparse"
truncate -s 200000 "$tree/hole" && echo end >>"$tree/hole"
ln -s small "$tree/link"
ln -s /nowhere/at/all "$tree/link-to-nowhere"
ln -s "$(printf '%4000s' | tr ' ' x)" "$tree/long-link"
ln "$tree/small" "$tree/hard"
ln "$tree/small" "$tree/a/b/hard"
mkfifo "$tree/fifo"
echo deep >"$tree/a/b/c/d/e/f/g/h/file"
(cd "$tree/many" && seq 1000 | xargs touch)
: >"$tree/$(printf '%255s' | tr ' ' n)"
echo odd >"$tree/$(printf 'a\377\376 b')"
chmod 600 "$tree/small" && chmod 1777 "$tree/private"
touch -d @1000000000.123456789 "$tree/empty"
cp "$TARGET/tests/abi/tools/share" "$tree/program"

# What both sides say of the tree.
cat >"$work/listing" <<'SH'
cd "$1" || exit 1
find . -exec stat -c '%n %f %s %b %h %u %g %Y %Z' {} + | LC_ALL=C sort
find . -type f -size -5000k -exec md5sum {} + | LC_ALL=C sort
find . -type l | LC_ALL=C sort | while read -r link; do readlink "$link"; done
ls many | wc -l
ls -a many | sed 1,2d | LC_ALL=C sort -n | md5sum
tail -c 5 hole
SH
sh "$work/listing" "$tree" >"$work/wanted" 2>&1

mounted='mkdir /share; mount -t 9p -o trans=virtio,version=9p2000.L,ro host /share || exit 1'
fsdev="local,id=tree,path=$tree,security_model=none,readonly=on,multidevs=remap"

# machine MODEL CPUS COMMAND: runs it with the tree as the share `host`.
machine() {
    case $1 in
        q35) device=virtio-9p-pci,fsdev=tree,mount_tag=host append= ;;
        # The third place from the end, and its line.
        microvm) device=virtio-9p-device,bus=virtio-mmio-bus.20,fsdev=tree,mount_tag=host append=virtio_mmio.device=512@0xfeb02800:44 ;;
    esac
    run --machine "$1" --cpus "$2" --timeout 100 --append "$append" --qemu-arg=-fsdev --qemu-arg="$fsdev" \
        --qemu-arg=-device --qemu-arg="$device" --add "$work/listing:/listing" -- sh -c "$mounted; $3" </dev/null
}

for kind in "q35 1" "q35 4" "microvm 2"; do
    set -- $kind
    machine "$1" "$2" 'sh /listing /share 2>&1; umount /share && ls -A /share'
    expect "status with $kind" "$rc" 0
    diff -a "$work/wanted" "$work/out" >"$work/diff" || {
        echo "with $kind the guest does not see (>) what the host has (<):"
        head -20 "$work/diff"
        status=1
    }
done

# Calls one by one, from a program that lies in the tree.
machine q35 4 'grep 9p /proc/mounts /proc/filesystems; cd /share && ./program; echo $?'
printf '%s\n' "$out" | diff - tests/boot/devices/share.wanted || { echo "what the program says (<) is not as wanted (>)"; status=1; }

# A file that changes on the host.
start --cpus 4 --timeout 100 --qemu-arg=-fsdev --qemu-arg="$fsdev" --qemu-arg=-device --qemu-arg=virtio-9p-pci,fsdev=tree,mount_tag=host -- sh -c "$mounted"'
    cd /share && cat small && ls a && exec 3<small && read -r line <&3 && echo ready
    n=0
    until read -r line <&3; do n=$((n + 1)); [ $n -gt 50 ] && exit 1; sleep 0.1; done
    echo "$line"
    n=0
    until grep -q changed small && [ -e a/new ] && [ ! -e a/b ]; do n=$((n + 1)); [ $n -gt 50 ] && exit 1; sleep 0.1; done
    cat small hard; ls a'
wait_for ready || status=1
echo changed >>"$tree/small"
echo new >"$tree/a/new"
mv "$tree/a/b" "$tree/a/moved"
finish
expect "status of who looks at what changes" "$rc" 0
expect "what changes on the host" "$out" "small
b
ready
changed
small
changed
small
changed
moved
new"

# Files that have no size.
run --share /proc/sys/kernel:/kernel -- sh -c 'cat /kernel/ostype; wc -c </kernel/ostype' </dev/null
expect "a file of the host's /proc" "$out" "Linux
6"

# Mounted again and again.
machine q35 4 'for n in 1 2 3 4 5; do umount /share && mount -t 9p -o trans=virtio,version=9p2000.L,ro host /share && cat /share/page-and-a-byte | md5sum; done | sort -u | wc -l; dmesg | grep -c broken'
expect "mounted again" "$out" "1
0"
exit $status
