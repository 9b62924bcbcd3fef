#!/bin/sh
# stdout and stderr stay apart, the exit status is the program's, and nothing of ours mixes in.
. tests/boot/common
run -- sh -c 'echo out; echo err >&2; exit 7' </dev/null
expect stdout "$out" out
expect stderr "$err" err
expect status "$rc" 7
run -- sh -c 'kill -SEGV $$' </dev/null
expect 'status of a program that a signal killed' "$rc" 139
run -- sh -c 'echo "$0|$1|$2|$EXTRA|$HOME"; pwd' 'a b' '' '*' </dev/null
expect arguments "$out" "a b||*||/root
/root"
run -e EXTRA='x y' -- sh -c 'echo "$EXTRA"' </dev/null
expect environment "$out" 'x y'
# The output is not lost when a child goes on in the background.
run -- sh -c 'sleep 1000 & echo here' </dev/null
expect 'output with a child left behind' "$out" here
exit $status
