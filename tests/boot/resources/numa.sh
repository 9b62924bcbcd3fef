#!/bin/sh
# time limit: 400
# Four NUMA nodes: memory comes from where policies say, pages go where they are moved, and numastat counts what was interleaved. Both kernels print the same.
. tests/boot/common
build tests tests
counts='for node in 0 1 2 3; do grep interleave_hit /sys/devices/system/node/node$node/numastat; done'
run --sockets 4 --cpus 4 --memory 2G --add "$TARGET/tests/abi/tools/numa:/abi/numa" -- \
    sh -c "$counts; /abi/numa; echo ended \$?; $counts" </dev/null
expect status "$rc" 0
grep -v interleave_hit "$work/out" >"$work/told"
diff tests/boot/resources/numa.wanted "$work/told" || status=1
# 24 pages of each of the tasks that interleave over all four, and more of those over some.
grep interleave_hit "$work/out" | awk '{ hits[NR] = $2 }
    END { for (n = 1; n <= 4; n++) if (hits[n + 4] - hits[n] < 12) { print "node " n - 1 ": " hits[n] " to " hits[n + 4]; exit 1 } }' || status=1
# Nodes weigh what they are told to.
weights=/sys/kernel/mm/mempolicy/weighted_interleave
run --sockets 2 --cpus 2 --memory 1G -- \
    sh -c "cat $weights/node*; for w in 3 0x10 010 256 -1 x +5 '' 2; do echo \$w >$weights/node1; cat $weights/node1; done 2>&1 | grep -v -e node1 -e sh:" </dev/null
expect weights "$(echo $out)" '1 1 3 16 8 8 8 8 5 1 2'
exit $status
