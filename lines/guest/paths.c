/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The plugin's own check of its instruction counts: an /init that runs the paths of measuring one after another, each
 * first to warm up, then n times and 2n times between markers. For each it prints its name and n; the windows come in
 * the same order, two for each line.
 */
#define _GNU_SOURCE
#include "markers.h"
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 2048, MIB = 1 << 20 };

static int file;
static char *touched;

static void fail(const char *what)
{
    perror(what);
    reboot(RB_POWER_OFF);
}

static char *map(size_t length, int flags, int fd)
{
    char *at = mmap(0, length, PROT_READ | (fd < 0 ? PROT_WRITE : 0), flags, fd, 0);
    if (at == MAP_FAILED)
        fail("mmap");
    return at;
}

/* n faults, in mappings of PAGES pages. */
static void zero_fill(long n)
{
    for (long done = 0; done < n; done += PAGES) {
        char *at = map(PAGES * PAGE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
        for (long page = 0; page < PAGES; page++)
            at[page * PAGE] = 1;
        munmap(at, PAGES * PAGE);
    }
}

/* n faults, never unmapped. */
static void zero_fill_only(long n)
{
    char *at = map(n * PAGE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    for (long page = 0; page < n; page++)
        at[page * PAGE] = 1;
}

/* n pages of a resident shared file read, in mappings of PAGES pages. */
static void file_read(long n)
{
    for (long done = 0; done < n; done += PAGES) {
        volatile char *at = map(PAGES * PAGE, MAP_SHARED, file);
        for (long page = 0; page < PAGES; page++)
            (void)at[page * PAGE];
        munmap((void *)at, PAGES * PAGE);
    }
}

static void fork_exit(long n)
{
    while (n--) {
        int status;
        pid_t child = fork();
        if (child == 0)
            _exit(0);
        if (child < 0 || waitpid(child, &status, 0) != child)
            fail("fork");
    }
}

static void vfork_exec(long n)
{
    while (n--) {
        int status;
        pid_t child = vfork();
        if (child == 0) {
            execl("/tiny", "tiny", (char *)0);
            _exit(127);
        }
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
            fail("exec");
    }
}

static void getppid_call(long n)
{
    while (n--)
        getppid();
}

static void run(const char *name, void (*path)(long), long n)
{
    static long window;
    WINDOWS_FOLLOW();
    path(n);
    path(n);
    WINDOW_OPEN(++window);
    path(n);
    WINDOW_CLOSE();
    WINDOW_OPEN(++window);
    path(2 * n);
    WINDOW_CLOSE();
    printf("path %s %ld\n", name, n);
    fflush(stdout);
}

int main(void)
{
    mkdir("/dev", 0755);
    mount("dev", "/dev", "devtmpfs", 0, 0);
    int console = open("/dev/console", O_RDWR);
    if (console >= 0) {
        dup2(console, 0);
        dup2(console, 1);
        dup2(console, 2);
    }
    cpu_set_t first;
    CPU_ZERO(&first);
    CPU_SET(0, &first);
    sched_setaffinity(0, sizeof first, &first);
    mkdir("/tmp", 0755);
    mount("tmp", "/tmp", "tmpfs", 0, 0);
    file = open("/tmp/file", O_RDWR | O_CREAT, 0600);
    char block[PAGE]; /* small: what this process has touched, fork copies */
    memset(block, 1, sizeof block);
    for (int i = 0; i < PAGES; i++)
        if (write(file, block, sizeof block) != (ssize_t)sizeof block)
            fail("write");
    sleep(20); /* the kernel's own work after boot ends */

    run("getppid", getppid_call, 1000);
    run("zero-fill", zero_fill, 4 * PAGES);
    run("file-read", file_read, 16 * PAGES);
    run("fork-exit", fork_exit, 100);
    run("vfork-exec", vfork_exec, 100);
    touched = map(32 * MIB, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    memset(touched, 1, 32 * MIB);
    run("fork-exit-32M", fork_exit, 20);
    run("zero-fill-only", zero_fill_only, 2 * PAGES);
    printf("done\n");
    reboot(RB_POWER_OFF);
    return 0;
}
