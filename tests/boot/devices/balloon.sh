#!/bin/sh
# time limit: 600
# The balloon: what the guest frees goes back to this machine; the guest gets smaller and larger as the host wants, a hundred times while programs use
# memory, and nobody loses a byte or is killed; it stops at what programs need; with deflate-on-oom it makes room for a program. With PCI and without.
. tests/boot/common
[ "$DARTER_KERNEL" = linux ] && skip "the compared Linux has no driver for balloons built in"
build tests tests
keeper=$TARGET/tests/abi/tools/keeper

# machine OPTION... -- COMMAND: a machine in the background with a monitor, whose answers are in $work/said, and standard input from descriptor 8.
machine() {
    rm -f "$work/monitor.in" "$work/monitor.out" "$work/input"
    mkfifo "$work/monitor.in" "$work/monitor.out" "$work/input"
    "$DARTER" run --kernel "$DARTER_KERNEL" --timeout 300 --add "$keeper:/keeper" \
        --qemu-arg=-chardev --qemu-arg="pipe,id=monitor,path=$work/monitor" \
        --qemu-arg=-mon --qemu-arg=chardev=monitor,mode=readline \
        "$@" >"$work/out" 2>"$work/err" <"$work/input" &
    pid=$!
    exec 8>"$work/input" 9<>"$work/monitor.in" 7<>"$work/monitor.out"
    : >"$work/said"
    cat <&7 >"$work/said" 8>&- 9>&- &
    listener=$!
}

# over: the guest's input ends, and it ends.
over() {
    exec 8>&-
    finish
    kill "$listener" 2>/dev/null
    wait "$listener" 2>/dev/null
    exec 7>&- 9>&-
}

# size: what the balloon leaves of the machine, MiB.
size() {
    : >"$work/said"
    printf 'info balloon\n' >&9
    for _ in $(seq 100); do
        got=$(tr -d '\r' <"$work/said" | sed -n 's/.*balloon: actual=\([0-9]*\).*/\1/p' | tail -1)
        [ -n "$got" ] && break
        sleep 0.05
    done
    echo "$got"
}

# becomes MIB: the host wants the machine to have so much, and gets it.
becomes() {
    printf 'balloon %s\n' "$1" >&9
    for _ in $(seq 200); do
        [ "$(size)" = "$1" ] && return 0
        sleep 0.05
    done
    echo "the machine has $(size) MiB where the host wants $1"
    status=1
    return 1
}

# resident: memory that QEMU has of this machine, MiB.
resident() {
    for folder in /proc/[0-9]*; do
        if grep -q "^PPid:[[:space:]]*$pid\$" "$folder/status" 2>/dev/null && grep -q '^Name:.*qemu' "$folder/status"; then
            awk '/^VmRSS/ { print int($2 / 1024) }' "$folder/status"
        fi
    done
}

# frees OPTION...: a program takes 400 MiB and ends. Two thirds of what this machine gave for it come back within 20 s.
frees() {
    machine --memory 1G "$@" -- sh -c 'sleep 1; echo small; dd if=/dev/zero of=/dev/null bs=400M count=1 2>/dev/null; echo large; cat'
    wait_for small
    small=$(resident)
    wait_for large
    large=$(resident)
    for _ in $(seq 80); do
        now=$(resident)
        [ $((3 * (large - now))) -ge $((2 * (large - small))) ] && break
        sleep 0.25
    done
    [ $((large - small)) -ge 300 ] || { echo "the program took no memory: $small, $large MiB"; status=1; }
    [ $((3 * (large - now))) -ge $((2 * (large - small))) ] || { echo "memory stays: $small, $large, $now MiB with $*"; status=1; }
    over
    expect "status with $*" "$rc" 0
}

# sizes CPUS TIMES OPTION...: programs use 60 MiB of 256 while the host takes 96 and gives them back so often.
sizes() {
    cpus=$1 times=$2
    shift 2
    machine --cpus "$cpus" --memory 256M "$@" -- sh -c '
        total() { sed -n "s/^MemTotal: *\([0-9]*\) kB/\1/p" /proc/meminfo; }
        free() { sed -n "s/^MemFree: *\([0-9]*\) kB/\1/p" /proc/meminfo; }
        before=$(total) free=$(free)
        echo begun
        until [ $((before - $(total))) -eq 98304 ]; do sleep 0.1; done
        echo smaller
        until [ "$(total)" -eq "$before" ]; do sleep 0.1; done
        echo larger
        /keeper 2 30
        sleep 1
        [ $((free - $(free))) -lt 4096 ] || echo "MemFree was $free, is $(free)"
        dmesg | grep -E "out of memory|broken"'
    wait_for begun
    becomes 160
    wait_for smaller
    becomes 256
    wait_for larger
    done=0
    while [ $done -lt "$times" ] && becomes 160 && becomes 256; do
        done=$((done + 1))
    done
    over
    expect "what it says with $cpus CPUs $*" "$out" "begun
smaller
larger
kept"
}

# stops CPUS: the host wants all but a MiB, and the guest stays alive.
stops() {
    machine --cpus "$1" --memory 256M -- sh -c 'echo begun; cat; ls -d /proc/self; dmesg | grep -E "out of memory|broken"'
    wait_for begun
    printf 'balloon 1\n' >&9
    sleep 3
    left=$(size)
    [ "$left" -ge 16 ] && [ "$left" -le 96 ] || { echo "the machine has $left MiB left"; status=1; }
    becomes 256
    over
    expect "what it says where all is wanted" "$out" "begun
/proc/self"
}

# room DEFLATES COMMAND: 96 MiB of 256 are left, and a program wants more.
room() {
    machine --memory 256M --qemu-arg=-global --qemu-arg="virtio-balloon-device.deflate-on-oom=$1" -- sh -c '
        sed -n "s/^MemTotal: *\([0-9]*\) kB/\1/p" /proc/meminfo >/before
        echo begun; cat; sed -n "s/^MemTotal: *\([0-9]*\) kB/\1/p" /proc/meminfo | cmp -s - /before && echo same
        '"$2"' 2>/dev/null; echo $?'
    wait_for begun
    becomes 96
    over
}

frees --cpus 2
frees --cpus 4 --machine microvm
sizes 1 20
sizes 2 100
sizes 4 20
sizes 2 10 --machine microvm
stops 2
at_once='dd if=/dev/zero of=/dev/null bs=150M count=1'
bit_by_bit="awk 'BEGIN { while (n < 150) held[n++] = sprintf(\"%1048576s\", \"\") }'"
room on "$at_once"
expect "a program that needs what the balloon has" "$out" "begun
same
0"
# One mapping that is larger than the machine is now is refused (vm.overcommit_memory is 0).
room off "$at_once"
expect "the same without deflate-on-oom" "$out" "begun
1"
room off "$bit_by_bit"
expect "bit by bit" "$out" "begun
137"
exit $status
