/* Events that a tracer has asked for: fork, vfork, clone, exec, exit; a thread that executes; PTRACE_SEIZE, INTERRUPT and LISTEN. */
#include "tracer.h"

#include <sys/prctl.h>

#define FORK 2
#define VFORK 4
#define CLONE 8
#define EXEC 16
#define VFORK_DONE 32
#define EXIT 64
#define SEIZE 0x4206
#define INTERRUPT 0x4207
#define LISTEN 0x4208

static char stack[65536] __attribute__((aligned(16)));

static unsigned long message(pid_t pid)
{
	unsigned long word = 0;
	if (trace(PTRACE_GETEVENTMSG, pid, 0, AT(&word)) != 0)
		say("no message: %s", error_name(errno));
	return word;
}

static void show_code(pid_t pid)
{
	siginfo_t info;
	memset(&info, 0, sizeof info);
	long done = trace(PTRACE_GETSIGINFO, pid, 0, AT(&info));
	say("  %s code %#x, of itself %d", done ? error_name(errno) : signal_name(info.si_signo), info.si_code, info.si_pid == pid);
}

static void forks(void)
{
	pid_t pid = (pid_t)syscall(SYS_fork);
	if (pid == 0)
		syscall(SYS_exit_group, 3);
	wait_for(pid);
	_exit(4);
}

static void vforks(void)
{
	pid_t pid = vfork();
	if (pid == 0)
		_exit(3);
	wait_for(pid);
	_exit(4);
}

static volatile int thread_done;

static int thread_body(void *unused)
{
	(void)unused;
	thread_done = 1;
	syscall(SYS_exit, 9);
	return 0;
}

static int execute_in_thread(void *unused)
{
	(void)unused;
	execl("/proc/self/exe", "again", (char *)0);
	_exit(1);
}

#define THREAD (CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD)

static void clones(void)
{
	clone(thread_body, stack + sizeof stack, THREAD, NULL);
	while (!thread_done)
		nap(1);
	_exit(4);
}

static void thread_execs(void)
{
	clone(execute_in_thread, stack + sizeof stack, THREAD, NULL);
	for (;;)
		pause();
}

static void executes(void)
{
	execl("/proc/self/exe", "again", (char *)0);
	_exit(1);
}

/* The new one's first stop and its end may come before its maker's stop goes on, so it is asked for by its number. */
static void makes(const char *what, void (*body)(void), unsigned long options)
{
	say("-- %s", what);
	pid_t pid = traced(body);
	SHOW(trace(PTRACE_SETOPTIONS, pid, 0, options));
	trace(PTRACE_CONT, pid, 0, 0);
	show_stop("maker", pid);
	show_code(pid);
	pid_t child = (pid_t)message(pid);
	say("a number %d, another %d", child > 0, child != pid);
	show_stop("made", child);
	show_code(child);
	if (!(options & CLONE))
		say("TracerPid is this: %d", atoi(status_line(child, "TracerPid:")) == getpid());
	trace(PTRACE_CONT, child, 0, 0);
	if (options & EXIT) {
		show_stop("made", child);
		say("  status %s", status_text((int)message(child)));
		trace(PTRACE_CONT, child, 0, 0);
	}
	say("made: %s", status_text(waits(child)));
	trace(PTRACE_CONT, pid, 0, 0);
	int status = waits(pid);
	while (WIFSTOPPED(status)) {
		say("maker: %s, message is the number %d", stop_text(status), (pid_t)message(pid) == child);
		trace(PTRACE_CONT, pid, 0, WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status));
		status = waits(pid);
	}
	say("maker: %s", status_text(status));
}

static void execs(void)
{
	section("exec");
	pid_t pid = traced(executes);
	trace(PTRACE_SETOPTIONS, pid, 0, EXEC | EXIT | PTRACE_O_TRACESYSGOOD);
	trace(PTRACE_CONT, pid, 0, 0);
	show_stop("exec", pid);
	show_code(pid);
	say("the number is its own: %d", (pid_t)message(pid) == pid);
	trace(PTRACE_SYSCALL, pid, 0, 0);
	show_stop("end of the call", pid);
	trace(PTRACE_CONT, pid, 0, 0);
	show_stop("exit", pid);
	say("  %s", status_text((int)message(pid)));
	trace(PTRACE_CONT, pid, 0, 0);
	say("ends: %s", status_text(waits(pid)));
}

static void thread_exec(void)
{
	section("exec by a thread");
	pid_t pid = traced(thread_execs);
	trace(PTRACE_SETOPTIONS, pid, 0, EXEC | CLONE);
	trace(PTRACE_CONT, pid, 0, 0);
	show_stop("leader", pid);
	pid_t thread = (pid_t)message(pid);
	show_stop("thread", thread);
	trace(PTRACE_CONT, pid, 0, 0);
	trace(PTRACE_CONT, thread, 0, 0);
	show_stop("exec", pid);
	say("the number is the thread's: %d", (pid_t)message(pid) == thread);
	SHOW(trace(PTRACE_CONT, thread, 0, 0));
	SHOW(trace(PTRACE_CONT, pid, 0, 0));
	say("ends: %s", status_text(waits(pid)));
	int status;
	show_value("others", waitpid(-1, &status, __WALL | WNOHANG));
}

static void killed(void)
{
	section("exit by a signal");
	pid_t pid = traced(0);
	trace(PTRACE_SETOPTIONS, pid, 0, EXIT);
	trace(PTRACE_CONT, pid, 0, SIGTERM);
	int status = waits(pid);
	if (WIFSTOPPED(status) && status >> 16 == 0) {
		trace(PTRACE_CONT, pid, 0, SIGTERM);
		status = waits(pid);
	}
	say("exit: %s, %s", stop_text(status), status_text((int)message(pid)));
	trace(PTRACE_CONT, pid, 0, 0);
	say("ends: %s", status_text(waits(pid)));
}

static void seizes(void)
{
	section("seized");
	pid_t pid = parked(0);
	SHOW(trace(SEIZE, pid, 1, 0));
	SHOW(trace(SEIZE, pid, 0, 1ul << 30));
	SHOW(trace(SEIZE, 999999, 0, 0));
	for (int option = 0; option <= 20; option = option == 7 ? 20 : option + 1) {
		pid_t one = parked(0);
		long done = trace(SEIZE, one, 0, 1ul << option);
		say("option %d %s", option, done ? error_name(errno) : "ok");
		kill(one, SIGKILL);
		int status = waits(one);
		if (WIFSTOPPED(status))
			trace(PTRACE_CONT, one, 0, 0), waits(one);
	}
	SHOW(trace(SEIZE, pid, 0, PTRACE_O_TRACESYSGOOD));
	SHOW(trace(SEIZE, pid, 0, 0));
	int status;
	SHOW(waitpid(pid, &status, WNOHANG));
	SHOW(trace(PTRACE_CONT, pid, 0, 0));
	SHOW(trace(LISTEN, pid, 0, 0));
	SHOW(trace(INTERRUPT, pid, 0, 0));
	show_stop("interrupted", pid);
	show_code(pid);
	SHOW(trace(INTERRUPT, pid, 0, 0));
	trace(PTRACE_CONT, pid, 0, 0);
	show_stop("interrupted while it was stopped", pid);
	trace(PTRACE_CONT, pid, 0, 0);
	kill(pid, SIGSTOP);
	show_stop("signal", pid);
	SHOW(trace(LISTEN, pid, 0, 0));
	trace(PTRACE_CONT, pid, 0, SIGSTOP);
	show_stop("stopped", pid);
	show_code(pid);
	SHOW(trace(LISTEN, pid, 0, 0));
	SHOW(trace(PTRACE_CONT, pid, 0, 0));
	SHOW(waitpid(pid, &status, WNOHANG));
	SHOW(trace(INTERRUPT, pid, 0, 0));
	show_stop("interrupted while it listened", pid);
	SHOW(trace(LISTEN, pid, 0, 0));
	kill(pid, SIGCONT);
	show_stop("continued", pid);
	show_code(pid);
	trace(PTRACE_CONT, pid, 0, 0);
	show_stop("then", pid);
	trace(PTRACE_CONT, pid, 0, SIGCONT);
	kill(pid, SIGUSR1);
	show_stop("signal", pid);
	SHOW(trace(PTRACE_DETACH, pid, 0, 0));
	pid_t other = traced(0);
	SHOW(trace(INTERRUPT, other, 0, 0));
	SHOW(trace(LISTEN, other, 0, 0));
	SHOW(trace(INTERRUPT, pid, 0, 0));
	ends(other);
	kill(pid, SIGKILL);
	say("ends: %s", status_text(waits(pid)));
	/* Its children too. */
	pid = must_fork();
	if (pid == 0) {
		raise(SIGSTOP);
		forks();
	}
	waitpid(pid, &status, WUNTRACED);
	SHOW(trace(SEIZE, pid, 0, FORK));
	show_stop("seized while it was stopped", pid);
	kill(pid, SIGCONT);
	trace(PTRACE_CONT, pid, 0, 0);
	show_stop("continued", pid);
	trace(PTRACE_CONT, pid, 0, 0);
	show_stop("then", pid);
	trace(PTRACE_CONT, pid, 0, SIGCONT);
	show_stop("maker", pid);
	pid_t child = (pid_t)message(pid);
	show_stop("made", child);
	show_code(child);
	trace(PTRACE_CONT, child, 0, 0);
	say("made: %s", status_text(waits(child)));
	trace(PTRACE_CONT, pid, 0, 0);
	show_stop("maker", pid);
	trace(PTRACE_CONT, pid, 0, SIGCHLD);
	say("maker: %s", status_text(waits(pid)));
}

int main(int argc, char **argv)
{
	(void)argc;
	setvbuf(stdout, 0, _IONBF, 0);
	if (strcmp(argv[0], "again") == 0)
		return 6;
	makes("fork", forks, FORK);
	makes("fork and exit", forks, FORK | EXIT);
	makes("vfork", vforks, VFORK | VFORK_DONE);
	makes("clone", clones, CLONE);
	makes("clone and exit", clones, CLONE | EXIT);
	execs();
	thread_exec();
	killed();
	seizes();
	return 0;
}
