#!/bin/sh
# Installs what Darter needs on Debian 12 or 13 for x86-64: the Rust toolchain, QEMU 9 or newer (Debian has 10), musl-gcc,
# busybox-static, gcc, make, and a Linux 6.12 image to compare with (unpacked into .cache/linux, never installed).
#
#   setup/setup.sh            install what is missing; as a user without root, print the commands for it
#   setup/setup.sh --check    print what is missing, one word a line; exit status 1 if anything is
#
# Costs a few milliseconds when nothing is missing: the last good result is remembered in .cache/setup-ok and
# holds as long as this script, rust-toolchain.toml and the tools themselves have not changed.
set -eu
cd "$(dirname "$0")/.."
PATH="$PATH:${CARGO_HOME:-$HOME/.cargo}/bin"
unset CDPATH

stamp=.cache/setup-ok
linux=.cache/linux/vmlinuz
modules=.cache/linux/modules
# With these that Linux runs machines under KVM (darter run --accel nested), and has disks, shared folders and a live root.
module_files="virt/lib/irqbypass drivers/crypto/ccp/ccp arch/x86/kvm/kvm arch/x86/kvm/kvm-amd drivers/block/virtio_blk
    drivers/virtio/virtio_mmio fs/netfs/netfs net/9p/9pnet net/9p/9pnet_virtio fs/9p/9p fs/overlayfs/overlay"
qemu_wanted=9          # the plugin API that `darter bench --instructions` uses appeared in QEMU 9
toolchain=$(sed -n 's/^channel *= *"\(.*\)"/\1/p' rust-toolchain.toml)
target=x86_64-unknown-none

say() { printf '%s\n' "setup: $*" >&2; }
have() { command -v "$1" >/dev/null 2>&1; }

# --- what is missing ------------------------------------------------------------------------------------

unchanged() {
    [ -e $stamp ] && has_linux || return 1
    for tool in qemu-system-x86_64 musl-gcc busybox gcc make cargo; do
        path=$(command -v $tool) || return 1
        [ "$path" -nt $stamp ] && return 1
    done
    [ setup/setup.sh -nt $stamp ] || [ rust-toolchain.toml -nt $stamp ] && return 1
    return 0
}

has_rust() {
    have cargo || return 1
    sysroot=${RUSTUP_HOME:-$HOME/.rustup}/toolchains/$toolchain-x86_64-unknown-linux-gnu
    if [ ! -d "$sysroot" ]; then
        # No rustup: any toolchain will do that has the same version and our target.
        have rustup && return 1
        rustc --version 2>/dev/null | grep -q "^rustc $toolchain " || return 1
        sysroot=$(rustc --print sysroot)
    fi
    [ -d "$sysroot/lib/rustlib/$target" ] && [ -x "$sysroot/bin/cargo-clippy" ] && [ -x "$sysroot/bin/rustfmt" ]
}

has_qemu() {
    have qemu-system-x86_64 || return 1
    version=$(qemu-system-x86_64 --version | sed -n 's/^QEMU emulator version \([0-9]*\).*/\1/p')
    [ "${version:-0}" -ge $qemu_wanted ]
}

# gcc can link a program: the compiler alone is of no use without the C library's headers.
has_gcc() { have gcc && [ -e /usr/include/stdio.h ]; }

# The applets are put into guests, so the program must need nothing beside itself.
# A dynamic program names its loader within its first page.
has_busybox() { have busybox && ! head -c 4096 "$(command -v busybox)" | grep -aq ld-linux; }

has_linux() {
    [ -e $linux ] || return 1
    for module in $module_files; do
        [ -e "$modules/${module##*/}.ko" ] || return 1
    done
}

missing() {
    has_rust || echo rust
    has_qemu || echo qemu
    have musl-gcc || echo musl-tools
    has_busybox || echo busybox-static
    has_gcc || echo gcc
    have make || echo make
    has_linux || echo linux
}

unchanged && exit 0
list=$(missing)
if [ -z "$list" ]; then
    mkdir -p .cache && : > $stamp
    exit 0
fi
if [ "${1:-}" = --check ]; then
    printf '%s\n' "$list"
    exit 1
fi
wants() { printf '%s\n' "$list" | grep -qx "$1"; }

# --- how to mend it -------------------------------------------------------------------------------------

if [ "$(uname -m)" != x86_64 ]; then
    say "this machine is $(uname -m); the guest's programs are built with its compilers, so it has to be x86_64."
    exit 1
fi
. /etc/os-release
codename=${VERSION_CODENAME:-unknown}
case $codename in
    bookworm | trixie) ;;
    *)
        say "this is ${PRETTY_NAME:-an unknown system}; Darter's setup knows Debian 12 and 13."
        say "missing here: $(echo $list)"
        say "install rustup, QEMU $qemu_wanted or newer (x86), musl-gcc, a static busybox, gcc and make by this system's own means,"
        say "and put a Linux 6.12 kernel image at $linux (only for comparisons)."
        exit 1
        ;;
esac

root=false
[ "$(id -u)" = 0 ] && root=true
undone=
# Runs a command that needs root, or keeps it to be printed.
as_root() {
    if $root; then
        say "+ $*"
        DEBIAN_FRONTEND=noninteractive sh -c "$*" </dev/null >&2
    else
        undone="$undone    $*
"
    fi
}

# The entry by which this machine itself gets Debian, as "URI<tab>Signed-By"; whatever mirror it uses is ours too.
own_source() {
    for file in /etc/apt/sources.list.d/*.sources; do
        [ -e "$file" ] || continue
        awk -v suite="$codename" '
            function stanza(   i, n, word) {
                n = split(suites, word, /[ \t]+/)
                for (i = 1; i <= n; i++) if (word[i] == suite && uris != "" && !off) {
                    split(uris, uri, /[ \t]+/); print uri[1] "\t" key; exit
                }
                suites = uris = key = ""; off = 0
            }
            /^#/ { next }
            /^[ \t]*$/ { stanza(); next }
            { split($0, part, /:[ \t]*/); value = substr($0, length(part[1]) + 2); sub(/^[ \t]+/, "", value) }
            tolower(part[1]) == "suites" { suites = value }
            tolower(part[1]) == "uris" { uris = value }
            tolower(part[1]) == "signed-by" { key = value }
            tolower(part[1]) == "enabled" { off = (tolower(value) ~ /^(no|false|0)/) }
            END { stanza() }' "$file"
    done
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
        [ -e "$file" ] || continue
        awk -v suite="$codename" '
            $1 == "deb" {
                key = ""; at = 2
                if ($2 ~ /^\[/) {
                    for (at = 2; at <= NF; at++) {
                        word = $at; gsub(/[][]/, "", word)
                        if (word ~ /^signed-by=/) { sub(/^signed-by=/, "", word); key = word }
                        if ($at ~ /\]$/) break
                    }
                    at++
                }
                if ($(at + 1) == suite) { print $at "\t" key; exit }
            }' "$file"
    done
}

# Debian 12 has QEMU 10 and Linux 6.12 in its backports.
backports_known() { apt-cache policy 2>/dev/null | grep -q 'bookworm-backports/main'; }
add_backports() {
    [ $codename = bookworm ] || return 0
    backports_known && return 0
    source=$(own_source | head -n 1)
    if [ -z "$source" ]; then
        say "no entry for Debian 12 (bookworm) in /etc/apt/sources.list or /etc/apt/sources.list.d: cannot tell"
        say "where this machine gets Debian from. Add bookworm-backports to apt's sources by hand, then run this again."
        exit 1
    fi
    uri=$(printf '%s' "$source" | cut -f 1)
    key=$(printf '%s' "$source" | cut -f 2)
    file=/etc/apt/sources.list.d/darter-backports.sources
    as_root "printf '%s\\n' 'Types: deb' 'URIs: $uri' 'Suites: bookworm-backports' 'Components: main' ${key:+'Signed-By: $key'} > $file"
}

packages=
suite=
wants qemu && packages="$packages qemu-system-x86" && [ $codename = bookworm ] && suite="-t bookworm-backports"
wants musl-tools && packages="$packages musl-tools"
wants busybox-static && packages="$packages busybox-static"
wants gcc && packages="$packages gcc libc6-dev"
wants make && packages="$packages make"
if wants rust && ! have rustup; then
    if [ $codename = trixie ]; then
        packages="$packages rustup ca-certificates"
    else
        rust_by_hand=true
        $root && packages="$packages curl ca-certificates"
    fi
fi

if wants qemu || wants linux; then add_backports; fi
if [ -n "$packages" ]; then
    as_root "apt-get update -q"
    as_root "apt-get install -q -y --no-install-recommends $suite$packages"
elif wants linux && ! apt-cache search --names-only '^linux-image-6\.12.*-amd64$' 2>/dev/null | grep -q .; then
    as_root "apt-get update -q"
fi

# Debian 12 has no package of rustup.
get_rustup="curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y --default-toolchain none"
if $root && ${rust_by_hand:-false}; then
    say "+ $get_rustup"
    sh -c "$get_rustup" </dev/null >&2 || :
    hash -r
    have rustup && rust_by_hand=false
fi
if wants rust && have rustup; then
    say "+ rustup toolchain install $toolchain"
    rustup toolchain install "$toolchain" --profile minimal --component rustfmt --component clippy --target $target \
        --no-self-update </dev/null >&2 || say "rustup could not fetch Rust $toolchain; see the lines above"
fi

# The newest 6.12 as Debian ships it (the generic flavour, as a machine would run it), unpacked beside the sources.
newest_linux() {
    apt-cache search --names-only '^linux-image-6\.12\.[0-9.]+\+[a-z0-9.]+-amd64$' 2>/dev/null |
        cut -d ' ' -f 1 | sort -V | tail -n 1
}
# Modules are compressed, or not, as Debian pleases.
unpack_module() {
    if [ -e "$1" ]; then cp "$1" "$2"
    elif [ -e "$1.xz" ]; then busybox xz -dc "$1.xz" > "$2"
    else return 1
    fi
}
fetch_linux() {
    package=$(newest_linux)
    [ -n "$package" ] || return 1
    say "+ apt-get download $package (unpacked into .cache/linux, not installed)"
    rm -rf .cache/linux/new && mkdir -p .cache/linux/new
    (cd .cache/linux/new && apt-get download -q -o APT::Sandbox::User=root "$package" </dev/null >&2 && dpkg-deb -x ./*.deb unpacked) || return 1
    version=${package#linux-image-}
    config=.cache/linux/new/unpacked/boot/config-$version
    for option in SERIAL_8250=y SERIAL_8250_CONSOLE=y DEVTMPFS=y BLK_DEV_INITRD=y TMPFS=y; do
        grep -qx "CONFIG_$option" "$config" || { say "$package lacks CONFIG_$option"; return 1; }
    done
    rm -rf ".cache/linux/$version" && mkdir -p ".cache/linux/$version/modules"
    for part in vmlinuz System.map config; do
        mv ".cache/linux/new/unpacked/boot/$part-$version" ".cache/linux/$version/$part"
    done
    for module in $module_files; do
        unpack_module ".cache/linux/new/unpacked/lib/modules/$version/kernel/$module.ko" ".cache/linux/$version/modules/${module##*/}.ko" ||
            { say "$package lacks the module ${module##*/}, or it cannot be unpacked"; return 1; }
    done
    rm -rf .cache/linux/new
    ln -sfn "$version/modules" $modules
    ln -sfn "$version/System.map" .cache/linux/System.map
    ln -sfn "$version/vmlinuz" $linux
}
if wants linux && ! fetch_linux; then
    if $root; then
        say "apt knows no Linux 6.12 image for amd64, or could not fetch it; see the lines above."
    else
        say "apt cannot fetch a Linux 6.12 image yet: run the commands below as root, then 'make setup' again."
    fi
fi

if ${rust_by_hand:-false}; then
    say "Debian 12 has no package of rustup. As the user who will build, run (it needs curl and ca-certificates)"
    say "    $get_rustup"
    say "and then this again: it fetches Rust $toolchain itself."
fi
if [ -n "$undone" ]; then
    say "these need root; run them, then 'make setup' again:"
    printf '%s' "$undone" >&2
    exit 1
fi
hash -r
list=$(missing)
if [ -n "$list" ]; then
    say "still missing: $(echo $list)"
    exit 1
fi
mkdir -p .cache && : > $stamp
say "everything is there"
