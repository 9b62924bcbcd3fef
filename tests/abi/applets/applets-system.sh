#!/bin/sh
# Busybox: applets and shell features (system) whose output is the same everywhere. Each section is named, so that a difference is found.
# Runs in an empty directory with a fixed environment; stderr and stdout are one stream.
s() { echo "== $*"; }
umask 022
seq 3 >s1; printf 'alpha\nbeta\ngamma\n' >words
s tar gzip
mkdir tt; seq 100 >tt/numbers; ln -s numbers tt/link; touch -d @0 tt/numbers; tar cf t.tar tt; tar tf t.tar | sort; rm -r tt; tar xf t.tar; wc -l tt/numbers; readlink tt/link; tar czf t.tgz tt; tar tzf t.tgz | wc -l; gzip -k tt/numbers; gunzip -c tt/numbers.gz | cmp - tt/numbers; echo $?; zcat tt/numbers.gz | tail -1; seq 1000 | gzip | gunzip | md5sum; seq 1000 | bzip2 2>/dev/null | bunzip2 2>/dev/null | md5sum; echo s1 | cpio -o -H newc 2>/dev/null | cpio -t 2>/dev/null; tar xf missing.tar 2>/dev/null; echo $?; (cd tt && tar cf - . ) | (mkdir t3; cd t3; tar xf -; ls)
s date cal time
date -d @0 -u; date -u -d @1234567890 '+%Y-%m-%d %H:%M:%S %j %a'; date -u -d '2024-02-29 12:00' +%s; cal 2 2024 | head -3; TZ=UTC+5 date -d @0 +%H; sleep 0.01; echo slept; usleep 1000; timeout 0.1 sleep 5; echo $?; timeout 5 true; echo $?
s env id who
env -i A=1 B=2 env | sort; env | grep -c PATH; id -u; id | sed 's/ groups.*//'; whoami; groups | head -c 4; echo; A=5 sh -c 'echo $A'; export E=exported; sh -c 'echo $E'; nohup echo n 2>/dev/null; which sh; uname; uname -m; hostname >/dev/null; echo $?; tty; pwd | sed 's|.*/||'; arch; nproc
s processes
sh -c 'echo $PPID' | grep -c '^[0-9]'; ps | head -1; ps | grep -c '[0-9] '  | grep -c .; ps -o pid,comm | head -1; pidof nosuchthing; echo $?; { sleep 30 & kill $!; wait $!; echo $?; } 2>/dev/null; kill -l 15; kill -0 1; echo $?; kill 999999; echo $?; top -bn1 | head -1 | sed 's/[0-9][0-9]*/N/g'; top -bn1 | sed -n 4p | tr -s ' '; free | head -1 | tr -s ' '; free | awk 'NR==2 { print $1, ($2 > 1000), ($4 > 0) }'; uptime | sed 's/^.*load/load/; s/[0-9][0-9]*/N/g'; mount | grep -c ' on /proc '; mount | awk '$3 == "/proc" { print $1, $5 }'; df /tmp | head -1 | tr -s ' '; cat /proc/uptime | awk '{ print NF }'; time -p true 2>&1 | sed 's/[0-9.]*$//'; dmesg >/dev/null; echo $?
s memory
fill() { x=$(seq 1 3000); echo ${#x}; }; fill; awk 'BEGIN { for (i = 0; i < 5000; i++) a[i] = i; n = 0; for (k in a) n += a[k]; print n }'; seq 5000 | sort -rn | head -1; head -c 500000 /dev/zero | tr '\0' x | wc -c
s bc dc factor shuf
echo '2^100' | bc; echo '5 3 + p' | dc; factor 360 97; seq 10 | shuf | sort -n | md5sum; echo 'obase=16; 255' | bc
s many
i=0; while [ $i -lt 60 ]; do /bin/true; i=$((i + 1)); done; echo $i execs; for i in $(seq 20); do (exit $i); done; echo $?; seq 60 | xargs -n 1 echo >/dev/null; echo $?; x=$(for i in $(seq 20); do echo $(echo $i); done | wc -l); echo $x
cat words | (cat | (cat | (cat | cat))) | md5sum; mkdir deep; cd deep; for i in 1 2 3 4 5 6 7 8 9; do mkdir d; cd d; done; pwd | sed 's|.*/deep||'
echo done
