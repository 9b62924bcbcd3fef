/* Set-user-id and set-group-id programs: who becomes what, when not, and what else exec then does; what takes the bits off a file. */
#include "t.h"

#include <grp.h>
#include <pthread.h>
#include <sys/auxv.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sendfile.h>

static const char *status_line(const char *key)
{
	static char line[256];
	char *text = read_file("/proc/self/status");
	line[0] = 0;
	for (char *at = text ? strtok(text, "\n") : 0; at; at = strtok(0, "\n"))
		if (strncmp(at, key, strlen(key)) == 0) {
			snprintf(line, sizeof line, "%s", at);
			for (char *c = line; *c; c++)
				if (*c == '\t')
					*c = ' ';
		}
	free(text);
	return line;
}

/* What the program sees that was executed. */
static int seen(void)
{
	char line[1024];
	int n = snprintf(line, sizeof line, "  %s", status_line("Uid:"));
	n += snprintf(line + n, sizeof line - (size_t)n, " %s", status_line("Gid:"));
	n += snprintf(line + n, sizeof line - (size_t)n, " %s", status_line("CapPrm:"));
	n += snprintf(line + n, sizeof line - (size_t)n, " %s", status_line("CapEff:"));
	n += snprintf(line + n, sizeof line - (size_t)n, " %s", status_line("CapAmb:"));
	struct rlimit stack;
	getrlimit(RLIMIT_STACK, &stack);
	int death = -1;
	prctl(PR_GET_PDEATHSIG, &death);
	struct stat facts = { 0 };
	stat("/proc/self/maps", &facts);
	n += snprintf(line + n, sizeof line - (size_t)n, "; auxv %ld %ld %ld %ld secure %ld; dumpable %d, death signal %d, personality %#x, stack %lu MiB, files of %u",
		      getauxval(AT_UID), getauxval(AT_EUID), getauxval(AT_GID), getauxval(AT_EGID), getauxval(AT_SECURE), prctl(PR_GET_DUMPABLE), death,
		      (unsigned)personality(0xffffffff), (unsigned long)(stack.rlim_cur >> 20), facts.st_uid);
	say("%s", line);
	return 0;
}

static void copy(const char *to, int mode, uid_t uid, gid_t gid)
{
	char buffer[65536];
	unlink(to);
	int in = open("/proc/self/exe", O_RDONLY), out = open(to, O_CREAT | O_WRONLY | O_TRUNC, 0600);
	for (ssize_t n; (n = read(in, buffer, sizeof buffer)) > 0;)
		write(out, buffer, (size_t)n);
	close(in), close(out);
	chown(to, uid, gid);
	chmod(to, (mode_t)mode);
}

static void become(uid_t real, uid_t effective, uid_t saved)
{
	gid_t groups[] = { 50, 60 };
	if (setgroups(2, groups) || setresgid(real, effective, saved) || setresuid(real, effective, saved))
		say("no other ids: %s", error_name(errno));
}

static void as_root(void) {}
static void as_user(void) { become(1000, 1000, 1000); }
static void as_owner(void) { become(1001, 1001, 1001); }
static void as_saved(void) { become(1000, 1000, 1001); }
static void as_no_new(void) { as_user(); prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); }
static void as_root_no_new(void) { prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); }
static void as_wishing(void)
{
	as_user();
	struct rlimit stack = { 64 << 20, RLIM_INFINITY };
	setrlimit(RLIMIT_STACK, &stack);
	prctl(PR_SET_PDEATHSIG, SIGUSR1);
	prctl(PR_SET_DUMPABLE, 1);
	personality(ADDR_NO_RANDOMIZE | ADDR_COMPAT_LAYOUT | MMAP_PAGE_ZERO | UNAME26);
}
static void as_no_fixup(void) { prctl(PR_SET_SECUREBITS, 5); as_user(); }
static void as_no_root(void) { prctl(PR_SET_SECUREBITS, 1); }

static const char *program;

static int execute(void *prepare)
{
	((void (*)(void))prepare)();
	execl(program, "seen", (char *)0);
	say("  no exec: %s", error_name(errno));
	return 1;
}

static void run(const char *who, void (*prepare)(void))
{
	say(" %s", who);
	pid_t pid = must_fork();
	if (pid == 0)
		_exit(execute((void *)prepare));
	int status = wait_for(pid);
	if (status != 0)
		say("  %s", status_text(status));
}

static char stack[65536] __attribute__((aligned(16)));

static void run_shared(const char *who, int flags, void (*prepare)(void))
{
	say(" %s", who);
	pid_t pid = clone(execute, stack + sizeof stack, flags | SIGCHLD, (void *)prepare);
	if (pid < 0)
		say("  no clone: %s", error_name(errno));
	wait_for(pid);
}

static void *waits(void *unused)
{
	(void)unused;
	for (;;)
		pause();
	return 0;
}

static void as_threads(void)
{
	pthread_t thread;
	as_user();
	pthread_create(&thread, 0, waits, 0);
}

static void programs(void)
{
	static const struct { const char *name; int mode; uid_t uid; gid_t gid; } files[] = {
		{ "plain", 0755, 1001, 1001 }, { "user", 04755, 1001, 1001 }, { "group", 02755, 1001, 1001 }, { "group-noexec", 02745, 1001, 1001 },
		{ "both", 06755, 1001, 1001 }, { "root", 06755, 0, 0 }, { "unreadable", 04711, 1001, 1001 }, { "same", 06755, 1000, 1000 },
	};
	for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
		section(files[i].name);
		copy("program", files[i].mode, files[i].uid, files[i].gid);
		program = "program";
		run("root", as_root);
		run("a user", as_user);
		run("the owner", as_owner);
		run("a user with the owner's as saved id", as_saved);
		run("a user with no new privileges", as_no_new);
		run("root with no new privileges", as_root_no_new);
		run("a user with wishes", as_wishing);
		run("a user without fixup", as_no_fixup);
		run("root that means nothing", as_no_root);
		run("a user with threads", as_threads);
		run_shared("a user that shares directories", CLONE_FS, as_user);
		run_shared("root that shares directories", CLONE_FS, as_root);
		run_shared("a user that shares memory", CLONE_VM | CLONE_VFORK | CLONE_FILES, as_user);
	}
	section("by other ways");
	copy("program", 06755, 0, 0);
	int fd = open("program", O_RDONLY);
	say(" a descriptor");
	pid_t pid = must_fork();
	if (pid == 0) {
		as_user();
		char *arguments[] = { (char *)"seen", 0 };
		syscall(SYS_execveat, fd, "", arguments, 0, AT_EMPTY_PATH);
		_exit(1);
	}
	wait_for(pid);
	close(fd);
	symlink("program", "link");
	program = "link";
	run("a link", as_user);
	mkdir("mount", 0755);
	if (mount("none", "mount", "tmpfs", MS_NOSUID, 0) != 0)
		say("no mount: %s", error_name(errno));
	copy("mount/program", 06755, 0, 0);
	program = "mount/program";
	run("nosuid", as_user);
	if (mount("none", "mount", 0, MS_REMOUNT, 0) != 0)
		say("no remount: %s", error_name(errno));
	run("the same, remounted", as_user);
	umount("mount");
	char cwd[512], text[600];
	getcwd(cwd, sizeof cwd);
	snprintf(text, sizeof text, "#!%s/interpreter\n", cwd);
	copy("interpreter", 0755, 0, 0);
	unlink("script");
	write_file("script", text);
	chmod("script", 06755);
	/* The interpreter's name becomes argv[0]. */
	program = "script";
	run("a set-user-id script", as_user);
	chmod("script", 0755);
	chmod("interpreter", 04755);
	run("a script with a set-user-id interpreter", as_user);
}

/* The bits of a file after somebody has done something to it. */
static void by_write(const char *name) { int fd = open(name, O_WRONLY); write(fd, "x", 1); close(fd); }
static void by_nothing(const char *name) { int fd = open(name, O_WRONLY); write(fd, "x", 0); close(fd); }
static void by_pwrite(const char *name) { int fd = open(name, O_WRONLY); pwrite(fd, "x", 1, 100); close(fd); }
static void by_truncate(const char *name) { truncate(name, 5); }
static void by_same_size(const char *name) { struct stat s; stat(name, &s); truncate(name, s.st_size); }
static void by_ftruncate(const char *name) { int fd = open(name, O_WRONLY); ftruncate(fd, 5); close(fd); }
static void by_open(const char *name) { close(open(name, O_WRONLY | O_TRUNC)); }
static void by_fallocate(const char *name) { int fd = open(name, O_WRONLY); fallocate(fd, 0, 0, 10); close(fd); }
static void by_grow(const char *name) { int fd = open(name, O_WRONLY); fallocate(fd, 0, 0, 10000); close(fd); }
static void by_punch(const char *name) { int fd = open(name, O_WRONLY); fallocate(fd, 3, 0, 10); close(fd); }
static void by_sendfile(const char *name)
{
	int fd = open(name, O_WRONLY), in = open("/proc/self/exe", O_RDONLY);
	sendfile(fd, in, 0, 10);
	close(fd), close(in);
}
static void by_splice(const char *name)
{
	int fd = open(name, O_WRONLY), ends[2];
	pipe(ends);
	write(ends[1], "abc", 3);
	splice(ends[0], 0, fd, 0, 3, 0);
	close(fd), close(ends[0]), close(ends[1]);
}
static void by_copy(const char *name)
{
	int fd = open(name, O_WRONLY), in = open("source", O_RDONLY);
	syscall(SYS_copy_file_range, in, 0, fd, 0, 2, 0);
	close(fd), close(in);
}
static void by_mapping(const char *name)
{
	int fd = open(name, O_RDWR);
	char *at = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at != MAP_FAILED)
		*at = 'x';
	close(fd);
}
static void by_chown(const char *name) { chown(name, 1000, -1); }
static void by_chgrp(const char *name) { chown(name, -1, 50); }
static void by_chown_none(const char *name) { say("   chown -1 -1: %s", chown(name, -1, -1) ? error_name(errno) : "0"); }
static void by_chmod(const char *name) { struct stat s; stat(name, &s); chmod(name, s.st_mode & 07777); }
static void by_times(const char *name) { utimensat(AT_FDCWD, name, 0, 0); }

static const struct { const char *name; void (*body)(const char *); } changes[] = {
	{ "write", by_write }, { "write of nothing", by_nothing }, { "pwrite", by_pwrite }, { "truncate", by_truncate }, { "truncate to its size", by_same_size },
	{ "ftruncate", by_ftruncate }, { "O_TRUNC", by_open }, { "fallocate", by_fallocate }, { "fallocate that grows", by_grow },
	{ "punch", by_punch }, { "sendfile", by_sendfile }, { "splice", by_splice }, { "copy_file_range", by_copy }, { "a mapping", by_mapping },
	{ "chown", by_chown }, { "chgrp", by_chgrp }, { "chown to nobody", by_chown_none }, { "chmod", by_chmod }, { "utimes", by_times },
};

static void taken_off(void)
{
	section("what takes the bits off");
	static const struct { const char *name; void (*prepare)(void); } who[] = { { "root", as_root }, { "a user", as_user } };
	static const struct { int mode; uid_t uid; gid_t gid; } files[] = {
		{ 06777, 1000, 1000 }, { 06767, 1000, 1000 }, { 06767, 1000, 50 }, { 06767, 1000, 70 }, { 06777, 0, 70 }, { 02767, 0, 50 }, { 02767, 0, 70 }, { 04666, 0, 0 },
	};
	write_file("source", "abc");
	chmod("source", 0644);
	for (size_t w = 0; w < 2; w++)
		for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
			char line[2048];
			int n = snprintf(line, sizeof line, " %s at %04o of %u %u:", who[w].name, files[f].mode, files[f].uid, files[f].gid);
			for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
				unlink("file");
				write_file("file", "0123456789");
				chown("file", files[f].uid, files[f].gid);
				chmod("file", (mode_t)files[f].mode);
				pid_t pid = must_fork();
				if (pid == 0) {
					who[w].prepare();
					changes[i].body("file");
					_exit(0);
				}
				wait_for(pid);
				struct stat facts;
				stat("file", &facts);
				n += snprintf(line + n, sizeof line - (size_t)n, " %s %04o,", changes[i].name, facts.st_mode & 07777);
			}
			say("%s", line);
		}
}

static void made(void)
{
	section("in a set-group-id directory");
	mkdir("dir", 0777);
	chown("dir", 1001, 70);
	chmod("dir", 02777);
	static const int modes[] = { 02755, 02745, 06755, 04755, 0755 };
	for (int user = 0; user < 2; user++)
		for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
			pid_t pid = must_fork();
			if (pid == 0) {
				if (user)
					as_user();
				umask(0);
				struct stat file = { 0 }, node = { 0 }, directory = { 0 };
				close(open("dir/file", O_CREAT | O_WRONLY, modes[i]));
				stat("dir/file", &file);
				mknod("dir/node", S_IFIFO | (mode_t)modes[i], 0);
				stat("dir/node", &node);
				mkdir("dir/directory", (mode_t)modes[i]);
				stat("dir/directory", &directory);
				say(" %s %04o: file %04o %u, fifo %04o %u, directory %04o %u", user ? "a user" : "root", modes[i], file.st_mode & 07777, file.st_gid,
				    node.st_mode & 07777, node.st_gid, directory.st_mode & 07777, directory.st_gid);
				int fd = open("dir", O_TMPFILE | O_WRONLY, modes[i]);
				if (fd >= 0 && fstat(fd, &file) == 0)
					say("  unnamed: %04o %u", file.st_mode & 07777, file.st_gid);
				unlink("dir/file"), unlink("dir/node"), rmdir("dir/directory");
				_exit(0);
			}
			wait_for(pid);
		}
}

/* A set-user-id program, from outside, while it runs. */
static void outside(void)
{
	section("from outside");
	copy("program", 04755, 1001, 1001);
	int ends[2];
	pipe(ends);
	pid_t pid = must_fork();
	if (pid == 0) {
		as_user();
		dup2(ends[1], 1);
		execl("program", "waits", (char *)0);
		_exit(1);
	}
	char byte, path[64];
	read(ends[0], &byte, 1);
	pid_t watcher = must_fork();
	if (watcher == 0) {
		as_user();
		static const char *const names[] = { "maps", "environ", "exe", "fd", "status", "cwd" };
		for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
			snprintf(path, sizeof path, "/proc/%d/%s", pid, names[i]);
			int fd = open(path, O_RDONLY);
			say(" %s: %s", names[i], fd < 0 ? error_name(errno) : "open");
		}
		SHOW(kill(pid, 0));
		SHOW(setpriority(PRIO_PROCESS, (id_t)pid, 5));
		struct rlimit64 limit;
		SHOW(syscall(SYS_prlimit64, pid, RLIMIT_CORE, 0, &limit));
		_exit(0);
	}
	wait_for(watcher);
	kill(pid, SIGKILL);
	wait_for(pid);
}

/* RLIMIT_NPROC, fork, and exec after setuid. */
static void limits(void)
{
	section("RLIMIT_NPROC");
	copy("program", 0755, 0, 0);
	for (int others = 1; others <= 4; others++) {
		pid_t kept[4];
		for (int i = 0; i < others; i++)
			if ((kept[i] = must_fork()) == 0) {
				setresuid(1077, 1077, 1077);
				for (;;)
					pause();
			}
		nap(50);
		pid_t pid = must_fork();
		if (pid == 0) {
			struct rlimit limit = { 3, 3 };
			setrlimit(RLIMIT_NPROC, &limit);
			say(" %d others: setuid %d", others, setresuid(1077, 1077, 1077));
			pid_t child = fork();
			if (child == 0)
				_exit(0);
			say("  fork: %s", child < 0 ? error_name(errno) : "ok");
			if (child > 0)
				wait_for(child);
			execl("program", "true", (char *)0);
			say("  exec: %s", error_name(errno));
			_exit(0);
		}
		wait_for(pid);
		for (int i = 0; i < others; i++) {
			kill(kept[i], SIGKILL);
			wait_for(kept[i]);
		}
	}
}

/* The exit signal of a child whose parent has executed another program is SIGCHLD. */
static int exits(void *unused)
{
	(void)unused;
	nap(100);
	return 0;
}

static void exit_signal(void)
{
	section("exit signal");
	pid_t pid = must_fork();
	if (pid == 0) {
		sigset_t set;
		sigemptyset(&set), sigaddset(&set, SIGUSR1), sigaddset(&set, SIGCHLD), sigprocmask(SIG_BLOCK, &set, 0);
		clone(exits, stack + sizeof stack, SIGUSR1, 0);
		execl("/proc/self/exe", "parent", (char *)0);
		_exit(1);
	}
	wait_for(pid);
}

static int parent(void)
{
	sigset_t set;
	sigemptyset(&set), sigaddset(&set, SIGUSR1), sigaddset(&set, SIGCHLD);
	struct timespec limit = { 5, 0 };
	say("%s", signal_name(sigtimedwait(&set, 0, &limit)));
	int status;
	SHOW(waitpid(-1, &status, WNOHANG | __WCLONE) > 0);
	/* One that it makes itself keeps its own. */
	clone(exits, stack + sizeof stack, SIGUSR1, 0);
	say("%s", signal_name(sigtimedwait(&set, 0, &limit)));
	return 0;
}

int main(int argc, char **argv)
{
	(void)argc;
	setvbuf(stdout, 0, _IONBF, 0);
	if (strcmp(argv[0], "seen") == 0 || strstr(argv[0], "/interpreter"))
		return seen();
	if (strcmp(argv[0], "true") == 0) {
		say("  exec: ok");
		return 0;
	}
	if (strcmp(argv[0], "parent") == 0)
		return parent();
	if (strcmp(argv[0], "waits") == 0) {
		write(1, "r", 1);
		for (;;)
			pause();
	}
	umask(022);
	chmod(".", 0777);
	programs();
	taken_off();
	made();
	outside();
	limits();
	exit_signal();
	return 0;
}
