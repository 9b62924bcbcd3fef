#!/bin/sh
# Busybox: applets and shell features (jobs) whose output is the same everywhere. Each section is named, so that a difference is found.
# Runs in an empty directory with a fixed environment; stderr and stdout are one stream.
s() { echo "== $*"; }
umask 022
echo not a program >r1
s background
sleep 0.1 & p=$!; wait $p; echo "waited $?"; (exit 5) & wait $!; echo $?; (sleep 0.05; echo late) & echo early; wait; echo all
for i in 1 2 3 4; do (sleep 0.0$i; echo $i >>order) & done; wait; sort order | tr '\n' ' '; echo
sh -c 'kill -TERM $$' ; echo "status $?"; sh -c 'kill -9 $$'; echo "status $?"; nosuchcommand 2>/dev/null; echo $?; ./r1 2>/dev/null; echo $?
s traps
sh -c 'trap "echo got TERM" TERM; kill -TERM $$; echo after; trap "echo bye" EXIT; exit 4'; echo $?
sh -c 'trap "" INT; kill -INT $$; echo ignored; trap - INT; kill -INT $$; echo not reached'; echo $?
sh -c 'trap "echo usr1; exit 0" USR1; (sleep 0.05; kill -USR1 $$) & while :; do sleep 1 & wait $!; done'; echo $?
s job control
sh -c 'set -m; sleep 5 & kill -STOP $!; sleep 0.1; jobs | sed "s/^.*\(Stopped\|Running\).*$/\1/"; kill -CONT %1; kill %1; wait $! 2>/dev/null; echo $?'
echo done
