#!/bin/sh
# What is read over the live root, each with its seconds by the guest's clock: names (git status), one large file, many small ones, a compiler. $1: the folder that `run` made.
# On Darter also the requests that the server was sent meanwhile.
requests() { cat /proc/darter/virtio 2>/dev/null | awk '$2 ~ /^9p/ { sum += $5 } END { if (NR) print sum }'; }
now() { awk '{ print $1 }' /proc/uptime; }
one() {
    name=$1
    shift
    asked=$(requests) from=$(now)
    "$@" >/dev/null 2>&1
    status=$? to=$(now)
    [ -z "$asked" ] || asked=$(($(requests) - asked))
    awk -v from="$from" -v to="$to" -v name="$name" -v asked="$asked" -v status=$status 'BEGIN {
        printf "@ %-24s %7.2f s%s%s\n", name, to - from, asked == "" ? "" : sprintf(" %8d requests", asked), status ? "  status " status : ""
    }'
}
export GIT_OPTIONAL_LOCKS=0
status() { one "$1" git -c safe.directory='*' -c core.checkStat=minimal -C "$2/tree" status; }
headers() { one "$1" sh -c 'find /usr/include -type f | xargs cat'; }
compile() { one "$1" gcc -c -o /run/a.o "$2/a.c"; }
git --version >/dev/null; requests >/dev/null
for turn in first second; do status "git status, $turn" "$1"; done
one '200 MiB' dd if="$1/large" of=/dev/null bs=1M
for turn in first second; do headers "/usr/include, $turn"; done
for turn in first second; do compile "gcc -c, $turn" "$1"; done
