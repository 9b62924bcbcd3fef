#!/bin/sh
# The statuses of a shell for commands that cannot run, and darter's own for wrong usage.
. tests/boot/common
run -- no-such-command </dev/null
expect 'missing command' "$rc" 127
case $err in *no-such-command*) ;; *) echo "stderr does not name it: $err"; status=1 ;; esac
run -- /etc/passwd </dev/null
expect 'not executable' "$rc" 126
run -- /etc </dev/null
expect 'a folder' "$rc" 126
run --cpus 6 --sockets 4 -- true </dev/null
expect 'impossible machine' "$rc" 2
run --memory none -- true </dev/null
expect 'wrong option' "$rc" 2
run --root /no/such/root -- true </dev/null
expect 'missing root' "$rc" 2
exit $status
