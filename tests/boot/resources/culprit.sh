#!/bin/sh
# time limit: 500
# in pairs
# When memory is out, who filled it by what the kernel keeps for it is killed, and not an innocent process that is large.
. tests/boot/common
build tests tests
run --deterministic --cpus 1 --memory 256M --timeout 480 --add "$TARGET/tests/abi/tools/culprit:/abi/culprit" -- \
    sh -c 'chmod 1777 /tmp; exec /abi/culprit pipes sockets apart memfds own locks signals watches' </dev/null
[ "$rc" = 0 ] || echo "$out"
expect status "$rc" 0
exit $status
