/* Restartable sequences and membarrier. */
#include "t.h"

#include <sys/time.h>
#include <ucontext.h>

#define SIGNATURE 0x53053053u

struct area {
	uint32_t cpu_start, cpu;
	uint64_t section;
	uint32_t flags, node, concurrency;
	uint32_t rest[9];
};
static struct area area __attribute__((aligned(64)));

struct section {
	uint32_t version, flags;
	uint64_t start, length, abort;
};

/* Spins in a critical section until `stop` is set or the section is aborted; 1: aborted. */
int spin(uint64_t *section, struct section *name);
extern char spin_start[], spin_end[], spin_abort[];
volatile int stop;
__asm__(".text\n"
	"spin: mov %rsi, (%rdi)\n"
	"spin_start: pause\n"
	"	cmpl $0, stop(%rip)\n"
	"	je spin_start\n"
	"spin_end: xor %eax, %eax\n"
	"	ret\n"
	"	.long 0x53053053\n"
	"spin_abort: mov $1, %eax\n"
	"	ret\n");

static struct section section_of(void)
{
	return (struct section){ 0, 0, (uint64_t)spin_start, (uint64_t)(spin_end - spin_start), (uint64_t)spin_abort };
}

static long rseq(void *at, long length, long flags, unsigned signature)
{
	return syscall(SYS_rseq, at, length, flags, signature);
}

static void must_register(void)
{
	if (rseq(&area, 32, 0, SIGNATURE) != 0)
		say("not registered: %s", error_name(errno));
}

static void pin(int cpu)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof set, &set);
}

/* Of a signal that aborted the section: others may come while there is none. */
static volatile int at_abort, section_left;
static void on(int number, siginfo_t *info, void *context)
{
	(void)number, (void)info;
	if ((char *)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] != spin_abort)
		return;
	at_abort = 1;
	section_left = area.section != 0;
}

static void ring(void)
{
	sigaction(SIGALRM, &(struct sigaction){ .sa_sigaction = on, .sa_flags = SA_SIGINFO }, 0);
	setitimer(ITIMER_REAL, &(struct itimerval){ .it_interval = { 0, 20000 }, .it_value = { 0, 20000 } }, 0);
}

static void by_signal(void)
{
	must_register();
	struct section name = section_of();
	ring();
	int aborted = 0;
	/* Another task's turn aborts the section as well, and has no signal. */
	while (!at_abort)
		aborted = spin(&area.section, &name);
	setitimer(ITIMER_REAL, &(struct itimerval){ 0 }, 0);
	SHOW(aborted);
	say("at the abort address %d section left %d", at_abort, section_left);
	CHECK(area.section == 0);
}

static void by_others(void)
{
	must_register();
	pin(0);
	pid_t pid = must_fork();
	if (pid == 0)
		for (;;)
			;
	struct section name = section_of();
	SHOW(spin(&area.section, &name));
	kill(pid, SIGKILL);
	wait_for(pid);
	CHECK(area.section == 0);
}

static void by_membarrier(void)
{
	must_register();
	SHOW(syscall(SYS_membarrier, 128, 0, 0));
	SHOW(syscall(SYS_membarrier, 256, 0, 0));
	SHOW(syscall(SYS_membarrier, 128, 0, 0));
	SHOW(syscall(SYS_membarrier, 128, 1, 0));
	SHOW(syscall(SYS_membarrier, 512, 0, 0));
}

/* A section that was left without saying so is forgotten, not aborted. */
static void left_alone(void)
{
	must_register();
	struct section name = section_of();
	area.section = (uint64_t)&name;
	nap(5);
	sched_yield();
	nap(5);
	CHECK(area.section == 0);
}

static struct section wrong;
static void bad(void)
{
	must_register();
	ring();
	spin(&area.section, &wrong);
	say("went on");
}

static void bad_pointer(void)
{
	must_register();
	ring();
	spin(&area.section, (struct section *)0xffff800000000000);
	say("went on");
}

static void bad_flags(void)
{
	must_register();
	area.flags = 1;
	wrong = section_of();
	ring();
	spin(&area.section, &wrong);
	say("went on");
}

static void area_gone(void)
{
	void *at = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	SHOW(rseq(at, 32, 0, SIGNATURE));
	munmap(at, 4096);
	nap(5);
	say("went on");
}

static void errors(void)
{
	section("errors");
	SHOW(rseq(&area, 32, 1, SIGNATURE));
	SHOW(rseq(&area, 32, 2, SIGNATURE));
	SHOW(rseq(&area, 32, 3, SIGNATURE));
	SHOW(rseq(&area, 31, 0, SIGNATURE));
	SHOW(rseq(&area, 0, 0, SIGNATURE));
	SHOW(rseq((char *)&area + 16, 32, 0, SIGNATURE));
	SHOW(rseq((char *)&area + 4, 64, 0, SIGNATURE));
	SHOW(rseq((void *)16, 32, 0, SIGNATURE));
	SHOW(rseq((void *)0xffff800000000000, 32, 0, SIGNATURE));
	SHOW(rseq((void *)-32, 64, 0, SIGNATURE));
	SHOW(rseq(0, 32, 1, 0));
	uint32_t cpus = (uint32_t)sysconf(_SC_NPROCESSORS_CONF);
	/* Pinned: the fields are read one after another, and a move between two reads would tear them. */
	pin(1);
	area.cpu = 77;
	SHOW(rseq(&area, 32, 0, SIGNATURE));
	say("%u %u %u", area.cpu, area.cpu_start, area.node);
	CHECK(area.concurrency < cpus);
	SHOW(rseq(&area, 32, 0, SIGNATURE));
	SHOW(rseq(&area, 32, 0, SIGNATURE + 1));
	SHOW(rseq(&area, 64, 0, SIGNATURE));
	SHOW(rseq((char *)&area + 32, 32, 0, SIGNATURE));
	SHOW(rseq(&area, 32, 1, SIGNATURE + 1));
	SHOW(rseq(&area, 64, 1, SIGNATURE));
	for (int cpu = 0; cpu < 2; cpu++) {
		pin(cpu);
		say("on %d: %u %u", cpu, area.cpu_start, area.cpu);
	}
	pid_t pid = must_fork();
	if (pid == 0) {
		SHOW(rseq(&area, 32, 0, SIGNATURE));
		pin(0);
		say("child on 0: %u", area.cpu);
		SHOW(rseq(&area, 32, 1, SIGNATURE));
		_exit(0);
	}
	wait_for(pid);
	say("still on 1: %u", area.cpu);
	SHOW(rseq(&area, 32, 1, SIGNATURE));
	say("%u %#x %u", area.cpu_start, area.cpu, area.node);
	SHOW(rseq(&area, 64, 0, SIGNATURE));
	pid = vfork();
	if (pid == 0) {
		/* It shares the memory, so the registration is not its own. */
		long result = rseq(&area, 64, 1, SIGNATURE);
		say("in a child with the same memory: %ld %s", result, error_name(errno));
		execl("/proc/self/exe", "again", (char *)0);
		_exit(100);
	}
	wait_for(pid);
	SHOW(rseq(&area, 64, 1, SIGNATURE));
}

static void barriers(void)
{
	section("membarrier");
	SHOW(syscall(SYS_membarrier, 0, 0, 0));
	SHOW(syscall(SYS_membarrier, 0, 1, 0));
	SHOW(syscall(SYS_membarrier, 1, 0, 0));
	SHOW(syscall(SYS_membarrier, 1, 1, 0));
	SHOW(syscall(SYS_membarrier, 2, 0, 0));
	SHOW(syscall(SYS_membarrier, 4, 0, 0));
	SHOW(syscall(SYS_membarrier, 8, 0, 0));
	SHOW(syscall(SYS_membarrier, 16, 0, 0));
	SHOW(syscall(SYS_membarrier, 8, 0, 0));
	SHOW(syscall(SYS_membarrier, 8, 1, 0));
	SHOW(syscall(SYS_membarrier, 32, 0, 0));
	SHOW(syscall(SYS_membarrier, 64, 0, 0));
	SHOW(syscall(SYS_membarrier, 32, 0, 0));
	SHOW(syscall(SYS_membarrier, 3, 0, 0));
	SHOW(syscall(SYS_membarrier, 1024, 0, 0));
	SHOW(syscall(SYS_membarrier, -1, 0, 0));
	pid_t pid = must_fork();
	if (pid == 0) {
		SHOW(syscall(SYS_membarrier, 8, 0, 0));
		execl("/proc/self/exe", "barrier", (char *)0);
		_exit(100);
	}
	wait_for(pid);
}

int main(int argc, char **argv)
{
	(void)argc;
	if (strcmp(argv[0], "again") == 0) {
		SHOW(rseq(&area, 32, 1, SIGNATURE));
		SHOW(rseq(&area, 32, 0, SIGNATURE));
		return 0;
	}
	if (strcmp(argv[0], "barrier") == 0) {
		SHOW(syscall(SYS_membarrier, 8, 0, 0));
		SHOW(syscall(SYS_membarrier, 512, 0, 0));
		return 0;
	}
	errors();
	section("critical sections");
	in_child("signal", by_signal);
	in_child("switch", by_others);
	in_child("membarrier", by_membarrier);
	in_child("left", left_alone);
	section("misuse");
	wrong = section_of(), wrong.version = 1;
	in_child("version", bad);
	wrong = section_of(), wrong.flags = 1;
	in_child("flags", bad);
	wrong = section_of(), wrong.start = 0xffff800000000000;
	in_child("start", bad);
	wrong = section_of(), wrong.abort = (uint64_t)spin_start + 1;
	in_child("abort inside", bad);
	wrong = section_of(), wrong.abort++;
	in_child("signature", bad);
	wrong = section_of(), wrong.length = -(uint64_t)1;
	in_child("length", bad);
	in_child("pointer", bad_pointer);
	in_child("area's flags", bad_flags);
	in_child("no area", area_gone);
	barriers();
	return 0;
}
