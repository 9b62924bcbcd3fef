#!/bin/sh
# time limit: 60
# A reader that goes away ends the writer, as in any pipe.
. tests/boot/common
out=$("$DARTER" run --kernel "$DARTER_KERNEL" -- yes | head -n 2)
expect yes "$out" 'y
y'
# A slow reader holds the writer back and gets everything.
out=$("$DARTER" run --kernel "$DARTER_KERNEL" -- seq 1 40000 | { sleep 6; tail -n 1; })
expect 'slow reader' "$out" 40000
exit $status
