/*
 * Programs that do what no program may: null jumps, overflowing stacks, privileged instructions, non-canonical addresses,
 * kernel addresses, writes to text, execution of data. Each in a child; what is printed is how it ended.
 */
#include "t.h"

#define ASM(name, code) static void name(void) { __asm__ volatile(code ::: "memory", "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "cc"); }

ASM(hlt, "hlt")
ASM(cli, "cli")
ASM(sti, "sti")
ASM(in_byte, "mov $0x60, %%edx; inb %%dx, %%al")
ASM(out_byte, "mov $0x80, %%edx; outb %%al, %%dx")
ASM(in_string, "mov $0x60, %%edx; insb")
ASM(read_cr0, "mov %%cr0, %%rax")
ASM(write_cr3, "xor %%eax, %%eax; mov %%rax, %%cr3")
ASM(read_cr4, "mov %%cr4, %%rax")
ASM(write_dr7, "xor %%eax, %%eax; mov %%rax, %%dr7")
ASM(rdmsr, "mov $0xc0000080, %%ecx; rdmsr")
ASM(wrmsr, "mov $0xc0000082, %%ecx; xor %%eax, %%eax; xor %%edx, %%edx; wrmsr")
ASM(lgdt, "sub $16, %%rsp; lgdt (%%rsp); add $16, %%rsp")
ASM(lidt, "sub $16, %%rsp; lidt (%%rsp); add $16, %%rsp")
ASM(lldt, "xor %%eax, %%eax; lldt %%ax")
ASM(ltr, "xor %%eax, %%eax; ltr %%ax")
ASM(invlpg, "invlpg (%%rsp)")
ASM(wbinvd, "wbinvd")
ASM(clts, "clts")
ASM(swapgs, "swapgs")
ASM(sysretq, "sysretq")
ASM(sysexit, "sysexit")
ASM(iret_kernel, "xor %%eax, %%eax; push %%rax; push %%rsp; push $0x202; push $0x10; push %%rax; iretq")
ASM(iret_bad, "mov %%rsp, %%rax; push $0x1234; push %%rax; push $0x202; push $0x1238; push %%rax; iretq")
ASM(ud2, "ud2")
ASM(ud0, ".byte 0x0f, 0xff, 0xc0")
ASM(bad_prefix, ".byte 0xf0, 0x90")
ASM(too_long, ".byte 0x66,0x66,0x66,0x66,0x66,0x66,0x66,0x66,0x66,0x66,0x66,0x66,0x66,0x66,0x66,0x90")
ASM(int3, "int3")
ASM(int1, ".byte 0xf1")
ASM(int_20, "int $0x20")
ASM(int_ff, "int $0xff")
ASM(int_0e, "int $0x0e")
ASM(divide, "xor %%ecx, %%ecx; mov $1, %%eax; xor %%edx, %%edx; div %%ecx")
ASM(divide_overflow, "mov $1, %%ecx; mov $-1, %%edx; mov $-1, %%eax; div %%ecx")
ASM(unaligned_sse, "mov %%rsp, %%rax; or $1, %%rax; movaps (%%rax), %%xmm0")
ASM(alignment_flag, "pushf; orl $0x40000, (%%rsp); popf; mov %%rsp, %%rax; mov 1(%%rax), %%ebx; pushf; andl $~0x40000, (%%rsp); popf")
ASM(load_null_segment, "xor %%eax, %%eax; mov %%ax, %%ds; mov %%ax, %%es")
ASM(load_bad_segment, "mov $0x1234, %%eax; mov %%ax, %%ds")
ASM(load_kernel_segment, "mov $0x10, %%eax; mov %%ax, %%ss")
ASM(direction_flag, "std; mov $39, %%eax; syscall; cld")
ASM(nested_task_flag, "pushf; orl $0x4000, (%%rsp); popf; mov $39, %%eax; syscall")
ASM(iopl_flag, "pushf; orl $0x3000, (%%rsp); popf; pushf; pop %%rax; test $0x3000, %%eax; jz 1f; hlt; 1:")
ASM(syscall_bad_stack, "xor %%esp, %%esp; mov $39, %%eax; syscall; mov $60, %%eax; xor %%edi, %%edi; syscall")
ASM(stack_noncanonical, "movabs $0x8000000000000000, %%rax; mov %%rax, %%rsp; push %%rax")
ASM(stack_null_signal, "xor %%esp, %%esp; push %%rax")
ASM(jump_noncanonical, "movabs $0x8000000000000000, %%rax; jmp *%%rax")
ASM(jump_kernel, "movabs $0xffffffff80000000, %%rax; jmp *%%rax")
ASM(jump_last_byte, "movabs $0x7fffffffefff, %%rax; jmp *%%rax")
ASM(call_null, "xor %%eax, %%eax; call *%%rax")
ASM(rflags_all, "movabs $-1, %%rax; push %%rax; andl $~0x100, (%%rsp); popf; cld")
ASM(wrfsbase_high, "movabs $0xffff800000000000, %%rdi; mov $158, %%eax; mov %%rdi, %%rsi; mov $0x1002, %%edi; syscall; mov %%fs:0, %%rax")
ASM(mxcsr_reserved, "push $-1; ldmxcsr (%%rsp); pop %%rax")
ASM(xrstor_bad, "sub $1024, %%rsp; and $-64, %%rsp; mov %%rsp, %%rdi; mov $-1, %%rax; mov $128, %%ecx; rep stosq; mov $-1, %%eax; mov $-1, %%edx; xrstor (%%rsp)")
ASM(xsetbv, "xor %%ecx, %%ecx; xor %%eax, %%eax; xor %%edx, %%edx; xsetbv")
ASM(smsw, "smsw %%rax")
ASM(monitor, "xor %%ecx, %%ecx; xor %%edx, %%edx; mov %%rsp, %%rax; monitor")

static int data_word;
static void read_null(void) { (void)*(volatile int *)0; }
static void write_null(void) { *(volatile int *)0 = 1; }
static void write_text(void) { *(volatile char *)(uintptr_t)write_null = 1; }
static void write_const(void) { *(volatile char *)(uintptr_t)"constant" = 'x'; }
static void execute_data(void) { ((void (*)(void))(uintptr_t)&data_word)(); }
static void execute_stack(void) { volatile unsigned char code[] = { 0xc3 }; ((void (*)(void))(uintptr_t)code)(); }
static void execute_heap(void) { char *code = malloc(16); *code = (char)0xc3; ((void (*)(void))(uintptr_t)code)(); }
static void read_kernel(void) { (void)*(volatile char *)0xffff888000000000; }
static void write_kernel(void) { *(volatile char *)0xffffffff81000000 = 1; }
static void read_last(void) { (void)*(volatile char *)0xffffffffffffffff; }
static void read_noncanonical(void) { (void)*(volatile char *)0x8000000000000000; }
static void write_noncanonical(void) { *(volatile char *)0xdead000000000000 = 1; }
static void read_straddling(void) { (void)*(volatile long *)0x7ffffffffffc; }
static void read_last_user(void) { (void)*(volatile char *)0x7fffffffefff; }
static void read_vsyscall(void) { (void)*(volatile char *)0xffffffffff600000; }
static void call_vsyscall(void) { ((long (*)(void *))0xffffffffff600400)(0); }
static int recurse(int depth) { volatile char room[512]; room[0] = (char)depth; return recurse(depth + 1) + room[0]; }
static void overflow_stack(void) { recurse(0); }
static void big_frame(void) { char *here = __builtin_frame_address(0); *(volatile char *)(here - (64l << 20)) = 1; }
static void jump_self_modified(void)
{
	unsigned char *code = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	code[0] = 0xc3;
	mprotect(code, 4096, PROT_READ | PROT_EXEC);
	((void (*)(void))(uintptr_t)code)();
	mprotect(code, 4096, PROT_READ | PROT_WRITE);
	((void (*)(void))(uintptr_t)code)();
}
static void compat_call(void)
{
	/* A 32-bit system call from 64-bit code: it must not bring the kernel down, whatever it answers. */
	long result;
	__asm__ volatile("int $0x80" : "=a"(result) : "a"(20) : "memory", "rcx", "rdx", "r8", "r9", "r10", "r11");
}
static void unknown_calls(void)
{
	static const long numbers[] = { 10000, -1, 0x7fffffff, 0x40000001, 1L << 32, (long)0xffffffff00000000, 500 };
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
		long result = syscall(numbers[i], 0, 0, 0, 0, 0, 0);
		say("  number %#lx: %s", numbers[i], result == -1 ? error_name(errno) : "something");
	}
}
static void unmap_all(void) { munmap(0, 0x7ffffffff000); }
static void unmap_stack(void)
{
	uintptr_t here = (uintptr_t)__builtin_frame_address(0) & ~4095ul;
	munmap((void *)(here - (64 << 12)), 128 << 12);
}
static void protect_all(void)
{
	uintptr_t text = (uintptr_t)protect_all & ~4095ul;
	mprotect((void *)text, 4096, PROT_NONE);
}
static void signal_stack_gone(void)
{
	static char room[16384] __attribute__((aligned(4096)));
	stack_t stack = { .ss_sp = room, .ss_size = sizeof room };
	sigaltstack(&stack, 0);
	struct sigaction action = { .sa_handler = (void (*)(int))(uintptr_t)read_null, .sa_flags = SA_ONSTACK };
	sigaction(SIGUSR1, &action, 0);
	mprotect(room, sizeof room, PROT_NONE);
	raise(SIGUSR1);
}
static void handler_nowhere(void)
{
	signal(SIGSEGV, (void (*)(int))0x1000);
	write_null();
}
static void handler_noncanonical(void)
{
	signal(SIGUSR1, (void (*)(int))0x8000000000000000);
	raise(SIGUSR1);
}
static void returns_from_main(void) { __asm__ volatile("mov $0, %rsp; ret"); }

static const struct { const char *name; void (*body)(void); } cases[] = {
#define CASE(name) { #name, name }
	CASE(hlt), CASE(cli), CASE(sti), CASE(in_byte), CASE(out_byte), CASE(in_string), CASE(read_cr0), CASE(write_cr3),
	CASE(read_cr4), CASE(write_dr7), CASE(rdmsr), CASE(wrmsr), CASE(lgdt), CASE(lidt), CASE(lldt), CASE(ltr), CASE(invlpg),
	CASE(wbinvd), CASE(clts), CASE(swapgs), CASE(sysretq), CASE(sysexit), CASE(iret_kernel), CASE(iret_bad), CASE(ud2), CASE(ud0),
	CASE(bad_prefix), CASE(too_long), CASE(int3), CASE(int1), CASE(int_20), CASE(int_ff), CASE(int_0e), CASE(divide),
	CASE(divide_overflow), CASE(unaligned_sse), CASE(alignment_flag), CASE(load_null_segment), CASE(load_bad_segment),
	CASE(load_kernel_segment), CASE(direction_flag), CASE(nested_task_flag), CASE(iopl_flag), CASE(syscall_bad_stack),
	CASE(stack_noncanonical), CASE(stack_null_signal), CASE(jump_noncanonical), CASE(jump_kernel), CASE(jump_last_byte),
	CASE(call_null), CASE(rflags_all), CASE(wrfsbase_high), CASE(mxcsr_reserved), CASE(xrstor_bad), CASE(xsetbv), CASE(monitor),
	CASE(read_null), CASE(write_null), CASE(write_text), CASE(write_const), CASE(execute_data), CASE(execute_stack),
	CASE(execute_heap), CASE(read_kernel), CASE(write_kernel), CASE(read_last), CASE(read_noncanonical),
	CASE(write_noncanonical), CASE(read_straddling), CASE(read_last_user), CASE(read_vsyscall), CASE(call_vsyscall),
	CASE(overflow_stack), CASE(big_frame), CASE(jump_self_modified), CASE(compat_call), CASE(unknown_calls), CASE(unmap_all),
	CASE(unmap_stack), CASE(protect_all), CASE(signal_stack_gone), CASE(handler_nowhere), CASE(handler_noncanonical),
	CASE(returns_from_main),
#undef CASE
};

int main(void)
{
	(void)smsw; /* Depends on UMIP's emulation. */
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		pid_t pid = must_fork();
		if (pid == 0) {
			alarm(5);
			cases[i].body();
			_exit(0);
		}
		say("%s: %s", cases[i].name, status_text(wait_for(pid)));
	}
	return 0;
}
