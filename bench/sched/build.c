/*
 * build: what make -j does, with nothing to compile.
 *
 *   build JOBS COUNT
 *
 * Keeps up to JOBS jobs running until COUNT have ended. A job is a process that executes this program as a shell, which starts this program
 * as a compiler and waits for it: it reads a source, computes for about a millisecond or up to three, and writes an object, which the shell then renames. An
 * operation is one job. What is late is the parent of a process that ends: from before its end until wait has returned.
 */
#define _GNU_SOURCE
#include "sched.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define MOST_JOBS 64
#define SOURCE_BYTES 16384
/* Additions of a compiler, and how many kinds of them there are. */
#define WORK 100000
#define KINDS 3

/* In a file that all of them map. */
struct board {
	uint64_t moves;
	struct {
		_Alignas(64) volatile uint64_t compiled_ns, ended_ns;
		volatile uint64_t late_ns; /* the shell */
	} job[];
};

static char folder[] = "/tmp/build.XXXXXX";
static struct board *board;

static size_t board_bytes(unsigned count)
{
	return sizeof *board + count * sizeof board->job[0];
}

static struct board *map_board(const char *in, unsigned count, int flags)
{
	char name[64];
	snprintf(name, sizeof name, "%s/board", in);
	int fd = open(name, O_RDWR | flags, 0600);
	if (fd < 0 || (flags && ftruncate(fd, (off_t)board_bytes(count)) != 0))
		die(name);
	void *at = mmap(0, board_bytes(count), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		die("mmap");
	close(fd);
	return at;
}

static void execute(const char *as, const char *in, unsigned job, unsigned count)
{
	char number[16], all[16];
	snprintf(number, sizeof number, "%u", job);
	snprintf(all, sizeof all, "%u", count);
	execl("/proc/self/exe", "build", as, in, number, all, (char *)0);
	die("execl");
}

static void add_moves(unsigned moves)
{
	__atomic_add_fetch(&board->moves, moves, __ATOMIC_RELAXED);
}

static void compiler(const char *in, unsigned job)
{
	static char text[SOURCE_BYTES];
	char name[64];
	int cpu = sched_getcpu();
	unsigned moves = 0;
	snprintf(name, sizeof name, "%s/source", in);
	int fd = open(name, O_RDONLY);
	if (fd < 0 || read(fd, text, sizeof text) != sizeof text)
		die(name);
	close(fd);
	for (unsigned part = 0; part < 1 + job % KINDS; part++) {
		compute(WORK);
		look_where(&cpu, &moves);
	}
	snprintf(name, sizeof name, "%s/%u.new", in, job);
	fd = open(name, O_WRONLY | O_CREAT, 0600);
	if (fd < 0 || write(fd, text, sizeof text) != sizeof text)
		die(name);
	close(fd);
	add_moves(moves);
	board->job[job].compiled_ns = now_ns();
	_exit(0);
}

static void shell(const char *in, unsigned job, unsigned count)
{
	char name[64], object[64];
	int status, cpu = sched_getcpu();
	unsigned moves = 0;
	if (start_process() == 0)
		execute("compiler", in, job, count);
	if (wait(&status) < 0 || status != 0)
		die("the compiler failed");
	board->job[job].late_ns = now_ns() - board->job[job].compiled_ns;
	look_where(&cpu, &moves);
	snprintf(name, sizeof name, "%s/%u.new", in, job);
	snprintf(object, sizeof object, "%s/%u.o", in, job);
	if (rename(name, object) != 0)
		die(object);
	add_moves(moves);
	board->job[job].ended_ns = now_ns();
	_exit(0);
}

static void make(unsigned jobs, unsigned count, struct samples *late)
{
	pid_t running[MOST_JOBS] = { 0 };
	unsigned job_of[MOST_JOBS], begun = 0, ended = 0;
	while (ended < count) {
		for (unsigned at = 0; at < jobs && begun < count; at++) {
			if (running[at])
				continue;
			job_of[at] = begun++;
			running[at] = start_process();
			if (running[at] == 0)
				execute("shell", folder, job_of[at], count);
		}
		int status;
		pid_t child = wait(&status);
		uint64_t now = now_ns();
		if (child < 0 || status != 0)
			die("a job failed");
		for (unsigned at = 0; at < jobs; at++)
			if (running[at] == child) {
				running[at] = 0;
				sample(late, now - board->job[job_of[at]].ended_ns);
				sample(late, board->job[job_of[at]].late_ns);
			}
		ended++;
	}
}

static void write_source(void)
{
	static const char text[SOURCE_BYTES];
	char name[64];
	snprintf(name, sizeof name, "%s/source", folder);
	int fd = open(name, O_WRONLY | O_CREAT, 0600);
	if (fd < 0 || write(fd, text, sizeof text) != sizeof text)
		die(name);
	close(fd);
}

static void clean(unsigned count)
{
	char name[64];
	for (unsigned job = 0; job < count; job++) {
		snprintf(name, sizeof name, "%s/%u.o", folder, job);
		unlink(name);
	}
	snprintf(name, sizeof name, "%s/source", folder);
	unlink(name);
	snprintf(name, sizeof name, "%s/board", folder);
	unlink(name);
	rmdir(folder);
}

int main(int argc, char **argv)
{
	if (argc == 5) {
		unsigned job = (unsigned)strtoul(argv[3], 0, 10), count = (unsigned)strtoul(argv[4], 0, 10);
		board = map_board(argv[2], count, 0);
		if (strcmp(argv[1], "compiler") == 0)
			compiler(argv[2], job);
		shell(argv[2], job, count);
	}
	unsigned jobs = argc > 1 ? (unsigned)strtoul(argv[1], 0, 10) : 0, count = argc > 2 ? (unsigned)strtoul(argv[2], 0, 10) : 0;
	if (jobs == 0 || jobs > MOST_JOBS || count == 0) {
		fprintf(stderr, "usage: build JOBS COUNT\n");
		return 2;
	}
	limit_time();
	if (!mkdtemp(folder))
		die("mkdtemp");
	write_source();
	board = map_board(folder, count, O_CREAT);
	struct load *load = shared_memory(sizeof *load);
	nap_ms(200);
	open_window();
	uint64_t begin = now_ns(), cpu_us = processor_us();
	make(jobs, count, &load->late);
	uint64_t end = now_ns();
	cpu_us = processor_us() - cpu_us;
	close_window();
	load->moves = board->moves;
	print_load(load, cpu_us);
	closing_line("build", count, (double)(end - begin) / 1e9);
	clean(count);
	return 0;
}
