#!/bin/sh
# A folder or a tar archive as the root, and programs added with all that they need.
. tests/boot/common
mkdir -p "$work/root/bin" "$work/root/etc"
cp "$(command -v busybox)" "$work/root/bin/busybox"
ln -s busybox "$work/root/bin/sh"
ln -s busybox "$work/root/bin/cat"
echo 'of the folder' >"$work/root/etc/motd"
run --root "$work/root" -- cat /etc/motd </dev/null
expect folder "$out" 'of the folder'
tar -C "$work/root" -czf "$work/root.tar.gz" .
run --root "$work/root.tar.gz" -- sh -c 'cat /etc/motd' </dev/null
expect archive "$out" 'of the folder'
# A dynamic program brings its interpreter and libraries along.
echo 'int puts(const char *); int main(void) { puts("dynamic"); return 4; }' >"$work/hello.c"
gcc -o "$work/hello" "$work/hello.c" || exit 1
run --add "$work/hello:/usr/bin/hello" -- hello </dev/null
expect 'dynamic program' "$out $rc" 'dynamic 4'
mkdir "$work/data"
echo inside >"$work/data/file"
run --add "$work/data:/srv/data" -- cat /srv/data/file </dev/null
expect 'added folder' "$out" inside
# A folder that stays here.
run --share "$work/data:/srv/data" -- sh -c 'cat /srv/data/file; echo x 2>/dev/null >/srv/data/new || echo read-only' </dev/null
expect 'shared folder' "$out" 'inside
read-only'
exit $status
