/*
 * growth: the rows of one world among N things (growth.h).
 *
 *     growth list                a line for each row: its world, what N counts, N's most, the row, its operations in a window
 *     growth run WORLD N [ROW...]   all rows of the world, or those named, three windows each; prints a benchmark's closing line
 *
 * The windows of a run are numbered $BENCH_WINDOW * 1000 + 3 * the row's place + 0, 1, 2.
 */
#include "growth.h"

#include "../marker.h"

#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>

enum { ROUNDS = 3 };

static const struct world *const worlds[] = {
	&children, &zombies, &group, &sessions, &threads, &elsewhere, &descriptors, &watches, &pollers, &readers, &waiters,
	&mappings, &sharers, &names, &links, &mounts, &timers, &timerfds, &locks, &queued,
};
static const char *doing = "";
static unsigned long window;
static pid_t *made;
static unsigned made_count;
static _Atomic unsigned *came;

int own_file, own_pipe[2];
char *own_page;
uint32_t *own_word;

static void end_sleepers(void)
{
	for (unsigned at = 0; at < made_count; at++)
		kill(made[at], SIGKILL);
	for (unsigned at = 0; at < made_count; at++)
		waitpid(made[at], 0, 0);
	made_count = 0;
}

_Noreturn void fail(const char *what)
{
	fprintf(stderr, "%s: %s: %s\n", doing, what, strerror(errno));
	fflush(stderr);
	end_sleepers();
	_exit(1);
}

void mark_open(void)
{
	MARK_OPEN(window);
}

void mark_close(void)
{
	MARK_CLOSE();
}

static void nap(long ms)
{
	struct timespec time = { ms / 1000, ms % 1000 * 1000000 };
	nanosleep(&time, 0);
}

void come(void)
{
	atomic_fetch_add(came, 1);
}

/* There is one CPU: who has come goes to sleep while this naps. */
void settle(unsigned n)
{
	for (int left = 20000; atomic_load(came) < n; left--) {
		if (left == 0)
			fail("settle");
		nap(1);
	}
	nap(100);
}

pid_t sleeper(void (*first)(void))
{
	pid_t child = (pid_t)ok("fork", fork());
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (first)
			first();
		come();
		for (;;)
			pause();
	}
	made[made_count++] = child;
	return child;
}

struct start {
	void (*body)(unsigned);
	unsigned i;
};

static int thread_start(void *argument)
{
	struct start *start = argument;
	start->body(start->i);
	return 0;
}

void thread(unsigned n, void (*body)(unsigned i))
{
	enum { STACK = 4096 };
	char *stacks = mmap(0, (size_t)n * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (stacks == MAP_FAILED)
		fail("mmap of stacks");
	for (unsigned i = 0; i < n; i++) {
		struct start *start = (struct start *)(stacks + (size_t)i * STACK);
		*start = (struct start){ body, i };
		int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
		ok("clone", clone(thread_start, (char *)start + STACK, flags, start));
	}
}

static void objects(void)
{
	struct rlimit files = { 65536, 65536 }, unlimited = { RLIM_INFINITY, RLIM_INFINITY };
	ok("RLIMIT_NOFILE", setrlimit(RLIMIT_NOFILE, &files));
	ok("RLIMIT_SIGPENDING", setrlimit(RLIMIT_SIGPENDING, &unlimited));
	ok("RLIMIT_NPROC", setrlimit(RLIMIT_NPROC, &unlimited));
	mkdir("/tmp/growth", 0755);
	own_file = (int)ok("open", open(OWN_PATH, O_RDWR | O_CREAT, 0644));
	ok("ftruncate", ftruncate(own_file, 65536));
	ok("pipe", pipe(own_pipe));
	own_page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	own_word = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	came = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	made = mmap(0, 16384 * sizeof *made, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (own_page == MAP_FAILED || own_word == MAP_FAILED || came == MAP_FAILED || made == MAP_FAILED)
		fail("mmap");
	*own_page = 1, *own_word = 1;
	signal(SIGUSR1, SIG_IGN);
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	ok("sigprocmask", sigprocmask(SIG_BLOCK, &set, 0));
}

static void measure(const struct row *row, unsigned place)
{
	doing = row->name;
	for (int round = -1; round < ROUNDS; round++) {
		/* The first warms up: its window has a number that nobody asks for. */
		window = place + (unsigned)(round < 0 ? 0 : round);
		if (row->alone && round >= 0) {
			row->op();
			continue;
		}
		if (round >= 0)
			mark_open();
		for (unsigned at = 0; at < row->times; at++)
			row->op();
		if (round >= 0)
			mark_close();
	}
}

static void list(void)
{
	for (size_t at = 0; at < sizeof worlds / sizeof *worlds; at++)
		for (const struct row *row = worlds[at]->rows; row->name; row++)
			printf("%s %s %u %s %u\n", worlds[at]->name, worlds[at]->of, worlds[at]->most, row->name, row->times);
}

static int named(const char *name, char **rows)
{
	while (*rows && strcmp(*rows, name) != 0)
		rows++;
	return *rows != 0;
}

int main(int argc, char **argv)
{
	/* What op_exec executes. */
	if (argc == 2 && strcmp(argv[1], "@exit") == 0)
		_exit(0);
	if (argc == 2 && strcmp(argv[1], "list") == 0) {
		list();
		return 0;
	}
	const struct world *world = 0;
	if (argc >= 4 && strcmp(argv[1], "run") == 0)
		for (size_t at = 0; at < sizeof worlds / sizeof *worlds; at++)
			if (strcmp(worlds[at]->name, argv[2]) == 0)
				world = worlds[at];
	unsigned n = world ? (unsigned)strtoul(argv[3], 0, 10) : 0;
	if (!world || n == 0 || n > world->most) {
		fprintf(stderr, "usage: growth list | growth run WORLD N [ROW...]\n");
		return 2;
	}
	const char *number = getenv("BENCH_WINDOW"), *limit = getenv("BENCH_LIMIT");
	unsigned first = number ? (unsigned)strtoul(number, 0, 10) * 1000 : 0;
	if (limit)
		alarm((unsigned)strtoul(limit, 0, 10));
	doing = world->name;
	objects();
	world->make(n);
	settle(0);
	MARK_WATCH();
	for (const struct row *row = world->rows; row->name; row++)
		if (argc == 4 || named(row->name, argv + 4))
			measure(row, first + (unsigned)(row - world->rows) * ROUNDS);
	MARK_REST();
	doing = world->name;
	if (world->unmake)
		world->unmake();
	end_sleepers();
	printf("bench=%s ops=1 seconds=0 rate=0 min_per_task=0 max_per_task=0 user=0 sys=0\n", world->name);
	return 0;
}
