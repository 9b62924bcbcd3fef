/* Capabilities: the sets, the calls that change them, what changes of ids and exec make of them, and what each one is asked for. */
#include "t.h"

#include <grp.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/timerfd.h>

enum { V1 = 0x19980330, V2 = 0x20071026, V3 = 0x20080522 };
enum { LAST = 40, BITS_ALL = 0xff };
#define ALL ((1ull << (LAST + 1)) - 1)
#define BIT(cap) (1ull << (cap))

static const struct { int number; const char *name; } caps[] = {
	{ 0, "CHOWN" }, { 1, "DAC_OVERRIDE" }, { 2, "DAC_READ_SEARCH" }, { 3, "FOWNER" }, { 4, "FSETID" }, { 5, "KILL" }, { 6, "SETGID" },
	{ 7, "SETUID" }, { 8, "SETPCAP" }, { 17, "SYS_RAWIO" }, { 18, "SYS_CHROOT" }, { 19, "SYS_PTRACE" }, { 21, "SYS_ADMIN" }, { 22, "SYS_BOOT" },
	{ 23, "SYS_NICE" }, { 24, "SYS_RESOURCE" }, { 25, "SYS_TIME" }, { 27, "MKNOD" }, { 34, "SYSLOG" }, { 35, "WAKE_ALARM" },
};
enum { SETPCAP = 8, CHOWN = 0, KILL = 5, NET_RAW = 13 };

struct header { uint32_t version; int pid; };
struct data { uint32_t effective, permitted, inheritable; };

static long get(uint32_t version, int pid, struct data *data)
{
	struct header header = { version, pid };
	return syscall(SYS_capget, &header, data);
}

static long put(uint64_t effective, uint64_t permitted, uint64_t inheritable)
{
	struct header header = { V3, 0 };
	struct data data[2] = {
		{ (uint32_t)effective, (uint32_t)permitted, (uint32_t)inheritable },
		{ (uint32_t)(effective >> 32), (uint32_t)(permitted >> 32), (uint32_t)(inheritable >> 32) },
	};
	return syscall(SYS_capset, &header, data);
}

/* The lines of /proc/PID/status about rights. */
static void show(const char *when)
{
	char *text = read_file("/proc/thread-self/status");
	char line[400];
	int n = snprintf(line, sizeof line, "%s:", when);
	for (char *at = text ? strtok(text, "\n") : 0; at; at = strtok(0, "\n"))
		if (strncmp(at, "Cap", 3) == 0 || strncmp(at, "NoNew", 5) == 0 || strncmp(at, "Uid", 3) == 0 || strncmp(at, "Gid", 3) == 0)
			n += snprintf(line + n, sizeof line - (size_t)n, " %s", at);
	for (char *at = line; *at; at++)
		if (*at == '\t')
			*at = ' ';
	say("%s", line);
	free(text);
}

static void calls(void)
{
	section("capget and capset");
	struct data data[2];
	static const uint32_t versions[] = { V1, V2, V3 };
	for (int i = 0; i < 3; i++) {
		memset(data, 0xcc, sizeof data);
		SHOW(get(versions[i], 0, data));
		say("%x %x %x, %x %x %x", data[0].effective, data[0].permitted, data[0].inheritable, data[1].effective, data[1].permitted, data[1].inheritable);
	}
	struct header header = { 7, 0 };
	SHOW(syscall(SYS_capget, &header, 0));
	say("%x", header.version);
	header.version = 7;
	SHOW(syscall(SYS_capget, &header, data));
	say("%x", header.version);
	header.version = 7;
	SHOW(syscall(SYS_capset, &header, data));
	say("%x", header.version);
	SHOW(syscall(SYS_capget, 0, data));
	SHOW(syscall(SYS_capget, 0, 0));
	SHOW(syscall(SYS_capget, 1, 0));
	header = (struct header){ V3, 0 };
	SHOW(syscall(SYS_capget, &header, 0));
	header.pid = -1;
	SHOW(syscall(SYS_capget, &header, 0));
	SHOW(syscall(SYS_capget, &header, 8));
	SHOW(get(V3, -1, data));
	SHOW(get(V3, 4000000, data));
	SHOW(get(V3, 1, data));
	SHOW(get(V3, getpid(), data));
	SHOW(syscall(SYS_capset, 0, data));
	SHOW(syscall(SYS_capset, &header, data));
	header.pid = getppid();
	SHOW(syscall(SYS_capset, &header, data));
	SHOW(syscall(SYS_capset, &header, 8));
	header.pid = 0;
	SHOW(syscall(SYS_capset, &header, 8));
	header.pid = getpid();
	get(V3, 0, data);
	SHOW(syscall(SYS_capset, &header, data));

	section("rules of capset");
	show("first");
	SHOW(put(ALL, ALL, ALL));
	show("inheritable");
	SHOW(put(~0ull, ~0ull, ~0ull));
	show("more than there are");
	SHOW(put(BIT(CHOWN), BIT(KILL), 0));
	SHOW(put(BIT(SETPCAP), BIT(KILL) | BIT(SETPCAP), BIT(CHOWN)));
	show("fewer");
	SHOW(put(BIT(SETPCAP), ALL, 0));
	SHOW(put(0, BIT(KILL), BIT(KILL)));
	show("few");
	SHOW(put(0, BIT(KILL), BIT(KILL) | BIT(CHOWN)));
	SHOW(put(BIT(KILL), BIT(KILL), 0));
	SHOW(put(0, 0, BIT(KILL)));
	SHOW(put(0, BIT(KILL), BIT(KILL)));
	/* Version 1 speaks of the first 32 alone. */
	show("none");
}

static void version_1(void)
{
	struct header header = { V1, 0 };
	struct data data = { 0xffffffff, 0xffffffff, 0 };
	SHOW(syscall(SYS_capset, &header, &data));
	show("version 1");
}

static void bounding(void)
{
	section("bounding set");
	SHOW(prctl(PR_CAPBSET_READ, 0, 0, 0, 0));
	SHOW(prctl(PR_CAPBSET_READ, LAST, 9, 9, 9));
	SHOW(prctl(PR_CAPBSET_READ, LAST + 1, 0, 0, 0));
	SHOW(prctl(PR_CAPBSET_READ, -1, 0, 0, 0));
	SHOW(prctl(PR_CAPBSET_DROP, NET_RAW, 0, 0, 0));
	SHOW(prctl(PR_CAPBSET_READ, NET_RAW, 0, 0, 0));
	SHOW(prctl(PR_CAPBSET_DROP, LAST + 1, 0, 0, 0));
	show("dropped");
	SHOW(put(ALL, ALL, BIT(NET_RAW)));
	SHOW(put(ALL, ALL, BIT(CHOWN)));
	SHOW(put(ALL & ~BIT(SETPCAP), ALL, BIT(CHOWN)));
	SHOW(prctl(PR_CAPBSET_DROP, 1, 0, 0, 0));
	SHOW(prctl(PR_CAPBSET_DROP, LAST + 1, 0, 0, 0));
	SHOW(prctl(PR_CAPBSET_READ, 1, 0, 0, 0));
}

static void ambient(void)
{
	section("ambient set");
	enum { IS_SET = 1, RAISE, LOWER, CLEAR };
	SHOW(prctl(PR_CAP_AMBIENT, IS_SET, CHOWN, 0, 0));
	SHOW(prctl(PR_CAP_AMBIENT, RAISE, CHOWN, 0, 0));
	put(ALL, ALL, BIT(CHOWN) | BIT(KILL));
	SHOW(prctl(PR_CAP_AMBIENT, RAISE, CHOWN, 0, 0));
	SHOW(prctl(PR_CAP_AMBIENT, RAISE, KILL, 0, 0));
	SHOW(prctl(PR_CAP_AMBIENT, IS_SET, CHOWN, 0, 0));
	SHOW(prctl(PR_CAP_AMBIENT, IS_SET, LAST + 1, 0, 0));
	SHOW(prctl(PR_CAP_AMBIENT, IS_SET, CHOWN, 1, 0));
	SHOW(prctl(PR_CAP_AMBIENT, IS_SET, CHOWN, 0, 1));
	SHOW(prctl(PR_CAP_AMBIENT, 0, CHOWN, 0, 0));
	SHOW(prctl(PR_CAP_AMBIENT, 5, CHOWN, 0, 0));
	SHOW(prctl(PR_CAP_AMBIENT, 5, LAST + 1, 0, 0));
	show("raised");
	SHOW(prctl(PR_CAP_AMBIENT, LOWER, KILL, 0, 0));
	show("lowered");
	SHOW(prctl(PR_CAP_AMBIENT, CLEAR, 1, 0, 0));
	SHOW(prctl(PR_CAP_AMBIENT, CLEAR, 0, 1, 0));
	SHOW(prctl(PR_CAP_AMBIENT, CLEAR, 0, 0, 0));
	show("cleared");
	prctl(PR_CAP_AMBIENT, RAISE, CHOWN, 0, 0);
	prctl(PR_CAP_AMBIENT, RAISE, KILL, 0, 0);
	put(ALL, ALL, BIT(KILL));
	show("less inheritable");
	put(ALL & ~BIT(KILL), ALL & ~BIT(KILL), BIT(KILL));
	show("less permitted");
	SHOW(prctl(PR_SET_SECUREBITS, 0x40, 0, 0, 0));
	put(ALL & ~BIT(KILL), ALL & ~BIT(KILL), BIT(CHOWN));
	SHOW(prctl(PR_CAP_AMBIENT, RAISE, CHOWN, 0, 0));
}

static void bits(void)
{
	section("secure bits");
	SHOW(prctl(PR_GET_SECUREBITS, 5, 5, 5, 5));
	for (int bit = 0; bit < 13; bit++) {
		long result = prctl(PR_SET_SECUREBITS, 1 << bit, 0, 0, 0);
		if (bit % 2 == 1 && bit < 8)
			continue; /* a lock: below, in a child */
		say("bit %d: %ld %s, now %#x", bit, result, result < 0 ? error_name(errno) : "", prctl(PR_GET_SECUREBITS, 0, 0, 0, 0));
	}
}

static void locks(void)
{
	for (int bit = 1; bit < 8; bit += 2) {
		pid_t pid = must_fork();
		if (pid == 0) {
			int lock = 1 << bit, base = 1 << (bit - 1);
			say("lock %d: %d %d %d %d %d, %#x", bit, prctl(PR_SET_SECUREBITS, lock), prctl(PR_SET_SECUREBITS, 0), prctl(PR_SET_SECUREBITS, base),
			    prctl(PR_SET_SECUREBITS, lock | base), prctl(PR_SET_SECUREBITS, BITS_ALL & ~base), prctl(PR_GET_SECUREBITS));
			say("keep: %d %d", prctl(PR_SET_KEEPCAPS, 1), prctl(PR_GET_KEEPCAPS));
			put(0, ALL, 0);
			say("without the right: %d", prctl(PR_SET_SECUREBITS, prctl(PR_GET_SECUREBITS)));
			_exit(0);
		}
		wait_for(pid);
	}
	SHOW(prctl(PR_SET_KEEPCAPS, 2, 0, 0, 0));
	SHOW(prctl(PR_SET_KEEPCAPS, 1, 7, 7, 7));
	SHOW(prctl(PR_GET_KEEPCAPS, 0, 0, 0, 0));
	SHOW(prctl(PR_GET_SECUREBITS, 0, 0, 0, 0));
	SHOW(prctl(PR_SET_KEEPCAPS, 0, 0, 0, 0));
	SHOW(prctl(PR_GET_SECUREBITS, 0, 0, 0, 0));
}

static void each(const char *what, int bits_first, void (*body)(void))
{
	pid_t pid = must_fork();
	if (pid == 0) {
		say("-- %s, bits %#x", what, bits_first);
		prctl(PR_SET_SECUREBITS, bits_first);
		put(ALL, ALL, BIT(KILL) | BIT(CHOWN));
		prctl(PR_CAP_AMBIENT, 2, KILL, 0, 0);
		body();
		_exit(0);
	}
	wait_for(pid);
}

#define DO(call) (call, show(#call))
static void setuid_down(void) { DO(setuid(1000)); say("%s", setuid(0) ? error_name(errno) : "back"); }
static void seteuid_down(void) { DO(setresuid(-1, 1000, -1)); DO(setresuid(-1, 0, -1)); }
static void setreuid_down(void) { DO(setreuid(1000, 0)); DO(setreuid(-1, 1000)); DO(setreuid(-1, 0)); DO(setreuid(0, 1000)); }
static void real_stays(void) { DO(setresuid(0, 1000, 1000)); DO(setresuid(1000, 1000, 1000)); }
static void saved_stays(void) { DO(setresuid(1000, 1000, 0)); DO(setresuid(-1, 0, -1)); }
static void from_user(void) { prctl(PR_SET_KEEPCAPS, 1); DO(setresuid(1000, 1000, 1000)); DO(put(BIT(7), ALL, 0)); DO(setresuid(0, 0, 0)); }
static void files_id(void) { DO(syscall(SYS_setfsuid, 1000)); DO(syscall(SYS_setfsuid, 0)); DO(syscall(SYS_setfsuid, 1000)); DO(setresuid(-1, -1, -1)); DO(setresuid(-1, 0, -1)); }
static void groups(void) { DO(setresgid(5, 6, 7)); DO(setgid(9)); DO(syscall(SYS_setfsgid, 5)); }

static void transitions(void)
{
	section("changes of ids");
	static const int firsts[] = { 0, 0x10, 0x04, 0x01 };
	for (int i = 0; i < 4; i++) {
		each("setuid", firsts[i], setuid_down);
		each("effective id", firsts[i], seteuid_down);
		each("setreuid", firsts[i], setreuid_down);
		each("the real id stays 0", firsts[i], real_stays);
		each("the saved id stays 0", firsts[i], saved_stays);
		each("to user 0", firsts[i], from_user);
		each("setfsuid", firsts[i], files_id);
		each("groups", firsts[i], groups);
	}
}

static void again(void)
{
	execl("/proc/self/exe", "again", (char *)0);
	say("no exec: %s", error_name(errno));
}

static void keep_and_exec(void) { prctl(PR_SET_KEEPCAPS, 1); setresuid(1000, 1000, 1000); again(); }
static void ambient_exec(void)
{
	prctl(PR_SET_KEEPCAPS, 1);
	setresuid(1000, 1000, 1000);
	put(ALL, ALL, BIT(CHOWN) | BIT(KILL));
	prctl(PR_CAP_AMBIENT, 2, CHOWN, 0, 0);
	show("before");
	again();
}
static void real_root(void) { setresuid(0, 1000, 1000); again(); }
static void effective_root(void) { setresuid(1000, 0, 1000); again(); }
static void saved_root(void) { setresuid(1000, 1000, 0); again(); }
static void bounded(void) { prctl(PR_CAPBSET_DROP, CHOWN); put(ALL, ALL, BIT(CHOWN)); prctl(PR_CAPBSET_DROP, NET_RAW); again(); }
static void lowered(void) { put(0, 0, 0); again(); }
static void no_new(void) { prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); put(BIT(KILL), BIT(KILL), BIT(KILL)); again(); }
static void no_new_ambient(void) { prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); setresuid(0, 1000, 0); again(); }

static void at_exec(void)
{
	section("exec");
	static const int firsts[] = { 0, 0x01, 0x04, 0x05, 0x10 };
	for (int i = 0; i < 5; i++) {
		each("as it is", firsts[i], again);
		each("user with kept", firsts[i], keep_and_exec);
		each("user with ambient", firsts[i], ambient_exec);
		each("real 0", firsts[i], real_root);
		each("effective 0", firsts[i], effective_root);
		each("saved 0", firsts[i], saved_root);
		each("bounded", firsts[i], bounded);
		each("lowered", firsts[i], lowered);
		each("no new privileges, lowered", firsts[i], no_new);
		each("no new privileges, real 0", firsts[i], no_new_ambient);
	}
}

/* What capabilities are asked for. Each call leaves things as they are, or its process ends. */
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

static void rights(void)
{
	section("what they are asked for");
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
	int ends[2];
	pipe(ends);
	victim = must_fork();
	if (victim == 0) {
		setresgid(1001, 1001, 1001);
		setresuid(1001, 1001, 1001);
		prctl(PR_SET_DUMPABLE, 1);
		write(ends[1], "r", 1);
		for (;;)
			pause();
	}
	char byte;
	read(ends[0], &byte, 1);
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
}

static void child(void (*body)(void))
{
	pid_t pid = must_fork();
	if (pid == 0) {
		body();
		_exit(0);
	}
	wait_for(pid);
}

static void *in_thread(void *unused)
{
	(void)unused;
	show("a thread begins");
	put(BIT(KILL), BIT(KILL), 0);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	show("a thread has given up");
	return 0;
}

#include <pthread.h>
static void threads(void)
{
	section("threads");
	pthread_t thread;
	put(ALL, ALL, BIT(KILL));
	pthread_create(&thread, 0, in_thread, 0);
	pthread_join(thread, 0);
	show("the first thread");
}

int main(int argc, char **argv)
{
	(void)argc;
	setvbuf(stdout, 0, _IONBF, 0);
	if (strcmp(argv[0], "again") == 0) {
		show("after exec");
		SHOW(prctl(PR_GET_SECUREBITS));
		SHOW(prctl(PR_GET_DUMPABLE));
		return 0;
	}
	child(calls);
	child(version_1);
	child(bounding);
	child(ambient);
	child(bits);
	child(locks);
	transitions();
	at_exec();
	child(threads);
	rights();
	return 0;
}
