#!/bin/sh
# time limit: 240
# This machine's files, or a folder's, as the root: what the guest reads is what is here now, what it writes stays there; the program starts as who calls, in the
# same folder, with the same mask and environment.
. tests/boot/common
chmod 755 "$work"
# From other folders, too.
case $DARTER_KERNEL in darter | linux) ;; *) DARTER_KERNEL=$(readlink -f "$DARTER_KERNEL") ;; esac

# live ARG...: on this machine's files.
live() { run --timeout 60 --root host "$@" </dev/null; }

live -- cat /etc/os-release
expect 'the system' "$out" "$(cat /etc/os-release)"
live -- sh -c 'sed -n "1s/.* - \([a-z]*\) .*/\1/p" /proc/self/mountinfo; stat -c %d / | grep -c "^$(stat -c %d /proc)$"; readlink /proc/1/root
    stat -f -c %T /proc /dev/shm /run; cat /proc/sys/kernel/hostname; ls -d /lower /upper /new /.darter 2>&1 | grep -vc "cannot access"'
expect 'the mounts' "$out" "overlay
0
/
proc
tmpfs
tmpfs
darter
0"
if command -v bash >/dev/null; then
    live -- bash -c 'diff <(echo a; echo b) <(echo a; echo c); echo $?'
    expect 'substituted processes' "$out" '2c2
< b
---
> c
1'
fi

# What is changed here between two runs, and what is written there.
mkdir -p "$work/tree/kept" "$work/tree/folder"
echo first >"$work/tree/file"
echo kept >"$work/tree/kept/file"
ln -s file "$work/tree/link"
chmod 640 "$work/tree/file"
live -- cat "$work/tree/link"
expect 'a file' "$out" first
echo second >>"$work/tree/file"
listing() { (cd "$work/tree" && find . -exec stat -c '%n %f %s %i %Y %Z' {} + | LC_ALL=C sort; cat file kept/file); }
before=$(listing)
live -- sh -c "cd $work/tree || exit 1"'
    echo third >>file && mv kept moved && rm link && rmdir folder && mkdir -p new/a && echo x >new/a/b && chmod 600 moved/file && touch /etc/darter-was-here /darter-was-here &&
    cat file moved/file new/a/b && ls && ls /etc/darter-was-here /darter-was-here'
expect 'writing there' "$out $rc" "first
second
third
kept
x
file
moved
new
/darter-was-here
/etc/darter-was-here 0"
expect 'this machine afterwards' "$(listing; ls -d /etc/darter-was-here /darter-was-here 2>/dev/null)" "$before"

# What was read once is asked for no more: names, those that are missing, attributes, links, contents.
mkdir -p "$work/many"
for n in $(seq 20); do mkdir "$work/many/$n" && (cd "$work/many/$n" && seq 40 | split -l 1 - file && ln -s fileaa link); done
live -- sh -c 'look() { find "$0" -type f -exec cat {} + && ls -lR "$0" && cat "$0/missing" "$0/1/link"; }
    asked() { while read -r _ driver _ _ requests; do case $driver in 9p*) sum=$((sum + requests));; esac; done </proc/darter/virtio; echo "$sum"; }
    look >/run/first 2>&1; before=$(asked); look >/run/second 2>&1; after=$(asked)
    wc -l </run/first; cmp /run/first /run/second && echo "$((after - before)) requests"; [ "$before" -gt 800 ] || echo "only $before were counted"' "$work/many"
case $DARTER_KERNEL in linux) ;; *) expect 'what is asked for again' "$out" '1704
0 requests' ;; esac

# A file that was written just before the machine was started is not from its future.
for _ in 1 2 3 4; do
    touch "$work/now"
    live -- sh -c '[ "$(date +%s.%N)" \> "$(date -r "$0" +%s.%N)" ] && echo later || echo "$(date +%s.%N) is before $(date -r "$0" +%s.%N)"' "$work/now"
    case $DARTER_KERNEL in linux) ;; *) expect 'the time' "$out" later ;; esac
done

# Who, where, and with which environment.
cat >"$work/who" <<'SH'
id -u; id -g; id -G; pwd; umask; touch "made-$$"; stat -c '%u %g %a' "made-$$"; rm "made-$$"
echo "$HOME $PATH $LANG $COLOUR $BROKEN"; echo "[${DISPLAY-}${SSH_AUTH_SOCK-}${XDG_RUNTIME_DIR-}]"
SH
export COLOUR='sea
green' LANG=C.UTF-8 DISPLAY=:0 SSH_AUTH_SOCK=/run/agent XDG_RUNTIME_DIR=/run/user/0
BROKEN=$(printf 'a\377b')
export BROKEN
folder="$work/odd folder"
mkdir "$folder" && chmod 777 "$folder"
# who TREE COMMAND...: as COMMAND makes it, with another tree of darter's.
who() {
    tree=$PWD
    darter=$(readlink -f "$DARTER")
    (cd "$folder" && umask 027 && DARTER_ROOT=${1:-$tree} $2 "$darter" run --kernel "$DARTER_KERNEL" --timeout 60 --root host -- sh -c '. "$0"; echo out >/dev/stdout; echo err >/dev/stderr' "$work/who" </dev/null >"$work/out" 2>"$work/err")
    rc=$? out=$(cat "$work/out") err=$(cat "$work/err")
    wanted=$(cd "$folder" && umask 027 && env -u DISPLAY -u SSH_AUTH_SOCK -u XDG_RUNTIME_DIR $2 sh "$work/who" 2>/dev/null)
    expect "who ${2:-calls}" "$out" "$wanted
out"
    expect "what ${2:-who calls} says by another stream" "$err $rc" 'err 0'
}
who '' ''
if [ "$(id -u)" = 0 ] && setpriv --reuid 12345 --regid 2345 --groups 2345,77 test -x "$DARTER"; then
    # A tree whose cache another user may write.
    mkdir -p "$work/darter/.cache"
    ln -s "$PWD/target" "$work/darter/target"
    ln -s "$PWD/.cache/linux" "$work/darter/.cache/linux"
    mkdir "$work/darter/.cache/initramfs" "$work/darter/.cache/run" && chmod 777 "$work/darter/.cache/initramfs" "$work/darter/.cache/run"
    who "$work/darter" 'setpriv --reuid 12345 --regid 2345 --groups 2345,77'
fi
live -e COLOUR=red -e DISPLAY=:9 -- sh -c 'echo "$COLOUR $DISPLAY"'
expect '-e' "$out" 'red :9'

# A folder, its links and additions; the user is root there.
mkdir -p "$work/root/usr/bin" "$work/root/etc" "$work/root/srv"
ln -s usr/bin "$work/root/bin"
cp "$(command -v busybox)" "$work/root/usr/bin/busybox"
for name in sh cat ls mount; do ln -s busybox "$work/root/bin/$name"; done
echo mine >"$work/root/etc/motd"
echo 'int puts(const char *); int main(void) { puts("dynamic"); return 4; }' >"$work/hello.c"
gcc -o "$work/hello" "$work/hello.c" || exit 1
live --add "$work/hello:/opt/new/hello" -- /opt/new/hello
expect 'a program that is added' "$out $rc" 'dynamic 4'
echo added >"$work/added"
mkdir -p "$work/data/deep" && echo deep >"$work/data/deep/file"
run --timeout 60 --root "$work/root" --add "$work/added:/etc/motd" --add "$work/hello:/bin/hello" --add "$work/data:/srv" --share "$work/tree:/mnt/tree" \
    -- sh -c 'pwd; cat /etc/motd /srv/deep/file /mnt/tree/kept/file; hello; echo "$? $HOME $USER"; ls -d /tmp /proc/self/ /dev/null; echo x 2>/dev/null >/mnt/tree/file || echo read-only' </dev/null
expect 'a folder' "$out" '/
added
deep
kept
dynamic
4 /root root
/dev/null
/proc/self/
/tmp
read-only'
run --timeout 60 --root "$work/root" --user 77:88 -- sh -c 'echo x 2>/dev/null >/x || echo refused; echo x >/tmp/x; busybox stat -c "%u %g %a" /tmp/x; echo $HOME $USER' </dev/null
expect 'another user' "$out" 'refused
77 88 644
/ 77'
expect 'the folder afterwards' "$(cat "$work/root/etc/motd"; ls "$work/root" "$work/root/bin/")" "mine
$work/root:
bin
etc
srv
usr

$work/root/bin/:
busybox
cat
ls
mount
sh"
exit $status
