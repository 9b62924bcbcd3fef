/*
 * storm [-s SCALE] [NAME...]: much of everything, all at once, by an ordinary user; beside it a ticker wakes in time, and then all memory is back.
 *
 * Each storm runs in a tmpfs of its own as user 1000, beside a task that sleeps 2 ms at a time and notes how late it woke. A storm ends when a limit
 * refuses more, when memory is full and one of its tasks is killed, or when its time is over. Then all its tasks are killed, the tmpfs goes, and
 * MemFree of /proc/meminfo has to be what it was; where it is not, the storm runs once more. The ticker runs through all of it. With STORM_WHEN
 * set, when it woke latest is told too.
 *
 * Printed for each: the latest wake, how long storm and end took, how many calls the storm made and what stopped it, the memory that it held at most,
 * and what did not come back. Status 0: every ticker woke within LATE ms, nobody but the storm's own tasks was killed, memory came back, and
 * (on Darter) each storm was stopped by what bounds it; 1: not so; 2: usage.
 */
#include "storm.h"
#include "../meminfo.h"

#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>

enum { LATE = 100, KEPT_KIB = 2048, USER = 1000, TICK_US = 2000 };

struct told *told;
int scale = 1;

/* The judge's own, out of reach of a storm that has called exec. */
static struct {
	_Atomic long latest, ticks, when, cpu;
} *clockwork;
static pid_t ticker;

static long now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000L + time.tv_nsec / 1000;
}

void refused(int error)
{
	int none = 0;
	atomic_compare_exchange_strong(&told->refused, &none, error);
}

void crowd(int tasks, void (*one)(void))
{
	int made = 0, dead = 0, status;
	for (; made < tasks; made++) {
		pid_t pid = fork();
		if (pid < 0) {
			refused(errno);
			break;
		}
		if (pid == 0) {
			one();
			atomic_fetch_add(&told->holding, 1);
			for (;;)
				pause();
		}
	}
	while (atomic_load(&told->holding) + dead < made) {
		if (waitpid(-1, &status, WNOHANG) > 0) {
			dead++;
			if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
				atomic_store(&told->killed, 1);
		}
		nap(1);
	}
}

void many_descriptors(void)
{
	struct rlimit limit;
	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

void at_most_tasks(int tasks)
{
	struct rlimit limit = { tasks, tasks };
	setrlimit(RLIMIT_NPROC, &limit);
}

char *reserve(long size)
{
	char *at = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED)
		_exit(4);
	return at;
}

static void become_user(void)
{
	if (setgroups(0, 0) != 0 || setresgid(USER, USER, USER) != 0 || setresuid(USER, USER, USER) != 0)
		_exit(5);
}

/* -1000: never chosen when memory is out. */
static void let_be_chosen(const char *adjustment)
{
	write_file("/proc/self/oom_score_adj", adjustment);
}

/* A task that is not among the judge's children: those are the storm's alone. */
static pid_t aside(void (*body)(void))
{
	int about[2];
	pid_t pid = 0;
	if (pipe2(about, O_CLOEXEC) != 0)
		exit(2);
	prctl(PR_SET_CHILD_SUBREAPER, 0);
	pid_t between = must_fork();
	if (between == 0) {
		pid = must_fork();
		if (pid == 0)
			body(), _exit(0);
		write(about[1], &pid, sizeof pid);
		_exit(0);
	}
	wait_for(between);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	if (read(about[0], &pid, sizeof pid) != sizeof pid)
		exit(2);
	close(about[0]), close(about[1]);
	return pid;
}

static long cpu_time(void)
{
	struct timespec time;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return time.tv_sec * 1000000L + time.tv_nsec / 1000;
}

static void tick(void)
{
	let_be_chosen("0");
	mlockall(MCL_CURRENT);
	for (;;) {
		long due = now() + TICK_US;
		long ran = cpu_time();
		usleep(TICK_US);
		ran = cpu_time() - ran;
		long late = now() - due;
		if (late > atomic_load(&clockwork->latest))
			atomic_store(&clockwork->latest, late), atomic_store(&clockwork->when, due), atomic_store(&clockwork->cpu, ran);
		atomic_fetch_add(&clockwork->ticks, 1);
	}
}

/* A task of the user that kills all others of the user when it is asked to. It is there beforehand: a storm may leave no room for it. */
static int asked[2], answered[2];

static void kill_when_asked(void)
{
	char byte;
	become_user();
	while (read(asked[0], &byte, 1) == 1) {
		kill(-1, SIGKILL);
		write(answered[1], &byte, 1);
	}
}

static void kill_user(void)
{
	char byte = 0;
	if (write(asked[1], &byte, 1) != 1 || read(answered[0], &byte, 1) != 1)
		exit(2);
}

static long least_free;

enum { NOBODY = -1, LEFT = -2 };

/* Waits a little, notes the least free memory, and reaps. How `wanted` has ended; LEFT: it has not yet, or others are there; NOBODY: there are none. */
static int look(pid_t wanted)
{
	int status, how = LEFT;
	pid_t pid;
	nap(2);
	long free_now = mem_free();
	if (free_now >= 0 && free_now < least_free)
		least_free = free_now;
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		if (pid == wanted)
			return status;
	return pid < 0 && errno == ECHILD && !wanted ? NOBODY : how;
}

static const char *ending(int ends)
{
	return ends == KILLED ? "killed" : ends == UNBOUNDED ? "-" : error_name(ends);
}

/* `again`: it has run before, and kept memory. */
static int judge(const struct storm *storm, int is_darter, int again)
{
	char options[64];
	snprintf(options, sizeof options, "mode=1777,size=%s", storm->size ? storm->size : "64m");
	if (mount("storm", "/storm", "tmpfs", 0, options) != 0) {
		say("%-12s mount: %s", storm->name, error_name(errno));
		return 0;
	}
	memset(told, 0, sizeof *told);
	nap(20);
	long before = least_free = mem_free();
	atomic_store(&clockwork->latest, 0), atomic_store(&clockwork->ticks, 0);
	pid_t runner = must_fork();
	if (runner == 0) {
		let_be_chosen("0");
		setsid();
		chdir("/storm");
		become_user();
		storm->run();
		_exit(0);
	}
	int how = LEFT;
	long began = now();
	while (how == LEFT && now() - began < storm->ms * 1000L * scale)
		how = look(runner);
	long ended = now();
	if (how != LEFT && WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL)
		atomic_store(&told->killed, 1);
	int bad_end = how != LEFT && !(WIFEXITED(how) && WEXITSTATUS(how) == 0) && !atomic_load(&told->killed);
	do
		kill_user();
	while (look(0) != NOBODY);
	int busy = umount("/storm") != 0;
	long gone = now(), after = mem_free();
	for (int i = 0; i < 500 && before - after > KEPT_KIB; i++) {
		nap(10);
		after = mem_free();
	}
	int ticker_died = kill(ticker, 0) != 0;
	if (ticker_died)
		ticker = aside(tick);
	long latest = atomic_load(&clockwork->latest), done = atomic_load(&told->done), lost = before - after;
	int ends = atomic_load(&told->killed) ? KILLED : atomic_load(&told->refused);
	const char *verdict = ticker_died                           ? "TICKER KILLED"
	                      : latest > LATE * 1000L               ? "LATE"
	                      : lost > KEPT_KIB                     ? "KEPT"
	                      : busy                                ? "BUSY"
	                      : bad_end                             ? status_text(how)
	                      : done < storm->least                 ? "TOO LITTLE"
	                      : is_darter && ends != storm->ends    ? "NOT BOUNDED SO"
	                      : atomic_load(&clockwork->ticks) < 3  ? "NO TICK"
	                                                            : "";
	say("%-12s %9.1f %8ld %8ld %9ld %-8s %7ld %7ld %s", storm->name, latest / 1000.0, (ended - began) / 1000,
	    (gone - ended) / 1000, done, ending(ends), (before - least_free) / 1024, lost, verdict);
	if (getenv("STORM_WHEN"))
		say("    the latest sleep was over %ld ms after the storm began; the ticker itself ran %ld us meanwhile",
		    (atomic_load(&clockwork->when) - began) / 1000, atomic_load(&clockwork->cpu));
	/* What is kept once is a cache that was filled. What is kept again is lost. */
	if (strcmp(verdict, "KEPT") == 0 && !again)
		return judge(storm, is_darter, 1);
	return *verdict == 0;
}

static const struct storm *const kinds[] = { task_storms, memory_storms, file_storms, name_storms, signal_storms, socket_storms };

int main(int argc, char **argv)
{
	told = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, TOLD_FD, 0);
	if (argc > 1 && strcmp(argv[1], "@exec") == 0) {
		did();
		execv("/proc/self/exe", argv);
		return 6;
	}
	int option, status = 0, known = 0;
	while ((option = getopt(argc, argv, "s:")) == 's')
		scale = atoi(optarg);
	if (option != -1 || scale < 1)
		return say("usage: storm [-s SCALE] [NAME...]"), 2;
	int memory = memfd_create("told", 0);
	if (ftruncate(memory, 4096) != 0 || dup2(memory, TOLD_FD) != TOLD_FD || close(memory) != 0)
		return 2;
	told = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, TOLD_FD, 0);
	clockwork = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	mkdir("/storm", 0755);
	int is_darter = access("/proc/darter", F_OK) == 0;
	let_be_chosen("-1000");
	if (pipe2(asked, O_CLOEXEC) != 0 || pipe2(answered, O_CLOEXEC) != 0)
		return 2;
	aside(kill_when_asked);
	ticker = aside(tick);
	say("%-12s %9s %8s %8s %9s %-8s %7s %7s", "storm", "latest ms", "took ms", "end ms", "calls", "ended by", "MiB", "kept KiB");
	for (unsigned kind = 0; kind < sizeof kinds / sizeof *kinds; kind++)
		for (const struct storm *storm = kinds[kind]; storm->name; storm++) {
			int wanted = optind == argc;
			for (int n = optind; n < argc; n++)
				wanted |= strcmp(argv[n], storm->name) == 0;
			known += wanted;
			if (wanted && !judge(storm, is_darter, 0))
				status = 1;
		}
	if (optind < argc && known < argc - optind)
		return say("storm: there is none of that name"), 2;
	return status;
}
