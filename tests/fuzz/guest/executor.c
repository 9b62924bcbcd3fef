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
 * Layout of a program's memory: data at DATA, free addresses at WINDOW (the first pages mapped), stacks at STACKS, results at RESULTS.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "markers.h"

#define DATA 0x10000000ul
#define DATA_BYTES 0x10000ul
/* What a digest is of: programs that are compared keep below. */
#define DIGEST_BYTES 0x2000ul
#define WINDOW 0x20000000ul
#define WINDOW_BYTES 0x10000ul
#define STACKS 0x30000000ul
#define STACK_BYTES 0x8000ul
#define MOST_TASKS 6
#define RESULTS 0x40000000ul
#define MOST_SLOTS 1024
#define HOME "/tmp/fuzz"
#define KEPT 256
/* A program makes nothing deeper or wider. */
#define DEEPEST 12

enum { OP_POKE = 1, OP_BYTES, OP_CALL, OP_PEEK };
enum { VALUE_NUMBER, VALUE_SLOT, VALUE_DATA, VALUE_CODE, VALUE_PID };
enum { TASK_PROCESS, TASK_THREAD, TASK_SHARED_MEMORY, TASK_SHARED_FILES };
enum { SHARED_DATA = 1, SAY_RESULTS = 2 };
enum { CALL_BEGUN = 1, CALL_ENDED = 2 };

struct slot {
	int64_t value;
	uint64_t digest;
	uint32_t state, task;
};

struct results {
	struct slot slot[MOST_SLOTS];
	uint32_t calls, successes, ended, forks;
	int32_t leader, task[MOST_TASKS];
};

static struct results *const results = (struct results *)RESULTS;

struct task {
	int number, kind;
	const uint8_t *ops, *end;
};

static struct {
	uint32_t number, limit;
	int uid, flags, tasks;
	struct task task[MOST_TASKS];
} program;

static long raw(long number, long a, long b, long c, long d, long e, long f)
{
	long result;
	register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
	__asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
}

/*
 * call_with(numbers, task, ops): the call with numbers[0] and arguments numbers[1..6]. A child on a new stack goes on in `child_of`,
 * one on the same stack returns as its parent does: which it is, the stack pointer says.
 */
long call_with(const long *numbers, struct task *task, const uint8_t *ops);
void child_of(struct task *task, const uint8_t *ops);
__asm__(".text\n"
	".globl call_with\n"
	"call_with:\n"
	"	push %rbx\n	push %rbp\n	push %r12\n	push %r13\n	push %r14\n"
	"	mov %rsi, %r12\n	mov %rdx, %r13\n	mov %rdi, %rbx\n	mov %rsp, %rbp\n"
	"	mov (%rbx), %rax\n	mov 8(%rbx), %rdi\n	mov 16(%rbx), %rsi\n	mov 24(%rbx), %rdx\n"
	"	mov 32(%rbx), %r10\n	mov 40(%rbx), %r8\n	mov 48(%rbx), %r9\n"
	"	syscall\n"
	"	cmp %rsp, %rbp\n	jne 1f\n"
	"	pop %r14\n	pop %r13\n	pop %r12\n	pop %rbp\n	pop %rbx\n	ret\n"
	"1:	and $-16, %rsp\n	xor %ebp, %ebp\n	mov %r12, %rdi\n	mov %r13, %rsi\n	call child_of\n	hlt\n");

/* guarded_copy(to, from, bytes): 0, or -1 where a fault stopped it (on_fault finds it by its address). */
long guarded_copy(void *to, const void *from, size_t bytes);
extern char guarded_begin[], guarded_end[], guarded_fault[], restorer[];
__asm__(".text\n"
	".globl guarded_copy\n"
	"guarded_copy:\n	mov %rdx, %rcx\n"
	"guarded_begin:\n	rep movsb\n"
	"guarded_end:\n	xor %eax, %eax\n	ret\n"
	"guarded_fault:\n	mov $-1, %rax\n	ret\n"
	".globl guarded_begin, guarded_end, guarded_fault, restorer\n"
	"restorer:\n	mov $15, %eax\n	syscall\n");

static void on_fault(int number, siginfo_t *info, void *context)
{
	ucontext_t *state = context;
	uint64_t at = (uint64_t)state->uc_mcontext.gregs[REG_RIP];
	(void)info;
	if (at >= (uint64_t)guarded_begin && at < (uint64_t)guarded_end) {
		state->uc_mcontext.gregs[REG_RIP] = (greg_t)guarded_fault;
		return;
	}
	raw(SYS_exit_group, 128 + number, 0, 0, 0, 0, 0);
}

/* What a program may put in as handlers. */
static void handler_returns(int number)
{
	(void)number;
}

static void handler_calls(int number)
{
	(void)number;
	raw(SYS_getpid, 0, 0, 0, 0, 0, 0);
	raw(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
}

static void handler_touches(int number)
{
	(void)number;
	static volatile int touched;
	touched++;
	*(volatile char *)WINDOW = 1;
}

static void thread_start(void)
{
	raw(SYS_exit, 0, 0, 0, 0, 0, 0);
}

static uint64_t code_address(unsigned which)
{
	switch (which) {
	case 0: return (uint64_t)restorer;
	case 1: return (uint64_t)handler_returns;
	case 2: return (uint64_t)handler_calls;
	case 3: return (uint64_t)handler_touches;
	default: return (uint64_t)thread_start;
	}
}

static uint16_t u16(const uint8_t *at)
{
	return (uint16_t)(at[0] | at[1] << 8);
}

static uint32_t u32(const uint8_t *at)
{
	return u16(at) | (uint32_t)u16(at + 2) << 16;
}

static uint64_t u64(const uint8_t *at)
{
	return u32(at) | (uint64_t)u32(at + 4) << 32;
}

static uint64_t value(const uint8_t **at)
{
	const uint8_t *from = *at;
	uint16_t slot;
	switch (*from++) {
	case VALUE_NUMBER:
		*at = from + 8;
		return u64(from);
	case VALUE_SLOT:
		*at = from + 10;
		slot = u16(from) % MOST_SLOTS;
		if (results->slot[slot].state == CALL_ENDED && results->slot[slot].value >= 0)
			return (uint64_t)results->slot[slot].value;
		return u64(from + 2);
	case VALUE_DATA:
		*at = from + 4;
		return DATA + u32(from);
	case VALUE_CODE:
		*at = from + 1;
		return code_address(*from);
	default: /* VALUE_PID */
		*at = from + 1;
		if (*from == 0)
			return (uint64_t)raw(SYS_getpid, 0, 0, 0, 0, 0, 0);
		if (*from == 1)
			return (uint64_t)raw(SYS_gettid, 0, 0, 0, 0, 0, 0);
		return (uint64_t)(uint32_t)results->task[*from % MOST_TASKS];
	}
}

static uint64_t digest(void)
{
	uint64_t sum = 14695981039346656037ull;
	for (uint64_t at = DATA; at < DATA + DIGEST_BYTES; at += 8) {
		uint64_t word = 0;
		if (guarded_copy(&word, (const void *)at, 8) != 0)
			return 1;
		sum = (sum ^ word) * 1099511628211ull;
		sum ^= sum >> 29;
	}
	return sum;
}

static void run_ops(struct task *task, const uint8_t *at)
{
	while (at < task->end) {
		uint64_t word;
		uint32_t offset;
		unsigned slot, count;
		long numbers[7] = { 0 };
		switch (*at++) {
		case OP_POKE:
			offset = u32(at);
			count = at[4];
			at += 5;
			word = value(&at);
			guarded_copy((void *)(DATA + offset), &word, count <= 8 ? count : 8);
			break;
		case OP_BYTES:
			offset = u32(at);
			count = u16(at + 4);
			guarded_copy((void *)(DATA + offset), at + 6, count);
			at += 6 + count;
			break;
		case OP_PEEK:
			slot = u16(at) % MOST_SLOTS;
			word = 0;
			count = at[6] <= 8 ? at[6] : 8;
			if (guarded_copy(&word, (const void *)(DATA + u32(at + 2)), count) == 0) {
				results->slot[slot].value = (int64_t)word;
				results->slot[slot].state = CALL_ENDED;
			}
			at += 7;
			break;
		case OP_CALL:
			numbers[0] = u16(at);
			slot = u16(at + 2) % MOST_SLOTS;
			count = at[4];
			at += 5;
			for (unsigned i = 0; i < count; i++)
				numbers[i < 6 ? 1 + i : 6] = (long)value(&at);
			results->slot[slot].state = CALL_BEGUN;
			results->slot[slot].task = (uint32_t)task->number;
			__atomic_add_fetch(&results->calls, 1, __ATOMIC_RELAXED);
			/* Children run the rest of the list as well: a bound on how many there will be. */
			if (numbers[0] == SYS_fork || numbers[0] == SYS_vfork || numbers[0] == SYS_clone || numbers[0] == SYS_clone3)
				if (__atomic_add_fetch(&results->forks, 1, __ATOMIC_RELAXED) > 24)
					numbers[0] = SYS_getpid;
			results->slot[slot].value = call_with(numbers, task, at);
			results->slot[slot].state = CALL_ENDED;
			if (results->slot[slot].value >= 0)
				__atomic_add_fetch(&results->successes, 1, __ATOMIC_RELAXED);
			if (program.flags & SAY_RESULTS)
				results->slot[slot].digest = digest();
			break;
		default:
			return;
		}
	}
}

/* A child that a program's call made on a stack of its own. */
void child_of(struct task *task, const uint8_t *ops)
{
	run_ops(task, ops);
	raw(SYS_exit, 0, 0, 0, 0, 0, 0);
}

/* A task other than the first, on its own stack. */
static int task_begins(void *argument)
{
	struct task *task = argument;
	results->task[task->number] = (int32_t)raw(SYS_gettid, 0, 0, 0, 0, 0, 0);
	run_ops(task, task->ops);
	__atomic_add_fetch(&results->ended, 1, __ATOMIC_RELAXED);
	raw(SYS_exit, 0, 0, 0, 0, 0, 0);
	return 0;
}

static void limit(int what, rlim_t soft)
{
	setrlimit(what, &(struct rlimit){ soft, soft });
}

static void map(unsigned long at, size_t bytes, int flags)
{
	if (mmap((void *)at, bytes, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != (void *)at)
		_exit(120);
}

static _Noreturn void lead(void)
{
	setsid();
	results->leader = getpid();
	results->task[0] = results->leader;
	map(DATA, DATA_BYTES, program.flags & SHARED_DATA ? MAP_SHARED : MAP_PRIVATE);
	map(WINDOW, WINDOW_BYTES, MAP_PRIVATE);
	map(STACKS, STACK_BYTES * MOST_TASKS, MAP_PRIVATE);
	struct sigaction act = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER };
	sigaction(SIGSEGV, &act, 0);
	sigaction(SIGBUS, &act, 0);
	/* The supervisor's nudge for calls that wait. */
	sigaction(SIGUSR1, &(struct sigaction){ .sa_handler = handler_returns }, 0);
	limit(RLIMIT_NOFILE, 128);
	limit(RLIMIT_FSIZE, 32 << 20);
	limit(RLIMIT_CORE, 0);
	limit(RLIMIT_CPU, 3);
	umask(022);
	if (program.uid) {
		limit(RLIMIT_NPROC, 64);
		if (setgroups(0, 0) != 0 || setresgid(1000, 1000, 1000) != 0 || setresuid(1000, 1000, 1000) != 0)
			_exit(121);
	}
	for (int i = 1; i < program.tasks; i++) {
		static const int flags[] = {
			[TASK_PROCESS] = SIGCHLD,
			[TASK_THREAD] = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM,
			[TASK_SHARED_MEMORY] = CLONE_VM | SIGCHLD,
			[TASK_SHARED_FILES] = CLONE_FILES | CLONE_FS | SIGCHLD,
		};
		clone(task_begins, (void *)(STACKS + STACK_BYTES * (unsigned)(i + 1) - 64), flags[program.task[i].kind & 3], &program.task[i]);
	}
	run_ops(&program.task[0], program.task[0].ops);
	__atomic_add_fetch(&results->ended, 1, __ATOMIC_RELAXED);
	/* The supervisor ends us when nothing moves any more. */
	while (__atomic_load_n(&results->ended, __ATOMIC_RELAXED) < (uint32_t)program.tasks)
		raw(SYS_nanosleep, (long)&(struct timespec){ 0, 500000 }, 0, 0, 0, 0, 0);
	raw(SYS_exit_group, 0, 0, 0, 0, 0, 0);
	for (;;)
		;
}

/* From here on: the supervisor. */

static pid_t kept[KEPT];
static int kept_count, home = -1;
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

/* Ends all that a program left. */
static void end_all(pid_t leader, int *status)
{
	long since = now();
	for (;;) {
		int left = each_stranger(end);
		reap(leader, status);
		if (left == 0)
			return;
		if (left < 0 || now() - since > 20000)
			break;
		nap(500);
	}
	if (each_stranger(name_undead) != 0)
		printf("UNDEAD processes after 20 s\n");
	fflush(stdout);
}

/* Empties a directory, whatever a program made of it. */
static void empty(int dir, int depth)
{
	int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *list = copy >= 0 ? fdopendir(copy) : 0;
	if (!list)
		return;
	for (struct dirent *entry; (entry = readdir(list));) {
		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		for (int tries = 0; tries < 16; tries++) {
			if (unlinkat(dir, entry->d_name, 0) == 0)
				break;
			if (errno == EISDIR || errno == EPERM) {
				int below = openat(dir, entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
				if (below >= 0 && depth < DEEPEST)
					empty(below, depth + 1);
				if (below >= 0)
					close(below);
				if (unlinkat(dir, entry->d_name, AT_REMOVEDIR) == 0)
					break;
			}
			if (errno == EBUSY && fchdir(dir) == 0)
				umount2(entry->d_name, MNT_DETACH | UMOUNT_NOFOLLOW);
		}
	}
	closedir(list);
	fchdir(home);
}

static void make_file(int dir, const char *name, const char *text, mode_t mode)
{
	int fd = openat(dir, name, O_CREAT | O_WRONLY | O_CLOEXEC, mode);
	if (fd >= 0) {
		(void)!write(fd, text, strlen(text));
		fchmod(fd, mode);
		if (program.uid)
			fchown(fd, 1000, 1000);
		close(fd);
	}
}

/* What a program finds in its directory (src/paths.rs names it, too). */
static int furnish(void)
{
	if (mkdirat(home, "w", 0777) != 0)
		return -1;
	int dir = openat(home, "w", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return -1;
	fchmod(dir, 0777);
	make_file(dir, "f", "0123456789abcdefghijklmnopqrstuvwxyz\n", 0644);
	make_file(dir, "s", "#!/fuzz/executor @exit\n", 0755);
	mkdirat(dir, "d", 0777);
	make_file(dir, "d/g", "g", 0600);
	symlinkat("f", dir, "l");
	symlinkat("loop", dir, "loop");
	symlinkat("d", dir, "ld");
	mknodat(dir, "p", S_IFIFO | 0666, 0);
	symlinkat("/fuzz/executor", dir, "x");
	if (program.uid) {
		fchownat(dir, "d", 1000, 1000, 0);
		fchownat(dir, "p", 1000, 1000, 0);
	}
	mkdirat(dir, "root", 0700);
	return dir;
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

/* What programs may have changed of the whole machine. */
static void restore_machine(void)
{
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
	mkdir(HOME, 0755);
	home = open(HOME, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (home < 0 || fchdir(home) != 0)
		return 4;
	for (int round = 0; round < rounds; round++) {
		long before = free_kib();
		for (const uint8_t *at = batch, *next; (next = take(at, batch + bytes)); at = next) {
			run_program();
			restore_machine();
		}
		empty(home, 0);
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
