#!/bin/sh
# Busybox: applets and shell features (text) whose output is the same everywhere. Each section is named, so that a difference is found.
# Runs in an empty directory with a fixed environment; stderr and stdout are one stream.
s() { echo "== $*"; }
umask 022
mkdir -p t/a; echo 2 >t/a/f2; echo text >f5
s printf echo seq
printf '%05d|%-6s|%6s|%x|%o|%c|%%|%.3s|%e\n' 42 left right 255 8 char string 1.5; echo -e 'a\tb\\n'; echo -n none; echo; seq -w 8 11; seq 1 2 9 | tr '\n' ,; echo; seq -s : 3
s expr
expr 2 + 3 \* 4; expr length hello; expr hello : 'h\(.*\)o'; expr 5 \> 3; expr substr hello 2 3; expr 1 / 0; echo $?
s grep
printf 'alpha\nbeta\ngamma\nAlpha beta\n' >words; grep a words | wc -l; grep -i alpha words; grep -v a words; echo $?; grep -n beta words; grep -c a words; grep -E '^(b|g)' words; grep -o 'm*a$' words; grep -q zzz words; echo $?; grep -w beta words; grep -l beta words f5; grep -r 2 t; grep -A1 beta words | head -2; grep -F 'a b' words; grep -x beta words
s sed
sed -n 2p words; sed 's/a/X/g' words; sed -e '/beta/d' -e 's/^/> /' words; sed '2,3!d' words; sed -E 's/(.)(.)/\2\1/' words; sed '$a end' words | tail -1; sed 'y/abc/xyz/' words; sed -n '/alpha/,/gamma/{=;p}' words; sed '1!G;h;$!d' words; sed -i 's/gamma/GAMMA/' words; cat words; sed = words | sed 'N;s/\n/ /'
s awk
printf '1 2\n3 4\n5 6\n' | awk '{ s += $1; p = p $2 } END { print s, p, NR }'; awk 'BEGIN { for (i = 0; i < 3; i++) printf "%d-", i; print ""; print length("abc"), substr("hello", 2, 3), index("abc", "c"), toupper("x"), 7 % 4; x["a"] = 1; print ("a" in x), ("b" in x) }'; awk -F: '{ print $1 }' <<X
root:x
X
echo 'b 2
a 1' | awk '{ k[$1] = $2 } END { print k["a"] k["b"] }'; echo 'one two' | awk '{ $2 = "2"; print; print NF }'; awk 'BEGIN { "echo cmd" | getline x; print x; print sprintf("%03d", 7); print match("foobar", "o+"), RSTART, RLENGTH; gsub("o", "0", x); split("a:b:c", p, ":"); print p[3] }'
s sort uniq
printf '10\n9\n2\n2\n1\n' >n; sort n | tr '\n' ' '; sort -n n | tr '\n' ' '; sort -rnu n | tr '\n' ' '; echo; sort n | uniq -c | tr -s ' '; sort n | uniq -d; sort n | uniq -u | head -1; printf 'b 2\na 3\nc 1\n' | sort -k2 -n; printf 'x:3\ny:1\n' | sort -t: -k2; sort -c n; echo $?
s cut tr head tail wc
echo 'a:b:c:d' | cut -d: -f2,4; echo abcdef | cut -c2-4; echo hello | tr a-y b-z; echo aabbcc | tr -s a-c; echo a1b2 | tr -d 0-9; echo abc | tr -c 'b\n' x; seq 10 | head -3 | tail -1; seq 10 | tail -n +9; seq 10 | head -n -8; printf 12345 | head -c 3; echo; printf 12345 | tail -c 2; echo; wc words | tr -s ' '; wc -c <words; wc -w words; echo -n x | wc -l
echo done
