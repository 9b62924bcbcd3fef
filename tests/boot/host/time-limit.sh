#!/bin/sh
# time limit: 60
# --timeout ends the machine with status 124, and keeps what was printed before.
. tests/boot/common
begin=$(date +%s)
run --timeout 8 -- sh -c 'echo begun; sleep 60' </dev/null
expect status "$rc" 124
expect stdout "$out" begun
took=$(($(date +%s) - begin))
[ $took -le 15 ] || { echo "it took $took s"; status=1; }
case $err in *'time limit of 8 s'*) ;; *) echo "stderr does not name the limit: $err"; status=1 ;; esac
exit $status
