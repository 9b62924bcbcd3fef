/* What a signal leaves of the interrupted program's state: registers, the red zone, what a handler writes into its context. */
#include "t.h"

#include <sys/time.h>
#include <ucontext.h>

static volatile int count;

static void on(int number)
{
	(void)number;
}

/* Handlers that use vector registers must not change those of what they interrupt. */
static void on_vector(int number)
{
	(void)number;
	__asm__ volatile("pcmpeqd %%xmm0, %%xmm0; movaps %%xmm0, %%xmm7; movaps %%xmm0, %%xmm15; fninit; fld1; fld1; fld1" ::: "xmm0", "xmm7", "xmm15");
	count++;
}

static void registers(void)
{
	section("register state");
	sigaction(SIGUSR1, &(struct sigaction){ .sa_handler = on_vector }, 0);
	count = 0;
	uint64_t in[2] = { 0x0123456789abcdef, 0xfedcba9876543210 }, out[2] = { 0 }, out15[2] = { 0 };
	double number = 0;
	long self = getpid(), result;
	__asm__ volatile(
		"movups %[in], %%xmm7; movups %[in], %%xmm15; fninit; fldpi; syscall;"
		"movups %%xmm7, %[out]; movups %%xmm15, %[out15]; fstpl %[number]"
		: [out] "=m"(out), [out15] "=m"(out15), [number] "=m"(number), "=a"(result)
		: [in] "m"(in), "a"(SYS_kill), "D"(self), "S"(SIGUSR1)
		: "rcx", "r11", "memory", "xmm7", "xmm15");
	say("handled %d, xmm7 %d xmm15 %d pi %d", count, memcmp(in, out, 16) == 0, memcmp(in, out15, 16) == 0, number > 3.14159 && number < 3.1416);
	/* All general registers across a signal. */
	static uint64_t values[13];
	__asm__ volatile(
		"mov $1, %%rbx; mov $2, %%rdx; mov $3, %%r8; mov $4, %%r9; mov $5, %%r10; mov $6, %%r12; mov $7, %%r13; mov $8, %%r14;"
		"mov $9, %%r15; syscall;"
		"mov %%rbx, 0(%[v]); mov %%rdx, 8(%[v]); mov %%r8, 16(%[v]); mov %%r9, 24(%[v]); mov %%r10, 32(%[v]); mov %%r12, 40(%[v]);"
		"mov %%r13, 48(%[v]); mov %%r14, 56(%[v]); mov %%r15, 64(%[v]); mov %%rdi, 72(%[v]); mov %%rsi, 80(%[v]); mov %%rax, 88(%[v])"
		:: [v] "S"(values), "a"(SYS_getppid), "D"(self)
		: "rcx", "r11", "rbx", "rdx", "r8", "r9", "r10", "r12", "r13", "r14", "r15", "memory");
	for (int i = 0; i < 9; i++)
		if (values[i] != (uint64_t)i + 1)
			say("register %d changed", i);
	say("registers kept: %d", values[9] == (uint64_t)self && values[10] == (uint64_t)(uintptr_t)values);
	/* While a timer interrupts a loop of vector work. */
	sigaction(SIGALRM, &(struct sigaction){ .sa_handler = on_vector }, 0);
	struct itimerval timer = { .it_value = { 0, 2000 }, .it_interval = { 0, 2000 } };
	count = 0;
	setitimer(ITIMER_REAL, &timer, 0);
	int wrong = 0;
	for (long round = 0; count < 20; round++) {
		__asm__ volatile("movups %[in], %%xmm7; mov $2000, %%ecx; 1: paddq %%xmm7, %%xmm8; dec %%ecx; jnz 1b; movups %%xmm7, %[out]"
				 : [out] "=m"(out) : [in] "m"(in) : "ecx", "xmm7", "xmm8", "memory");
		wrong += memcmp(in, out, 16) != 0;
	}
	timer = (struct itimerval){ 0 };
	setitimer(ITIMER_REAL, &timer, 0);
	SHOW(wrong);
	/* And across the switch between two processes. */
	pid_t pid = must_fork();
	uint64_t mine[2] = { pid == 0 ? 11 : 22, pid == 0 ? 33 : 44 };
	wrong = 0;
	for (int i = 0; i < 2000; i++) {
		__asm__ volatile("movups %[in], %%xmm9; mov %[call], %%eax; syscall; movups %%xmm9, %[out]"
				 : [out] "=m"(out) : [in] "m"(mine), [call] "i"(SYS_sched_yield) : "rax", "rcx", "r11", "xmm9", "memory");
		wrong += memcmp(mine, out, 16) != 0;
	}
	if (pid == 0)
		_exit(wrong != 0);
	say("parent %d, child %s", wrong, status_text(wait_for(pid)));
}

static void on_context(int number, siginfo_t *info, void *context)
{
	(void)number, (void)info;
	ucontext_t *state = context;
	/* Steps over the two bytes of ud2 and changes a register. */
	state->uc_mcontext.gregs[REG_RIP] += 2;
	state->uc_mcontext.gregs[REG_RBX] = 4242;
}

static void contexts(void)
{
	section("context");
	sigaction(SIGILL, &(struct sigaction){ .sa_sigaction = on_context, .sa_flags = SA_SIGINFO }, 0);
	uint64_t value = 1;
	__asm__ volatile("mov $1, %%rbx; ud2; mov %%rbx, %0" : "=r"(value) :: "rbx");
	say("rbx %llu", (unsigned long long)value);
	uint64_t red = 0;
	sigaction(SIGUSR1, &(struct sigaction){ .sa_handler = on_vector }, 0);
	long self = getpid();
	/* The red zone below the stack pointer survives. */
	__asm__ volatile("movq $77, -64(%%rsp); syscall; movq -64(%%rsp), %0" : "=r"(red) : "a"(SYS_kill), "D"(self), "S"(SIGUSR1) : "rcx", "r11", "memory");
	say("red zone %llu", (unsigned long long)red);
	pid_t pid = must_fork();
	if (pid == 0) {
		__asm__ volatile("mov $15, %%eax; xor %%esp, %%esp; syscall" ::: "rax", "rcx", "r11", "memory");
		_exit(1);
	}
	say("sigreturn from nowhere: %s", status_text(wait_for(pid)));
	pid = must_fork();
	if (pid == 0) {
		sigaction(SIGUSR1, &(struct sigaction){ .sa_handler = on }, 0);
		__asm__ volatile("mov $0x10, %%rsp; syscall; mov $60, %%eax; mov $1, %%edi; syscall" :: "a"(SYS_kill), "D"((long)getpid()), "S"(SIGUSR1) : "rcx", "r11", "memory");
	}
	say("no room for the frame: %s", status_text(wait_for(pid)));
}

int main(void)
{
	setvbuf(stdout, 0, _IONBF, 0);
	registers();
	contexts();
	return 0;
}
