/* What runs in the processes of a program: its operations, its handlers, its tasks. src/encode.rs writes the operations. */
#define _GNU_SOURCE
#include <sched.h>
#include <grp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "executor.h"

enum { OP_POKE = 1, OP_BYTES, OP_CALL, OP_PEEK };
enum { VALUE_NUMBER, VALUE_SLOT, VALUE_DATA, VALUE_CODE, VALUE_PID };

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

void map(unsigned long at, size_t bytes, int flags)
{
	if (mmap((void *)at, bytes, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != (void *)at)
		_exit(120);
}

_Noreturn void lead(void)
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
