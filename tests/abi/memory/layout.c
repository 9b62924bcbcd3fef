/* Where exec puts a program's parts, and what randomises them: ranges, bits that differ from exec to exec, and how it is turned off. */
#include <elf.h>
#include <sys/auxv.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include "t.h"

#define PAGE 4096UL
#define USER_END 0x7ffffffff000UL
#define GIB (1UL << 30)
#define RUNS 48

/* The smallest program that says where it lies: four words, and its first stack. */
__asm__(
    ".pushsection .rodata\n"
    ".globl blob, blob_end\n"
    "blob:\n"
    "  mov %rsp, %r12\n"
    "  lea blob(%rip), %r13\n"
    "  xor %edi, %edi\n"
    "  mov $12, %eax\n"
    "  syscall\n"
    "  mov %rax, %r14\n"
    "  xor %edi, %edi\n"
    "  mov $4096, %esi\n"
    "  xor %edx, %edx\n"
    "  mov $0x22, %r10d\n"
    "  mov $-1, %r8\n"
    "  xor %r9d, %r9d\n"
    "  mov $9, %eax\n"
    "  syscall\n"
    "  push %rax\n"
    "  push %r14\n"
    "  push %r13\n"
    "  push %r12\n"
    "  mov $1, %edi\n"
    "  mov %rsp, %rsi\n"
    "  mov $4096, %edx\n"
    "  mov $1, %eax\n"
    "  syscall\n"
    "  xor %edi, %edi\n"
    "  mov $231, %eax\n"
    "  syscall\n"
    "blob_end:\n"
    ".popsection\n");
extern const char blob[], blob_end[];

/* What one exec came to. */
struct place {
	unsigned long sp, code, brk, map, base, entry, vdso, random, top;
};

/* Writes a program of type `type` at `vaddr`, with `interpreter` (or none) and a last part that ends at vaddr + 0x3000. */
static void make(const char *name, int type, unsigned long vaddr, const char *interpreter)
{
	char file[PAGE] = {0};
	Elf64_Ehdr *head = (void *)file;
	Elf64_Phdr *part = (void *)(head + 1);
	size_t code = blob_end - blob;

	memcpy(head->e_ident, "\177ELF\2\1\1", 7);
	head->e_type = type;
	head->e_machine = EM_X86_64;
	head->e_version = 1;
	head->e_entry = vaddr + 0x200;
	head->e_phoff = sizeof *head;
	head->e_ehsize = sizeof *head;
	head->e_phentsize = sizeof *part;
	head->e_phnum = interpreter ? 4 : 3;
	part[0] = (Elf64_Phdr){PT_LOAD, PF_R | PF_X, 0, vaddr, vaddr, sizeof file, sizeof file, PAGE};
	part[1] = (Elf64_Phdr){PT_LOAD, PF_R | PF_W, 0, vaddr + 0x2000, vaddr + 0x2000, 16, PAGE, PAGE};
	part[2] = (Elf64_Phdr){PT_GNU_STACK, PF_R | PF_W, 0, 0, 0, 0, 0, 16};
	memcpy(file + 0x200, blob, code);
	if (interpreter) {
		size_t length = strlen(interpreter) + 1;

		part[3] = (Elf64_Phdr){PT_INTERP, PF_R, 0x800, vaddr + 0x800, vaddr + 0x800, length, length, 1};
		memcpy(file + 0x800, interpreter, length);
	}
	int fd = open(name, O_CREAT | O_TRUNC | O_WRONLY, 0755);
	if (fd < 0 || write(fd, file, sizeof file) != sizeof file)
		say("cannot write %s", name);
	close(fd);
}

static char long_word[3 * PAGE];

/* Executes `name` after `persona` was set; where it lay. */
static struct place run(const char *name, unsigned long persona)
{
	struct place place = {0};
	unsigned long words[PAGE / 8] = {0};
	int ends[2];

	pipe(ends);
	pid_t pid = must_fork();
	if (pid == 0) {
		char *argv[] = {(char *)name, NULL};
		char *envp[] = {long_word, NULL};

		personality(persona);
		dup2(ends[1], 1);
		execve(name, argv, envp);
		_exit(100);
	}
	close(ends[1]);
	size_t got = 0;
	ssize_t n;
	while (got < sizeof words && (n = read(ends[0], (char *)words + got, sizeof words - got)) > 0)
		got += n;
	close(ends[0]);
	int status = wait_for(pid);
	if (status != 0 || got != sizeof words) {
		say("%s: %s, %zu bytes", name, status_text(status), got);
		return place;
	}
	place.sp = words[0];
	place.code = words[1] - 0x200;
	place.brk = words[2];
	place.map = words[3];
	unsigned long *at = words + 4 + 1;
	while (*at++)
		;
	while (*at++)
		;
	for (; at[0] != AT_NULL; at += 2) {
		if (at[0] == AT_BASE)
			place.base = at[1];
		if (at[0] == AT_ENTRY)
			place.entry = at[1] - 0x200;
		if (at[0] == AT_SYSINFO_EHDR)
			place.vdso = at[1];
		if (at[0] == AT_RANDOM)
			place.random = at[1];
		if (at[0] == AT_EXECFN)
			place.top = (at[1] + PAGE - 1) & ~(PAGE - 1);
	}
	return place;
}


/* What has been seen of one value: bits that were once set, bits that were always set, the lowest and the highest. */
struct seen {
	unsigned long any, all, low, high;
};

static void see(struct seen *seen, unsigned long value)
{
	if (!seen->any && !seen->all)
		*seen = (struct seen){0, ~0UL, ~0UL, 0};
	seen->any |= value;
	seen->all &= value;
	seen->low = value < seen->low ? value : seen->low;
	seen->high = value > seen->high ? value : seen->high;
}

/* Does each bit of `mask` differ from exec to exec? */
static int varies(const struct seen *seen, unsigned long mask)
{
	return (seen->any & ~seen->all & mask) == mask;
}

static int within(const struct seen *seen, unsigned long low, unsigned long high)
{
	return low <= seen->low && seen->high < high;
}

#define BITS(low, high) ((1UL << ((high) + 1)) - (1UL << (low)))
#define MMAP_BITS BITS(12, 39)
#define PIE 0x555555554000UL
#define TERABYTE (1UL << 40)

static struct seen sp, code, brk_, map, base, entry, vdso, below_end;

static void watch(const char *name, unsigned long persona)
{
	struct seen *all[] = {&sp, &code, &brk_, &map, &base, &entry, &vdso, &below_end};

	for (int i = 0; i < 8; i++)
		*all[i] = (struct seen){0};
	for (int i = 0; i < RUNS; i++) {
		struct place p = run(name, persona);
		unsigned long values[] = {p.sp, p.code, p.brk, p.map, p.base, p.entry, p.vdso, USER_END - p.top};

		for (int j = 0; j < 8; j++)
			see(all[j], values[j]);
		if (p.sp % 16 || p.random <= p.sp || p.random >= p.top)
			say("%s: bad stack", name);
	}
}

static void set(const char *text)
{
	int fd = open("/proc/sys/kernel/randomize_va_space", O_WRONLY);
	char shown[32] = {0};

	errno = 0;
	long n = write(fd, text, strlen(text));
	int error = errno;
	close(fd);
	fd = open("/proc/sys/kernel/randomize_va_space", O_RDONLY);
	read(fd, shown, sizeof shown - 1);
	close(fd);
	shown[strcspn(shown, "\n")] = 0;
	char *end = strchr(text, '\n');
	say("write \"%.*s\": %ld %s, reads %s", end ? (int)(end - text) : (int)strlen(text), text, n, error_name(error), shown);
}

static void stack_and_mappings(void)
{
	CHECK(varies(&below_end, BITS(12, 33)));
	CHECK(within(&below_end, 0, 16 * GIB));
	CHECK(varies(&sp, BITS(4, 12)));
	CHECK(varies(&map, MMAP_BITS));
	CHECK(varies(&vdso, MMAP_BITS));
	CHECK(within(&map, USER_END - TERABYTE - 17 * GIB, USER_END - 16 * GIB));
	CHECK(within(&vdso, USER_END - TERABYTE - 17 * GIB, USER_END - 16 * GIB));
}

static void same_twice(const char *name, unsigned long persona)
{
	struct place one = run(name, persona), two = run(name, persona);

	CHECK(memcmp(&one, &two, sizeof one) == 0);
	CHECK(one.top == USER_END);
	say("%s: code %lx, program %lx, heap %lx", name, one.code, one.entry, one.brk);
}

static void not_root(void)
{
	setresuid(1000, 1000, 1000);
	SHOW_OK(open("/proc/sys/kernel/randomize_va_space", O_RDONLY));
	SHOW_OK(open("/proc/sys/kernel/randomize_va_space", O_WRONLY));
}

static void stack_limit(const char *text, rlim_t bytes)
{
	struct rlimit limit = {bytes, RLIM_INFINITY};

	setrlimit(RLIMIT_STACK, &limit);
	struct place place = run("./alone", ADDR_NO_RANDOMIZE);
	say("stack of %s: code %lx", text, place.code);
}

int main(void)
{
	memset(long_word, 'x', sizeof long_word - 1);
	make("./fixed", ET_EXEC, 0x400000, NULL);
	make("./alone", ET_DYN, 0, NULL);
	make("./pie", ET_DYN, 0, "./alone");

	section("the switch");
	struct stat st;
	SHOW(stat("/proc/sys/kernel/randomize_va_space", &st));
	say("mode %o", st.st_mode & 07777);
	in_child("not root", not_root);
	const char *words[] = {"3\n", "-1", " 1 \n", "0x2\n", "x\n", "1x\n", "\n", "2147483648\n", "4294967296\n", "-", "00", "2\n"};
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		set(words[i]);

	section("2: everything, at a fixed address");
	watch("./fixed", 0);
	stack_and_mappings();
	CHECK(within(&code, 0x400000, 0x400001));
	CHECK(varies(&brk_, BITS(12, 29)));
	CHECK(within(&brk_, 0x404000, 0x404000 + GIB));

	section("2: everything, static and relocatable");
	watch("./alone", 0);
	stack_and_mappings();
	CHECK(varies(&code, MMAP_BITS));
	CHECK(within(&code, USER_END - TERABYTE - 17 * GIB, USER_END - 16 * GIB));
	CHECK(varies(&brk_, BITS(12, 29)));
	CHECK(within(&brk_, PIE + PAGE, PIE + PAGE + GIB));

	section("2: everything, with an interpreter");
	watch("./pie", 0);
	stack_and_mappings();
	CHECK(varies(&base, MMAP_BITS));
	CHECK(varies(&entry, MMAP_BITS));
	CHECK(within(&entry, PIE, PIE + TERABYTE));
	CHECK(within(&base, USER_END - TERABYTE - 17 * GIB, USER_END - 16 * GIB));
	struct place place = run("./pie", 0);
	CHECK(place.brk >= place.entry + 0x4000 && place.brk < place.entry + 0x4000 + GIB);

	section("1: not the heap");
	set("1\n");
	watch("./fixed", 0);
	stack_and_mappings();
	CHECK(within(&brk_, 0x403000, 0x403001));
	watch("./alone", 0);
	CHECK(varies(&code, MMAP_BITS));
	CHECK(within(&brk_, PIE + PAGE, PIE + PAGE + 1));
	place = run("./pie", 0);
	CHECK(place.brk == place.entry + 0x3000);

	section("0: nothing");
	set("0\n");
	same_twice("./fixed", 0);
	same_twice("./alone", 0);
	same_twice("./pie", 0);

	section("not in this process");
	set("2\n");
	same_twice("./fixed", ADDR_NO_RANDOMIZE);
	same_twice("./alone", ADDR_NO_RANDOMIZE);
	same_twice("./pie", ADDR_NO_RANDOMIZE);

	section("upward");
	same_twice("./alone", ADDR_NO_RANDOMIZE | ADDR_COMPAT_LAYOUT);
	same_twice("./pie", ADDR_NO_RANDOMIZE | ADDR_COMPAT_LAYOUT);
	place = run("./alone", ADDR_NO_RANDOMIZE | ADDR_COMPAT_LAYOUT);
	CHECK(place.map == place.code + PAGE);
	watch("./alone", ADDR_COMPAT_LAYOUT);
	CHECK(varies(&code, MMAP_BITS));
	CHECK(within(&code, 0x2aaaaaaab000, 0x2aaaaaaab000 + TERABYTE));

	section("below the stack's limit");
	stack_limit("64 KiB", 64 << 10);
	stack_limit("1 GiB", GIB);
	stack_limit("64 TiB", 64 * TERABYTE);
	stack_limit("infinity", RLIM_INFINITY);
	return 0;
}
