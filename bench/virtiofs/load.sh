#!/bin/sh
# What is read over the live root, each with its seconds by the guest's clock: names (git status), one large file, many small ones, a compiler. $1: the folder that `run` made.
now() { awk '{ print $1 }' /proc/uptime; }
one() {
    name=$1
    shift
    from=$(now)
    "$@" >/dev/null 2>&1
    status=$?
    awk -v from="$from" -v to="$(now)" -v name="$name" -v status=$status 'BEGIN { printf "@ %-24s %7.2f s%s\n", name, to - from, status ? "  status " status : "" }'
}
export GIT_OPTIONAL_LOCKS=0
status() { one "$1" git -c safe.directory='*' -c core.checkStat=minimal -C "$2/tree" status; }
headers() { one "$1" sh -c 'find /usr/include -type f | xargs cat'; }
compile() { one "$1" gcc -c -o /run/a.o "$2/a.c"; }
git --version >/dev/null
for turn in first second; do status "git status, $turn" "$1"; done
one '200 MiB' dd if="$1/large" of=/dev/null bs=1M
for turn in first second; do headers "/usr/include, $turn"; done
for turn in first second; do compile "gcc -c, $turn" "$1"; done
