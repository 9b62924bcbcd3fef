#!/bin/sh
# Busybox: applets and shell features (shell) whose output is the same everywhere. Each section is named, so that a difference is found.
# Runs in an empty directory with a fixed environment; stderr and stdout are one stream.
s() { echo "== $*"; }
umask 022
s arithmetic
echo $((1 + 2 * 3)) $((7 / 2)) $((-7 % 3)) $((1 << 10)) $((0x1f & 017)) $((5 > 3 && 2 < 1)) $((a = 5, a * 2))
i=0; while [ $i -lt 5 ]; do i=$((i + 1)); [ $i = 3 ] && continue; printf '%s ' $i; done; echo
s variables
v=hello; echo ${v} ${#v} ${v%lo} ${v#he} ${w:-default} ${v:+set} ${v:1:3} ${v/l/L}
unset w; (echo ${w:?unset here}) 2>&1 | sed 's/^.*: //'; echo "status $?"
set -- a 'b c' d; echo $# "$@"; for x in "$@"; do echo "[$x]"; done; shift 2; echo $1
IFS=:; set -- $(echo one:two:three); echo $2; unset IFS
s case
for x in apple 7 .hidden; do case $x in [0-9]) echo digit;; a*|b*) echo word;; *) echo other;; esac; done
s functions
f() { local x=$1; echo "in f: $x $#"; return 3; }; f one two; echo "status $?"
fact() { [ $1 -le 1 ] && echo 1 || echo $(($1 * $(fact $(($1 - 1))))); }; fact 10
s here-documents
cat <<END
plain $((1+1)) ${v:-unset}
END
cat <<'END'
quoted $((1+1))
END
cat <<-END
	tabs go
END
s redirections
echo out >r1; echo more >>r1; cat <r1; { echo o; echo e >&2; } >r2 2>&1; cat r2; echo x 2>/dev/null >&1
exec 5>r3; echo five >&5; exec 5>&-; cat r3; exec 6<r1; read line <&6; echo "$line"; read line <&6; echo "$line"; exec 6<&-
(echo sub >&2) 2>&1 | tr a-z A-Z; cat r1 missing 2>r4 | wc -l; wc -l <r4
set -C; echo no >r1; echo "noclobber $?"; set +C; cat <>r3
s pipelines
seq 1 100 | grep 7 | sort -rn | head -3; echo a | cat | cat | cat; false | true; echo $?; ! true; echo $?
set -o pipefail; false | true; echo $?; set +o pipefail
yes | head -1000 | wc -l; (exit 7); echo $?; { exit_in_group() { return 9; }; exit_in_group; }; echo $?
s subshells
(cd /; x=inner; pwd); echo ${x:-outer-unset}; a=$(echo nested $(echo deep)); echo "$a"; echo `echo back`
s globs
mkdir g; touch g/a1 g/a2 g/b1 g/.hid; echo g/*; echo g/a?; echo g/[!a]*; echo g/none*; echo {x,y}; rm -r g
s getopts read eval
g() { while getopts ab:c o; do echo "$o ${OPTARG:-}"; done; }; g -a -b val -c
printf 'one two three\nx\\ y\n' | { read a b; echo "$a|$b"; read -r c; echo "$c"; }; eval 'y=$((2*21))'; echo $y
echo 'a,b,c' | while IFS=, read x y z; do echo $z $y $x; done; type cd | head -1; command -v echo; alias q=echo; 
s test
[ -e r1 ] && echo e; [ -d r1 ] || echo notdir; [ a = a -a b != c ] && echo and; [ 3 -gt 2 ] && echo gt; test -z "" && echo z; [ r1 -nt missing ] && echo nt
[[ abc == a* ]] && echo glob; [ -x r1 ] || echo notx; [ -s r1 ] && echo size; [ ! -L r1 ] && echo notlink
echo done
