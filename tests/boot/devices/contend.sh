#!/bin/sh
# time limit: 300
# Names that several processes make, take, replace and append to at once: in memory, in an overlay, and in a folder of the host's that may be written; with 1, 2 and 4 CPUs.
. tests/boot/common
[ "$DARTER_KERNEL" = linux ] && skip "Linux's overlay keeps its changes in a directory"
make --no-print-directory -s -C tests OUT="$TARGET/tests" >/dev/null || exit 1

mkdir "$work/tree" "$work/below"
for cpus in 1 2 4; do
    run --cpus $cpus --memory 512M --timeout 90 --add "$TARGET/tests/abi/tools/contend:/contend" --rw "$work/tree:/rw" --share "$work/below:/share" -- sh -c '
        mkdir -p /over && mount -t overlay -o lowerdir=/share,upper=memory overlay /over && cd /over && /contend 100 /tmp /over . && cd /rw && /contend 40 /rw .' </dev/null
    expect "what is named at once with $cpus CPUs" "$rc $out" "0 /tmp: good
/over: good
.: good
/rw: good
.: good"
done
exit $status
