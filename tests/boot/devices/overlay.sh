#!/bin/sh
# time limit: 300
# An overlay over a tree of the host's: the same commands do to it what they do to a copy in memory, and print the same, four at once too; what is below stays as it
# is; the host's own files are not changed; what is full says so; with 1, 2 and 4 CPUs.
. tests/boot/common
[ "$DARTER_KERNEL" = linux ] && skip "Linux's overlay keeps its changes in a directory"

tree=$work/tree
for part in 1 2 3 4; do
    mkdir -p "$tree/$part/a/b/c/d" "$tree/$part/many"
    (
        cd "$tree/$part" || exit 1
        echo small >small
        seq 50000 >big
        seq 3000 >page
        echo e >empty
        ln -s small link
        ln small hard
        seq 100 | sed 's,^,many/,' | xargs touch
        echo 3 >many/3
    )
done
find "$tree" -exec stat -c '%n %f %s %h %Y %Z' {} + | sort >"$work/before"

cat >"$work/show" <<'SH'
cd "$1" || exit 1
find . -exec stat -c '%n %f %s %h %u %g' {} + | LC_ALL=C sort | grep -v '^\. '
find . -type f -exec md5sum {} + | LC_ALL=C sort
SH
cat >"$work/change" <<'SH'
cd "$1" || exit 1
exec 2>&1
set -x
echo new >new; echo more >>small; echo over >many/3; rm many/5 many/7; echo again >many/5; : >empty
mv a z; mkdir a; ls a; touch z/b/x a/y; mv z/b a/b; rmdir z; mv a/b z; mv small renamed; ln renamed small; ln hard third
chmod 700 hard; chmod 1777 a; ln -s nowhere link2; mv link2 link; rm hard; mkfifo f; mv f many/fifo
cp big big2; cat big >>big2; mv big2 big; truncate -s 5000 page; dd if=/dev/zero of=page bs=1 count=3 seek=4096 conv=notrunc 2>/dev/null
rmdir many; rm -r many; mkdir many; ls -a many; touch many/3; mv many/3 many/4; rmdir z/nothing; rm -rf z/c; mkdir -p z/c/d/e; mv z/c/d/e .
cat renamed small third; mv e/../small e/small; mv -T e many; cat nowhere; cat many/small; ls; chmod u+s page; echo x >>page; stat -c %a page
SH
cat >"$work/guest" <<'SH'
mkdir /over /copy
umount /share && mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose share0 /share || exit 1
cp -a /share/. /copy
mount -t overlay -o lowerdir=/share,upper=memory overlay /over || exit 1
sh /show /over >/shown.over; sh /show /copy >/shown.copy; cmp /shown.over /shown.copy || exit 1
for part in 1 2 3 4; do sh /change /over/$part >/printed.over.$part & done; wait
for part in 1 2 3 4; do
    sh /change /copy/$part >/printed.copy.$part
    diff /printed.over.$part /printed.copy.$part || exit 1
done
sh /show /over >/shown.over; sh /show /copy >/shown.copy; diff /shown.over /shown.copy || exit 1
[ "$(cat /share/1/small)" = small ] && [ "$(ls /share/1/many | wc -l)" = 100 ] || exit 1
# All in one directory: each makes, moves and removes names of its own, and theirs.
for part in 1 2 3 4; do
    (cd /over/1; for i in 1 2 3 4 5 6 7 8 9 10 11 12; do
        echo $part >name$i; mv name$i other$part; mv other$part name$i; ln name$i l$part; rm l$part; ls >/dev/null; rm -f name$i; cat big >/dev/null; mv -n many dir$part; mv -n dir$part many
    done) 2>/dev/null &
done; wait
# A move of one's own in the midst of theirs may leave the directory under that name.
mv /over/1/dir? /over/1/many 2>/dev/null
ls /over/1/name* /over/1/other* 2>/dev/null
sh /show /over | grep -v '^./1/many$' >/shown.over; diff /shown.over /shown.copy || exit 1
dd if=/dev/zero of=/over/full bs=1M 2>&1 | grep -o 'No space.*'; rm /over/full
rm -r /over/2 /over/3 && ls /over && umount /over && umount /share && echo over
SH

for cpus in 1 2 4; do
    run --cpus "$cpus" -m 512M --timeout 80 --share "$tree:/share" --add "$work/show:/show" --add "$work/change:/change" --add "$work/guest:/guest" \
        -- sh /guest </dev/null
    expect "status with $cpus CPUs" "$rc" 0
    expect "the guest with $cpus CPUs" "$(cat "$work/out")" 'No space left on device
1
4
over'
done
# What was listed, looked at and read once is asked for no more.
for times in 1 2 3; do
    run --cpus 2 --timeout 80 --share "$tree:/share" --qemu-arg=-trace --qemu-arg="v9fs_*,file=$work/asked.$times" -- sh -c "
        umount /share && mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose share0 /share && mkdir /over &&
            mount -t overlay -o lowerdir=/share,upper=memory overlay /over && cd /over || exit 1
        for i in \$(seq $times); do find . -exec stat {} + >/dev/null; find . -type f -exec cat {} + | md5sum; readlink */link >/dev/null; done" </dev/null
    expect "status of $times looks" "$rc" 0
done
expect "messages of the second look" "$(grep -vc _return "$work/asked.2")" "$(grep -vc _return "$work/asked.1")"
expect "messages of the third look" "$(grep -vc _return "$work/asked.3")" "$(grep -vc _return "$work/asked.1")"

find "$tree" -exec stat -c '%n %f %s %h %Y %Z' {} + | sort >"$work/after"
expect "what the host has" "$(cmp "$work/before" "$work/after" && echo the same)" "the same"
