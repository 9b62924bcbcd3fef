#!/bin/sh
# time limit: 240
# Virtio consoles: /dev/hvc0 is a terminal (what is typed, what is shown, signals, hang-up), console=hvc0 makes it /dev/console with the kernel's messages, and
# a console of which nobody takes the output stops its writers and nobody else. With PCI and without.
. tests/boot/common
[ "$DARTER_KERNEL" = linux ] && skip "what is compared are files of this machine that the serial port has, too"

# run_with_console WORD... -- COMMAND: what is typed is in $work/typed, what is shown in $work/shown.
console() {
    device=$1
    shift
    : >"$work/shown"
    run --timeout 60 --qemu-arg=-device --qemu-arg="$device" \
        --qemu-arg=-chardev --qemu-arg="file,id=hvc,path=$work/shown,input-path=$work/typed" \
        --qemu-arg=-device --qemu-arg=virtconsole,chardev=hvc "$@" </dev/null
}
shown() { tr -d '\r' <"$work/shown"; }
pci=virtio-serial-pci,disable-legacy=on

# terminal DEVICE OPTION...
terminal() {
    device=$1
    shift
    # A line, a ^C for the job that reads, and more than the guest reads.
    { printf 'first line\n\003'; seq 1 200; } >"$work/typed"
    console "$device" "$@" -- sh -c '
        exec 3<>/dev/hvc0
        stty -echo <&3
        sleep 1
        read line <&3; echo "$line"
        ls -l /dev/hvc0 | cut -d " " -f 1; cut -d " " -f 2 /proc/devices | grep hvc
        seq 1 20000 >&3
        printf "raw\n" >&3
        stty -opost <&3; printf "a\nb\n" >&3
        sleep 0.2' </dev/null
    expect "status with $device" "$rc" 0
    # What is typed before somebody turns the echo off is shown, too.
    case $out in *crw-rw----*hvc*) ;; *) echo "what the guest says with $device: $out"; status=1 ;; esac
    expect "what is shown with $device" "$(shown | tail -n 20003 | md5sum)" "$({ seq 1 20000; printf 'raw\na\nb\n'; } | md5sum)"
    grep -q "$(printf 'raw\r')" "$work/shown" || { echo "no carriage return before a newline"; status=1; }
    [ "$(tail -n 2 "$work/shown" | tr -cd '\r' | wc -c)" -eq 0 ] || { echo "a carriage return without OPOST"; status=1; }
}
for cpus in 1 2 4; do
    terminal "$pci" --cpus $cpus
done
terminal virtio-serial-device,bus=virtio-mmio-bus.1 --cpus 2 --machine microvm \
    --append "virtio_mmio.device=512@0xfeb00200:25" --qemu-arg=-global --qemu-arg=virtio-mmio.force-legacy=false

# What is typed: lines one after the other, and an end (^D).
printf 'one\ntwo\n\004three\n' >"$work/typed"
console "$pci" -- sh -c 'stty -echo </dev/hvc0; cat /dev/hvc0; echo end; head -n 1 /dev/hvc0'
expect "lines and an end" "$out" "one
two
end
three"

# Job control: ^C is for who is in the foreground there, and vhangup's like (the leader's end) cuts off who has it open; opened again it works.
mkfifo "$work/keys.in" "$work/keys.out"
exec 6<>"$work/keys.in" 5<>"$work/keys.out"
start --timeout 60 --cpus 2 --qemu-arg=-device --qemu-arg="$pci" --qemu-arg=-chardev --qemu-arg="pipe,id=hvc,path=$work/keys" \
    --qemu-arg=-device --qemu-arg=virtconsole,chardev=hvc -- sh -c '
    exec 3>&1
    setsid sh -c "exec <>/dev/hvc0 >&0 2>&0 4<>/dev/hvc0
        trap \"echo interrupted >&3; exit 5\" INT
        echo waiting >&3; while :; do sleep 0.1; done"
    echo "status $?"
    exec 4<>/dev/hvc0; echo again >&4 && echo open'
wait_for waiting && printf '\003' >&6
finish
expect "who is interrupted" "$out" "waiting
interrupted
status 5
open"
exec 5>&- 6>&-

# The kernel's messages, and /dev/console.
: >"$work/typed"
console "$pci" --append "console=hvc0 loglevel=7" -- sh -c 'echo from a program >/dev/console; echo "<4>a message" >/dev/kmsg; sleep 1'
expect "status with console=hvc0" "$rc" 0
for line in 'Darter .* CPUs' '^from a program$' '^a message$'; do
    shown | grep -q "$line" || { echo "'$line' is not on the console: $(shown)"; status=1; }
done
# A console that is not there: the serial port stays.
run --append console=hvc3 -- sh -c 'echo to the port >/dev/console; echo done' </dev/null
expect "a console that is not there" "$rc $out" "0 done"
# The same where it is not named: it shows nothing by itself.
console "$pci" -- true
expect "a console that is not named" "$(shown)" ""

# Nobody takes what is shown (a pipe that nobody reads): who writes waits, can be killed, and others go on.
mkfifo "$work/full.in" "$work/full.out"
exec 7<>"$work/full.out"
run --timeout 60 --qemu-arg=-device --qemu-arg="$pci" --qemu-arg=-chardev --qemu-arg="pipe,id=hvc,path=$work/full" \
    --qemu-arg=-device --qemu-arg=virtconsole,chardev=hvc --cpus 2 -- sh -c '
    (seq 1 100000 >/dev/hvc0; echo all) & writer=$!
    (seq 1 100000 >/dev/hvc0) & other=$!
    sleep 2
    kill -0 $writer && kill -0 $other && echo both wait
    pkill -9 seq; wait $writer $other; echo ended' </dev/null
expect "who writes where nobody takes it" "$out" "both wait
all
ended"
exec 7>&-
exit $status
