#!/bin/sh
# time limit: 200
# On a terminal the program has one: its size, its line discipline, Ctrl-C, job control; and ours is as it was after it.
. tests/boot/common
command -v script >/dev/null || skip 'no script(1) here to make a terminal with'
# on_terminal INPUT COMMAND: runs COMMAND on a new terminal of 33 rows and 99 columns, types INPUT after a while.
on_terminal() {
    { sleep 7; printf "$1"; sleep 3; } |
        script -qec "stty rows 33 cols 99; $2; echo rc=\$?; stty -a | grep -c ' icanon'" /dev/null | tr -d '\r'
}
run="'$DARTER' run --kernel '$DARTER_KERNEL'"
out=$(on_terminal '' "$run -- sh -c 'tty; stty size; [ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo all'")
expect 'a terminal' "$out" '/dev/ttyS1
33 99
all
rc=0
1'
out=$(on_terminal '' "(sleep 6; stty rows 44 cols 111 </dev/tty) & $run -- sh -c 'trap \"stty size; exit\" WINCH; while :; do sleep 0.1; done'")
expect 'a new size' "$out" '44 111
rc=0
1'
out=$(on_terminal '\003' "$run -- sleep 60" | tail -n 2 | sed "s,.*\\(rc=\\),\\1,")
expect 'Ctrl-C' "$out" 'rc=130
1'
out=$(on_terminal '\035\035\035' "$run -- sh -c 'trap \"\" INT TERM; sleep 60'" | tail -n 2)
expect 'the way out' "$out" 'rc=130
1'
out=$(on_terminal 'sleep 50 &\njobs\nkill %%1\nexit 5\n' "'$DARTER' shell --kernel '$DARTER_KERNEL'")
echo "$out" | grep -q 'Running.*sleep 50' || { echo "no job control: $out"; status=1; }
expect 'the shell' "$(echo "$out" | tail -n 2)" 'rc=5
1'
exit $status
