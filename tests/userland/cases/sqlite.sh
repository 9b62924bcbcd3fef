# sqlite3: four writers at once in write-ahead mode, and what is there afterwards.
# needs: sqlite3
mkdir -p /tmp/case && cd /tmp/case || exit
sqlite3 d 'pragma journal_mode=wal; create table t(w int, n int, unique(w, n));'
for w in 1 2 3 4; do
    (for n in $(seq 40); do echo "pragma busy_timeout=60000; begin immediate; insert into t values($w, $n); commit;"; done | sqlite3 d >/dev/null; echo "writer $?") &
done
wait
sqlite3 d 'select w, count(*), sum(n) from t group by w; pragma integrity_check; pragma wal_checkpoint(truncate);'
sqlite3 e "pragma page_size=8192; create table b(x blob); with recursive c(i) as (select 1 union all select i + 1 from c where i < 3000) insert into b select zeroblob(i % 500) from c; create index i on b(length(x)); select count(*), sum(length(x)) from b; vacuum; pragma integrity_check; pragma mmap_size=10000000; select max(length(x)) from b; .dump" | md5sum
