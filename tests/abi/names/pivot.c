/* pivot_root, and setns into the caller's own mount namespace. All is taken off at the end. */
#include "t.h"

#include <sched.h>
#include <sys/mount.h>

static int pivot(const char *new, const char *old)
{
	return (int)syscall(SYS_pivot_root, new, old);
}

static int home;

static void see(const char *text)
{
	char here[256] = "";
	char *cwd = getcwd(here, sizeof here);
	struct stat root;
	stat("/", &root);
	say("%s: cwd %s, root mode %o", text, cwd ? here : error_name(errno), root.st_mode & 07777);
}

static void plain_user(void)
{
	if (setuid(1000))
		_exit(1);
	SHOW(pivot("/nowhere", (void *)1));
	SHOW(pivot((void *)1, "/nowhere"));
	SHOW(syscall(SYS_setns, syscall(SYS_pidfd_open, getpid(), 0), CLONE_NEWNS));
	SHOW(syscall(SYS_setns, syscall(SYS_pidfd_open, getppid(), 0), CLONE_NEWNS));
}

static void refused(void)
{
	section("refused");
	SHOW(pivot((void *)1, "/"));
	SHOW(pivot("/nowhere", (void *)1));
	SHOW(pivot("/", (void *)1));
	SHOW(pivot("/", "/nowhere"));
	write_file("plain", "");
	SHOW(pivot("plain", "/"));
	SHOW(pivot("/", "plain"));
	SHOW(pivot("", "/"));
	SHOW(pivot("/", "/"));
	mkdir("a", 0700), mkdir("a/old", 0700);
	SHOW(pivot("a", "a/old"));
	SHOW(mount("none", "a", "tmpfs", 0, "mode=701"));
	mkdir("a/old", 0700);
	/* The root of everything hangs nowhere. */
	SHOW(pivot("a", "a/old"));
	SHOW(pivot("a", "."));
	in_child("user", plain_user);
}

/* From here on the root is `a`. */
static void inside(void)
{
	section("inside");
	SHOW(chroot("a"));
	SHOW(chdir("/"));
	see("chroot");
	mkdir("new", 0700), mkdir("new/old", 0700), mkdir("beside", 0700), mkdir("plain", 0700);
	SHOW(pivot("new", "new/old"));
	SHOW(mount("none", "new", "tmpfs", 0, "mode=702"));
	mkdir("new/old", 0700), mkdir("new/deep", 0700), mkdir("new/deep/er", 0700);
	SHOW(mount("none", "beside", "tmpfs", 0, "mode=703"));
	SHOW(pivot("plain", "new/old"));
	SHOW(pivot("/", "new/old"));
	SHOW(pivot("new", "old"));
	SHOW(pivot("new", "plain"));
	SHOW(pivot("new", "beside"));
	SHOW(pivot("beside", "new/old"));
	SHOW(pivot("new/deep", "new/deep/er"));
	write_file("mark", "of the first");
	write_file("new/mark", "of the second");
	int removed = open("new/deep", O_PATH | O_DIRECTORY);
	char path[64];
	snprintf(path, sizeof path, "/proc/self/fd/%d", removed);
	close(removed);

	/* Others stand there too: one in the old root, one elsewhere, one that shares nothing. */
	int ready[2], go[2];
	pipe(ready), pipe(go);
	pid_t others[3];
	for (int i = 0; i < 3; i++) {
		others[i] = must_fork();
		if (!others[i]) {
			char byte;
			static const char *const places[] = { "/", "/plain", "/new" };
			chdir(places[i]);
			write(ready[1], "", 1);
			read(go[0], &byte, 1);
			char *mark = read_file("/mark");
			char here[256] = "";
			char *cwd = getcwd(here, sizeof here);
			say("child in %s: root %s, cwd %s", places[i], mark ? mark : "-", cwd ? here : error_name(errno));
			_exit(0);
		}
		char byte;
		read(ready[0], &byte, 1);
	}
	SHOW(pivot("new", "new/old"));
	see("pivoted");
	char *mark = read_file("/mark"), *old = read_file("/old/mark");
	say("marks: %s, %s", mark ? mark : "-", old ? old : "-");
	for (int i = 0; i < 3; i++) {
		write(go[1], "", 1);
		wait_for(others[i]);
	}
	close(ready[0]), close(ready[1]), close(go[0]), close(go[1]);
	SHOW(access("/old/beside", F_OK));
	SHOW(access("/old/new/mark", F_OK));
	SHOW(access("/old/old", F_OK));
	/* And back: the old one becomes root again. */
	SHOW(pivot("old", "old/plain"));
	see("back");
	SHOW(access("/plain/deep", F_OK));
	SHOW(access("/beside", F_OK));
	/* The same place for both: the old root lies on the new one. */
	SHOW(chdir("/plain"));
	SHOW(pivot(".", "."));
	see("on the same place");
	SHOW(umount2(".", MNT_DETACH));
	see("the old one is gone");
	SHOW(access("/mark", F_OK));
}

static int other_thread(void *unused)
{
	(void)unused;
	while (pause())
		;
	return 0;
}

static void spaces(void)
{
	section("setns");
	int self = (int)syscall(SYS_pidfd_open, getpid(), 0), null = open("/dev/null", O_RDONLY);
	SHOW(syscall(SYS_setns, -1, CLONE_NEWNS));
	SHOW(syscall(SYS_setns, null, CLONE_NEWNS));
	SHOW(syscall(SYS_setns, null, 0));
	SHOW(syscall(SYS_setns, self, 0));
	SHOW(syscall(SYS_setns, self, 1));
	SHOW(syscall(SYS_setns, self, CLONE_NEWNS | CLONE_VM));
	static const int kinds[] = { CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET, 0x80 };
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		MISSING(syscall(SYS_setns, self, kinds[i]), EINVAL);
	pid_t dead = must_fork();
	if (!dead)
		_exit(0);
	int gone = (int)syscall(SYS_pidfd_open, dead, 0);
	siginfo_t info;
	waitid(P_PID, dead, &info, WEXITED | WNOWAIT);
	SHOW(syscall(SYS_setns, gone, CLONE_NEWNS));
	wait_for(dead);
	SHOW(syscall(SYS_setns, gone, CLONE_NEWNS));
	close(gone), close(null);
	mkdir("b", 0704);
	SHOW(chroot("b"));
	SHOW(chdir("/"));
	see("below");
	SHOW(access("/proc/self/stat", F_OK));
	SHOW(syscall(SYS_setns, self, CLONE_NEWNS));
	char here[256] = "";
	say("in the namespace: cwd %s", getcwd(here, sizeof here));
	SHOW(access("/proc/self/stat", F_OK));
	SHOW(access("proc/self/stat", F_OK));
	close(self);
}

static void with_thread(void)
{
	int self = (int)syscall(SYS_pidfd_open, getpid(), 0);
	static char stack[1 << 16] __attribute__((aligned(16)));
	clone(other_thread, stack + sizeof stack, CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM, 0);
	SHOW(syscall(SYS_setns, self, CLONE_NEWNS));
	SHOW(unshare(CLONE_FS));
	SHOW(syscall(SYS_setns, self, CLONE_NEWNS));
	_exit(0);
}

static void leave(void)
{
	fchdir(home);
	chroot(".");
	_exit(0);
}

int main(void)
{
	home = open(".", O_RDONLY | O_DIRECTORY);
	refused();
	int top = open("/", O_RDONLY | O_DIRECTORY);
	in_child("inside", inside);
	/* Whoever pivots takes along all who have that root: the others here kept theirs. */
	SHOW(fchdir(home));
	SHOW(access("a", F_OK));
	SHOW(umount2("a", MNT_DETACH));
	in_child("setns", spaces);
	in_child("setns with a thread", with_thread);
	in_child("leave", leave);
	close(top);
	return 0;
}
