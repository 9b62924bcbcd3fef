/* A process that is attached to: stops of its group, detaching, waits of its parent and of its tracer, the tracer's end, threads, rights. */
#include "tracer.h"
#include "subjects.h"


static void attaches(void)
{
	section("attach");
	pid_t pid = parked(0);
	SHOW(trace(PTRACE_ATTACH, pid, 0, 0));
	show_stop("attached", pid);
	say("State %s", status_line(pid, "State:"));
	SHOW(trace(PTRACE_CONT, pid, 0, 0));
	int status;
	SHOW(waitpid(pid, &status, WNOHANG | __WALL));
	say("TracerPid is this: %d", atoi(status_line(pid, "TracerPid:")) == getpid());
	kill(pid, SIGUSR1);
	siginfo_t info;
	memset(&info, 0, sizeof info);
	SHOW(waitid(P_PID, pid, &info, WSTOPPED | WNOWAIT));
	say("code %d status %s", info.si_code, signal_name(info.si_status));
	memset(&info, 0, sizeof info);
	SHOW(waitid(P_PID, pid, &info, WEXITED));
	say("code %d status %s", info.si_code, signal_name(info.si_status));
	SHOW(waitid(P_PID, pid, &info, WSTOPPED | WNOHANG));
	SHOW(trace(PTRACE_DETACH, pid, 0, 0));
	say("TracerPid %s", status_line(pid, "TracerPid:"));
	SHOW(trace(PTRACE_CONT, pid, 0, 0));
	SHOW(trace(PTRACE_ATTACH, pid, 0, 0));
	show_stop("again", pid);
	ends(pid);
}

static void group_stops(void)
{
	section("stops of a group");
	pid_t pid = parked(0);
	trace(PTRACE_ATTACH, pid, 0, 0);
	waits(pid);
	/* With the signal it stops. */
	trace(PTRACE_CONT, pid, 0, SIGSTOP);
	show_stop("stopped", pid);
	siginfo_t info;
	SHOW(trace(PTRACE_GETSIGINFO, pid, 0, AT(&info)));
	trace(PTRACE_CONT, pid, 0, 0);
	kill(pid, SIGSTOP);
	show_stop("another", pid);
	trace(PTRACE_CONT, pid, 0, SIGSTOP);
	show_stop("stopped anew", pid);
	kill(pid, SIGCONT);
	nap(20);
	SHOW(trace(PTRACE_CONT, pid, 0, 0));
	show_stop("continued", pid);
	SHOW(trace(PTRACE_CONT, pid, 0, SIGCONT));
	nap(20);
	kill(pid, SIGSTOP);
	show_stop("before it is let go", pid);
	trace(PTRACE_DETACH, pid, 0, SIGSTOP);
	int status;
	show_value("waitpid stopped", waitpid(pid, &status, WUNTRACED) == pid);
	say("%s, State %s", status_text(status), status_line(pid, "State:"));
	/* One that is stopped already. */
	SHOW(trace(PTRACE_ATTACH, pid, 0, 0));
	show_stop("attached while it was stopped", pid);
	kill(pid, SIGCONT);
	kill(pid, SIGKILL);
	say("ends: %s", status_text(waits(pid)));
}

/* The tracer is another's child, and the parent waits too. */
static void parents(void)
{
	section("parent and tracer");
	pid_t pid = parked(0);
	int ends[2], back[2];
	pipe(ends), pipe(back);
	pid_t tracer = must_fork();
	if (tracer == 0) {
		SHOW(trace(PTRACE_ATTACH, pid, 0, 0));
		show_stop("its tracer sees", pid);
		trace(PTRACE_CONT, pid, 0, 0);
		write(ends[1], "a", 1);
		show_stop("its tracer sees", pid);
		trace(PTRACE_CONT, pid, 0, SIGTERM);
		siginfo_t info;
		memset(&info, 0, sizeof info);
		waitid(P_PID, pid, &info, WEXITED | WNOWAIT | __WALL);
		say("its tracer sees code %d status %d", info.si_code, info.si_status);
		write(ends[1], "b", 1);
		char byte;
		read(back[0], &byte, 1);
		say("  held: %s", status_line(pid, "State:"));
		say("its tracer has waited: %s", status_text(waits(pid)));
		show_value("waitpid of nobody", waitpid(pid, 0, __WALL));
		write(ends[1], "c", 1);
		_exit(0);
	}
	char byte;
	read(ends[0], &byte, 1);
	int status;
	show_value("the parent sees", waitpid(pid, &status, WNOHANG | WUNTRACED));
	kill(pid, SIGUSR1);
	read(ends[0], &byte, 1);
	show_value("the parent sees", waitpid(pid, &status, WNOHANG));
	write(back[1], "b", 1);
	read(ends[0], &byte, 1);
	say("the parent has waited: %s", status_text(wait_for(pid)));
	say("tracer: %s", status_text(wait_for(tracer)));
	close(ends[0]), close(ends[1]), close(back[0]), close(back[1]);
}

static void tracer_goes(const char *what, int options)
{
	pid_t pid = parked(0);
	pid_t tracer = must_fork();
	if (tracer == 0) {
		trace(PTRACE_ATTACH, pid, 0, 0);
		waits(pid);
		trace(PTRACE_SETOPTIONS, pid, 0, options);
		_exit(0);
	}
	wait_for(tracer);
	if (options) {
		say("%s: %s", what, status_text(wait_for(pid)));
		return;
	}
	say("%s: TracerPid %s", what, status_line(pid, "TracerPid:"));
	int status;
	show_value("  ended", waitpid(pid, &status, WNOHANG));
	kill(pid, SIGTERM);
	say("  %s", status_text(wait_for(pid)));
}

/* Its zombie is its parent's, once its tracer has gone. */
static void tracer_leaves_zombie(void)
{
	pid_t pid = parked(0), tracer = must_fork();
	if (tracer == 0) {
		trace(PTRACE_ATTACH, pid, 0, 0);
		waits(pid);
		trace(PTRACE_CONT, pid, 0, SIGKILL);
		siginfo_t info;
		waitid(P_PID, pid, &info, WEXITED | WNOWAIT | __WALL);
		_exit(0);
	}
	wait_for(tracer);
	say("left to its parent: %s", status_text(wait_for(pid)));
}

static volatile int thread_tid;

static int thread_body(void *unused)
{
	(void)unused;
	thread_tid = (int)syscall(SYS_gettid);
	for (;;)
		pause();
	return 0;
}

static char stack[65536] __attribute__((aligned(16)));

static void has_thread(void)
{
	clone(thread_body, stack + sizeof stack, CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD, NULL);
	while (!thread_tid)
		nap(1);
}

static void threads(void)
{
	section("threads");
	pid_t pid = parked(has_thread);
	trace(PTRACE_ATTACH, pid, 0, 0);
	waits(pid);
	unsigned long tid = 0;
	trace(PTRACE_PEEKDATA, pid, AT(&thread_tid) & ~7ul, AT(&tid));
	tid = AT(&thread_tid) & 4 ? tid >> 32 : tid & 0xffffffff;
	SHOW(trace(PTRACE_ATTACH, (pid_t)tid, 0, 0));
	show_stop("thread", (pid_t)tid);
	int status;
	show_value("without __WALL", waitpid((pid_t)tid, &status, WNOHANG));
	struct user_regs_struct regs;
	SHOW(trace(PTRACE_GETREGS, (pid_t)tid, 0, AT(&regs)));
	say("in pause: %d", regs.orig_rax == SYS_pause);
	/* Of a thread whose tracer makes it exit, the tracer is told. */
	regs.orig_rax = -1, regs.rax = SYS_exit, regs.rdi = 9, regs.rip -= 2;
	trace(PTRACE_SETREGS, (pid_t)tid, 0, AT(&regs));
	trace(PTRACE_CONT, (pid_t)tid, 0, 0);
	say("thread: %s", status_text(waits((pid_t)tid)));
	SHOW(trace(PTRACE_CONT, (pid_t)tid, 0, 0));
	ends(pid);
}

static void rights(void)
{
	section("rights");
	for (size_t i = 0; i < sizeof subjects / sizeof *subjects; i++) {
		pid_t pid = parked(subjects[i].body), tracer = must_fork();
		if (tracer == 0) {
			as(1000, 1);
			long done = trace(PTRACE_ATTACH, pid, 0, 0);
			say("a user attaches to %s: %s", subjects[i].what, done ? error_name(errno) : "ok");
			if (done == 0) {
				waits(pid);
				trace(PTRACE_DETACH, pid, 0, 0);
			}
			_exit(0);
		}
		wait_for(tracer);
		kill(pid, SIGKILL);
		wait_for(pid);
	}
}

static void makes_one(void)
{
	pid_t pid = (pid_t)syscall(SYS_clone, CLONE_PTRACE | SIGCHLD, 0, 0, 0, 0);
	if (pid == 0)
		_exit(6);
	_exit(wait_for(pid) == 6 << 8 ? 5 : 1);
}

/* A child that its maker hands on to the maker's tracer. */
static void handed_on(void)
{
	section("CLONE_PTRACE");
	pid_t pid = traced(makes_one);
	trace(PTRACE_CONT, pid, 0, 0);
	int status = 0;
	pid_t child = waitpid(-1, &status, __WALL);
	say("another %d: %s, TracerPid is this: %d", child > 0 && child != pid, stop_text(status), atoi(status_line(child, "TracerPid:")) == getpid());
	trace(PTRACE_CONT, child, 0, 0);
	say("the child: %s", status_text(waits(child)));
	show_stop("its maker", pid);
	trace(PTRACE_CONT, pid, 0, 0);
	say("its maker: %s", status_text(waits(pid)));
	/* Of one that nobody traces it means nothing. */
	pid = (pid_t)syscall(SYS_clone, CLONE_PTRACE | SIGCHLD, 0, 0, 0, 0);
	if (pid == 0)
		_exit(2);
	say("untraced: %s", status_text(wait_for(pid)));
}

int main(void)
{
	setvbuf(stdout, 0, _IONBF, 0);
	attaches();
	group_stops();
	parents();
	section("the tracer ends");
	tracer_goes("traced no more", 0);
	tracer_goes("killed", PTRACE_O_EXITKILL);
	tracer_leaves_zombie();
	threads();
	handed_on();
	rights();
	return 0;
}
