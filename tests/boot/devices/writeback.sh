#!/bin/sh
# time limit: 300
# Write-back: files of the host's that several processes write at once, through shared mappings and by write(2), are on the host what was written when the guest has ended, with 1, 2 and 4
# CPUs, and with little memory; what was synced is there though the guest was killed; a file is written by a database's ways.
. tests/boot/common
make --no-print-directory -s -C tests OUT="$TARGET/tests" >/dev/null || exit 1
tool=$TARGET/tests/abi/tools/writeback

mkdir "$work/tree"
cp "$tool" "$work/tree/program"
"$tool" wanted "$work/wanted" || exit 1
for cpus in 1 2 4; do
    run --cpus $cpus --timeout 100 --rw "$work/tree:/rw" -- sh -c '/rw/program write /rw/file && grep -c "9p rw.*cache=0x5" /proc/mounts' </dev/null
    expect "status of who writes with $cpus CPUs" "$rc $out" "0 1"
    cmp "$work/wanted" "$work/tree/file" || { echo "with $cpus CPUs the host has something else"; status=1; }
done

# More than memory has, by write(2), of which some stays dirty until the end.
run --cpus 2 --memory 128M --timeout 100 --rw "$work/tree:/rw" -- sh -c '
    /rw/program large /rw/large; cat /rw/large | md5sum; md5sum </rw/large' </dev/null
"$tool" large "$work/large" || exit 1
should=$(md5sum <"$work/large")
expect "what is larger than memory" "$rc $out" "0 $should
$should"
cmp "$work/large" "$work/tree/large" || status=1
rm "$work/large"
rm "$work/tree/large"

# Killed after it has said that it is synced.
start --cpus 2 --timeout 100 --rw "$work/tree:/rw" -- /rw/program synced /rw/kept
wait_for synced || status=1
kill -KILL "$pid"
wait "$pid" 2>/dev/null
{ head -c 50000 /dev/zero | tr '\0' m; head -c 50000 /dev/zero | tr '\0' w; } >"$work/promised"
for way in 0 1 2 3; do
    head -c 100000 "$work/tree/kept.$way" | cmp - "$work/promised" || { echo "way $way of syncing kept nothing"; status=1; }
    expect "size of way $way" "$(stat -c %s "$work/tree/kept.$way")" 200000
done

# Attributes, where the host's file system has them; not all have.
if command -v setfattr >/dev/null && setfattr -n user.test -v x "$work/tree/program" 2>/dev/null; then
    run --rw "$work/tree:/rw" --root host -- sh -c 'setfattr -n user.a -v value /rw/file && setfattr -x user.test /rw/program && getfattr --only-values -n user.a /rw/file' </dev/null
    expect "attributes in the guest" "$out" value
    expect "attributes on the host" "$(getfattr --absolute-names --only-values -n user.a "$work/tree/file")" value
    setfattr -x user.test "$work/tree/program" 2>/dev/null && { echo "an attribute that was taken away is there"; status=1; }
fi
exit $status
