#!/bin/sh
# time limit: 60
# A kernel whose init ends cannot go on: that gives status 125 and its last words.
. tests/boot/common
run --append rdinit=/bin/false --boot-timeout 30 -- true </dev/null
expect status "$rc" 125
case $err in *[Pp]anic* | *'first process has ended'*) ;; *) echo "no last words: $err"; status=1 ;; esac
run --qemu-arg -no-such-option -- true </dev/null
expect 'QEMU refuses' "$rc" 125
case $err in *no-such-option*) ;; *) echo "QEMU's own words are missing: $err"; status=1 ;; esac
# Shorter than QEMU itself takes to start: a boot may well end within a few tenths of a second.
run --boot-timeout 0.01 -- true </dev/null
expect 'too slow a boot' "$rc" 125
exit $status
