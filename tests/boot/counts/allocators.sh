#!/bin/sh
# time limit: 240
# malloc and free by threads on two CPUs, in every pattern with every allocator, and Go's garbage: no block holds foreign bytes. Replacing small blocks shares
# no line of the kernel (but with musl, whose threads have one lock); a counter that all page faults bump is found. Without Debian's libraries (make allocators) theirs are left out, and the test says so.
. tests/boot/common
build bench/allocators allocators
libraries=.cache/allocators
set --
for file in "$TARGET"/allocators/* $libraries/*.so*; do
    case $file in *.new) continue ;; esac
    [ ! -e "$file" ] || set -- "$@" --add "$file:/allocators/$(basename "$file")"
done
run --timeout 200 "$@" -- sh -c '
    cd /allocators
    a() { env "$@" || echo "failed: $*"; }
    all() {
        for pattern in $(env "$@" list | cut -d " " -f 1); do a "$@" $pattern 2 -c 20 -w 8 -q; done
    }
    all ./alloc-musl
    [ ! -e garbage ] || all ./garbage
    all ./alloc-glibc
    all MALLOC_MMAP_THRESHOLD_=65536 MALLOC_TRIM_THRESHOLD_=0 ./alloc-glibc
    if [ -e libjemalloc.so.2 ]; then
        all LD_PRELOAD=/allocators/libjemalloc.so.2 ./alloc-glibc
        all LD_PRELOAD=/allocators/libjemalloc.so.2 MALLOC_CONF=dirty_decay_ms:0,muzzy_decay_ms:0 ./alloc-glibc
    fi
    if [ -e libmimalloc.so ]; then
        all LD_PRELOAD=/allocators/libmimalloc.so ./alloc-glibc
        all LD_PRELOAD=/allocators/libmimalloc.so MIMALLOC_DECOMMIT_DELAY=0 ./alloc-glibc
    fi'
expect status $rc 0
expect 'runs that failed' "$(printf '%s\n' "$out" | grep -v '^bench=')" ''
there=$(ls $libraries 2>/dev/null | grep -c '\.so')
patterns() { [ ! -e "$TARGET/allocators/$1" ] || "$TARGET/allocators/$1" list; }
musl=$(patterns alloc-musl | wc -l) glibc=$(patterns alloc-glibc | wc -l) go=$(patterns garbage | wc -l)
expect 'runs that ended' "$(printf '%s\n' "$out" | grep -c '^bench=')" $((musl + go + glibc * (2 + 2 * there)))
if [ "$DARTER_KERNEL" != linux ]; then
    set -- 'glibc churn'
    [ ! -e $libraries/libjemalloc.so.2 ] || set -- "$@" 'jemalloc churn'
    [ ! -e $libraries/libmimalloc.so ] || set -- "$@" 'mimalloc churn'
    lines=$("$DARTER" allocators "$@" --kernel "$DARTER_KERNEL" --runs 0 2>"$work/err")
    expect 'status of the lines' $? 0
    expect 'rows of small blocks that share a line' "$(printf '%s\n' "$lines" | grep -c '^[^ ]* (.*: 0 rows share a line$')" 1
    lines=$("$DARTER" allocators 'glibc large' --kernel "$DARTER_KERNEL" --runs 0 --append plant=fault-counter 2>"$work/err")
    expect 'the planted counter, named' "$(printf '%s\n' "$lines" | grep -c 'turns .*PLANTED_FAULTS')" 1
fi
[ $status = 0 ] || exit 1
[ "$there" = 2 ] || echo "jemalloc or mimalloc is not in $libraries, run 'make allocators': left out" >>"$work/built"
[ ! -s "$work/built" ] || skip "passed in part: $(tr '\n' ' ' <"$work/built")"
exit 0
