/*
 * What system calls make of a tree of the host's, mounted read-only at /share (boot/devices/share.sh makes it, and this program lies in it). Prints what it
 * sees, as a program of abi/ does.
 */
#include "t.h"
#include <pthread.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/statfs.h>
#include <sys/xattr.h>
#include <utime.h>

#define BIG "/share/big"
#define SIZE (3 << 20)
#define THREADS 8

static unsigned char *whole;

static void mapped(void)
{
    int fd = open(BIG, O_RDONLY);
    say("mappings");
    whole = malloc(SIZE);
    SHOW(read(fd, whole, SIZE));
    SHOW(read(fd, whole, 1));
    unsigned char *shared = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, fd, 0);
    unsigned char *private = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    CHECK(shared != MAP_FAILED && private != MAP_FAILED);
    CHECK(memcmp(shared, whole, SIZE) == 0);
    CHECK(memcmp(private, whole, SIZE) == 0);
    private[5000] ^= 1;
    CHECK(private[5000] != shared[5000]);
    SHOW_PTR(mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    SHOW(mprotect(shared, SIZE, PROT_READ | PROT_WRITE));
    SHOW(lseek(fd, 0, SEEK_END));
    SHOW(lseek(fd, 5000, SEEK_DATA));
    SHOW(lseek(fd, 5000, SEEK_HOLE));
    unsigned char some[100];
    SHOW(pread(fd, some, sizeof some, SIZE - 50));
    CHECK(memcmp(some, whole + SIZE - 50, 50) == 0);
    int to = memfd_create("copy", 0);
    off_t from = 4097;
    SHOW(sendfile(to, fd, &from, 10000));
    close(fd);
    CHECK(memcmp(shared + SIZE / 2, whole + SIZE / 2, SIZE / 2) == 0);
}

static void *reader(void *argument)
{
    unsigned seed = (unsigned)(long)argument;
    unsigned char piece[20000];
    int fd = open(BIG, O_RDONLY);
    for (int n = 0; n < 200; n++) {
        unsigned at = (seed = seed * 1103515245 + 12345) % (SIZE - sizeof piece);
        if (pread(fd, piece, sizeof piece, at) != sizeof piece || memcmp(piece, whole + at, sizeof piece) != 0)
            return (void *)1;
        struct stat s;
        char name[64];
        snprintf(name, sizeof name, "/share/many/%u", 1 + seed % 1000);
        if (stat(name, &s) != 0 || !S_ISREG(s.st_mode) || access("/share/many/none", F_OK) == 0)
            return (void *)1;
    }
    close(fd);
    return NULL;
}

static void readers(void)
{
    pthread_t threads[THREADS];
    long failed = 0;
    for (long n = 0; n < THREADS; n++)
        pthread_create(&threads[n], NULL, reader, (void *)(n + 1));
    for (int n = 0; n < THREADS; n++) {
        void *result;
        pthread_join(threads[n], &result);
        failed += result != NULL;
    }
    say("readers");
    SHOW(failed);
}

static void writing(void)
{
    struct utimbuf times = { 1, 1 };
    say("writing");
    SHOW(open(BIG, O_RDWR));
    SHOW(open(BIG, O_WRONLY | O_TRUNC));
    SHOW(open("/share/new", O_CREAT | O_WRONLY, 0600));
    SHOW(open("/share", O_TMPFILE | O_RDWR, 0600));
    SHOW(truncate(BIG, 0));
    SHOW(unlink(BIG));
    SHOW(rmdir("/share/many"));
    SHOW(mkdir("/share/new", 0700));
    SHOW(mknod("/share/new", S_IFIFO | 0600, 0));
    SHOW(symlink("a", "/share/new"));
    SHOW(link(BIG, "/share/new"));
    SHOW(rename(BIG, "/share/new"));
    SHOW(chmod(BIG, 0600));
    SHOW(chown(BIG, 1, 1));
    SHOW(utime(BIG, &times));
    SHOW(access(BIG, W_OK));
    SHOW(setxattr(BIG, "user.a", "b", 1, 0));
    SHOW(removexattr(BIG, "user.a"));
    SHOW(getxattr(BIG, "user.a", NULL, 0));
    SHOW(mount(NULL, "/share", NULL, MS_REMOUNT, NULL));
    SHOW(mkdir("/share/many", 0700));
}

static void whole_tree(void)
{
    struct statfs s;
    struct stat root, file;
    say("the tree");
    SHOW(statfs("/share", &s));
    say("type %lx", (unsigned long)s.f_type);
    CHECK(s.f_blocks > 0 && s.f_bfree >= s.f_bavail && s.f_namelen == 255);
    SHOW(stat("/share", &root));
    SHOW(stat(BIG, &file));
    CHECK(root.st_dev == file.st_dev && root.st_ino != file.st_ino);
    uint32_t statx[64];
    SHOW(syscall(SYS_statx, AT_FDCWD, BIG, 0, 0xfff, statx));
    say("basic %d, birth %d", (statx[0] & 0x7ff) == 0x7ff, (statx[0] & 0x800) != 0);
    SHOW(stat("/", &root));
    CHECK(root.st_dev != file.st_dev);
    SHOW(open("/share/link-to-nowhere", O_RDONLY));
    SHOW(open("/share/link", O_RDONLY | O_NOFOLLOW));
    SHOW_OK(open("/share/link", O_RDONLY));
    SHOW_OK(open("/share/fifo", O_RDONLY | O_NONBLOCK));
    SHOW(open("/share/none", O_RDONLY));
    SHOW(open("/share/big/none", O_RDONLY));
    SHOW(umount("/share"));
}

static void mounting(void)
{
    mkdir("/other", 0700);
    say("mounting");
    SHOW(mount("nobody", "/other", "9p", MS_RDONLY, "trans=virtio,version=9p2000.L"));
    SHOW(mount("host", "/other", "9p", MS_RDONLY, "trans=virtio,version=9p2000.L"));
    SHOW(mount("host", "/other", "9p", 0, "trans=virtio,version=9p2000.L"));
    SHOW(mount("host", "/other", "9p", MS_RDONLY, "trans=none"));
    SHOW(mount("host", "/other", "9p", MS_RDONLY, "cache=readahead"));
    SHOW(mount("host", "/other", "9p", MS_RDONLY, "msize=1000"));
    SHOW(mount(NULL, "/other", "9p", MS_RDONLY, "trans=virtio"));
}

int main(void)
{
    mapped();
    readers();
    writing();
    whole_tree();
    mounting();
    return 0;
}
