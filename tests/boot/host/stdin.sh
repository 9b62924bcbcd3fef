#!/bin/sh
# stdin reaches the program, and its end as well.
. tests/boot/common
echo hi >"$work/in"
run -- cat <"$work/in"
expect cat "$out" hi
expect status "$rc" 0
# From a pipe, with a pause, in pieces.
out=$({ echo one; sleep 4; echo two; } | "$DARTER" run --kernel "$DARTER_KERNEL" -- sh -c 'read a; read b; read c || echo "$a $b end"')
expect 'a slow pipe' "$out" 'one two end'
run -- sh -c 'wc -c; echo done' </dev/null
expect 'no input' "$out" '0
done'
# A program that reads nothing ends all the same, whatever waits for it.
out=$(yes | "$DARTER" run --kernel "$DARTER_KERNEL" -- echo fine)
expect 'unread input' "$out" fine
exit $status
