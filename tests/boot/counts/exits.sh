#!/bin/sh
# time limit: 300
# Under KVM a system call does not leave the guest, nor does a page fault, and an idle CPU does so once a second at most.
# The end of an interrupt is told in memory.
. tests/boot/common
[ "$DARTER_KERNEL" != linux ] || skip 'the bounds are those of Darter'
count() {
    "$DARTER" exits --kernel "$DARTER_KERNEL" --timeout 60 system-call fault wake-up-elsewhere timer busy-second idle-second >"$work/out" 2>"$work/err"
}
# Once in some dozens of runs the emulated machine with Linux and KVM stands still, though what runs in it would be ended after a minute: that is not
# what is looked at here. A Darter that hangs is ended by that Linux, which says so, and is red.
count || { grep -q 'took longer than [0-9]* s in the guest' "$work/err" && count; } || { cat "$work/out" "$work/err"; exit 1; }
# bound CASE MOST: exits of one operation, beside those of the host's interrupts.
bound() {
    awk -v name="$1" -v most="$2" '$1 == name { seen = 1; bad = $2 > most } END { exit !seen || bad }' "$work/out" ||
        { echo "$1: wanted at most $2"; status=1; }
}
# rare CASE CAUSE MOST: exits of one operation by that cause.
rare() {
    awk -v name="$1" -v cause="$2" -v most="$3" '
        $1 == name { seen = 1; if (match($0, cause " [0-9.]+")) bad = substr($0, RSTART + length(cause) + 1, RLENGTH) + 0 > most }
        END { exit !seen || bad }' "$work/out" ||
        { echo "$1: wanted at most $3 of $2"; status=1; }
}
bound system-call 0.02
bound fault 0.2
bound wake-up-elsewhere 6
bound idle-second 1
rare timer 'write EOI' 0.1
rare busy-second 'write EOI' 5
[ $status = 0 ] || cat "$work/out"
exit $status
