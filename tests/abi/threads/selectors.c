/* The segment selectors of a thread: what it may load, and that it finds them again. */
#include "t.h"

#include <pthread.h>
#include <sys/prctl.h>
#include <ucontext.h>

#define ARCH_SET_GS 0x1001
#define ARCH_SET_FS 0x1002
#define ARCH_GET_FS 0x1003
#define ARCH_GET_GS 0x1004

struct selectors {
	uint16_t ds, es, fs, gs;
};

/* Loads all four and puts the FS base back, which the C library needs. */
static void load(struct selectors to)
{
	unsigned long base = 0;
	syscall(SYS_arch_prctl, ARCH_GET_FS, &base);
	__asm__ volatile("mov %w0, %%ds; mov %w1, %%es; mov %w2, %%fs; mov %w3, %%gs; wrfsbase %4"
			 :: "r"(to.ds), "r"(to.es), "r"(to.fs), "r"(to.gs), "r"(base) : "memory");
}

static struct selectors now(void)
{
	struct selectors at;
	__asm__ volatile("mov %%ds, %0; mov %%es, %1; mov %%fs, %2; mov %%gs, %3" : "=m"(at.ds), "=m"(at.es), "=m"(at.fs), "=m"(at.gs));
	return at;
}

static void print(const char *text)
{
	struct selectors at = now();
	say("%s: ds %x es %x fs %x gs %x", text, at.ds, at.es, at.fs, at.gs);
}

static unsigned long gs_base(void)
{
	unsigned long base;
	__asm__ volatile("rdgsbase %0" : "=r"(base));
	return base;
}

/* What may be loaded: a selector that may not is a general protection fault. */
static uint16_t wanted;
static int which;
static void load_one(void)
{
	switch (which) {
	case 0: __asm__ volatile("mov %w0, %%ds" :: "r"(wanted)); break;
	case 1: __asm__ volatile("mov %w0, %%es" :: "r"(wanted)); break;
	case 2: __asm__ volatile("mov %w0, %%gs" :: "r"(wanted)); break;
	case 3: __asm__ volatile("mov %w0, %%ss" :: "r"(wanted)); break;
	}
}

static void loads(void)
{
	static const uint16_t selectors[] = { 0, 1, 2, 3, 0x08, 0x10, 0x18, 0x1b, 0x28, 0x2a, 0x2b, 0x33, 0x38, 0x43, 0x63, 0x6b, 0x73, 0x7b, 0x83, 0x07, 0xffff };
	static const char *const names[] = { "ds", "es", "gs", "ss" };
	section("what may be loaded");
	for (which = 0; which < 4; which++)
		for (unsigned i = 0; i < sizeof selectors / sizeof *selectors; i++) {
			char text[32];
			wanted = selectors[i];
			snprintf(text, sizeof text, "%s %x", names[which], wanted);
			in_child(text, load_one);
		}
	uint64_t limit = 0;
	uint8_t valid;
	__asm__ volatile("lsl %2, %0; setz %1" : "+r"(limit), "=q"(valid) : "r"((uint64_t)0x7b));
	unsigned cpu = 99;
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(1, &set);
	sched_setaffinity(0, sizeof set, &set);
	__asm__ volatile("lsl %2, %0; setz %1" : "+r"(limit), "=q"(valid) : "r"((uint64_t)0x7b));
	syscall(SYS_getcpu, &cpu, 0, 0);
	say("the limit of 0x7b: valid %d, the CPU's number: %d", valid, (limit & 0xfff) == cpu);
	CPU_SET(0, &set), CPU_SET(2, &set), CPU_SET(3, &set);
	sched_setaffinity(0, sizeof set, &set);
}

/* Each thread has selectors and bases of its own. */
static const struct selectors kinds[] = {
	{ 0, 0, 0, 0 }, { 0x2b, 0, 0x2b, 0 }, { 0, 0x2b, 0, 0x2b }, { 0x33, 0x2b, 0x33, 0x2b }, { 0x28, 0x2a, 0x30, 0x7b }, { 0x2b, 0x2b, 0x2b, 0x2b },
};
#define KINDS (sizeof kinds / sizeof *kinds)
#define TURNS 2000
static void *yields(void *argument)
{
	long kind = (long)argument;
	struct selectors mine = kinds[kind % KINDS];
	uint64_t base = 0x10000 * (uint64_t)(kind + 1);
	load(mine);
	__asm__ volatile("wrgsbase %0" :: "r"(base));
	long wrong = 0;
	for (int i = 0; i < TURNS; i++) {
		sched_yield();
		struct selectors at = now();
		wrong += memcmp(&at, &mine, sizeof at) != 0 || gs_base() != base || pthread_self() == 0;
		if (i % 100 == 0) {
			cpu_set_t set;
			CPU_ZERO(&set);
			CPU_SET((i / 100 + kind) % 4, &set);
			sched_setaffinity(0, sizeof set, &set);
		}
	}
	load((struct selectors){ 0 });
	return (void *)wrong;
}

static void threads(void)
{
	section("threads");
	pthread_t threads[2 * KINDS];
	for (size_t i = 0; i < 2 * KINDS; i++)
		pthread_create(&threads[i], 0, yields, (void *)i);
	for (size_t i = 0; i < 2 * KINDS; i++) {
		void *wrong;
		pthread_join(threads[i], &wrong);
		say("thread %zu: %ld wrong", i, (long)wrong);
	}
	pid_t pid = must_fork();
	long wrong = (long)yields((void *)(pid == 0 ? 1L : 2L));
	if (pid == 0)
		_exit(wrong != 0);
	say("parent %ld, child %s", wrong, status_text(wait_for(pid)));
}

/* While a timer interrupts user mode rather than a call. */
static void *spins(void *argument)
{
	struct selectors mine = kinds[(long)argument];
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(0, &set);
	sched_setaffinity(0, sizeof set, &set);
	load(mine);
	long wrong = 0, end = ms(CLOCK_MONOTONIC) + 200;
	while (ms(CLOCK_MONOTONIC) < end)
		for (int i = 0; i < 1000; i++) {
			struct selectors at = now();
			wrong += memcmp(&at, &mine, sizeof at) != 0;
		}
	load((struct selectors){ 0 });
	return (void *)wrong;
}

static void preempted(void)
{
	section("preempted");
	pthread_t threads[KINDS];
	for (size_t i = 0; i < KINDS; i++)
		pthread_create(&threads[i], 0, spins, (void *)i);
	for (size_t i = 0; i < KINDS; i++) {
		void *wrong;
		pthread_join(threads[i], &wrong);
		say("thread %zu: %ld wrong", i, (long)wrong);
	}
}

static void births(void)
{
	section("children");
	load(kinds[3]);
	__asm__ volatile("wrgsbase %0" :: "r"(0x123000UL));
	pid_t pid = must_fork();
	if (pid == 0) {
		print("after fork");
		say("gs base %lx", gs_base());
		_exit(0);
	}
	wait_for(pid);
	print("the parent");
	pid = vfork();
	if (pid == 0) {
		say("vfork: gs base %lx", gs_base());
		_exit(0);
	}
	wait_for(pid);
	load(kinds[0]);
}

/* clone with and without CLONE_SETTLS: a new FS base comes with the null selector. */
static char stack[65536] __attribute__((aligned(16)));
static struct selectors seen;
static volatile unsigned long seen_fs, seen_gs;
static int cloned(void *argument)
{
	(void)argument;
	unsigned long fs, gs;
	seen = now();
	__asm__ volatile("rdfsbase %0; rdgsbase %1" : "=r"(fs), "=r"(gs));
	seen_fs = fs, seen_gs = gs;
	__asm__ volatile("syscall" :: "a"(SYS_exit), "D"(0));
	return 0;
}

static void clones(void)
{
	load((struct selectors){ 0x2b, 0x33, 0x2b, 0x33 });
	__asm__ volatile("wrgsbase %0" :: "r"(0x456000UL));
	static char area[4096];
	pid_t pid = clone(cloned, stack + sizeof stack, CLONE_VM | CLONE_SETTLS | SIGCHLD, 0, 0, area + 2048, 0);
	wait_for(pid);
	say("settls: ds %x es %x fs %x gs %x, its fs base: %d, gs base %lx", seen.ds, seen.es, seen.fs, seen.gs, seen_fs == (unsigned long)(area + 2048), seen_gs);
	unsigned long mine;
	__asm__ volatile("rdfsbase %0" : "=r"(mine));
	pid = clone(cloned, stack + sizeof stack, CLONE_VM | SIGCHLD, 0);
	wait_for(pid);
	say("without: ds %x es %x fs %x gs %x, the parent's fs base: %d, gs base %lx", seen.ds, seen.es, seen.fs, seen.gs, seen_fs == mine, seen_gs);
	load(kinds[0]);
}

/* A base set by arch_prctl comes with the null selector; a selector that is loaded changes the base. */
static void bases(void)
{
	section("bases");
	unsigned long base = 1, gs;
	load((struct selectors){ 0, 0, 0, 0x2b });
	say("loading a selector: gs base %lx", gs_base());
	SHOW(syscall(SYS_arch_prctl, ARCH_SET_GS, 0x789000));
	print("after ARCH_SET_GS");
	SHOW(syscall(SYS_arch_prctl, ARCH_GET_GS, &gs));
	say("gs base %lx, told %lx", gs_base(), gs);
	__asm__ volatile("mov %w0, %%gs" :: "r"(0x33));
	say("loading another: gs base %lx", gs_base());
	load((struct selectors){ 0, 0, 0x2b, 0x2b });
	syscall(SYS_arch_prctl, ARCH_GET_FS, &base);
	print("before ARCH_SET_FS");
	SHOW(syscall(SYS_arch_prctl, ARCH_SET_FS, base));
	print("after ARCH_SET_FS");
	SHOW(syscall(SYS_arch_prctl, ARCH_SET_FS, 1UL << 63));
	SHOW(syscall(SYS_arch_prctl, ARCH_SET_GS, 1UL << 63));
	SHOW(syscall(SYS_arch_prctl, ARCH_SET_GS, 0));
	SHOW(syscall(SYS_arch_prctl, ARCH_GET_GS, 8));
	load(kinds[0]);
	/* A program may set a base to any canonical address, even one of the kernel. */
	__asm__ volatile("wrgsbase %0" :: "r"(0xfff0000000000000UL));
	nap(1);
	say("kept through a sleep: %lx", gs_base());
	pid_t pid = must_fork();
	if (pid == 0)
		_exit(gs_base() != 0xfff0000000000000UL);
	say("and fork: %s", status_text(wait_for(pid)));
}

/* Handlers find them as they were, and what a handler loads stays. */
static void on(int number, siginfo_t *info, void *context)
{
	(void)number, (void)info;
	greg_t word = ((ucontext_t *)context)->uc_mcontext.gregs[REG_CSGSFS];
	say("frame: cs %x gs %x fs %x ss %x", (unsigned)(word & 0xffff), (unsigned)(word >> 16 & 0xffff), (unsigned)(word >> 32 & 0xffff), (unsigned)((uint64_t)word >> 48));
	print("in the handler");
	load(kinds[1]);
}

static void handlers(void)
{
	section("handlers");
	sigaction(SIGUSR1, &(struct sigaction){ .sa_sigaction = on, .sa_flags = SA_SIGINFO }, 0);
	load(kinds[3]);
	raise(SIGUSR1);
	print("after the handler");
	load(kinds[0]);
}

/* What a handler writes to the frame's selectors. */
static uint64_t cs_ss;
static int faults;
static void on_fault(int number, siginfo_t *info, void *context)
{
	ucontext_t *state = context;
	greg_t *word = &state->uc_mcontext.gregs[REG_CSGSFS];
	say("%s: code %d, at %d, error %llx, trap %llu, cs %llx ss %llx", signal_name(number), info->si_code, info->si_addr != 0,
	    (unsigned long long)state->uc_mcontext.gregs[REG_ERR], (unsigned long long)state->uc_mcontext.gregs[REG_TRAPNO],
	    (unsigned long long)(*word & 0xffff), (unsigned long long)((uint64_t)*word >> 48));
	*word = 0x33 | (greg_t)0x2b << 48;
	if (++faults > 3)
		_exit(9);
}
static void on_forge(int number, siginfo_t *info, void *context)
{
	(void)number, (void)info;
	((ucontext_t *)context)->uc_mcontext.gregs[REG_CSGSFS] = (greg_t)cs_ss;
}
static int caught;
static void forge(void)
{
	if (caught)
		sigaction(SIGSEGV, &(struct sigaction){ .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO }, 0);
	sigaction(SIGUSR1, &(struct sigaction){ .sa_sigaction = on_forge, .sa_flags = SA_SIGINFO }, 0);
	raise(SIGUSR1);
	print("went on");
}

static void frames(void)
{
	section("frames");
	static const struct { uint16_t cs, ss; } pairs[] = {
		{ 0x33, 0x2b }, { 0x30, 0x28 }, { 0x33, 0 }, { 0x33, 0x33 }, { 0x33, 0x18 }, { 0x33, 0x63 }, { 0, 0x2b }, { 0x10, 0x2b }, { 0x2b, 0x2b }, { 0xffff, 0x2b }, { 0x7b, 0x7b },
	};
	for (caught = 0; caught < 2; caught++)
		for (unsigned i = 0; i < sizeof pairs / sizeof *pairs; i++) {
			char text[48];
			cs_ss = pairs[i].cs | (uint64_t)pairs[i].ss << 48;
			snprintf(text, sizeof text, "cs %x ss %x%s", pairs[i].cs, pairs[i].ss, caught ? ", with a handler" : "");
			in_child(text, forge);
		}
}

int main(int count, char **arguments)
{
	setvbuf(stdout, 0, _IONBF, 0);
	if (count > 1) {
		print("after exec");
		unsigned long gs;
		SHOW(syscall(SYS_arch_prctl, ARCH_GET_GS, &gs));
		say("gs base %lx", gs);
		return 0;
	}
	print("at the start");
	loads();
	threads();
	preempted();
	births();
	clones();
	bases();
	handlers();
	frames();
	section("exec");
	load(kinds[5]);
	__asm__ volatile("wrgsbase %0" :: "r"(0xabc000UL));
	execl("/proc/self/exe", arguments[0], "again", (char *)0);
	return 1;
}
