#!/bin/sh
# time limit: 200
# darter top and lockstat watch a machine that another darter command runs: they see its busy CPU and its waits; however they go, what they had switched on is off again in the
# guest; a machine that is killed ends them with what they have; and another user's process may not watch it.
. tests/boot/common
case $DARTER_KERNEL in linux) skip 'only Darter has /proc/darter' ;; esac

# The machines of this test alone are found without a number.
export XDG_RUNTIME_DIR="$work"

# A loop on CPU 1, six writers of one pipe on the others, and each fifth of a second what is switched on.
cat >"$work/script" <<'EOF'
taskset 2 sh -c 'while :; do :; done' &
(for i in 1 2 3 4 5 6; do taskset d yes $i 2>/dev/null & done) | taskset d cat >/dev/null &
echo started
while :; do
    echo "$(sed -n 's/^counted \([a-z]*\) .*/contention \1/p' /proc/darter/contention) $(sed -n 's/^sampled \([a-z0-9]*\) .*/samples \1/p' /proc/darter/samples)"
    sleep 0.2
done
EOF

# switched TEXT: until the guest says, of now, that this is so (20 s at most).
switched() {
    for _ in $(seq 100); do
        tail -n 1 "$work/out" | grep -q "^$1$" && return 0
        sleep 0.2
    done
    echo "the guest never said '$1': $(tail -n 3 "$work/out")"
    status=1
}

# watch COMMAND ARG...: one that attaches to the only machine.
watch() {
    timeout 60 "$DARTER" "$@" >"$work/seen" 2>"$work/said" </dev/null
    seen=$? said=$(cat "$work/said")
}

watch top
expect 'status where no machine runs' "$seen" 125
case $said in *'no machine'*) ;; *) echo "where no machine runs: $said"; status=1 ;; esac

start --cpus 4 --timeout 150 --add "$work/script:/script" -- sh /script
wait_for started || exit 1
switched 'contention off samples off'

watch top --seconds 4
expect 'status of top' "$seen" 0
awk '/^cpu  / { user = index($0, "usr%") } /^cpu1/ { n++; if (substr($0, user, 4) + 0 > 50) busy++ } END { exit !(n >= 2 && busy >= n / 2) }' "$work/seen" ||
    { echo "cpu1 was busy: $(cat "$work/seen" "$work/said")"; status=1; }
watch top --seconds 3 --json --filter PIPE
grep -q '"label":"pipe"' "$work/seen" || { echo "no CPU waited for the pipe: $(cat "$work/seen")"; status=1; }

watch lockstat --attach "$pid" --seconds 3
expect 'status of lockstat' "$seen" 0
waits=$(awk '/^-- Acq/ { on = 1 } on && $4 == "pipe" { print $2 }' "$work/seen")
[ "${waits:-0}" -gt 20 ] || { echo "the pipe's lock was contended: $(cat "$work/seen" "$work/said")"; status=1; }
switched 'contention off samples off'

watch flame --attach "$pid" --seconds 3 -o "$work/graph.svg" --folded "$work/folded"
expect 'status of flame' "$seen" 0
grep -q '^yes;.*_\[k\]' "$work/folded" || { echo "no stack of yes in the kernel: $said"; status=1; }
switched 'contention off samples off'

# One watches at a time. Who is killed leaves nothing switched on.
"$DARTER" lockstat >/dev/null 2>&1 </dev/null &
watcher=$!
switched 'contention on samples off'
watch top --attach "$pid"
expect 'status of a second watcher' "$seen" 125
case $said in *"watched by process $watcher") ;; *) echo "a second watcher: $said"; status=1 ;; esac
kill -KILL "$watcher"
wait "$watcher" 2>/dev/null
switched 'contention off samples off'
"$DARTER" flame -o "$work/graph.svg" >/dev/null 2>&1 </dev/null &
watcher=$!
switched 'contention off samples 250'
kill -KILL "$watcher"
wait "$watcher" 2>/dev/null
switched 'contention off samples off'

# Two machines: which one has to be said.
first=$pid
"$DARTER" run --timeout 60 -- sleep 50 >/dev/null 2>&1 </dev/null &
second=$!
for _ in $(seq 50); do [ -S "$work/darter/$second" ] && break; sleep 0.2; done
watch lockstat
expect 'status with two machines' "$seen" 2
case $said in *"$first"*darter*script*"$second"*sleep*) ;; *) echo "two machines: $said"; status=1 ;; esac
kill -TERM "$second"
wait "$second" 2>/dev/null
[ ! -e "$work/darter/$second" ] || { echo 'a machine that ended left its socket'; status=1; }

"$DARTER" run --deterministic --timeout 60 -- sleep 50 >/dev/null 2>&1 </dev/null &
second=$!
sleep 3
[ ! -e "$work/darter/$second" ] || { echo 'a deterministic machine has a socket'; status=1; }
kill -KILL "$second"
wait "$second" 2>/dev/null

if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null && setpriv --reuid 65534 --clear-groups test -x "$DARTER"; then
    said=$(setpriv --reuid 65534 --regid 65534 --clear-groups "$DARTER" top --attach "$pid" --seconds 1 2>&1)
    expect "status of another user's top" "$?" 2
    case $said in *"another user's"*) ;; *) echo "another user: $said"; status=1 ;; esac
else
    echo 'skipped: another user, whom only root can be'
fi

# The machine is killed: the watcher has what came, and its name is gone when somebody looks.
"$DARTER" lockstat >"$work/seen" 2>"$work/said" </dev/null &
watcher=$!
switched 'contention on samples off'
sleep 2.5
kill -KILL "$pid"
wait "$watcher"
expect 'status of a watcher whose machine is killed' "$?" 125
grep -q '^Elapsed time: [1-9]' "$work/seen" || { echo "it had nothing: $(cat "$work/seen")"; status=1; }
grep -q "process $pid ended" "$work/said" || { echo "it did not say why: $(cat "$work/said")"; status=1; }
watch top
expect 'status afterwards' "$seen" 125
[ ! -e "$work/darter/$pid" ] || { echo 'the socket of the killed one is there'; status=1; }
exit $status
