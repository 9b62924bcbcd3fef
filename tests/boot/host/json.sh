#!/bin/sh
# --json prints one object with the status, both streams and the times.
. tests/boot/common
run --json -- sh -c 'echo out; echo err >&2; exit 3' </dev/null
expect status "$rc" 3
for part in '"status":3' '"ended_by":"program"' '"stdout":"out\\n"' '"stderr":"err\\n"' '"boot_seconds":' '"accel":"'; do
    grep -q "$part" "$work/out" || { echo "no $part in $out"; status=1; }
done
expect lines "$(wc -l <"$work/out")" 1
exit $status
