#!/bin/sh
# Builds crates of this tree with cargo, as `darter builds` asks for it in a guest or as anybody may anywhere: rustc has several threads, which malloc, free and map.
#
#   cargo.sh NAME JOBS LIBRARIES PACKAGE...    the packages and what they depend on, LIBRARIES in all, from the registry's files as an earlier build of this tree fetched them
#
# What an earlier one built is removed before the time is taken. Prints `made HASH` of the libraries, the same on every system, and the closing line of a benchmark
# (bench/README.md); an operation is one library.
set -u
here=$(cd "$(dirname "$0")" && pwd)
PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin
CARGO_TARGET_DIR=${BUILDS_CACHE:-$here/../../.cache/builds}/cargo
CARGO_INCREMENTAL=0
export PATH CARGO_TARGET_DIR CARGO_INCREMENTAL
name=$1 jobs=$2 libraries=$3
shift 3
packages=
for package in "$@"; do packages="$packages -p $package"; done
cd "$here/../.." || exit 1
# Nothing is looked for before the first build: it finds the files as somebody does who has just come.
[ ! -e "$CARGO_TARGET_DIR" ] || rm -r "$CARGO_TARGET_DIR" || exit 1
"${TIMED:-$here/../../target/builds/timed}" "$name" "$libraries" cargo build -q --frozen -j "$jobs" $packages || exit 1
set -- "$CARGO_TARGET_DIR"/debug/deps/*.rlib
[ $# = "$libraries" ] || {
    echo "$name: $# libraries were built, not $libraries"
    exit 1
}
cat "$@" | sha256sum | sed 's/^\(................\).*/made \1/'
