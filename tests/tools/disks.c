/*
 * What system calls make of disks: /dev/vda, 1 MiB, may be written; /dev/vdb, 64 KiB, is read-only. Prints what it sees, as a program of abi/ does.
 */
#include "t.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>

/* Those of Linux that musl does not have. */
#define BLKDISCARD _IO(0x12, 119)
#define BLKPBSZGET _IO(0x12, 123)
#define BLKDISCARDZEROES _IO(0x12, 124)
#define BLKZEROOUT _IO(0x12, 127)

#define SIZE (1 << 20)
#define SMALL (64 << 10)

static char buffer[8192] __attribute__((aligned(4096)));

/* Are all `len` bytes at `at` this one? */
static int all(int fd, off_t at, size_t len, char byte)
{
    while (len > 0) {
        size_t part = len < sizeof buffer ? len : sizeof buffer;
        if (pread(fd, buffer, part, at) != (ssize_t)part)
            return 0;
        for (size_t i = 0; i < part; i++)
            if (buffer[i] != byte)
                return 0;
        at += part;
        len -= part;
    }
    return 1;
}

static void names(void)
{
    struct stat s;
    say("names");
    SHOW(stat("/dev/vdb", &s));
    CHECK(S_ISBLK(s.st_mode));
    say("minor %u, size %lld, block %ld", minor(s.st_rdev), (long long)s.st_size, (long)s.st_blksize);
    SHOW(open("/dev/vdb", O_RDONLY | O_DIRECTORY));
    SHOW(mknod("/tmp/none", S_IFBLK | 0600, makedev(major(s.st_rdev), 4000)));
    SHOW(open("/tmp/none", O_RDONLY));
}

static void places(int fd)
{
    say("places");
    SHOW(lseek(fd, 0, SEEK_END));
    SHOW(read(fd, buffer, 10));
    SHOW(write(fd, buffer, 10));
    SHOW(lseek(fd, 1, SEEK_CUR));
    SHOW(lseek(fd, -10, SEEK_END));
    SHOW(read(fd, buffer, 100));
    SHOW(lseek(fd, -10, SEEK_END));
    memset(buffer, 'e', 100);
    SHOW(write(fd, buffer, 100));
    SHOW(lseek(fd, 0, SEEK_CUR));
    SHOW(lseek(fd, -1, SEEK_SET));
    SHOW(lseek(fd, SIZE + 1, SEEK_SET));
    SHOW(lseek(fd, 0, SEEK_DATA));
    SHOW(lseek(fd, 0, SEEK_HOLE));
    CHECK(all(fd, SIZE - 10, 10, 'e'));
    SHOW(pread(fd, buffer, 1, SIZE));
    SHOW(pwrite(fd, buffer, 1, SIZE));
    SHOW(pwrite(fd, buffer, 0, SIZE));
    SHOW(pread(fd, buffer, 1, -1));
    SHOW(ftruncate(fd, 0));
    SHOW(fsync(fd));
    SHOW(fdatasync(fd));
    struct pollfd poll_fd = {fd, POLLIN | POLLOUT, 0};
    SHOW(poll(&poll_fd, 1, 0));
    struct epoll_event event = {EPOLLIN, {0}};
    SHOW(epoll_ctl(epoll_create1(0), EPOLL_CTL_ADD, fd, &event));
}

static void bytes(int fd)
{
    say("bytes");
    memset(buffer, 'a', sizeof buffer);
    for (off_t at = 0; at < 200000; at += sizeof buffer)
        pwrite(fd, buffer, sizeof buffer, at);
    memset(buffer, 'b', sizeof buffer);
    /* Over the ends of blocks, pages and of what one request moves. */
    SHOW(pwrite(fd, "xy", 2, 511));
    SHOW(pwrite(fd, buffer, 5000, 65536 - 2500));
    SHOW(pwrite(fd, buffer, 513, 4095));
    CHECK(all(fd, 0, 511, 'a'));
    CHECK(all(fd, 511, 1, 'x'));
    CHECK(all(fd, 512, 1, 'y'));
    CHECK(all(fd, 513, 4095 - 513, 'a'));
    CHECK(all(fd, 4095, 513, 'b'));
    CHECK(all(fd, 4608, 65536 - 2500 - 4608, 'a'));
    CHECK(all(fd, 65536 - 2500, 5000, 'b'));
    CHECK(all(fd, 65536 + 2500, 1000, 'a'));
    struct iovec pieces[3] = {{"12", 2}, {"345", 3}, {NULL, 0}};
    SHOW(pwritev(fd, pieces, 3, 1022));
    memset(buffer, 0, 10);
    SHOW(pread(fd, buffer, 7, 1021));
    say("%s", buffer);
    SHOW(pread(fd, (char *)8, 10, 0));
    SHOW(pwrite(fd, (char *)8, 10, 0));
    /* The second page is not there. */
    char *half = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(half + 4096, 4096);
    SHOW(pread(fd, half, 8192, 0));
    memset(half, 'c', 4096);
    SHOW(pwrite(fd, half + 4000, 200, 300000));
    CHECK(all(fd, 300000, 96, 'c'));
    int append = open("/dev/vda", O_WRONLY | O_APPEND);
    SHOW(write(append, "app", 3));
    SHOW(lseek(append, 0, SEEK_CUR));
    int synchronous = open("/dev/vda", O_WRONLY | O_SYNC);
    SHOW(pwrite(synchronous, "sync", 4, 9000));
}

static void direct(void)
{
    say("direct");
    int fd = open("/dev/vda", O_RDWR | O_DIRECT);
    CHECK(fd >= 0);
    memset(buffer, 'd', sizeof buffer);
    SHOW(pwrite(fd, buffer, 4096, 8192));
    SHOW(pwrite(fd, buffer + 512, 512, 512));
    SHOW(pwrite(fd, buffer, 4096, 8193));
    SHOW(pwrite(fd, buffer, 4000, 8192));
    SHOW(pwrite(fd, buffer + 1, 512, 8192));
    SHOW(pread(fd, buffer, 4096, 8192));
    SHOW(pread(fd, buffer, 100, 8192));
    SHOW(pread(fd, buffer + 8, 512, 8192));
    SHOW(pread(fd, buffer, 4096, SIZE - 512));
    SHOW(pread(fd, buffer, 4096, SIZE));
    SHOW(pwrite(fd, buffer, 4096, SIZE - 512));
    SHOW(pwrite(fd, buffer, 4096, SIZE));
    SHOW(fcntl(fd, F_SETFL, 0));
    SHOW(pread(fd, buffer + 8, 100, 8193));
}

static void exclusive(int fd)
{
    say("exclusive");
    int first = open("/dev/vda", O_RDONLY | O_EXCL);
    CHECK(first >= 0);
    SHOW(open("/dev/vda", O_RDONLY | O_EXCL));
    CHECK(open("/dev/vda", O_RDONLY) >= 0);
    close(first);
    int second = open("/dev/vda", O_RDONLY | O_EXCL);
    CHECK(second >= 0);
    uint64_t range[2] = {400 << 10, 4096};
    SHOW(ioctl(fd, BLKZEROOUT, range));
    SHOW(ioctl(fd, BLKDISCARD, range));
    range[1] = 1;
    SHOW(ioctl(fd, BLKDISCARD, range));
    close(second);
    SHOW(ioctl(fd, BLKZEROOUT, range));
}

static void controls(int fd)
{
    uint64_t size = 0, range[2];
    unsigned long sectors = 0;
    unsigned number = 0;
    say("controls");
    SHOW(ioctl(fd, BLKGETSIZE64, &size));
    SHOW(ioctl(fd, BLKGETSIZE, &sectors));
    say("%llu bytes, %lu sectors", (unsigned long long)size, sectors);
    SHOW(ioctl(fd, BLKSSZGET, &number));
    say("block %u", number);
    SHOW(ioctl(fd, BLKPBSZGET, &number));
    say("physical block %u", number);
    SHOW(ioctl(fd, BLKBSZGET, &number));
    say("buffer %u", number);
    SHOW(ioctl(fd, BLKROGET, &number));
    say("read-only %u", number);
    SHOW(ioctl(fd, BLKDISCARDZEROES, &number));
    SHOW(ioctl(fd, BLKFLSBUF, 0));
    SHOW(ioctl(fd, BLKGETSIZE64, 8));
    SHOW(ioctl(fd, 0x1299, 0));
#define RANGE(what, start, len) (range[0] = (start), range[1] = (len), ioctl(fd, what, range))
    memset(buffer, 'z', sizeof buffer);
    pwrite(fd, buffer, 8192, 400 << 10);
    SHOW(RANGE(BLKZEROOUT, (400 << 10) + 512, 4096));
    CHECK(all(fd, 400 << 10, 512, 'z'));
    CHECK(all(fd, (400 << 10) + 512, 4096, 0));
    CHECK(all(fd, (400 << 10) + 4608, 8192 - 4608, 'z'));
    SHOW(RANGE(BLKDISCARD, 400 << 10, 4096));
    SHOW(RANGE(BLKZEROOUT, 0, 0));
    SHOW(RANGE(BLKDISCARD, 0, 0));
    SHOW(RANGE(BLKZEROOUT, 1, 512));
    SHOW(RANGE(BLKDISCARD, 0, 100));
    SHOW(RANGE(BLKZEROOUT, SIZE - 512, 1024));
    SHOW(RANGE(BLKDISCARD, -512ull, 1024));
    SHOW(RANGE(BLKZEROOUT, -512ull, 1024));
    SHOW(ioctl(fd, BLKDISCARD, 8));
    int reader = open("/dev/vda", O_RDONLY);
    range[0] = 0, range[1] = 512;
    SHOW(ioctl(reader, BLKDISCARD, range));
    SHOW(ioctl(reader, BLKZEROOUT, range));
}

static void only_read(void)
{
    uint64_t range[2] = {0, 512};
    unsigned number = 0;
    say("read-only");
    int fd = open("/dev/vdb", O_RDWR);
    CHECK(fd >= 0);
    SHOW(pwrite(fd, "x", 1, 0));
    SHOW(pwrite(fd, "x", 0, 0));
    SHOW(pwrite(fd, "x", 1, SMALL));
    SHOW(ioctl(fd, BLKROGET, &number));
    say("read-only %u", number);
    SHOW(ioctl(fd, BLKZEROOUT, range));
    SHOW(fsync(fd));
    CHECK(all(fd, 0, SMALL, 0));
}

/* Writers of one byte each of the same blocks, again and again: none loses another's. */
static void neighbours(int fd)
{
    enum { WRITERS = 8, ROUNDS = 40, BLOCKS = 8 };
    say("neighbours");
    SHOW(pwrite(fd, memset(buffer, 0, sizeof buffer), 4096, 0));
    for (int writer = 0; writer < WRITERS; writer++)
        if (must_fork() == 0) {
            for (int round = 1; round <= ROUNDS; round++)
                for (int block = 0; block < BLOCKS; block++) {
                    char byte = round;
                    if (pwrite(fd, &byte, 1, block * 512 + writer * 60) != 1)
                        _exit(1);
                }
            _exit(0);
        }
    int status, failed = 0;
    while (wait(&status) > 0)
        failed += status != 0;
    int lost = 0;
    pread(fd, buffer, 4096, 0);
    for (int writer = 0; writer < WRITERS; writer++)
        for (int block = 0; block < BLOCKS; block++)
            lost += buffer[block * 512 + writer * 60] != ROUNDS;
    say("failed %d, lost %d", failed, lost);
}

int main(void)
{
    int fd = open("/dev/vda", O_RDWR);
    CHECK(fd >= 0);
    names();
    places(fd);
    bytes(fd);
    direct();
    exclusive(fd);
    controls(fd);
    only_read();
    neighbours(fd);
    SHOW(fsync(fd));
    return 0;
}
