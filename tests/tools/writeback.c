/*
 * Writes a file of the host's by several processes at once, through mappings and by write(2); boot/devices/writeback.sh compares it on the host.
 *   writeback write FILE     PROCESSES processes write it; what each sees is checked
 *   writeback wanted FILE    what it is then, written plainly
 *   writeback synced FILE    writes, has it synced by each way, says so, and goes on writing what nobody promised
 *   writeback large FILE     writes LARGE bytes by calls that end anywhere in a page, of which each eight tell their place; in integers, since floating point
 *                            takes a translated machine minutes
 */
#include "t.h"
#include <sys/wait.h>

/* A program of many checks says only which one failed. */
#define MUST(is_so) ((is_so) ? (void)0 : (printf("line %d: not %s: %s\n", __LINE__, #is_so, strerror(errno)), exit(1)))

#define PAGE 4096
#define PAGES 600
#define PROCESSES 4
#define ROUNDS 8
#define BY_CALL 2048 /* from this byte of each page on */
#define LARGE 150000000

static unsigned value(unsigned page, unsigned who, unsigned round)
{
    return page * 1000003u + who * 101u + round;
}

static void fill(unsigned char *half, unsigned page, unsigned round)
{
    for (unsigned at = 0; at < PAGE - BY_CALL; at++)
        half[at] = (unsigned char)(value(page, 77, round) + at);
}

static void map_and_write(const char *path, unsigned who)
{
    int fd = open(path, O_RDWR);
    MUST(fd >= 0);
    unsigned char *at = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    MUST(at != MAP_FAILED);
    if (who % 2)
        close(fd);
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned page = 0; page < PAGES; page++) {
            volatile unsigned *word = (volatile unsigned *)(at + page * PAGE) + who;
            MUST(round == 0 || *word == value(page, who, round - 1));
            *word = value(page, who, round);
        }
        if (who == 0)
            MUST(msync(at, PAGES * PAGE, MS_SYNC) == 0);
        if (who == 2)
            MUST(fsync(fd) == 0);
    }
    MUST(munmap(at, PAGES * PAGE) == 0);
    _exit(0);
}

static void call_and_write(const char *path)
{
    unsigned char half[PAGE - BY_CALL], back[PAGE - BY_CALL];
    int fd = open(path, O_RDWR);
    for (unsigned round = 0; round < ROUNDS; round++)
        for (unsigned page = 0; page < PAGES; page++) {
            off_t place = (off_t)page * PAGE + BY_CALL;
            fill(half, page, round);
            MUST(pwrite(fd, half, sizeof half, place) == (ssize_t)sizeof half);
            MUST(pread(fd, back, sizeof back, place) == (ssize_t)sizeof back && memcmp(half, back, sizeof half) == 0);
        }
    _exit(0);
}

static void write_all(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    MUST(fd >= 0 && ftruncate(fd, PAGES * PAGE) == 0);
    close(fd);
    for (unsigned who = 0; who <= PROCESSES; who++) {
        pid_t child = fork();
        if (child == 0 && who < PROCESSES)
            map_and_write(path, who);
        if (child == 0)
            call_and_write(path);
        MUST(child > 0);
    }
    int status;
    while (wait(&status) > 0)
        MUST(status == 0);
}

static void wanted(const char *path)
{
    static unsigned char bytes[PAGES][PAGE];
    for (unsigned page = 0; page < PAGES; page++) {
        for (unsigned who = 0; who < PROCESSES; who++)
            ((unsigned *)bytes[page])[who] = value(page, who, ROUNDS - 1);
        fill(bytes[page] + BY_CALL, page, ROUNDS - 1);
    }
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    MUST(write(fd, bytes, sizeof bytes) == (ssize_t)sizeof bytes);
    close(fd);
}

static void large(const char *path)
{
    static uint64_t words[625];
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    MUST(fd >= 0);
    for (size_t at = 0; at < LARGE; at += sizeof words) {
        for (size_t n = 0; n < sizeof words / sizeof *words; n++)
            words[n] = (at + 8 * n) * 0x9e3779b97f4a7c15;
        MUST(write(fd, words, sizeof words) == sizeof words);
    }
    MUST(close(fd) == 0);
}

/* Bytes of each file that are promised: the first half. */
static void synced(const char *path)
{
    char name[300];
    for (int way = 0; way < 4; way++) {
        snprintf(name, sizeof name, "%s.%d", path, way);
        int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
        MUST(fd >= 0 && ftruncate(fd, 200000) == 0);
        char *at = mmap(NULL, 200000, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        MUST(at != MAP_FAILED);
        memset(at, 'm', 50000);
        char some[50000];
        memset(some, 'w', sizeof some);
        MUST(pwrite(fd, some, sizeof some, 50000) == sizeof some);
        MUST((way == 0   ? fsync(fd)
               : way == 1 ? fdatasync(fd)
               : way == 2 ? msync(at, 200000, MS_SYNC)
                          : syncfs(fd)) == 0);
    }
    write(1, "synced\n", 7);
    int fd = open(name, O_RDWR);
    char *at = mmap(NULL, 200000, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    for (;;)
        memset(at + 100000, 'x', 100000);
}

int main(int argc, char **argv)
{
    MUST(argc == 3);
    if (!strcmp(argv[1], "write"))
        write_all(argv[2]);
    else if (!strcmp(argv[1], "wanted"))
        wanted(argv[2]);
    else if (!strcmp(argv[1], "large"))
        large(argv[2]);
    else
        synced(argv[2]);
    return 0;
}
