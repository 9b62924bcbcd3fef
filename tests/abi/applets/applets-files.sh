#!/bin/sh
# Busybox: applets and shell features (files) whose output is the same everywhere. Each section is named, so that a difference is found.
# Runs in an empty directory with a fixed environment; stderr and stdout are one stream.
s() { echo "== $*"; }
umask 022
s basename dirname realpath
basename /a/b/c.txt .txt; dirname /a/b/c.txt; mkdir -p p/q; ln -s p/q l; readlink l; realpath l | sed "s|$PWD|.|"; readlink -f p/../l/.. | sed "s|$PWD|.|"
s files
echo text >f1; cp f1 f2; mv f2 f3; ln f3 f4; ln -s f3 f5; cat f5; ls -1 f*; rm f1; [ -e f1 ] || echo gone; cp -a p p2; ls p2; rm -r p2; rmdir p/q; ls p; mkdir -p x/y/z; find x | sort; mkdir x; echo $?
chmod 640 f3; stat -c '%a %h %s %F' f3; chmod u+x,g-r,o=w f3; stat -c '%A' f3; chown 12:34 f3; stat -c '%u %g' f3; touch -d '2020-01-02 03:04:05' f3; stat -c '%Y' f3
touch -d @1000000000 d1; ls -l --full-time d1 | tr -s ' '; ls -ln f3 | tr -s ' '; ls -ld x | cut -c1-10; ls -a x; ls -F p x; ls -i f3 >/dev/null && echo inode
cp -r x nowhere/at/all; echo $?; mv missing y; echo $?; rm missing; echo $?; rm -f missing; echo $?; truncate -s 5000 big; stat -c '%s' big; du -k big | cut -f1; mkfifo ff; stat -c %F ff
(cat ff & echo through >ff; wait); mktemp -u XXXXXX | wc -c; d=$(mktemp -d); [ -d $d ] && rmdir $d && echo tmp; sync; echo synced
s find xargs
mkdir -p t/a t/b; for i in 1 2 3; do echo $i >t/a/f$i; done; find t -type f | sort; find t -name 'f[12]' -exec cat {} \; | sort; find t -type d -empty; find t -type f -size -2 | wc -l; find t -type f -print0 | sort -z | xargs -0 -n 2 echo; find t -name f3 -exec rm {} +; ls t/a; echo 1 2 3 4 | xargs -n 2 echo pair; echo a b | xargs -I{} echo '<{}>'
s links and loops
ln -s loop1 loop2; ln -s loop2 loop1; cat loop1 2>&1 | sed 's/.*: //'; ln -s nowhere dangling; cat dangling 2>&1 | sed 's/.*: //'; ls -l dangling | sed 's/.*-> //'; cd l/..; ls | head -1; cd - >/dev/null; unlink dangling; ls dangling 2>&1 | sed 's/.*: //'
s permissions
echo secret >sec; chmod 600 sec; chmod 755 .; su -s /bin/sh nobody -c 'cat sec' 2>/dev/null; echo "not root: $?"; chroot . /missing 2>/dev/null; echo $?; mkdir ro; chmod 555 ro; touch ro/x && echo 'root may'; test -w sec && echo w; umask; umask 077; touch masked; stat -c %a masked; umask -S
echo done
