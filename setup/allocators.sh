#!/bin/sh
# Fetches Debian's jemalloc and mimalloc into .cache/allocators: unpacked, not installed, so it needs no root. `make allocators` runs it.
# What cannot be had is said, and left out of what is measured.
#
#   setup/allocators.sh            fetch what is missing
#   setup/allocators.sh --again    fetch it anew
set -u
cd "$(dirname "$0")/.." || exit 1
unset CDPATH
folder=.cache/allocators

say() { printf '%s\n' "setup: $*" >&2; }

# fetch PACKAGES LIBRARY NAME: the newest package whose name fits; its LIBRARY stands in the folder as NAME afterwards.
fetch() {
    [ -e "$folder/$3" ] && return 0
    package=$(apt-cache search --names-only "^$1\$" 2>/dev/null | cut -d ' ' -f 1 | sort -V | tail -n 1)
    if [ -z "$package" ]; then
        say "apt knows no package like $1 ('apt-get update' as root?): $3 is left out"
        return 1
    fi
    say "+ apt-get download $package (unpacked into $folder, not installed)"
    new=$folder/new
    rm -rf "$new" && mkdir -p "$new" || return 1
    (cd "$new" && apt-get download -q -o APT::Sandbox::User=root "$package" </dev/null >&2 && dpkg-deb -x ./*.deb unpacked)
    library=$(find "$new" -name "$2" -type f 2>/dev/null | head -n 1)
    if [ -z "$library" ]; then
        say "$package could not be fetched, or has no $2: $3 is left out"
        rm -rf "$new"
        return 1
    fi
    mv "$library" "$folder/$3"
    rm -rf "$new"
}

[ "${1:-}" != --again ] || rm -rf $folder
fetch libjemalloc2 'libjemalloc.so.2' libjemalloc.so.2
fetch 'libmimalloc[0-9.]+' 'libmimalloc.so.[0-9]*' libmimalloc.so
exit 0
