# tar with gzip, xz and zstd.
# needs: tar gzip xz zstd
mkdir -p /tmp/case && cd /tmp/case || exit
cp -a /usr/include/linux tree; ln -s x tree/link; mkfifo tree/pipe; chmod 1700 tree/can 2>/dev/null
for z in gz xz zst; do
    tar -caf t.tar.$z --sort=name --mtime=@0 tree && mkdir out.$z && tar -xaf t.tar.$z -C out.$z && tar -taf t.tar.$z | wc -l
    diff -r --no-dereference tree out.$z/tree 2>&1 | grep -v fifo; echo "$z $?"
done
tar -c --sort=name --mtime=@0 tree | md5sum
xz -T4 -k t.tar.gz && xz -dc t.tar.gz.xz | cmp - t.tar.gz && echo equal
zstd -q -T4 -19 t.tar.gz -o t2.zst && zstd -dqc t2.zst | cmp - t.tar.gz && echo equal
