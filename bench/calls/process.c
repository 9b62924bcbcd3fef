/* Processes and threads: made, executed, waited for. Children are made by raw calls, and do nothing but end. */
#include "calls.h"

#include "../bench.h"

#include <pthread.h>

static long reap(struct work *w, long child)
{
	int status;
	return ok(w, syscall(SYS_wait4, child, &status, 0, 0));
}

static long op_fork(struct work *w)
{
	long child = ok(w, syscall(SYS_fork));
	if (child == 0)
		syscall(w->k->v[0], 0);
	return reap(w, child);
}

/* The child runs on the parent's stack: nothing returns in it. */
__attribute__((noinline)) static long by_vfork(void)
{
	long child = vfork();
	if (child == 0)
		_exit(0);
	return child;
}

static long op_vfork(struct work *w)
{
	return reap(w, ok(w, by_vfork()));
}

static long op_clone(struct work *w)
{
	long child = ok(w, syscall(SYS_clone, w->k->v[0] | SIGCHLD, 0, w->buf, w->buf + 8, 0));
	if (child == 0)
		syscall(SYS_exit_group, 0);
	if (w->k->v[1])
		close(*(int *)w->buf);
	return reap(w, child);
}

/* A child in the parent's memory, on a stack of its own. */
int clone(int (*)(void *), void *, int, void *, ...);

static int leave(void *number)
{
	syscall((long)number, 0);
	return 0;
}

static long op_clone_vm(struct work *w)
{
	long child = ok(w, clone(leave, w->map + w->len, (int)w->k->v[0] | SIGCHLD, (void *)SYS_exit_group));
	return reap(w, child);
}

struct clone3 {
	uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size, cgroup;
};

static long op_clone3(struct work *w)
{
	struct clone3 *args = (struct clone3 *)(w->buf + 1024);
	*args = (struct clone3){ .flags = (uint64_t)w->k->v[0], .exit_signal = SIGCHLD, .pidfd = (uint64_t)(uintptr_t)w->buf };
	long child = ok(w, syscall(SYS_clone3, args, sizeof *args));
	if (child == 0)
		syscall(SYS_exit_group, 0);
	if (w->k->v[0] & 0x1000)
		close(*(int *)w->buf);
	return reap(w, child);
}

/* A thread: ended when the kernel has cleared its word. */
static long op_thread(struct work *w)
{
	volatile int *word = (volatile int *)(w->buf + C_WORD);
	*word = 1;
	int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_CHILD_CLEARTID | (int)w->k->v[0];
	ok(w, clone(leave, w->map + w->len, flags, (void *)SYS_exit, w->buf, 0, (void *)word));
	for (int now; (now = *word) != 0;)
		syscall(SYS_futex, word, 0, now, 0, 0, 0);
	return 0;
}

static void s_stack(struct work *w)
{
	s_map(w);
	memset(w->buf + C_WORD, 0, 8);
}

static void s_program(struct work *w)
{
	s_dir(w);
	int from = (int)ok(w, open("/proc/self/exe", O_RDONLY));
	unlink(w->path);
	int to = (int)ok(w, open(w->path, O_WRONLY | O_CREAT | O_TRUNC, 0755));
	for (long got; (got = ok(w, read(from, w->buf, 2048))) > 0;)
		ok(w, write(to, w->buf, (size_t)got));
	close(from), close(to);
	chmod(w->path, 0755);
}

__attribute__((noinline)) static long by_exec(struct work *w)
{
	static char *const words[] = { "calls", "@exit", 0 };
	long child = w->k->v[1] ? syscall(SYS_fork) : vfork();
	if (child == 0) {
		if (w->k->v[0] == SYS_execveat)
			syscall(SYS_execveat, w->fd2, "file", words, words + 2, 0);
		else
			syscall(SYS_execve, w->path, words, words + 2);
		_exit(1);
	}
	return child;
}

static long op_exec(struct work *w)
{
	return reap(w, ok(w, by_exec(w)));
}

static long op_setsid(struct work *w)
{
	long child = ok(w, syscall(SYS_fork));
	if (child == 0) {
		syscall(SYS_setsid);
		syscall(SYS_exit_group, 0);
	}
	return reap(w, child);
}

/* Waits by what v[0] chooses: a group, any child, or waitid of a kind. */
static long op_wait(struct work *w)
{
	int status;
	long child = ok(w, syscall(SYS_fork));
	if (child == 0)
		syscall(SYS_exit_group, 0);
	return ok(w, syscall(SYS_wait4, w->k->v[0], &status, w->k->v[1], w->buf));
}

static long op_waitid(struct work *w)
{
	long child = ok(w, syscall(SYS_fork)), kind = w->k->v[0], id = child;
	if (child == 0)
		syscall(SYS_exit_group, 0);
	if (kind == 3)
		id = ok(w, syscall(SYS_pidfd_open, child, 0));
	else if (kind == 2)
		id = 0;
	if (w->k->v[1])
		ok(w, syscall(SYS_waitid, kind, id, w->buf, 4 | 0x01000000, 0));
	ok(w, syscall(SYS_waitid, kind, id, w->buf, 4, 0));
	if (kind == 3)
		close((int)id);
	return 0;
}

static void s_pidfd(struct work *w)
{
	s_child(w);
	w->fd = (int)ok(w, syscall(SYS_pidfd_open, w->pid, 0));
}

static long op_pidfd_open(struct work *w)
{
	return close((int)ok(w, syscall(SYS_pidfd_open, w->k->v[0] ? getppid() : getpid(), 0)));
}

static long op_pidfd_getfd(struct work *w)
{
	return close((int)ok(w, syscall(SYS_pidfd_getfd, w->fd, 2, 0)));
}

/* To its own CPU, again. */
static void s_affinity(struct work *w)
{
	ok(w, sched_getaffinity(0, 128, (cpu_set_t *)w->buf));
}

/* A child that is traced, and stops again and again. It ends with its tracer. */
static void s_tracee(struct work *w)
{
	int status;
	w->pid = ok(w, syscall(SYS_fork));
	if (w->pid == 0) {
		syscall(SYS_ptrace, 0, 0, 0, 0);
		for (;;)
			syscall(SYS_tkill, syscall(SYS_gettid), SIGSTOP);
	}
	ok(w, syscall(SYS_wait4, w->pid, &status, 0, 0));
	ok(w, syscall(SYS_ptrace, 0x4200, w->pid, 0, 0x100000));
}

/* Lets it go on as v[0] says, to its next stop. */
static long op_ptrace_on(struct work *w)
{
	int status;
	ok(w, syscall(SYS_ptrace, w->k->v[0], w->pid, 0, 0));
	return ok(w, syscall(SYS_wait4, w->pid, &status, 0, 0));
}

const struct kase process[] = {
	DEAR("fork", fork, PT, s_map, op_fork, SYS_exit_group),
	DEAR("exit", exit, P, s_map, op_fork, SYS_exit),
	DEAR("exit_group", exit_group, P, s_map, op_fork, SYS_exit_group),
	DEAR("vfork", vfork, PT, s_map, op_vfork),
	DEAR("clone", clone, P, s_map, op_clone, 0),
	DEAR("clone-fs", clone, P, s_map, op_clone, CLONE_FS),
	DEAR("clone-files", clone, P, s_map, op_clone, CLONE_FILES),
	DEAR("clone-parent-settid", clone, P, s_map, op_clone, CLONE_PARENT_SETTID),
	DEAR("clone-child-settid", clone, P, s_map, op_clone, CLONE_CHILD_SETTID),
	DEAR("clone-child-cleartid", clone, P, s_map, op_clone, CLONE_CHILD_CLEARTID),
	DEAR("clone-pidfd", clone, P, s_map, op_clone, 0x1000, 1),
	DEAR("clone-io", clone, P, s_map, op_clone, (long)0x80000000),
	DEAR("clone-vm", clone, PT, s_stack, op_clone_vm, CLONE_VM),
	DEAR("clone-vm-files", clone, P, s_stack, op_clone_vm, CLONE_VM | CLONE_FILES | CLONE_FS),
	DEAR("clone-vm-sighand", clone, P, s_stack, op_clone_vm, CLONE_VM | CLONE_SIGHAND),
	DEAR("clone-vm-vfork", clone, P, s_stack, op_clone_vm, CLONE_VM | CLONE_VFORK),
	DEAR("clone-thread", clone, PT, s_stack, op_thread, 0),
	DEAR("clone-thread-settid", clone, PT, s_stack, op_thread, CLONE_PARENT_SETTID),
	DEAR("clone3", clone3, P, s_map, op_clone3, 0),
	DEAR("clone3-pidfd", clone3, P, s_map, op_clone3, 0x1000),
	DEAR("clone3-clear-sighand", clone3, P, s_map, op_clone3, 0x100000000),
	DEAR("execve", execve, PTO, s_program, op_exec, SYS_execve),
	DEAR("execve-fork", execve, PTO, s_program, op_exec, SYS_execve, 1),
	DEAR("execveat", execveat, P, s_program, op_exec, SYS_execveat),
	DEAR("setsid", setsid, P, s_map, op_setsid),
	FAILS("wait4-nohang", wait4, P, s_child, ANY, CHILD, BUF(0), 1, 0),
	FAILS("wait4-no-child", wait4, PT, 0, ECHILD, -1, BUF(0), 0, 0),
	DEAR("wait4-any", wait4, P, s_map, op_wait, -1),
	DEAR("wait4-group", wait4, P, s_map, op_wait, 0),
	DEAR("wait4-clone-all", wait4, P, s_map, op_wait, -1, 0x40000000),
	DEAR("waitid-pid", waitid, P, s_map, op_waitid, 1),
	DEAR("waitid-all", waitid, P, s_map, op_waitid, 0),
	DEAR("waitid-group", waitid, P, s_map, op_waitid, 2),
	DEAR("waitid-pidfd", waitid, P, s_map, op_waitid, 3),
	DEAR("waitid-nowait", waitid, P, s_map, op_waitid, 1, 1),
	FAILS("waitid-nohang", waitid, P, s_child, ANY, 1, CHILD, BUF(0), 5, 0),
	OP("pidfd_open", pidfd_open, PT, 0, op_pidfd_open),
	OP("pidfd_open-parent", pidfd_open, PTO, 0, op_pidfd_open, 1),
	RAW("pidfd_send_signal", pidfd_send_signal, P, s_pidfd, FD, 0, 0, 0),
	FAILS("process_mrelease", process_mrelease, P, s_pidfd, EINVAL, FD, 0),
	RAW("setns", setns, P, s_pidfd, FD, 0x20000),
	OP("pidfd_getfd", pidfd_getfd, P, s_pidfd, op_pidfd_getfd),
	RAW("kcmp", kcmp, PT, 0, TID, TID, 1, 0, 0),
	RAW("kcmp-file", kcmp, PT, 0, TID, TID, 0, 1, 2),
	RAW("kcmp-child", kcmp, P, s_child, PID, CHILD, 4, 0, 0),
	RAW("kcmp-file-child", kcmp, P, s_child, PID, CHILD, 0, 1, 1),
	FAILS("ptrace-untraced", ptrace, P, s_child, ESRCH, 7, CHILD, 0, 0),
	RAW("ptrace-peek", ptrace, P, s_tracee, 2, CHILD, BUF(0), BUF(8)),
	RAW("ptrace-getregs", ptrace, P, s_tracee, 12, CHILD, 0, BUF(0)),
	DEAR("ptrace-cont", ptrace, P, s_tracee, op_ptrace_on, 7),
	DEAR("ptrace-syscall", ptrace, P, s_tracee, op_ptrace_on, 24),
	RAW("sched_setaffinity", sched_setaffinity, PT, s_affinity, 0, 128, BUF(0)),
	END
};
