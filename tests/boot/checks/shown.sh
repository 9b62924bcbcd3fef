#!/bin/sh
# time limit: 600
# What the table claims of calls, flags and commands (docs/syscalls.md) is what the ABI programs show on this kernel today, not only when
# tests/table/shown was written.
. tests/boot/common
[ "$DARTER_KERNEL" != linux ] || skip 'Linux does not tell what is called'
case $DARTER_KERNEL in *lockdep*) skip 'once is enough' ;; esac
record=$work/record
tests/run --kernel "$DARTER_KERNEL" --cpus 4 --shown "$record" || status=1
DARTER_ROOT=$PWD cargo run --quiet -p darter-table -- check "$record" || status=1
exit $status
