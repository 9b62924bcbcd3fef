#!/bin/sh
# time limit: 180
# A CPU that does not give way and a grace period that does not end are told of on the console, and darter run repeats it.
. tests/boot/common
case $DARTER_KERNEL in linux) skip 'the stalls are planted in Darter' ;; esac

says() { printf '%s\n' "$err" | grep -Eq "$1" || { echo "no such words: $1; stderr: $err"; status=1; }; }

run --cpus 2 --timeout 20 --append plant=stall -- true </dev/null
says '^stall: CPU 0 has not given way for 1[0-9]{3} ms, in thread$'
says '^CPU 0 was at 0x[0-9a-f]{16}  .*(plant|hold|relax)'
says '^stall: CPU 1 has not given way for 1[0-9]{3} ms, in thread$'
says 'waits for lock planted stall at kernel/src/sched/plant.rs:[0-9]+:[0-9]+, held by CPU 0 when the wait began$'
n=$(printf '%s\n' "$err" | grep -c '^stall: ')
expect 'stalls told of' "$n" 2

# Interrupts are off there: another CPU sees that no grace period ends, and asks by the interrupt that cannot be masked.
run --cpus 2 --timeout 30 --append plant=stall-masked -- sh -c 'while :; do true; /bin/true; done' </dev/null
says '^stall: grace period [0-9]+ does not end: CPU 1 holds it up$'
says '^CPU 1 was at 0x[0-9a-f]{16}'

# A CPU that waits for another's answer says for whose, and that one is asked where it is.
run --cpus 2 --timeout 20 --append plant=stall-call -- sh -c 'while :; do :; done' </dev/null
says '^stall: CPU 0 has not given way for 1[0-9]{3} ms, in thread$'
says '^  waits for CPU 1 to take up a call$'
says '^CPU 1 was at 0x[0-9a-f]{16}  .*(plant|mask|relax)'

# Nobody cries wolf where more CPUs run than the host has.
run --cpus 16 --timeout 100 -v -- sh -c 'for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do (i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done) & done; wait; echo done' </dev/null
expect 'the end of sixteen spinning shells' "$(printf '%s\n' "$out" | tail -1)" 'done'
case $err in *stall:*) echo "wolf: $err"; status=1 ;; esac
exit $status
