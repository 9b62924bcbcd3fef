#!/bin/sh
# time limit: 300
# Under KVM a system call does not leave the guest, nor does a page fault, and an idle CPU does so once a second at most.
. tests/boot/common
[ "$DARTER_KERNEL" != linux ] || skip 'the bounds are those of Darter'
"$DARTER" exits --kernel "$DARTER_KERNEL" --timeout 150 system-call fault wake-up-elsewhere idle-second >"$work/out" 2>"$work/err" ||
    { cat "$work/out" "$work/err"; exit 1; }
# bound CASE MOST: exits of one operation, beside those of the host's interrupts.
bound() {
    awk -v name="$1" -v most="$2" '$1 == name { seen = 1; bad = $2 > most } END { exit !seen || bad }' "$work/out" ||
        { echo "$1: wanted at most $2"; status=1; }
}
bound system-call 0.02
bound fault 0.2
bound wake-up-elsewhere 6
bound idle-second 1
[ $status = 0 ] || cat "$work/out"
exit $status
