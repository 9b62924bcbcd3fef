#!/bin/sh
# How deep the kernel's stack gets under programs that ask much of it: the lockdep kernel measures it at each return to user mode, and panics above
# three quarters (kernel/src/sched/depth.rs). Prints the deepest, and shows that a call that goes too deep is found.
. tests/boot/common
case $DARTER_KERNEL in *lockdep*) ;; *) skip 'this kernel does not measure its stack (make lockdep-test)' ;; esac
set --
script='cd /tmp'
for name in process exec memory files threads epoll; do
    set -- "$@" --add "$TARGET/tests/abi/$name:/abi/$name"
    script="$script; /abi/$name >/dev/null"
done
run --cpus 4 --memory 1G --timeout 100 "$@" -- sh -c "$script; cat /proc/darter/stack" </dev/null
expect status "$rc" 0
out=$(printf '%s\n' "$out" | sed 1q; printf '%s\n' "$out" | sed 1d | sort -rn)
printf '%s\n' "$out" | head -8
printf '%s\n' "$out" | awk 'NR == 1 { size = $3 } NR == 2 { exit !($1 > 1024 && $1 <= size * 3 / 4) }' ||
    { echo "no such figures"; status=1; }
run --boot-timeout 30 --append plant=deep-stack -- true </dev/null
expect 'status with a planted call that goes too deep' "$rc" 125
printf '%s\n' "$err" | grep -q "used [0-9]* bytes of the kernel's stack; 12288 are allowed" || { echo "no such message: $err"; status=1; }
exit $status
