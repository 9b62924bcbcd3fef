#!/bin/sh
# Fetches what `make builds` builds, and with, from Debian: tcc, and the sources of uClibc-ng, which it makes ready. Unpacked into .cache/builds, not installed, so it
# needs no root.
#
#   setup/builds.sh            fetch what is missing
#   setup/builds.sh --again    fetch it anew
set -u
cd "$(dirname "$0")/.." || exit 1
unset CDPATH
folder=.cache/builds
# As many trees as `buildworld-4` builds at once.
trees='1 2 3 4'

say() { printf '%s\n' "setup: $*" >&2; }
fail() { say "$*"; exit 1; }

# fetch PACKAGE: unpacked into $folder/new.
fetch() {
    say "+ apt-get download $1 (unpacked into $folder, not installed)"
    rm -rf "$folder/new" && mkdir -p "$folder/new" || exit 1
    (cd "$folder/new" && apt-get download -q -o APT::Sandbox::User=root "$1" </dev/null >&2 && dpkg-deb -x ./*.deb .) ||
        fail "apt cannot fetch $1 ('apt-get update' as root?)"
}

fetch_tcc() {
    fetch tcc
    library=$(find "$folder/new" -name libtcc1.a -path '*/tcc/*' | head -n 1)
    [ -n "$library" ] || fail "the package tcc has no libtcc1.a"
    mkdir -p "$folder/tcc" && mv "$folder/new/usr/bin/tcc" "$folder/tcc/tcc" && mv "$(dirname "$library")" "$folder/tcc/lib"
}

# The sources with a configuration and the headers that are made from it; the first build then compiles and does nothing else.
fetch_sources() {
    fetch uclibc-source
    archive=$(find "$folder/new" -name 'uClibc*.tar.xz' | head -n 1)
    [ -n "$archive" ] || fail "the package uclibc-source has no archive of sources"
    mkdir "$folder/new/tree" && busybox xz -dc "$archive" | tar -x -C "$folder/new/tree" --strip-components 1 || exit 1
    mkdir "$folder/new/headers" && ln -s /usr/include/linux /usr/include/asm-generic "$folder/new/headers/" || exit 1
    asm=/usr/include/$(gcc -print-multiarch)/asm
    [ -e "$asm" ] || asm=/usr/include/asm
    ln -s "$asm" "$folder/new/headers/asm"
    rm -rf "$folder/headers" && mv "$folder/new/headers" "$folder/headers"
    tree=$folder/new/tree
    # It makes all targets one after another for the sake of its locales, which are left out here.
    sed -i '/^\.NOTPARALLEL:/d' "$tree/extra/locale/Makefile.in"
    log=$folder/prepared.log
    { make -C "$tree" ARCH=x86_64 defconfig &&
        sed -i "s#^KERNEL_HEADERS=.*#KERNEL_HEADERS=\"$PWD/$folder/headers\"#" "$tree/.config" &&
        make -C "$tree" ARCH=x86_64 pregen; } </dev/null >"$log" 2>&1 || fail "uClibc-ng cannot be made ready; see $log"
    make -C "$tree" -n ARCH=x86_64 2>/dev/null | grep -o 'CC [^ ";]*\.o[sS]*' | cut -d ' ' -f 2 | sort -u >"$folder/whole"
    # Parts of the library, each a list of objects (bench/builds/build.sh).
    part() { grep -E "^libc/($2)/.*\.os\$" "$folder/whole" >"$folder/$1"; [ "$(wc -l <"$folder/$1")" -ge "$3" ] || fail "uClibc-ng has fewer objects in $2 than $3"; }
    part kernel 'string|stdio|stdlib' 200
    part world-1 unistd 15
    part world-2 'signal|termios' 25
    [ "$(wc -l <"$folder/whole")" -ge 500 ] || fail "uClibc-ng has fewer than 500 objects"
    for n in $trees; do
        rm -rf "$folder/tree$n" && cp -a "$tree" "$folder/tree$n" || exit 1
    done
}

[ "${1:-}" != --again ] || rm -rf $folder
mkdir -p $folder
[ -e $folder/tcc/lib ] || fetch_tcc
[ -e $folder/tree4 ] && [ -e $folder/whole ] || fetch_sources
rm -rf $folder/new
exit 0
