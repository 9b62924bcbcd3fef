/* Signals: to oneself, to a child, to the parent; taken by a handler, by a waiting call, by a descriptor, or by nobody. */
#include "calls.h"

#include <sys/signalfd.h>
#include <sys/time.h>

static long usr1(struct work *w, int how)
{
	return ok(w, syscall(SYS_rt_sigprocmask, how, w->buf + C_USR1, 0, 8));
}

/* Blocked, and waits for it. */
static void s_blocked(struct work *w)
{
	usr1(w, SIG_BLOCK);
}

static long op_timedwait(struct work *w)
{
	ok(w, syscall(SYS_tkill, w->x[0], SIGUSR1));
	return ok(w, syscall(SYS_rt_sigtimedwait, w->buf + C_USR1, w->buf, 0, 8));
}

static void s_timedwait(struct work *w)
{
	s_blocked(w);
	w->x[0] = syscall(SYS_gettid);
}

static long op_suspend(struct work *w)
{
	ok(w, syscall(SYS_tkill, w->x[0], SIGUSR1));
	if (syscall(SYS_rt_sigsuspend, w->buf + C_NONE, 8) != -1 || errno != EINTR)
		wrong(w, 0);
	return 0;
}

static void s_suspend(struct work *w)
{
	s_handler(w);
	s_timedwait(w);
}

/* It comes again and again: the first may come before the pause. */
static long op_pause(struct work *w)
{
	struct itimerval soon = { .it_interval = { 0, 1000 }, .it_value = { 0, 100 } };
	ok(w, syscall(SYS_setitimer, ITIMER_REAL, &soon, 0));
	syscall(SYS_pause);
	return ok(w, syscall(SYS_setitimer, ITIMER_REAL, w->buf + C_OFF, 0));
}

static void s_signalfd(struct work *w)
{
	s_timedwait(w);
	w->fd = (int)ok(w, syscall(SYS_signalfd4, -1, w->buf + C_USR1, 8, SFD_NONBLOCK));
}

static long op_signalfd_read(struct work *w)
{
	ok(w, syscall(SYS_tkill, w->x[0], SIGUSR1));
	return ok(w, read(w->fd, w->buf, 128));
}

static void on_own_stack(int signal)
{
	(void)signal;
}

static void s_own_stack(struct work *w)
{
	s_map(w);
	struct sigaction action = { .sa_handler = on_own_stack, .sa_flags = SA_ONSTACK };
	ok(w, sigaction(SIGUSR1, &action, 0));
	stack_t stack = { .ss_sp = w->map, .ss_size = w->len };
	ok(w, sigaltstack(&stack, 0));
}

/* Each child stopped and continued; the parent looks at neither. */
static long op_stop(struct work *w)
{
	ok(w, syscall(SYS_kill, w->pid, SIGSTOP));
	return ok(w, syscall(SYS_kill, w->pid, SIGCONT));
}

static void s_info(struct work *w)
{
	s_handler(w);
	((siginfo_t *)(w->buf + C_INFO))->si_pid = getpid();
}

static void s_ignored(struct work *w)
{
	(void)w;
	signal(SIGUSR2, SIG_IGN);
}

static long op_blocked(struct work *w)
{
	usr1(w, SIG_BLOCK);
	ok(w, syscall(SYS_tkill, w->x[0], SIGUSR1));
	return usr1(w, SIG_UNBLOCK);
}

static void s_tid(struct work *w)
{
	s_handler(w);
	w->x[0] = syscall(SYS_gettid);
}

/* The handler returns by it. */
static long op_return(struct work *w)
{
	return ok(w, syscall(SYS_tkill, w->x[0], SIGUSR1));
}

const struct kase signals[] = {
	RAW("rt_sigaction-get", rt_sigaction, PT, 0, 10, 0, BUF(0), 8),
	RAW("rt_sigaction-set", rt_sigaction, PT, 0, 12, BUF(C_IGNORE), BUF(0), 8),
	RAW("rt_sigprocmask-get", rt_sigprocmask, PT, 0, 0, 0, BUF(0), 8),
	RAW("rt_sigprocmask-block", rt_sigprocmask, PT, 0, 0, BUF(C_USR1), BUF(0), 8),
	RAW("rt_sigprocmask-unblock", rt_sigprocmask, PT, 0, 1, BUF(C_USR1), BUF(0), 8),
	RAW("rt_sigprocmask-set", rt_sigprocmask, PT, 0, 2, BUF(C_NONE), BUF(0), 8),
	RAW("rt_sigpending", rt_sigpending, PT, 0, BUF(0), 8),
	RAW("kill-self", kill, P, s_handler, PID, SIGUSR1),
	RAW("kill-none", kill, PT, 0, PID, 0),
	RAW("kill-ignored", kill, P, s_ignored, PID, SIGUSR2),
	RAW("kill-child", kill, P, s_child, CHILD, 0),
	RAW("kill-parent", kill, PTO, s_ignored, PPID, 0),
	OP("kill-stop", kill, P, s_child, op_stop),
	RAW("tkill-self", tkill, PT, s_handler, TID, SIGUSR1),
	RAW("tgkill-self", tgkill, PT, s_handler, PID, TID, SIGUSR1),
	OP("rt_sigreturn", rt_sigreturn, PT, s_tid, op_return),
	OP("tkill-blocked", tkill, PT, s_tid, op_blocked),
	RAW("rt_sigqueueinfo", rt_sigqueueinfo, P, s_info, PID, SIGUSR1, BUF(C_INFO)),
	RAW("rt_tgsigqueueinfo", rt_tgsigqueueinfo, PT, s_info, PID, TID, SIGUSR1, BUF(C_INFO)),
	OP("rt_sigtimedwait", rt_sigtimedwait, PT, s_timedwait, op_timedwait),
	FAILS("rt_sigtimedwait-none", rt_sigtimedwait, PT, s_blocked, EAGAIN, BUF(C_USR1), BUF(0), BUF(C_ZERO), 8),
	FAILS("rt_sigtimedwait-late", rt_sigtimedwait, PT, s_blocked, EAGAIN, BUF(C_USR1), BUF(0), BUF(C_50US), 8),
	OP("rt_sigsuspend", rt_sigsuspend, PT, s_suspend, op_suspend),
	OP("pause", pause, P, s_handler, op_pause),
	FAILS("restart_syscall", restart_syscall, PT, 0, ANY, 0),
	RAW("sigaltstack-get", sigaltstack, PT, 0, 0, BUF(0)),
	RAW("sigaltstack-set", sigaltstack, PT, 0, BUF(C_STACK), 0),
	RAW("sigaltstack-used", sigaltstack, PT, s_own_stack, 0, BUF(0)),
	RAW("tkill-own-stack", tkill, PT, s_own_stack, TID, SIGUSR1),
	OP("signalfd4-read", signalfd4, PT, s_signalfd, op_signalfd_read),
	FAILS("signalfd4-empty", read, PT, s_signalfd, EAGAIN, FD, BUF(0), 128),
	RAW("signalfd4-change", signalfd4, PT, s_signalfd, FD, BUF(C_USR1), 8, 0),
	RAW("signalfd-change", signalfd, PT, s_signalfd, FD, BUF(C_USR1), 8),
	END
};
