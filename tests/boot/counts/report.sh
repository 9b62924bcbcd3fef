#!/bin/sh
# time limit: 120
# One page of a real run with a point for each run; the same figures before and after are no worse, and a rate that was twice as high before is.
. tests/boot/common
"$DARTER" bench getppid --cpus 1,2 --runs 2 --seconds 0.1 --kernel "$DARTER_KERNEL" --report "$work/page.html" --json "$work/json" >"$work/out" 2>&1
expect status $? 0
expect points "$(grep -o '<circle' "$work/page.html" | wc -l)" 4
expect 'parts that are missing' "$(grep -o 'Not measured' "$work/page.html" | wc -l)" 6
grep -q 'bench getppid .* --with lines' "$work/page.html" || { echo 'no command for the missing lines'; status=1; }
# A digit before each rate.
sed 's/"rate": /"rate": 1/' "$work/json" >"$work/faster"
compare() { "$DARTER" bench --from "$work/json" --compare "$@" >"$work/out" 2>&1; }
compare "$work/json"
expect 'status beside itself' $? 0
compare "$work/faster"
expect 'status beside a faster one' $? 1
grep -q WORSE "$work/out" || { echo 'nothing is said to be worse'; status=1; }
compare "$work/faster" --threshold 100
expect 'status with a threshold that nothing reaches' $? 0
compare vm_tokens
expect 'status beside what is neither a file nor a revision' $? 2
exit $status
