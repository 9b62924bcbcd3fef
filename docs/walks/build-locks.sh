#!/bin/sh
# Writes docs/build-locks.md: what a build waits for with one lock around the VM system, and without. Each command that stands there was run by this script, and what stands
# below it is what it printed; the pictures beside it too. Wants what `make builds-setup` fetches.
#
#   make walks        (this page: six minutes; CPUS, 8)
#
# Status: 0; 1 where a command fails, or lockstat does not name the lock: then the page stays as it was.
. "$(dirname -- "$0")/common"
build="--cpus $cpus -m 4G --root host -- sh bench/builds/build.sh nativekernel $cpus 1 kernel"
# The tables of lockstat, of each the first rows.
first='awk "/^-- /{ rows = 0 } /^-- /, 0 { if (rows++ < 12) print }"'

page() {
    cat <<END
# A build, and the locks it waits for

In 2017 NetBSD's kernel was built with 40 jobs under lockstat and in flame graphs: of the time that CPUs spun for mutexes, most was for one lock that page faults took. Here a part
of a C library (240 files, compiled by \`make -j$cpus\` with gcc, then archived and linked) is built on this machine's files, read through the live root: first with one lock around
the VM system (\`vm_token=1\`), then as Darter is.

Made by \`make walks\` on $(nproc) CPUs of the host, with $cpus virtual CPUs by emulation.

## With one lock

END
    ran 'cat' builds nativekernel --cpus "$cpus" --times --kernel darter,vm_token=1 -m 4G
    # shellcheck disable=SC2086
    ran "$first" lockstat --append vm_token=1 $build
    wants 'lockstat does not name the token' 'vm_token  *<all>'
    # shellcheck disable=SC2086
    ran 'tail -n 1' flame --append vm_token=1 -o docs/build-locks-before.svg $build
    cat <<END
![The build with one lock](build-locks-before.svg)

## Without it

END
    ran 'cat' builds nativekernel --cpus "$cpus" --times -m 4G
    # shellcheck disable=SC2086
    ran "$first" lockstat $build
    # shellcheck disable=SC2086
    ran 'tail -n 1' flame -o docs/build-locks-after.svg $build
    cat <<'END'
![The build without it](build-locks-after.svg)
END
}

make_page docs/build-locks.md
