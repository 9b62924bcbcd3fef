# coreutils: files, links, times, text, numbers.
# needs: md5sum shuf stdbuf
mkdir -p /tmp/case && cd /tmp/case || exit
umask 022
mkdir -p a/b/c; touch a/f; ln a/f a/g; ln -s g a/s; mkfifo a/p; chmod 4755 a/f
find a | sort | xargs stat -c '%n %A %h %F'
cp -a a z; diff -r a z 2>&1 | sed 's/^File.*fifo.*/fifo/'; du -s --apparent-size a z | cut -f2
mv z y; rm -rf y; ls a
seq 100000 | shuf --random-source=/bin/sh | sort -n | md5sum
seq 100000 | split -l 30000 - part.; wc -l part.*; cat part.* | sha256sum
head -c 100000 /dev/zero | tr '\0' x | fold -w 100 | nl | tail -1
dd if=/dev/zero of=big bs=1M count=20 2>/dev/null; truncate -s 30M big; cp --sparse=always big big2; cmp big big2; stat -c %s big big2
install -m 600 big2 inst; stat -c %a inst; cksum inst
yes | head -200000 | uniq -c; factor 1234567890123; expr 7 \* 6; seq -s, 10
date -d '2026-01-02 03:04:05 UTC' +%s; touch -d '2020-05-06 07:08:09 UTC' t; date -ur t
comm <(seq 1) /dev/null 2>/dev/null; join /dev/null /dev/null; tac <<X
1
2
X
readlink -f a/s; realpath --relative-to=a/b a/c; basename /x/y.z .z; dirname /x/y
id -u; nproc; arch; uname -s; tty; pwd; printenv HOME; test -p a/p && echo fifo
(stdbuf -oL seq 5 | cat) | sum; base64 </bin/sh | base64 -d | cmp - /bin/sh && echo equal
chown 12:34 t; chgrp 5 t; stat -c '%u %g' t; mktemp -u XX | wc -c; sync; df -P / | tail -1 | wc -l
timeout 0.3 sleep 5; echo $?; nice -n 5 nice; nohup true; env -i a=b env; csplit -s part.aa 5; ls xx*
