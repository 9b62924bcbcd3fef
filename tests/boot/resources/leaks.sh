#!/bin/sh
# time limit: 420
# Memory comes back after 10,000 rounds of fork, exec, exit and wait, and after each program that misbehaves.
#
# One machine runs all of it. Linux, whose slabs grow with use, is allowed more, and asked for fewer rounds.
set -eu
make --no-print-directory -s -C tests OUT="$TARGET/tests" >/dev/null
abi=$TARGET/tests/abi
case $DARTER_KERNEL in
linux) kib=16384 rounds=1000 ;;
# It looks at every lock, and is slow.
*lockdep*) kib=2048 rounds=1000 ;;
*) kib=2048 rounds=10000 ;;
esac
set -- --add "$abi/tools/leakcheck:/abi/leakcheck"
script="status=0; cd /tmp; /abi/leakcheck $rounds $kib || status=1"
for file in "$abi"/misbehave/*; do
    case $file in *.new) continue ;; esac
    name=$(basename "$file")
    set -- "$@" --add "$file:/abi/$name"
    script="$script; /abi/leakcheck 1 $kib /abi/$name || status=1"
done
for name in memory threads signals sigcontext pipes exec process files names inotify rights streams; do
    set -- "$@" --add "$abi/$name:/abi/$name"
    # In a directory of its own: a name that another has left there is another outcome, for which the program may wait without end.
    script="$script; mkdir /tmp/for-$name && cd /tmp/for-$name && /abi/leakcheck 2 $kib /abi/$name || status=1"
done
"$DARTER" run --kernel "$DARTER_KERNEL" --memory 512M --timeout 400 "$@" -- sh -c "$script; exit \$status"
