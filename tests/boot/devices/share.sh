#!/bin/sh
# time limit: 300
# A tree of the host's, mounted by 9P: what the guest lists, stats and reads is what the host has; what changes on the host is seen in the guest; programs run from
# there, and map it; many read at once; with 1 and 4 CPUs, with PCI and without. Where it may be written, what the guest makes and changes is what the host then has, with
# 1, 2 and 4 CPUs.
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

# machine MODEL CPUS COMMAND: runs it with the tree as the share `host`, which is mounted as $mounted says.
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
# Written by the guest.
fsdev="local,id=tree,path=$work/written,security_model=none,multidevs=remap"
mounted='mkdir /share; mount -t 9p -o trans=virtio,version=9p2000.L host /share || exit 1; cd /share'
outside=$work/outside
echo untouched >"$outside"
cat >"$work/writing" <<'SH'
mkdir -p names/deep/er
seq 200000 >numbers
cp numbers copy && cmp numbers copy
printf changed | dd of=copy bs=1 seek=8190 conv=notrunc 2>/dev/null
printf end | dd of=copy bs=1 seek=3000000 conv=notrunc 2>/dev/null
tail -c 3 copy; echo
truncate -s 100000 numbers && truncate -s 200000 numbers
ln -s numbers names/link
ln numbers names/hard && rm numbers && echo more >>names/hard
mkfifo names/fifo
mv names/deep/er names/moved && rmdir names/deep
echo one >names/one && echo two >names/two && mv names/one names/two && cat names/two
chmod 640 names/two && touch -d @1000000000 names/two
echo through-the-link 2>/dev/null >names/out
for n in 1 2 3 4; do
    (
        i=0
        while [ $i -lt 60 ]; do
            echo "writer $n line $i" >>log
            echo $i >"names/new-$n-$i" && mv "names/new-$n-$i" "names/kept-$n-$((i % 7))"
            i=$((i + 1))
        done
    ) &
done
wait
wc -l <log
ls names | wc -l
rm -r names/moved
dd if=/dev/zero of=zeros bs=1M count=4 conv=fsync 2>/dev/null
timeout -s KILL 0.2 dd if=/dev/zero of=killed bs=64k 2>/dev/null
echo after >killed && cat killed
sync
# The exit is that of a file that stays open without a name.
exec 5>gone 6<gone && rm gone && echo gone >&5 && cat <&6
SH
cat >"$work/listing-of-written" <<'SH'
cd "$1" && find . -exec stat -c '%n %f %s %h %u %g' {} + | LC_ALL=C sort
find . -type f -exec md5sum {} + | LC_ALL=C sort
stat -c %Y names/two && LC_ALL=C sort log | md5sum
SH
for cpus in 1 2 4; do
    mkdir "$work/written"
    cp "$work/writing" "$work/listing-of-written" "$work/written"
    ln -s "$outside" "$work/written/away"
    mkdir "$work/written/names"
    ln -s "$outside" "$work/written/names/out"
    machine q35 $cpus 'sh ./writing 2>&1; echo; sleep 1.1; sh ./listing-of-written /share'
    expect "status of who writes with $cpus CPUs" "$rc" 0
    expect "what who writes says with $cpus CPUs" "$(sed '/^$/,$d' "$work/out")" "end
one
240
34
after
gone"
    sed '1,/^$/d' "$work/out" >"$work/there"
    sh "$work/listing-of-written" "$work/written" >"$work/here"
    diff -a "$work/here" "$work/there" >"$work/diff" || {
        echo "with $cpus CPUs the guest does not see (>) what it has written (<):"
        head -20 "$work/diff"
        status=1
    }
    expect "lines of the log" "$(sort -u "$work/written/log" | wc -l)" 240
    expect "bytes that the guest wrote" "$(dd if="$work/written/copy" bs=1 skip=8190 count=7 2>/dev/null)" changed
    expect "what a link leads to on the host" "$(cat "$outside")" untouched
    rm -r "$work/written"
done

# A folder that the command gives to be written, and one that it gives to be read.
mkdir "$work/given" && echo old >"$work/given/file"
run --rw "$work/given:/rw" --share "$work/given:/ro" -- sh -c 'echo new >/rw/file; mkdir /rw/made; sleep 1.1; cat /ro/file; rmdir /ro/made 2>/dev/null || ls /ro; grep -c "9p rw" /proc/mounts' </dev/null
expect "what --rw and --share show" "$out" "new
file
made
1"
expect "what --rw wrote" "$(cat "$work/given/file")" new

# Only read, whatever the mount says; and written nowhere where the server lets nobody.
mkdir "$work/written" && echo old >"$work/written/file"
machine q35 2 'mount -o remount,ro /share && ! echo new 2>/dev/null >file && mount -o remount,rw /share && echo new >file && cat file'
expect "mounted anew" "$out" new
fsdev="$fsdev,readonly=on"
machine q35 2 'echo other >file; echo $?; cat file; mkdir d; rm file' 2>&1
expect "what a server refuses" "$out" "1
new"
expect "and has" "$(cat "$work/written/file")" new
exit $status
