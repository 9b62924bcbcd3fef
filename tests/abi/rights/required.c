/* Capabilities: which call asks for which. Root may do all but what it lacks, a user nothing but what it has. */
#include "sets.h"

#include <grp.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/timerfd.h>

static const struct { int number; const char *name; } caps[] = {
	{ 0, "CHOWN" }, { 1, "DAC_OVERRIDE" }, { 2, "DAC_READ_SEARCH" }, { 3, "FOWNER" }, { 4, "FSETID" }, { 5, "KILL" }, { 6, "SETGID" },
	{ 7, "SETUID" }, { 8, "SETPCAP" }, { 17, "SYS_RAWIO" }, { 18, "SYS_CHROOT" }, { 19, "SYS_PTRACE" }, { 21, "SYS_ADMIN" }, { 22, "SYS_BOOT" },
	{ 23, "SYS_NICE" }, { 24, "SYS_RESOURCE" }, { 25, "SYS_TIME" }, { 27, "MKNOD" }, { 34, "SYSLOG" }, { 35, "WAKE_ALARM" },
};

/* Each call leaves things as they are, or its process ends. */
static pid_t victim;

static long result(int fd) { if (fd >= 0) close(fd); return fd < 0 ? -1 : 0; }
static long do_chown(void) { return chown("theirs", 1001, -1); }
static long do_chgrp(void) { return chown("own", -1, 77); }
static long do_chmod(void) { return chmod("theirs", 0600); }
static long do_times(void) { struct timespec t[2] = { { 1, 0 }, { 1, 0 } }; return utimensat(AT_FDCWD, "theirs", t, 0); }
static long do_noatime(void) { return result(open("readable", O_RDONLY | O_NOATIME)); }
static long do_read(void) { return result(open("theirs", O_RDONLY)); }
static long do_write(void) { return result(open("theirs", O_WRONLY)); }
static long do_search(void) { struct stat s; return stat("dir/file", &s); }
static long do_list(void) { return result(open("dir", O_RDONLY | O_DIRECTORY)); }
static long do_make(void) { int r = mkdir("dir/new", 0700), error = errno; rmdir("dir/new"); errno = error; return r; }
static long do_sticky(void) { int r = rename("sticky/theirs", "sticky/moved"), error = errno; rename("sticky/moved", "sticky/theirs"); errno = error; return r; }
static long do_execute(void) { return access("noexec", X_OK); }
static long do_access(void) { return access("theirs", R_OK); }
static long do_eaccess(void) { return faccessat(AT_FDCWD, "theirs", R_OK, AT_EACCESS); }
static long keep_set_id(const char *name, int mode)
{
	struct stat facts;
	int fd = open(name, O_RDWR);
	write(fd, "x", 1);
	fstat(fd, &facts);
	close(fd);
	errno = EPERM;
	return (facts.st_mode & 06000) == (mode_t)mode ? 0 : -1;
}
static long do_set_uid_kept(void) { return keep_set_id("setuid", 06000); }
static long do_set_gid_mode(void)
{
	struct stat facts;
	chmod("foreign", 02755);
	stat("foreign", &facts);
	errno = EPERM;
	return facts.st_mode & 02000 ? 0 : -1;
}
static long do_mknod(void) { int r = mknod("node", S_IFCHR | 0600, 0x103), error = errno; unlink("node"); errno = error; return r; }
static long do_chroot(void) { return chroot("/"); }
static long do_mount(void) { return umount("dir"); }
static long do_mount_real(void) { return mount("none", "/no/mount", "tmpfs", 0, 0); }
static long do_remount(void) { return mount("none", "sticky", 0, MS_REMOUNT, 0); }
static long do_host(void) { char name[65] = ""; gethostname(name, sizeof name - 1); return sethostname(name, strlen(name)); }
static long do_clock(void) { struct timespec t; clock_gettime(CLOCK_REALTIME, &t); return clock_settime(CLOCK_REALTIME, &t); }
static long do_alarm(void) { return result(timerfd_create(CLOCK_BOOTTIME_ALARM, 0)); }
static long do_log(void) { return syscall(SYS_syslog, 10, 0, 0) < 0 ? -1 : 0; }
static long do_reboot(void) { long r = syscall(SYS_reboot, 1, 2, 3, 0); return r < 0 && errno == EINVAL ? 0 : r; }
static long do_kill(void) { return kill(victim, 0); }
static long do_queue(void) { return syscall(SYS_tgkill, victim, victim, 0); }
static long do_nice(void) { return setpriority(PRIO_PROCESS, victim, 0); }
static long do_better(void) { return setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) - 1); }
static long do_affinity(void) { cpu_set_t set; CPU_ZERO(&set), CPU_SET(0, &set); return sched_setaffinity(victim, sizeof set, &set); }
static long do_limit(void) { struct rlimit64 l; syscall(SYS_prlimit64, 0, RLIMIT_NICE, 0, &l); l.rlim_max++; return syscall(SYS_prlimit64, 0, RLIMIT_NICE, &l, 0); }
static long do_limit_of(void) { struct rlimit64 l; return syscall(SYS_prlimit64, victim, RLIMIT_NOFILE, 0, &l); }
static long do_inspect(void) { void *head; size_t size; return syscall(SYS_get_robust_list, victim, &head, &size); }
static long do_maps(void) { char path[64]; snprintf(path, sizeof path, "/proc/%d/maps", victim); return result(open(path, O_RDONLY)); }
static long do_low(void) { void *p = mmap((void *)0x1000, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0); return p == MAP_FAILED ? -1 : munmap(p, 4096); }
static long do_bound(void) { return prctl(PR_CAPBSET_DROP, NET_RAW, 0, 0, 0); }
static long do_bits(void) { return prctl(PR_SET_SECUREBITS, prctl(PR_GET_SECUREBITS)); }
static long do_flusher(void) { return prctl(57, 0, 0, 0, 0); }
static long do_setgroups(void) { gid_t g = 5; return setgroups(1, &g); }
static long do_setgid(void) { return setresgid(-1, 31, -1); }
static long do_setuid(void) { return setresuid(-1, 31, -1); }

static const struct { const char *name; long (*call)(void); } actions[] = {
	{ "chown", do_chown }, { "chgrp", do_chgrp }, { "chmod", do_chmod }, { "times", do_times }, { "noatime", do_noatime }, { "read", do_read },
	{ "write", do_write }, { "search", do_search }, { "list", do_list }, { "make", do_make }, { "sticky", do_sticky }, { "execute", do_execute },
	{ "access", do_access }, { "eaccess", do_eaccess }, { "keep set-user-id", do_set_uid_kept }, { "foreign set-group-id", do_set_gid_mode },
	{ "mknod", do_mknod }, { "chroot", do_chroot }, { "umount", do_mount }, { "mount", do_mount_real }, { "remount", do_remount }, { "sethostname", do_host },
	{ "clock", do_clock }, { "alarm", do_alarm }, { "syslog", do_log }, { "reboot", do_reboot }, { "kill", do_kill }, { "tgkill", do_queue },
	{ "nice", do_nice }, { "nicer", do_better }, { "affinity", do_affinity }, { "raise limit", do_limit }, { "limit of", do_limit_of },
	{ "inspect", do_inspect }, { "maps", do_maps }, { "map low", do_low }, { "bound", do_bound }, { "bits", do_bits }, { "flusher", do_flusher },
	{ "setgroups", do_setgroups }, { "setgid", do_setgid }, { "setuid", do_setuid },
};

/* Which actions `who` may do, or may not. Those that change its own ids come last. */
static void try_all(const char *who, uint64_t has, int user)
{
	chmod("setuid", 06777);
	pid_t pid = must_fork();
	if (pid == 0) {
		char line[4096];
		int n = snprintf(line, sizeof line, "%s:", who);
		if (user) {
			prctl(PR_SET_SECUREBITS, 0x10);
			setgroups(0, 0);
			if (setresgid(1000, 1000, 1000) || setresuid(1000, 1000, 1000))
				_exit(1);
		}
		if (put(has, has, 0) != 0)
			_exit(1);
		for (size_t i = 0; i < sizeof actions / sizeof *actions; i++) {
			errno = 0;
			int error = actions[i].call() < 0 ? errno : 0;
			/* Of a user what it may do, of root what it may not. */
			if ((error == EPERM || error == EACCES) != user)
				n += snprintf(line + n, sizeof line - (size_t)n, " %s%s%s", actions[i].name, error ? " " : "", error ? error_name(error) : "");
		}
		say("%s", line);
		_exit(0);
	}
	wait_for(pid);
}

static void make(const char *name, int mode, uid_t uid, gid_t gid)
{
	close(open(name, O_CREAT | O_WRONLY, 0600));
	chown(name, uid, gid);
	chmod(name, (mode_t)mode);
}

static void be_another(void)
{
	setresgid(1001, 1001, 1001);
	setresuid(1001, 1001, 1001);
	prctl(PR_SET_DUMPABLE, 1);
}

static void make_files(void)
{
	umask(0);
	chmod(".", 0777);
	make("theirs", 0600, 1001, 1001);
	make("own", 0600, 1000, 1000);
	make("readable", 0644, 1001, 1001);
	make("noexec", 0600, 1001, 1001);
	make("setuid", 06777, 1001, 1001);
	make("foreign", 0755, 1000, 1001);
	mkdir("dir", 0700);
	make("dir/file", 0600, 1001, 1001);
	chown("dir", 1001, 1001);
	mkdir("sticky", 0777);
	make("sticky/theirs", 0600, 1001, 1001);
	chown("sticky", 1001, 1001);
	chmod("sticky", 01777);
}

int main(void)
{
	setvbuf(stdout, 0, _IONBF, 0);
	make_files();
	victim = parked(be_another);
	try_all("root may not, with all", ALL, 0);
	try_all("root may not, with none", 0, 0);
	try_all("a user may, with none", 0, 1);
	for (size_t i = 0; i < sizeof caps / sizeof *caps; i++) {
		char who[64];
		snprintf(who, sizeof who, "root may not, without %s", caps[i].name);
		try_all(who, ALL & ~BIT(caps[i].number), 0);
		snprintf(who, sizeof who, "a user may, with %s", caps[i].name);
		try_all(who, BIT(caps[i].number), 1);
	}
	kill(victim, SIGKILL);
	wait_for(victim);
	return 0;
}
