/*
 * What every benchmark shares: options, pinning, warm-up, the barrier, the measured window and the two kinds of output line.
 *
 * A benchmark fills in a `struct bench` and calls bench_main(). The operation itself is one function; nothing else runs
 * between the opening and the closing of the window, so that a detector of cache lines or a counter of instructions sees
 * the operation alone.
 */
#ifndef BENCH_H
#define BENCH_H

#include <stdint.h>
#include <sys/types.h>

#define BENCH_LINE 64

/* One per task, on cache lines of its own: the operation loop writes nothing that another task reads. */
struct slot {
	_Alignas(2 * BENCH_LINE) volatile uint64_t ops;   /* operations done in the window so far */
	_Alignas(2 * BENCH_LINE) volatile uint32_t ready; /* parts of the warm-up done. Others look here while this task still counts */
	volatile uint32_t done;                           /* all operations done */
	volatile uint64_t user_us, sys_us;                /* processor time between ready and the end */
};

/* The area that the tasks and the controller share. */
struct shared {
	_Alignas(2 * BENCH_LINE) volatile uint32_t go;    /* the window is open */
	_Alignas(2 * BENCH_LINE) volatile uint32_t stop;  /* time is up (-s) */
	_Alignas(2 * BENCH_LINE) volatile uint32_t leave; /* the window is closed */
	uint32_t window;                                  /* its number, $BENCH_WINDOW */
	volatile uint64_t open_ns, close_ns;
	struct slot slot[];
};

struct bench;

struct task {
	const struct bench *bench;
	unsigned index;            /* 0..tasks */
	struct shared *shared;
	struct slot *slot;
	void *state;               /* the benchmark's own */
};

/* Options, the same for all. */
struct options {
	unsigned tasks;            /* N, default: the CPUs present */
	double seconds;            /* -s */
	uint64_t ops;              /* -c: operations per task; 0: run for `seconds` */
	uint64_t warm;             /* -w: operations per task before the window */
	int warm_given;
	int threads;               /* -t: tasks are threads of one process */
	int shared;                /* -o: one object (file, directory) for all tasks */
	int keep;                  /* -k: faultzf does not unmap */
	int vfork;                 /* -v */
	int private_map;           /* -p */
	int live;                  /* -l: files of the host */
	int across;                /* -a: a task's partner is on the next CPU */
	int unpinned;              /* -n */
	int spin;                  /* -S: barriers spin and never sleep */
	int quiet;                 /* -q: the closing line alone */
	unsigned nap_ms;           /* of bench_settle; 0: 100 */
	unsigned spins;            /* of a wait for another task, before it sleeps; 0: 20000 */
	unsigned parts;            /* of the warm-up in turns, 32 at most; 0: 32 */
	uint64_t mib;              /* -m */
	uint64_t bytes;            /* -b */
	const char *program;       /* -x */
};

/* In `grid` each task has its own. */
#ifdef GRID
extern _Thread_local struct options opt;
#else
extern struct options opt;
#endif

struct bench {
	const char *name;
	const char *what;          /* one line for -h */
	const char *flags;         /* which of the optional letters (t o k v p a l m b x) it takes */
	uint64_t warm;             /* default of -w */
	uint64_t mib, bytes;       /* defaults of -m and -b */
	void (*prepare)(void);                 /* once, before the tasks start; may be null */
	void (*setup)(struct task *);          /* in each task, before the warm-up; may be null */
	uint64_t (*op)(struct task *);         /* one round; returns how many operations that was */
	void (*between)(struct task *);        /* after the warm-up, before the window; may be null */
	void (*teardown)(struct task *);       /* after the window; may be null */
	void (*cleanup)(void);                 /* once, at the end; may be null */
};

int bench_main(int argc, char **argv, const struct bench *bench);

/* With the options in `opt`. */
void bench_run(const struct bench *bench);

/* The program's main. In `grid`, which is linked from all of them, its operation under the name that -DGRID gives it. */
#ifdef GRID
#define BENCH_MAIN(which) extern const struct bench *const GRID; const struct bench *const GRID = &which;
#else
#define BENCH_MAIN(which) int main(int argc, char **argv) { return bench_main(argc, argv, &which); }
#endif

/* Pieces, for doexec, whose tasks lose their memory at each operation, and for grid, whose tasks do different things. */
void bench_options(int argc, char **argv, const struct bench *bench);
struct shared *bench_shared_file(int *fd);
struct shared *bench_map_shared(int fd, unsigned tasks);
/* Once, in the first process, before the tasks start. */
void bench_begin(struct shared *shared);
/* With -c: a nap before warm-up and window. */
void bench_settle(void);
void bench_enter_window(struct shared *shared, unsigned index, unsigned tasks, int counted);
void bench_leave_window(struct shared *shared, unsigned index, unsigned tasks);
void bench_processes(const struct bench *bench, struct shared *shared, void (*body)(struct task *));
void bench_task(struct task *task);
void bench_control(const struct bench *bench, struct shared *shared, pid_t *tasks);
void bench_processor_time(uint64_t *user_us, uint64_t *sys_us);
void bench_report(const struct bench *bench, const struct shared *shared);
void bench_pin(unsigned index);
uint64_t bench_now_ns(void);
_Noreturn void bench_fail(const char *what);
/* Has $TMPDIR be a live root (live.c); -l does. */
void bench_live(void);
/* The path, of PATH_MAX bytes at most, of what stands in the folder of that number there. */
void bench_live_name(char *name, unsigned index, const char *what);
const char *bench_tmp(void);               /* TMPDIR or /tmp */
const char *bench_self(const char *argv0); /* a path by which this program can be executed */

#endif
