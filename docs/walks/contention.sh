#!/bin/sh
# Writes docs/contention.md: how a contended lock is found, seen and mended. Each command that stands there was run by this script, and what stands below it is what it
# printed; the pictures beside it too. The lock is `vm_token` (DESIGN.md, "One lock around the VM system").
#
#   make walks        (this page: two minutes; CPUS, 8)
#
# Status: 0; 1 where a command fails, or the tools do not name the lock: then the page stays as it was.
. "$(dirname -- "$0")/common"

page() {
    cat <<END
# A contended lock: found, seen, mended

In 2011 DragonFly BSD's page faults ran under one lock, the vm_token. More CPUs made a program slower, and what they waited for was found with \`systat -pv\`: a line for
each CPU, how often it had collided, and with whom. In 2017 NetBSD's builds were sped up by what lockstat and flame graphs showed. This page goes that way with Darter's own
tools. Darter has no such lock; \`vm_token=1\` on its command line puts one around the VM system again.

Made by \`make walks\` on $(nproc) CPUs of the host, with $cpus virtual CPUs by emulation: with more virtual CPUs than real ones a holder of a lock is preempted now and then.

## 1. More CPUs, less work

Each task maps memory of its own, touches each page, and unmaps it. They share nothing.

END
    ran 'grep "^|\|CPU"' bench faultzf --kernel darter,vm_token=1 --cpus "1,$cpus" --runs 3 --seconds 0.5
    cat <<'END'
## 2. Who waits: `darter top`

`scol` counts how often the CPU found a lock taken in a second; `label` is the last such lock (and, where there is room, the place in the source that asked for it). A terminal shows the same, refreshed, with
keys to sort and filter.

END
    ran "$second" top --append vm_token=1 --cpus "$cpus" -- faultzf "$cpus" -q -s 4
    wants 'top does not name the token' vm_token
    cat <<'END'
All CPUs collide, and with the same lock.

## 3. How long, and who asks: `darter lockstat`

NetBSD's layout. Those who sleep first spin for a while; the last table has the locks that were waited for at all.

END
    ran 'sed -n "/^-- Spinning/,\$p"' lockstat --append vm_token=1 --cpus "$cpus" -- faultzf "$cpus" -q -s 3
    wants 'lockstat does not name the token' 'vm_token  *<all>'
    wants 'lockstat does not name a fault' 'vm_token  *vm/src/op/fault.rs'
    cat <<'END'
Nearly all of it is the page fault.

## 4. Which cache lines move: `darter lines`

Even who gets the lock without waiting takes its cache line from another CPU. The line is named by the variable on it; below stand those who wrote it, and from whom they took it.

END
    ran 'sed -n "/^$/,\$p" | sed -n "2,4p"' lines faultzf --append vm_token=1 --cpus 2
    wants 'lines does not name the token' 'vm::token::TOKEN'
    cat <<'END'
## 5. Where the time goes: `darter flame`

END
    ran 'cat' flame --append vm_token=1 --cpus "$cpus" -o docs/contention-before.svg -- faultzf "$cpus" -q -s 3
    cat <<'END'
![With the token: the fault spins, sleeps and wakes others](contention-before.svg)

## 6. Mended

The lock goes: without the word on the command line nobody takes it. The same commands:

END
    ran "$second" top --cpus "$cpus" -- faultzf "$cpus" -q -s 4
    ran 'sed -n "/^-- /,\$p"' lockstat --cpus "$cpus" -- faultzf "$cpus" -q -s 3
    ran 'head -n 1' lines faultzf --cpus 2
    ran 'cat' flame --cpus "$cpus" -o docs/contention-after.svg -- faultzf "$cpus" -q -s 3
    cat <<'END'
![Without it: clearing the page, and entering and leaving the kernel](contention-after.svg)

While the tasks run nobody collides. lockstat, which counts their beginning and end too, has a few waits: as a rule for somebody whose virtual CPU the host had put aside, so
they are long. Before and after:

END
    ran 'sed -n "/^before/,\$p"' bench faultzf doexec faultfile --cpus "$cpus" --runs 3 --seconds 0.5 --compare vm_token
}

make_page docs/contention.md
