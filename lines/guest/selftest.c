/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The line detector's own test, as a program or as /init: a pinned thread on each CPU uses lines planted in known ways. For each it
 * prints `plant NAME ADDRESS`; the report must find each of them, and call it by what it is. `windows N` says how many windows there were.
 */
#define _GNU_SOURCE
#include "markers.h"
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX = 63, ROUNDS = 6, TIMES = 2000, PAGE = 4096, PAGES = 8 };

struct line {
    union {
        volatile unsigned long word[8];
        volatile unsigned char byte[64];
    };
} __attribute__((aligned(64)));

static struct line shared_counter, atomic_counter, false_sharing, read_mostly, lock, under_lock, own[MAX];
static int cpus;
/* Fresh memory, a page of each CPU in turn: to bring it in, all CPUs write one page table. */
static char *fresh;
static pthread_barrier_t ready, done;

static void take(void)
{
    while (__atomic_exchange_n(&lock.word[0], 1, __ATOMIC_ACQUIRE))
        sched_yield();
}

static void use(int cpu)
{
    for (int i = 0; i < PAGES; i++)
        fresh[(i * cpus + cpu) * PAGE] = 1;
    for (int i = 0; i < TIMES; i++) {
        shared_counter.word[0]++;
        __atomic_fetch_add(&atomic_counter.word[1], 1, __ATOMIC_RELAXED);
        false_sharing.byte[cpu]++;
        own[cpu].word[2]++;
        /* A locked instruction on a line of one's own: the case that one host thread for all CPUs gets wrong. */
        __atomic_fetch_add(&own[cpu].word[3], read_mostly.word[0], __ATOMIC_RELAXED);
        take();
        under_lock.word[4]++;
        __atomic_store_n(&lock.word[0], 0, __ATOMIC_RELEASE);
    }
}

static void *thread(void *argument)
{
    int cpu = (int)(long)argument;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set))
        perror("sched_setaffinity");
    for (int round = 0; round < ROUNDS; round++) {
        size_t size = (size_t)PAGES * cpus * PAGE;
        if (cpu == 0) {
            read_mostly.word[0]++;
            fresh = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (fresh == MAP_FAILED) {
                perror("mmap");
                exit(1);
            }
        }
        pthread_barrier_wait(&ready);
        WINDOW_OPEN(round + 1);
        use(cpu);
        WINDOW_CLOSE();
        pthread_barrier_wait(&done);
        if (cpu == 0)
            munmap(fresh, size);
    }
    return 0;
}

int main(void)
{
    pthread_t threads[MAX];
    if (getpid() == 1) {
        mkdir("/dev", 0755);
        mount("dev", "/dev", "devtmpfs", 0, 0);
        int console = open("/dev/console", O_RDWR);
        for (int fd = 0; console >= 0 && fd < 3; fd++)
            dup2(console, fd);
    }
    cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);
    if (cpus > MAX)
        cpus = MAX;
    pthread_barrier_init(&ready, 0, cpus);
    pthread_barrier_init(&done, 0, cpus);
    WINDOWS_FOLLOW();
    for (long cpu = 0; cpu < cpus; cpu++)
        if (pthread_create(&threads[cpu], 0, thread, (void *)cpu))
            perror("pthread_create");
    for (int cpu = 0; cpu < cpus; cpu++)
        pthread_join(threads[cpu], 0);
    printf("plant shared %lu\nplant atomic %lu\nplant false %lu\nplant read-mostly %lu\nplant lock %lu\nplant under-lock %lu\n",
           (long)&shared_counter, (long)&atomic_counter, (long)&false_sharing, (long)&read_mostly, (long)&lock,
           (long)&under_lock);
    for (int cpu = 0; cpu < cpus; cpu++)
        printf("plant own %lu\n", (long)&own[cpu]);
    printf("windows %d\n", ROUNDS);
    printf("done\n");
    fflush(stdout);
    if (getpid() == 1)
        reboot(RB_POWER_OFF);
    return 0;
}
