/*
 * calls: one case of the table in one form, between the markers (calls.h).
 *
 *     calls list                              a line for each case: its name, its call, its forms
 *     calls run NAME FORM CPUS OPS [BESIDE]   OPS operations of each worker; prints a benchmark's closing line
 *
 * BESIDE: idle, busy or program runs on the next CPU (companion.c).
 */
#include "calls.h"
#include "companion.h"

#include "../bench.h"
#include "../pin.h"

#include <poll.h>
#include <time.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/uio.h>

static const struct kase *const tables[] = { ids, files, names, memory, faults, process, signals, clocks, waits, descriptors, sockets, ipc };
static const char *const forms[] = { "processes", "threads", "one" };
/*
 * Parts of the warm-up in turns: between two of them each worker waits for the other, which on a busy host is for a virtual CPU that does not
 * run: so they are few, and who waits soon sleeps and leaves it the host's.
 */
enum { PARTS = 4, SPINS = 2000 };
static const struct kase *chosen;
static struct work *common;
static int beside = -1;

_Noreturn void wrong(const struct work *w, long result)
{
	fprintf(stderr, "%s: %ld, %s\n", w->k->name, result, strerror(errno));
	fflush(stderr);
	_exit(1);
}

long op_raw(struct work *w)
{
	const struct kase *k = w->k;
	long result = syscall(k->number, w->arg[0], w->arg[1], w->arg[2], w->arg[3], w->arg[4], w->arg[5]);
	if (__builtin_expect(k->expect == 0, 1))
		return ok(w, result);
	if (k->expect != ANY && (result != -1 || errno != k->expect))
		wrong(w, result);
	return 0;
}

static void constants(struct work *w)
{
	char *buf = w->buf;
#define PUT(offset, type, ...) *(type *)(buf + (offset)) = (type){ __VA_ARGS__ }
	PUT(C_50US, struct timespec, 0, 50000);
	PUT(C_HOUR, struct timespec, 3600, 0);
	PUT(C_ITIMER + 16, struct timespec, 3600, 0);
	PUT(C_USR1, uint64_t, 1ull << (SIGUSR1 - 1));
	PUT(C_IOV, struct iovec, buf, 64);
	PUT(C_IOV + 16, struct iovec, buf + 64, 64);
	PUT(C_IGNORE, uint64_t, (uint64_t)(uintptr_t)SIG_IGN);
	PUT(C_SIGEV, struct sigevent, .sigev_notify = SIGEV_NONE);
	PUT(C_ATTR, uint32_t, 48);
	PUT(C_LOCK, struct flock, .l_type = F_WRLCK, .l_start = 0, .l_len = 10);
	PUT(C_UNLOCK, struct flock, .l_type = F_UNLCK, .l_start = 0, .l_len = 10);
	PUT(C_INFO, siginfo_t, .si_signo = SIGUSR1, .si_code = SI_QUEUE);
	PUT(C_STACK, stack_t, .ss_sp = buf, .ss_flags = 0, .ss_size = 2048);
	*(void **)(buf + C_ROBUST) = buf + C_ROBUST;
	PUT(C_CAPS, uint32_t, 0x20080522);
	syscall(SYS_capget, buf + C_CAPS, buf + C_CAPDATA);
	getrlimit(RLIMIT_NOFILE, (struct rlimit *)(buf + C_RLIMIT));
	*(uint64_t *)(buf + C_MASK) = (uint64_t)(uintptr_t)(buf + C_NONE);
	*(uint64_t *)(buf + C_MASK + 8) = 8;
}

/* The constants that a setup's objects are in, and the arguments. */
static void resolve(struct work *w)
{
	struct pollfd *polls = (struct pollfd *)(w->buf + C_POLL);
	polls[0] = (struct pollfd){ .fd = w->fd, .events = POLLIN };
	polls[1] = (struct pollfd){ .fd = w->fd2, .events = POLLIN };
	*(struct epoll_event *)(w->buf + C_EVENT) = (struct epoll_event){ .events = EPOLLIN };
	struct iovec *split = (struct iovec *)(w->buf + C_SPLIT);
	*split = (struct iovec){ w->map, 4096 };
	for (int at = 0; at < 6; at++) {
		long v = w->k->v[at];
		if (v >> 48 != 0x7a6b) {
			w->arg[at] = v;
			continue;
		}
		long offset = (int)v;
		switch (v >> 32 & 0xffff) {
		case TAG_BUF: w->arg[at] = (long)(w->buf + offset); break;
		case TAG_MAP: w->arg[at] = (long)(w->map + offset); break;
		case TAG_FD: w->arg[at] = w->fd; break;
		case TAG_FD2: w->arg[at] = w->fd2; break;
		case TAG_DIR: w->arg[at] = (long)w->dir; break;
		case TAG_PATH: w->arg[at] = (long)w->path; break;
		case TAG_OWN: w->arg[at] = (long)w->own; break;
		case TAG_OWN2: w->arg[at] = (long)w->own2; break;
		case TAG_PID: w->arg[at] = getpid(); break;
		case TAG_TID: w->arg[at] = syscall(SYS_gettid); break;
		case TAG_PPID: w->arg[at] = getppid(); break;
		case TAG_LEN: w->arg[at] = (long)w->len; break;
		case TAG_CHILD: w->arg[at] = w->pid; break;
		case TAG_X: w->arg[at] = w->x[offset]; break;
		}
	}
}

static struct work *new_work(unsigned index, int one)
{
	char *page = mmap(0, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		bench_fail("mmap");
	struct work *w = (struct work *)page;
	*w = (struct work){ .k = chosen, .i = index, .one = one, .buf = page + 4096, .fd = -1, .fd2 = -1 };
	constants(w);
	return w;
}

/* Names that each worker has its own of, in its directory. */
static void own_names(struct work *w)
{
	snprintf(w->own, sizeof w->own, "%s/n%u", w->dir, w->i);
	snprintf(w->own2, sizeof w->own2, "%s/m%u", w->dir, w->i);
}

void s_dir(struct work *w)
{
	mkdir("/tmp/calls", 0755);
	if (w->one)
		snprintf(w->dir, sizeof w->dir, "/tmp/calls/one");
	else
		snprintf(w->dir, sizeof w->dir, "/tmp/calls/%u", w->i);
	if (mkdir(w->dir, 0755) != 0 && errno != EEXIST)
		bench_fail(w->dir);
	snprintf(w->path, sizeof w->path, "%s/file", w->dir);
	own_names(w);
	rmdir(w->own), rmdir(w->own2);
	unlink(w->own), unlink(w->own2);
	w->fd2 = (int)ok(w, open(w->dir, O_RDONLY | O_DIRECTORY));
}

void s_file(struct work *w)
{
	s_dir(w);
	w->fd = (int)ok(w, open(w->path, O_RDWR | O_CREAT, 0644));
	for (int at = 0; at < 16; at++)
		ok(w, pwrite(w->fd, w->buf, 4096, at * 4096));
	ok(w, ftruncate(w->fd, 65536));
}

/* The file, with an extended attribute. */
void s_attribute(struct work *w)
{
	s_file(w);
	ok(w, fsetxattr(w->fd, "user.x", w->buf, 4, 0));
}

/* The file, and names of the worker's own beside it, both there: own a file, own2 a symbolic link to it. */
void s_names(struct work *w)
{
	s_file(w);
	close((int)ok(w, open(w->own, O_RDWR | O_CREAT, 0644)));
	ok(w, symlink("file", w->own2));
}

/* The file, and own2, a link to it. */
void s_link(struct work *w)
{
	s_names(w);
	unlink(w->own);
}

void s_map(struct work *w)
{
	w->len = 16 * 4096;
	w->map = mmap(0, w->len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (w->map == MAP_FAILED)
		wrong(w, -1);
	memset(w->map, 1, w->len);
}

void s_shared(struct work *w)
{
	w->len = 16 * 4096;
	w->map = mmap(0, w->len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (w->map == MAP_FAILED)
		wrong(w, -1);
	memset(w->map, 0, w->len);
}

void s_pipe(struct work *w)
{
	int ends[2];
	ok(w, pipe(ends));
	w->fd = ends[0], w->fd2 = ends[1];
}

/* A child that does nothing until its parent ends. */
void s_child(struct work *w)
{
	int ends[2];
	ok(w, pipe(ends));
	pid_t child = fork();
	if (child == 0) {
		char byte;
		close(ends[1]);
		(void)!read(ends[0], &byte, 1);
		_exit(0);
	}
	close(ends[0]);
	w->pid = ok(w, child);
	w->fd2 = ends[1];
}

static void handler(int signal)
{
	(void)signal;
}

void s_handler(struct work *w)
{
	struct sigaction action = { .sa_handler = handler };
	ok(w, sigaction(SIGUSR1, &action, 0));
	ok(w, sigaction(SIGALRM, &action, 0));
}

static void prepare_common(void)
{
	common = new_work(0, 1);
	if (chosen->setup)
		chosen->setup(common);
}

/* What the shell gave to all workers: each process opens its own, or whoever copies its table counts on the others' lines. */
void own_streams(void)
{
	for (int fd = 0; fd < 3; fd++) {
		int own = open(fd == 2 ? "/proc/self/fd/2" : "/dev/null", fd ? O_WRONLY : O_RDONLY);
		if (own >= 0) {
			dup2(own, fd);
			close(own);
		}
	}
}

/*
 * What a worker maps from here on lies below a page table of its own: a process's not below that of the area that all share, since whoever
 * copies a table counts what it maps; a thread's not below that of another thread's stack, whose CPU would be told of each change.
 */
void own_table(void)
{
	if (mmap(0, 2 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED)
		bench_fail("mmap");
}

/* All threads are there: the stack of none lies below a page table that one of them takes for itself. */
static void meet_threads(void)
{
	static unsigned arrived;
	struct timespec pause = { 0, 1000000 };
	__atomic_add_fetch(&arrived, 1, __ATOMIC_RELEASE);
	while (__atomic_load_n(&arrived, __ATOMIC_ACQUIRE) < opt.tasks)
		nanosleep(&pause, 0);
}

static void setup(struct task *task)
{
	if (opt.threads)
		meet_threads();
	else
		own_streams();
	if (!(chosen->forms & BESIDE))
		own_table();
	struct work *w = new_work(task->index, common != 0);
	if (common) {
		char *page = w->buf;
		*w = *common;
		w->i = task->index, w->buf = page;
		if (*w->dir) {
			own_names(w);
			if (w->i && chosen->setup != s_file) {
				unlink(w->own), unlink(w->own2);
				if (chosen->setup == s_names)
					close(open(w->own, O_RDWR | O_CREAT, 0644));
				if (chosen->setup == s_names || chosen->setup == s_link)
					ok(w, symlink("file", w->own2));
			}
			if (w->fd >= 0 && !(chosen->forms & SAME))
				w->fd = (int)ok(w, open(w->path, O_RDWR));
		}
		if (chosen->join)
			chosen->join(w);
	} else if (chosen->setup) {
		chosen->setup(w);
	}
	resolve(w);
	task->state = w;
}

static uint64_t operation(struct task *task)
{
	struct work *w = task->state;
	w->k->op(w);
	return 1;
}

static void prepare(void)
{
	if (beside >= 0)
		companion_start(beside, opt.tasks);
}

static void between(struct task *task)
{
	if (task->index == 0)
		companion_begin(task->shared->window);
}

static void teardown(struct task *task)
{
	if (task->index == 0)
		companion_end();
}

static int has(const struct kase *k, int form)
{
	return (k->forms & 1u << form) != 0;
}

static void list(void)
{
	for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
		for (const struct kase *k = tables[t]; k->name; k++) {
			printf("%s %s", k->name, k->call);
			for (int form = 0; form < 3; form++)
				if (has(k, form))
					printf(" %s", forms[form]);
			putchar('\n');
		}
}

static int find(const char *name)
{
	for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
		for (const struct kase *k = tables[t]; k->name; k++)
			if (strcmp(k->name, name) == 0) {
				chosen = k;
				return 1;
			}
	return 0;
}

int main(int argc, char **argv)
{
	/* What the cases of execve execute. */
	if (argc == 2 && strcmp(argv[1], "@exit") == 0)
		_exit(0);
	if (argc == 2 && strcmp(argv[1], "list") == 0) {
		list();
		return 0;
	}
	int form = 0;
	int run = (argc == 6 || argc == 7) && strcmp(argv[1], "run") == 0;
	if (run)
		while (form < 3 && strcmp(forms[form], argv[3]) != 0)
			form++;
	if (run && argc == 7)
		beside = companion_kind(argv[6]);
	if (!run || !find(argv[2]) || form == 3 || !has(chosen, form) || (argc == 7 && beside < 0)) {
		fprintf(stderr, "usage: calls list | calls run NAME FORM CPUS OPS [idle|busy|program]\n");
		return 2;
	}
	uint64_t ops = strtoul(argv[5], 0, 10) / (chosen->part ? chosen->part : 1);
	opt = (struct options){ .tasks = (unsigned)strtoul(argv[4], 0, 10), .nap_ms = 10, .parts = PARTS, .spins = SPINS, .quiet = 1 };
	opt.ops = opt.warm = ops ? ops : 1;
	opt.threads = form == 1 || (form == 2 && (chosen->forms & 8));
	pin_prepare();
	struct bench bench = {
		.name = chosen->name, .prepare = form == 2 ? prepare_common : prepare, .setup = setup, .op = operation,
		.between = between, .teardown = teardown, .cleanup = companion_leave,
	};
	bench_run(&bench);
	return 0;
}
