#!/bin/sh
# Busybox: applets and shell features (bytes) whose output is the same everywhere. Each section is named, so that a difference is found.
# Runs in an empty directory with a fixed environment; stderr and stdout are one stream.
s() { echo "== $*"; }
umask 022
seq 3 >s1; seq 2 4 >s2; printf '2\n1\n' >n; printf 'alpha\nbeta\ngamma\n' >words
s paste join comm diff cmp
seq 3 >s1; seq 2 4 >s2; paste s1 s2; paste -d, -s s1; diff s1 s2; echo $?; diff -u s1 s2 | tail -n +3; cmp s1 s2; echo $?; cmp s1 s1; echo $?; diff s1 s1; echo $?
s fold nl rev tac split
echo abcdefghij | fold -w 4; nl s1 | tr -s ' \t' ' '; rev words; tac s1; expand <<X
	tab
X
printf '        eight' | unexpand -a | od -c | head -1; tee t1 t2 <s1 >/dev/null; cat t1 t2 | wc -l; cat -n s1 | tr -s ' \t' ' '; cat -e s1 | head -1
s od hexdump
printf 'AB\001\377' | od -c; printf 'AB\001\377' | od -An -tx1; printf 'hello world 12345' | hexdump -C; printf abc | xxd; printf 616263 | xxd -r -p; echo; strings -n 3 n s1 >/dev/null; echo $?
s dd
dd if=/dev/zero of=z bs=1k count=3 2>/dev/null; stat -c %s z; printf abcdefgh | dd bs=2 skip=1 count=2 2>/dev/null; echo; dd if=s1 of=z conv=notrunc 2>/dev/null; stat -c %s z; dd if=/dev/zero bs=1M count=1 2>/dev/null | md5sum; dd if=/dev/zero of=sparse bs=1 count=1 seek=99999 2>/dev/null; stat -c %s sparse; dd if=missing 2>&1 | sed 's/^dd: //'
s sums
md5sha1sha256sha512sum s1 | cut -c1-20; md5sum s1 s2 >sums; md5sum -c sums; echo x >>s2; md5sum -c sums 2>/dev/null; echo $?; crc32 s1 2>/dev/null; base64 s1; base64 s1 | base64 -d; uuencode -m s1 x | tail -2
echo done
