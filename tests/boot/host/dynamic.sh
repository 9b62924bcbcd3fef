#!/bin/sh
# time limit: 60
# A dynamically linked program brings its interpreter and libraries along, and executes itself again and again.
set -eu
make --no-print-directory -s -C bench OUT="$TARGET/bench" >/dev/null
"$DARTER" run --kernel "$DARTER_KERNEL" --timeout 50 --add "$TARGET/bench/doexec-dynamic:/bin/dynamic" -- dynamic 2 -c 10 -q |
    grep '^bench=doexec-dynamic cpus=2 ops=20 '
