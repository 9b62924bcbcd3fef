#!/bin/sh
# time limit: 240
# With one lock around the VM system (vm_token=1) lockstat names it as the first entry, with who waits for it; without it the same load waits for
# fewer than a hundredth: where its tasks are made and end, and share what their parent had.
. tests/boot/common
case $DARTER_KERNEL in linux) skip 'only Darter has that switch' ;; esac

# measured NAME WORD ARG...: eight tasks of a benchmark, with that word on the command line; leaves the report in $work/NAME.
measured() {
    name=$1 word=$2
    shift 2
    "$DARTER" lockstat --kernel "$DARTER_KERNEL" --append "$word" --cpus 8 --timeout 100 -o "$work/$name" -- "$@" >"$work/out" 2>&1 </dev/null
    expect "status of $name" $? 0
}

measured with vm_token=1 faultzf 8 -q -s 2
measured without vm_token=0 faultzf 8 -q -s 2
cat "$work/with"
# The locks of all callers in the order of what was waited for them: section, lock, caller.
rows() { awk '/^-- / { kind = $2 } $1 ~ /^[0-9.]+$/ && NF >= 7 { print kind, $(NF - 1), $NF }' "$1"; }
# The first row is the sum of all locks.
expect 'the first lock that is waited for' "$(rows "$work/with" | awk '$1 == "Sleeping" && $2 != "<all>" { print $2, $3; exit }')" 'vm_token <all>'
rows "$work/with" | grep -q '^Sleeping vm_token vm/src/op/fault.rs' || { echo 'no fault is named among its callers'; status=1; }
# Waits of all callers, by section.
waits() { awk '/^-- Acq/ { exit } NF >= 7 && $(NF - 1) == "<all>" && $NF == "<all>" { sum += $2 } END { print sum + 0 }' "$1"; }
echo "waits: $(waits "$work/with") with it, $(waits "$work/without") without"
[ $(($(waits "$work/without") * 100)) -lt "$(waits "$work/with")" ] || { echo 'there are as many waits without the token'; status=1; }
exit $status
