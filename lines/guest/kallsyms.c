/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * An /init that writes the kernel's own symbol table to the console. Debian's System.map is empty; with nokaslr the
 * addresses are those of every boot.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <unistd.h>

int main(void)
{
    static char block[1 << 16];
    mkdir("/dev", 0755);
    mkdir("/proc", 0755);
    mount("dev", "/dev", "devtmpfs", 0, 0);
    mount("proc", "/proc", "proc", 0, 0);
    int from = open("/proc/kallsyms", O_RDONLY), to = open("/dev/console", O_RDWR);
    for (ssize_t n; (n = read(from, block, sizeof block)) > 0;)
        for (ssize_t done = 0, w; done < n && (w = write(to, block + done, n - done)) > 0; done += w)
            ;
    reboot(RB_POWER_OFF);
    return 0;
}
