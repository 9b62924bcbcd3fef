#!/bin/sh
# time limit: 60
# Two tasks compile small files on this machine's files, with tcc if it is there (make builds-setup), else gcc: the objects are those that the compiler makes here.
. tests/boot/common
build bench/builds builds
compiler='gcc -O1'
tcc=$PWD/.cache/builds/tcc
[ ! -e "$tcc/lib" ] || compiler="$tcc/tcc -B$tcc/lib"
case $DARTER_KERNEL in darter | linux) ;; *) DARTER_KERNEL=$(readlink -f "$DARTER_KERNEL") ;; esac
docomp="$TARGET/builds/docomp"
here=$(TMPDIR=$work "$docomp" 2 -x "$compiler" -q -c 4) || exit 1
run --timeout 50 --root host -e TMPDIR="$work" -- "$docomp" 2 -x "$compiler" -q -c 4 </dev/null
expect status "$rc" 0
expect 'the objects' "$(printf '%s\n' "$out" | grep '^made')" "$(printf '%s\n' "$here" | grep '^made')"
expect 'compilations' "$(printf '%s\n' "$out" | grep -o 'cpus=2 ops=8 ')" 'cpus=2 ops=8 '
expect 'what was left here' "$(ls "$work" | grep -v -e '^out$' -e '^err$' -e '^built$')" ''
# A compiler that fails is told of.
run --timeout 50 --root host -e TMPDIR="$work" -- "$docomp" 1 -x false -q -c 1 </dev/null
expect 'without a compiler' "$rc $(printf '%s' "$err" | head -n 1)" '1 docomp: false ended with wait status 0x100'
exit $status
