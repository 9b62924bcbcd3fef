#!/bin/sh
# Builds parts of uClibc-ng (setup/builds.sh), as `darter builds` asks for it in a guest or as anybody may anywhere.
#
#   build.sh NAME JOBS TREES PART...    in TREES copies of the sources at once, each with make -j JOBS: the PARTs in turn
#
# A part is a list of objects, which make compiles, and from which then, one after another, an archive, one linked object, the list of its symbols
# and a stripped one are made, as at the end of a kernel's build. The part `whole` is the project's own build, with its own links. What earlier builds left
# is removed before the time is taken. Prints `made HASH` of what the first tree's links gave, the same on every system, and the closing line of a benchmark (bench/README.md);
# an operation is one object.
set -u
here=$(cd "$(dirname "$0")" && pwd)
cache=${BUILDS_CACHE:-$here/../../.cache/builds}

# In a tree: compile and link the parts.
one() {
    cd "$cache/tree$1" || exit 1
    jobs=$2
    shift 2
    for part in "$@"; do
        objects=$(cat "../$part")
        goals=$objects
        [ "$part" != whole ] || goals=
        make -j "$jobs" ARCH=x86_64 $goals >build.log 2>&1 || {
            tail -n 5 build.log
            echo "tree $PWD: $part cannot be built"
            exit 1
        }
        [ "$part" != whole ] || continue
        ar crD "$part.a" $objects && ld -r -o "$part.o" $objects && nm -n "$part.o" >"$part.map" && strip -g -o "$part.stripped" "$part.o" || {
            echo "tree $PWD: $part cannot be linked"
            exit 1
        }
    done
}

# What the project's own tools are made from, in extra, stays.
clean() {
    cd "$1" || return 1
    find . -path ./extra -prune -o \( -name '*.o' -o -name '*.o[sS]' -o -name '*.a' -o -name '*.so' -o -name '*.so.*' -o -name '*.dep' \) -exec rm {} +
    rm -f build.log ./*.map ./*.stripped
}

products() {
    case $1 in
        whole) cat lib/*.a lib/*-[0-9]*.so ;;
        *) cat "$1.a" "$1.o" "$1.map" "$1.stripped" ;;
    esac
}

if [ "$1" = --now ]; then
    trees=$2 jobs=$3
    shift 3
    waiting=
    for n in $(seq "$trees"); do
        (one "$n" "$jobs" "$@") &
        waiting="$waiting $!"
    done
    status=0
    for process in $waiting; do wait "$process" || status=1; done
    exit $status
fi

name=$1 jobs=$2 trees=$3
shift 3
count=0
for part in "$@"; do count=$((count + $(wc -l <"$cache/$part"))); done
for n in $(seq "$trees"); do
    # Nothing is looked for before the first build: it finds the files as somebody does who has just come.
    [ ! -e "$cache/tree$n/build.log" ] || (clean "$cache/tree$n") || exit 1
done
"${TIMED:-$here/../../target/builds/timed}" "$name" $((count * trees)) sh "$0" --now "$trees" "$jobs" "$@" || exit 1
cd "$cache/tree1" || exit 1
for part in "$@"; do products "$part"; done | sha256sum | sed 's/^\(................\).*/made \1/'
