#!/bin/sh
# time limit: 300
# The audit of memory finds what is lost, whatever it is, and finds nothing where nothing is: after thirty programs of many kinds, one after the other.
. tests/boot/common
case $DARTER_KERNEL in *lockdep*) ;; *) skip 'this kernel has no audit (make lockdep-test)' ;; esac

planted() {
    run --boot-timeout 60 --memory 256M --cpus 2 --append "plant=$1" -- true </dev/null
    expect "status with $1" "$rc" 125
    printf '%s\n' "$err" | grep -q "audit: $2" || { echo "no such message with $1: $err"; status=1; }
}
planted lost-object 'nothing refers to an object (heap-128, 0x[0-9a-f]*): 1 instead of 0'
planted lost-block 'nothing refers to an object (heap block, 0x[0-9a-f]*): 1 instead of 0'
planted lost-frame 'references to a page, more than own it (program page, 0x[0-9a-f]*): 1 instead of 0'
planted lost-reference 'references to a page, more than own it (program page, 0x[0-9a-f]*): 9 instead of '
planted lost-charge 'a user without processes has (pipe-pages, 0x10e1): 3 instead of 0'
planted lost-file 'files that count as open (file, 0x0): '

run --memory 512M --cpus 4 -- sh -c '
    mkdir /tmp/a
    for n in $(seq 30); do
        case $((n % 10)) in
            0) (sleep 0.01 & sleep 0.01 & wait) ;;
            1) seq 2000 | sort -r | tail -n 1 >/dev/null ;;
            2) mkdir -p /tmp/a/b/c/d && echo x >/tmp/a/b/c/d/e && mv /tmp/a/b /tmp/a/f && rm -r /tmp/a/f ;;
            3) mkfifo /tmp/a/p && (echo x >/tmp/a/p & cat /tmp/a/p >/dev/null; wait) && rm /tmp/a/p ;;
            4) dd if=/dev/zero of=/tmp/a/z bs=64k count=20 2>/dev/null && rm /tmp/a/z ;;
            5) (sleep 5 & kill -9 $!; wait) 2>/dev/null ;;
            6) mount -t tmpfs none /tmp/a && echo y >/tmp/a/y && umount /tmp/a ;;
            7) find /proc -maxdepth 2 >/dev/null 2>&1 ;;
            8) ln -s /etc /tmp/a/l && ls /tmp/a/l/ >/dev/null; rm /tmp/a/l ;;
            9) awk "BEGIN { for (i = 0; i < 3000; i++) a[i] = i \"x\" }" ;;
        esac
        cat /proc/darter/audit || exit
    done
    echo audited' </dev/null
expect 'audits' "$rc:$out" '0:audited'
[ "$rc" = 0 ] || printf '%s\n' "$err" | grep -v '^  0x' | tail -n 12
exit $status
