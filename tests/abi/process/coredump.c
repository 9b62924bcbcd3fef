/* Core dumps: when one is written, and where it lies. (What it holds: corefile.c) */
#include "dumped.h"

#include <sys/prctl.h>

static void die(void) { abort(); }
static void die_by_fault(void) { *(volatile int *)8 = 1; }
#define BY(name, signal) \
	static void name(void) \
	{ \
		kill(getpid(), signal); \
		for (;;) \
			pause(); \
	}
BY(by_quit, SIGQUIT)
BY(by_ill, SIGILL)
BY(by_trap, SIGTRAP)
BY(by_bus, SIGBUS)
BY(by_fpe, SIGFPE)
BY(by_sys, SIGSYS)
BY(by_xcpu, SIGXCPU)
BY(by_xfsz, SIGXFSZ)
BY(by_term, SIGTERM)
BY(by_kill, SIGKILL)
BY(by_usr, SIGUSR1)
BY(by_realtime, 40)
BY(by_segv, SIGSEGV)

static void not_dumpable(void)
{
	prctl(PR_SET_DUMPABLE, 0);
	abort();
}
static void other_user(void)
{
	setresuid(1000, 1000, 1000);
	abort();
}
static void with_umask(void)
{
	umask(0777);
	abort();
}
static void elsewhere(void)
{
	mkdir("sub", 0700);
	chdir("sub");
	abort();
}
static void user_in(const char *dir)
{
	chdir(dir);
	setresuid(1000, 1000, 1000);
	prctl(PR_SET_DUMPABLE, 1);
	abort();
}
static void without_right(void) { user_in("roots"); }
static void with_right(void) { user_in("users"); }
static void small_files(void)
{
	struct rlimit r = { 5000, RLIM_INFINITY };
	setrlimit(RLIMIT_FSIZE, &r);
	abort();
}

static void when(void)
{
	section("when");
	dumped("abort", die);
	show_file("core");
	dumped("a fault", die_by_fault);
	dumped("SIGQUIT", by_quit);
	dumped("SIGILL", by_ill);
	dumped("SIGTRAP", by_trap);
	dumped("SIGBUS", by_bus);
	dumped("SIGFPE", by_fpe);
	dumped("SIGSYS", by_sys);
	dumped("SIGXCPU", by_xcpu);
	dumped("SIGXFSZ", by_xfsz);
	dumped("SIGSEGV", by_segv);
	unlink("core");
	dumped("SIGTERM", by_term);
	dumped("SIGKILL", by_kill);
	dumped("SIGUSR1", by_usr);
	dumped("a real-time signal", by_realtime);
	show_file("core");
	dumped("not dumpable", not_dumpable);
	dumped("after setuid", other_user);
	dumped("with umask 0777", with_umask);
	show_file("core");
	unlink("core");
	const rlim_t limits[] = { 0, 1, 4095, 4096, 5000 };
	for (unsigned n = 0; n < sizeof limits / sizeof *limits; n++) {
		say("RLIMIT_CORE %lu", (unsigned long)limits[n]);
		dumped_within(limits[n], "abort", die);
		show_file("core");
		unlink("core");
	}
	dumped("RLIMIT_FSIZE 5000", small_files);
	show_file("core");
	unlink("core");
}

static void where(void)
{
	section("where");
	write_file("core", "old");
	link("core", "other");
	dumped("over a file with two names", die);
	show_file("core");
	show_file("other");
	unlink("core"), unlink("other");
	symlink("target", "core");
	dumped("over a symbolic link", die);
	show_file("core");
	show_file("target");
	unlink("core");
	mkdir("core", 0700);
	dumped("over a directory", die);
	show_file("core");
	rmdir("core");
	dumped("in another directory", elsewhere);
	show_file("core");
	show_file("sub/core");
	mkdir("roots", 0755), mkdir("users", 0777);
	chmod("users", 0777), chmod(".", 0755);
	dumped("where the user may not write", without_right);
	show_file("roots/core");
	dumped("where it may", with_right);
	show_file("users/core");
	write_file("users/core", "root's");
	chmod("users", 01777);
	dumped("where another's lies in a sticky directory", with_right);
	show_file("users/core");

	char name[300];
	char *before = read_file("/proc/sys/kernel/core_pattern");
	say("core_pattern is %s", before);
	pid_t pid;
	write_file("/proc/sys/kernel/core_uses_pid", "1");
	pid = dumped("with core_uses_pid", die);
	snprintf(name, sizeof name, "core.%d", pid);
	say("named with its number: %d", access(name, F_OK) == 0);
	unlink(name);
	write_file("/proc/sys/kernel/core_pattern", "x%%_%e_%s_%u_%g_%p_%d_%q%");
	pid = dumped("with a pattern", die);
	snprintf(name, sizeof name, "x%%_coredump_6_0_0_%d_1_", pid);
	say("named so: %d", access(name, F_OK) == 0);
	show_file("core");
	unlink(name);
	write_file("/proc/sys/kernel/core_pattern", "sub/%f");
	dumped("with the program's name, without its number", die);
	snprintf(name, sizeof name, "sub/coredump.%d", pid + 1);
	write_file("/proc/sys/kernel/core_uses_pid", "0");
	dumped("with the program's name", die);
	show_file("sub/coredump");
	char long_pattern[201];
	memset(long_pattern, 'l', 200);
	long_pattern[200] = 0;
	write_file("/proc/sys/kernel/core_pattern", long_pattern);
	char *cut = read_file("/proc/sys/kernel/core_pattern");
	say("a long pattern is cut to %zu", strlen(cut) - 1);
	write_file("/proc/sys/kernel/core_pattern", "core");
}

int main(void)
{
	write_here();
	when();
	where();
	return 0;
}
