/* Real-time loops, three for each CPU: two of one priority that stay on it, in turn and not, and one below that goes where it likes. Runs what it is told to
 * beside them, as a fair task, ends them, and says so. */
#include "t.h"

static pid_t loops[3 * 1024];
static int count;

static void loop(int policy, int priority, int cpu)
{
	pid_t pid = must_fork();
	if (pid != 0) {
		loops[count++] = pid;
		return;
	}
	cpu_set_t one;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	if (cpu >= 0 && sched_setaffinity(0, sizeof one, &one) != 0)
		say("setaffinity: %s", error_name(errno));
	if (syscall(SYS_sched_setscheduler, 0, policy, &priority) != 0)
		say("setscheduler: %s", error_name(errno));
	for (;;)
		;
}

int main(int argc, char **argv)
{
	(void)argc;
	int cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);
	for (int cpu = 0; cpu < cpus; cpu++) {
		loop(SCHED_FIFO, 50, cpu);
		loop(SCHED_FIFO, 40, -1);
		loop(SCHED_RR, 50, cpu);
	}
	nap(1500);
	pid_t pid = must_fork();
	if (pid == 0) {
		execvp(argv[1], argv + 1);
		_exit(127);
	}
	say("%s", status_text(wait_for(pid)));
	for (int n = 0; n < count; n++)
		kill(loops[n], SIGKILL);
	int ended = 0;
	for (int status; wait(&status) > 0;)
		ended += WIFSIGNALED(status);
	say("%d ended", ended);
	return 0;
}
