#!/bin/sh
# time limit: 240
# A megabyte goes in and out again with no byte lost or changed, all 256 values among them.
. tests/boot/common
head -c 1048576 /dev/urandom >"$work/in"
"$DARTER" run --kernel "$DARTER_KERNEL" -- cat <"$work/in" >"$work/back"
expect status $? 0
cmp "$work/in" "$work/back" || status=1
# Both output streams at once.
run -- sh -c 'seq 1 20000; seq 1 20000 >&2' </dev/null
seq 1 20000 >"$work/wanted"
cmp "$work/out" "$work/wanted" || status=1
cmp "$work/err" "$work/wanted" || status=1
exit $status
