/* What is left: uname, sysinfo, random numbers, limits, ids and groups, personality, memfd, calls that do not exist. */
#include "t.h"

#include <grp.h>
#include <sys/personality.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>

static void identity(void)
{
	section("identity");
	gid_t groups[64];
	SHOW(getuid());
	SHOW(getgroups(0, groups) >= 0);
	SHOW(setgroups(3, (gid_t[]){ 30, 10, 20 }));
	SHOW(getgroups(64, groups));
	say("%d %d %d", (int)groups[0], (int)groups[1], (int)groups[2]);
	SHOW(getgroups(2, groups));
	SHOW(getgroups(-1, groups));
	SHOW(syscall(SYS_setresgid, 5, 6, 7));
	uid_t r, e, s;
	getresgid(&r, &e, &s);
	say("%d %d %d", (int)r, (int)e, (int)s);
	SHOW(syscall(SYS_setresuid, 1, 2, 3));
	getresuid(&r, &e, &s);
	say("%d %d %d", (int)r, (int)e, (int)s);
	SHOW(syscall(SYS_setresuid, -1, 3, -1));
	SHOW(syscall(SYS_setresuid, 4, -1, -1));
	SHOW(syscall(SYS_setreuid, 3, 1));
	getresuid(&r, &e, &s);
	say("%d %d %d", (int)r, (int)e, (int)s);
	SHOW(setgroups(0, 0));
	SHOW(syscall(SYS_setfsuid, 99));
	SHOW(setgid(0));
	SHOW(seteuid(3));
}

int main(void)
{
	section("uname and sysinfo");
	struct utsname name;
	SHOW(uname(&name));
	say("%s %s", name.sysname, name.machine);
	int major = 0, minor = 0;
	CHECK(sscanf(name.release, "%d.%d", &major, &minor) == 2 && major >= 5);
	CHECK(name.version[0] == '#');
	SHOW(sethostname("a-name", 6));
	uname(&name);
	say("%s", name.nodename);
	char host[8];
	SHOW(gethostname(host, sizeof host));
	SHOW(sethostname("x", 100));
	SHOW(sethostname("darter", 6));
	struct sysinfo info;
	SHOW(sysinfo(&info));
	CHECK(info.totalram > 1000 && info.freeram > 0 && info.procs > 0 && info.mem_unit > 0);
	CHECK((unsigned long long)info.totalram * info.mem_unit > 100u << 20);
	SHOW(sysconf(_SC_NPROCESSORS_ONLN));
	SHOW(sysconf(_SC_PAGESIZE));

	section("random");
	unsigned char a[64] = { 0 }, b[64] = { 0 };
	SHOW(getrandom(a, 64, 0));
	SHOW(getrandom(b, 64, GRND_NONBLOCK));
	CHECK(memcmp(a, b, 64) != 0);
	SHOW(getrandom(a, 64, 0x100));
	SHOW(getrandom((void *)16, 64, 0));
	SHOW(getrandom(a, 0, 0));
	int fd = open("/dev/urandom", O_RDONLY);
	SHOW(read(fd, a, 64));
	CHECK(memcmp(a, b, 64) != 0);
	close(fd);

	section("devices");
	fd = open("/dev/zero", O_RDWR);
	memset(a, 1, sizeof a);
	SHOW(read(fd, a, 64));
	CHECK(a[0] == 0 && a[63] == 0);
	SHOW(write(fd, a, 64));
	char *zero = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	CHECK(zero != MAP_FAILED && zero[100] == 0);
	if (zero != MAP_FAILED)
		zero[100] = 1;
	zero = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(zero != MAP_FAILED && zero[100] == 0);
	SHOW(lseek(fd, 100, SEEK_SET));
	close(fd);
	fd = open("/dev/full", O_RDWR);
	SHOW(read(fd, a, 64));
	SHOW(write(fd, a, 1));
	close(fd);
	fd = open("/dev/null", O_RDWR);
	SHOW(read(fd, a, 64));
	SHOW(write(fd, (void *)16, 64));
	SHOW(lseek(fd, 100, SEEK_SET));
	SHOW(ftruncate(fd, 0));
	SHOW_PTR(mmap(0, 4096, PROT_READ, MAP_PRIVATE, fd, 0));
	close(fd);
	SHOW_OK(open("/dev/tty", O_RDWR));
	SHOW_OK(open("/dev/missing", O_RDWR));
	SHOW(mknod("node", S_IFCHR | 0666, 0x103));
	SHOW(write(open("node", O_RDWR), "x", 1));
	SHOW(mknod("nodriver", S_IFCHR | 0666, 0xfe01));
	SHOW_OK(open("nodriver", O_RDWR));
	SHOW_OK(open("/dev/fd/0", O_RDONLY));
	SHOW_OK(open("/dev/stdout", O_WRONLY));

	section("memfd");
	fd = (int)syscall(SYS_memfd_create, "name", 0);
	CHECK(fd >= 0);
	SHOW(write(fd, "inside", 6));
	SHOW(ftruncate(fd, 8192));
	char *area = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(area != MAP_FAILED && memcmp(area, "inside", 6) == 0);
	close(fd);

	section("personality and the rest");
	SHOW(personality(0xffffffff));
	SHOW(syscall(SYS_getpgid, 0) == getpid());
	SHOW(syscall(SYS_membarrier, 0, 0, 0) >= 0);
	SHOW(syscall(SYS_rseq, 16, 32, 0, 0));
	static const struct { long number; const char *name; } missing[] = {
		{ 134, "uselib" }, { 156, "_sysctl" }, { 174, "create_module" }, { 177, "get_kernel_syms" }, { 178, "query_module" },
		{ 180, "nfsservctl" }, { 181, "getpmsg" }, { 183, "afs_syscall" }, { 185, "security" }, { 205, "set_thread_area" },
		{ 211, "get_thread_area" }, { 212, "lookup_dcookie" }, { 214, "epoll_ctl_old" }, { 236, "vserver" }, { 400, "400" }, { 600, "600" },
	};
	for (size_t i = 0; i < sizeof missing / sizeof *missing; i++)
		say("%s: %s", missing[i].name, syscall(missing[i].number, 0, 0, 0, 0, 0, 0) == -1 ? error_name(errno) : "works");
	struct rlimit limit;
	SHOW(syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, 0, &limit));
	SHOW(syscall(SYS_prlimit64, 99999999, RLIMIT_NOFILE, 0, &limit));
	SHOW(syscall(SYS_prlimit64, 1, RLIMIT_NOFILE, 0, &limit));
	in_child("identity", identity);
	return 0;
}
