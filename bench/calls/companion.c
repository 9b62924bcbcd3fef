/*
 * What runs beside the workers, on a CPU of its own: nothing (the CPU idles), a loop that makes no call, or a program that works as a
 * build does.
 *
 * The companion is a process of its own, started before the workers. It works until it is warm and all through their warm-up, and opens its
 * CPU's window when the first worker is about to open its own; it closes it when that worker has closed. So whatever it shares with the
 * workers is shared in the window, and it says nothing of itself: its CPU is alone with it.
 */
#include "companion.h"

#include "calls.h"

#include "../marker.h"
#include "../pin.h"

enum { FUTEX_WAIT, FUTEX_WAKE };

/* As often the companion works in its window, also where the workers are done before: what both use is found however they meet. */
enum { LEAST = 10 };
/* Before the workers begin. */
enum { WARM = 20 };
/* Seconds after which it ends by itself. */
enum { LIMIT = 60 };

static const char *const kinds[] = { "idle", "busy", "program" };

/* Shared by the workers' first process, the first worker and the companion. */
struct meeting {
	volatile uint32_t window, warm, begin, ready, end, closed;
};

static struct meeting *meeting;

int companion_kind(const char *name)
{
	for (int kind = 0; kind < 3; kind++)
		if (strcmp(kinds[kind], name) == 0)
			return kind;
	return -1;
}

static void await(volatile uint32_t *word)
{
	while (!__atomic_load_n(word, __ATOMIC_ACQUIRE))
		syscall(SYS_futex, word, FUTEX_WAIT, 0, 0, 0, 0);
}

static void say(volatile uint32_t *word)
{
	__atomic_store_n(word, 1, __ATOMIC_RELEASE);
	syscall(SYS_futex, word, FUTEX_WAKE, 1, 0, 0, 0);
}

static void must(int good, const char *what)
{
	if (good)
		return;
	perror(what);
	_exit(1);
}

/* A job of a build: look for headers, read a source, fill memory, write an object, execute the next program. */
static void job(void)
{
	static char *const words[] = { "calls", "@exit", 0 };
	struct stat about;
	char bytes[4096];
	int ends[2], status;

	must(stat("/tmp/companion/absent.h", &about) != 0 && stat("/tmp/companion/source", &about) == 0, "stat");
	int source = open("/tmp/companion/source", O_RDONLY), object = open("/tmp/companion/object", O_RDWR | O_CREAT | O_TRUNC, 0644);
	must(source >= 0 && object >= 0, "open");
	char *heap = mmap(0, 16 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(heap != MAP_FAILED, "mmap");
	for (int page = 0; page < 16; page++)
		heap[page * 4096] = 1;
	must(read(source, bytes, sizeof bytes) == sizeof bytes && write(object, bytes, sizeof bytes) == sizeof bytes, "copy");
	close(source);
	close(object);
	must(munmap(heap, 16 * 4096) == 0 && pipe(ends) == 0, "pipe");
	pid_t child = fork();
	must(child >= 0, "fork");
	if (child == 0) {
		(void)!write(ends[1], "x", 1);
		execve("/proc/self/exe", words, 0);
		_exit(1);
	}
	must(read(ends[0], bytes, 1) == 1, "read");
	close(ends[0]);
	close(ends[1]);
	must(waitpid(child, &status, 0) == child && status == 0, "wait");
	must(rename("/tmp/companion/object", "/tmp/companion/done") == 0 && unlink("/tmp/companion/done") == 0, "rename");
}

static void work(int kind)
{
	if (kind == BUSY)
		for (int i = 0; i < 1000; i++)
			CPU_RELAX();
	else
		job();
}

static _Noreturn void run(int kind, unsigned cpu)
{
	/* Whoever started it may be ended before. */
	alarm(LIMIT);
	own_streams();
	own_table();
	must(pin_to(cpu) == 0, "cannot pin");
	if (kind == PROGRAM) {
		char bytes[4096] = { 1 };
		mkdir("/tmp/companion", 0755);
		int source = open("/tmp/companion/source", O_WRONLY | O_CREAT | O_TRUNC, 0644);
		must(source >= 0 && write(source, bytes, sizeof bytes) == sizeof bytes, "source");
		close(source);
	}
	for (int turn = 0; kind != IDLE && turn < WARM; turn++)
		work(kind);
	say(&meeting->warm);
	/* Beside the worker's warm-up too: what a kernel learns of who shares what, it learns from that. */
	while (kind != IDLE && !meeting->begin)
		work(kind);
	await(&meeting->begin);
	/* Before the window: this wakes the worker, which naps before its own. */
	say(&meeting->ready);
	MARK_OPEN(meeting->window);
	if (kind == IDLE)
		await(&meeting->end);
	for (int turn = 0; kind != IDLE && (turn < LEAST || !meeting->end); turn++)
		work(kind);
	MARK_CLOSE();
	say(&meeting->closed);
	_exit(0);
}

void companion_start(int kind, unsigned cpu)
{
	meeting = mmap(0, sizeof *meeting, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	must(meeting != MAP_FAILED, "mmap");
	fflush(stdout);
	/* A grandchild: a case may wait for children of its process. */
	int status;
	pid_t child = fork();
	must(child >= 0, "fork");
	if (child == 0) {
		child = fork();
		if (child == 0)
			run(kind, cpu);
		_exit(child < 0);
	}
	must(waitpid(child, &status, 0) == child && status == 0, "fork");
	await(&meeting->warm);
}

void companion_begin(uint32_t window)
{
	if (!meeting)
		return;
	meeting->window = window;
	say(&meeting->begin);
	await(&meeting->ready);
}

void companion_end(void)
{
	if (meeting)
		say(&meeting->end);
}

void companion_leave(void)
{
	if (meeting)
		await(&meeting->closed);
}
