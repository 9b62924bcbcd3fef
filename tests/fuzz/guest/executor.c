/*
 * executor BATCH [ROUNDS]: runs a batch of fuzz programs, each in processes and a directory of its own, and says what became of each.
 *
 * The batch is written by tests/fuzz (src/encode.rs has the format). For each program standard output has
 *     P number how milliseconds calls successes
 * and in a batch that asks for results the result of every call before it:
 *     R number slot state value digest            (digest: of the program's data after the call)
 * how: `exit-N` or `signal-N` of the first task, `limit` where time was over. At the end of each round
 *     M kibibytes-free-before kibibytes-free-after
 * and `END`. `UNDEAD pid` says that a process outlived SIGKILL. Before a program begins it executes the marker WINDOW_OPEN with
 * its number, by which the plugin's list says what ran when a machine died.
 *
 * Who is who: this process, the *supervisor*, stays uid 0 and outside of all that programs do: they have other sessions, none of its
 * descriptors, and only one page in common with it, the results. It keeps directories as descriptors, so that chroot and mounts
 * of a program do not hide its own. The *leader* is the process of a program's first task; it starts the other tasks.
 *
 * program.c is what runs in a program, home.c its directory; this file is the supervisor.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "audit.h"
#include "executor.h"
#include "markers.h"

#define HOME "/tmp/fuzz"
#define KEPT 256
/* Programs between two audits. */
#define AUDITED 50

struct program program;

static pid_t kept[KEPT];
static int kept_count;
static pid_t first_pid;

static long now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

static void nap(long microseconds)
{
	nanosleep(&(struct timespec){ 0, microseconds * 1000 }, 0);
}

static int is_kept(pid_t pid)
{
	for (int i = 0; i < kept_count; i++)
		if (kept[i] == pid)
			return 1;
	return pid == first_pid;
}

/* Calls `f` for each process that was not there at the beginning; how many there are. */
static int each_stranger(void (*f)(pid_t))
{
	int count = 0, fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *list = fd >= 0 ? fdopendir(fd) : 0;
	if (!list)
		return -1;
	for (struct dirent *entry; (entry = readdir(list));) {
		pid_t pid = atoi(entry->d_name);
		if (pid > 0 && !is_kept(pid)) {
			count++;
			f(pid);
		}
	}
	closedir(list);
	return count;
}

static void keep(pid_t pid)
{
	if (kept_count < KEPT)
		kept[kept_count++] = pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
}

static void name_undead(pid_t pid)
{
	printf("UNDEAD %d in program %u\n", pid, program.number);
}

static void reap(pid_t leader, int *status)
{
	int word;
	for (pid_t pid; (pid = waitpid(-1, &word, WNOHANG | __WALL)) > 0;)
		if (pid == leader)
			*status = word;
}

static void restore_machine(void);

/* Ends all that a program left. */
static void end_all(pid_t leader, int *status)
{
	/* Counted in turns and not in time: where this computer is busy, turns take longer, too. Ten seconds at least. */
	for (int turn = 0; turn < 20000; turn++) {
		int left = each_stranger(end);
		reap(leader, status);
		if (left == 0)
			return;
		/* There is no room for the list: the program may have seen to that (vm.max_map_count). */
		if (left < 0)
			restore_machine();
		nap(500);
	}
	if (each_stranger(name_undead) != 0)
		printf("UNDEAD processes\n");
	fflush(stdout);
}

static void say_results(void)
{
	for (int i = 0; i < MOST_SLOTS; i++) {
		const struct slot *slot = &results->slot[i];
		if (slot->state)
			printf("R %u %d %u %llx %llx\n", program.number, i, slot->state, (long long)slot->value, (long long)slot->digest);
	}
}

static void run_program(void)
{
	memset(results, 0, sizeof *results);
	empty(home, 0);
	int dir = furnish();
	long start = now(), moved = start;
	WINDOW_OPEN(program.number);
	pid_t leader = fork();
	if (leader == 0) {
		if (dir < 0 || fchdir(dir) != 0)
			_exit(122);
		int null = open("/dev/null", O_RDWR);
		dup2(null, 0), dup2(null, 1), dup2(null, 2);
		for (int fd = 3; fd < 64; fd++)
			close(fd);
		lead();
	}
	if (dir >= 0)
		close(dir);
	int status = -1, nudges = 0, limited = 0;
	uint32_t calls = 0;
	while (leader > 0 && status == -1) {
		reap(leader, &status);
		if (status != -1)
			break;
		uint32_t made = __atomic_load_n(&results->calls, __ATOMIC_RELAXED);
		long at = now();
		if (made != calls) {
			calls = made;
			moved = at;
		} else if (at - moved > 12) {
			/* Everybody waits: a signal ends a call, and after some of them the program. */
			if (nudges++ >= 6)
				limited = 1;
			kill(-leader, nudges % 2 ? SIGUSR1 : SIGCONT);
			kill(leader, SIGUSR1);
			for (int i = 1; i < program.tasks; i++)
				if (results->task[i] > first_pid)
					syscall(SYS_tkill, results->task[i], SIGUSR1);
			moved = at;
		}
		if (limited || at - start > (long)program.limit) {
			limited = 1;
			break;
		}
		nap(at - start < 4 ? 300 : 1500);
	}
	end_all(leader, &status);
	if (program.flags & SAY_RESULTS)
		say_results();
	char how[24];
	if (limited)
		strcpy(how, "limit");
	else if (WIFSIGNALED(status))
		snprintf(how, sizeof how, "signal-%d", WTERMSIG(status));
	else
		snprintf(how, sizeof how, "exit-%d", WEXITSTATUS(status));
	printf("P %u %s %ld %u %u\n", program.number, how, now() - start, results->calls, results->successes);
	fflush(stdout);
}

static long free_kib(void)
{
	char text[512] = "";
	int fd = open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	ssize_t n = read(fd, text, sizeof text - 1);
	close(fd);
	char *line = n > 0 ? strstr(text, "MemFree:") : 0;
	return line ? atol(line + 8) : -1;
}

/* src/paths.rs names these, too (RESTORED). */
static struct setting {
	const char *path;
	char text[32];
	ssize_t len;
} settings[] = {
	{ .path = "/proc/sys/fs/epoll/max_user_watches" }, { .path = "/proc/sys/fs/pipe-max-size" },
	{ .path = "/proc/sys/fs/pipe-user-pages-hard" },   { .path = "/proc/sys/fs/pipe-user-pages-soft" },
	{ .path = "/proc/sys/kernel/core_uses_pid" },      { .path = "/proc/sys/kernel/randomize_va_space" },
	{ .path = "/proc/sys/vm/max_map_count" },          { .path = "/proc/sys/vm/mmap_min_addr" },
	{ .path = "/proc/sys/vm/overcommit_memory" },      { .path = "/proc/sys/vm/overcommit_ratio" },
	{ .path = "/proc/sys/vm/swappiness" },
};
#define SETTINGS (sizeof settings / sizeof *settings)

static void remember_machine(void)
{
	for (size_t i = 0; i < SETTINGS; i++) {
		int fd = open(settings[i].path, O_RDONLY | O_CLOEXEC);
		settings[i].len = fd >= 0 ? read(fd, settings[i].text, sizeof settings[i].text) : 0;
		close(fd);
	}
}

/* What programs may have changed of the whole machine. */
static void restore_machine(void)
{
	for (size_t i = 0; program.uid == 0 && i < SETTINGS; i++) {
		int fd = settings[i].len > 0 ? open(settings[i].path, O_WRONLY | O_CLOEXEC) : -1;
		if (fd >= 0)
			(void)!write(fd, settings[i].text, (size_t)settings[i].len);
		close(fd);
	}
	sethostname("darter", 6);
	setpriority(PRIO_PROCESS, 0, 0);
	fchdir(home);
}

static uint8_t *read_batch(const char *path, size_t *bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat about;
	if (fd < 0 || fstat(fd, &about) != 0)
		return 0;
	uint8_t *batch = mmap(0, (size_t)about.st_size + 1, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	*bytes = (size_t)about.st_size;
	return batch == MAP_FAILED ? 0 : batch;
}

/* Takes the program at `at` apart; where the next one stands, or null. */
static const uint8_t *take(const uint8_t *at, const uint8_t *end)
{
	if (end - at < 16)
		return 0;
	uint32_t bytes = u32(at);
	const uint8_t *next = at + 4 + bytes;
	if (next > end || bytes < 12)
		return 0;
	program.number = u32(at + 4);
	program.limit = u16(at + 8);
	program.uid = at[10];
	program.flags = at[11];
	program.tasks = at[12] <= MOST_TASKS ? at[12] : MOST_TASKS;
	at += 13;
	for (int i = 0; i < program.tasks; i++) {
		program.task[i] = (struct task){ i, at[0], at + 5, at + 5 + u32(at + 1) };
		at = program.task[i].end;
	}
	return at <= next ? next : 0;
}

int main(int argc, char **argv)
{
	if (argc < 2 || strcmp(argv[1], "@exit") == 0 || strcmp(argv[0], "@exit") == 0)
		return 0;
	size_t bytes;
	const uint8_t *batch = read_batch(argv[1], &bytes);
	if (!batch)
		return 3;
	int rounds = argc > 2 ? atoi(argv[2]) : 1;
	map(RESULTS, sizeof *results, MAP_SHARED);
	first_pid = getpid();
	each_stranger(keep);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	int adjust = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	if (adjust >= 0) {
		(void)!write(adjust, "-1000", 5);
		close(adjust);
	}
	remember_machine();
	mkdir(HOME, 0755);
	home = open(HOME, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (home < 0 || fchdir(home) != 0)
		return 4;
	int run = 0;
	for (int round = 0; round < rounds; round++) {
		long before = free_kib();
		for (const uint8_t *at = batch, *next; (next = take(at, batch + bytes)); at = next) {
			run_program();
			restore_machine();
			/* It takes as long as ten programs. */
			if (++run % AUDITED == 0)
				audit();
		}
		empty(home, 0);
		audit();
		long after = free_kib();
		/* What is freed late is freed, too. */
		for (int i = 0; i < 10 && before - after > 512; i++) {
			nap(100000);
			after = free_kib();
		}
		printf("M %ld %ld\n", before, after);
		fflush(stdout);
	}
	printf("END\n");
	return 0;
}
