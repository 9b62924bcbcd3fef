/* Protection keys: what is refused, and that a key of -1 is none. Linux has keys where the processor has, Darter has none. */
#include "t.h"

#include <sys/mman.h>

#define PAGE 4096
#define FAR ((char *)0x7ffffffff000)

static long protect(void *at, size_t len, unsigned long prot, int key)
{
	return syscall(SYS_pkey_mprotect, at, len, prot, key);
}

static char *at;

static void write_it(void)
{
	*(volatile char *)at = 1;
}

int main(void)
{
	at = mmap(0, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	section("without a key");
	in_child("written", write_it);
	SHOW(protect(at, PAGE, PROT_READ, -1));
	in_child("read only", write_it);
	SHOW(protect(at, PAGE, PROT_READ | PROT_WRITE, -1));
	in_child("written again", write_it);
	SHOW(protect(at + 1, PAGE, PROT_READ, -1));
	SHOW(protect(at, PAGE, 0x40, -1));
	SHOW(protect(at, PAGE, PROT_GROWSDOWN | PROT_GROWSUP, -1));
	SHOW(protect(at, -PAGE, PROT_READ, -1));
	SHOW(protect(FAR, 2 * PAGE, PROT_READ, -1));
	SHOW(protect(at, PAGE, PROT_READ | PROT_EXEC, -1));
	SHOW(protect(at, PAGE, PROT_READ | PROT_WRITE | 8, -1));  /* PROT_SEM */
	char *stack = mmap(0, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN, -1, 0);
	SHOW(protect(stack + 2 * PAGE, PAGE, PROT_READ | PROT_GROWSDOWN, -1));
	SHOW(protect(stack, PAGE, PROT_READ | PROT_GROWSUP, -1));
	munmap(at + PAGE, PAGE);
	SHOW(protect(at, 2 * PAGE, PROT_READ, -1));

	section("keys that nobody has");
	for (int key = -3; key <= 17; key++)
		if (key != -1 && key != 0)
			say("%d: %s", key, protect(at, PAGE, PROT_READ, key) ? error_name(errno) : "0");
	SHOW(protect(at + 1, PAGE, PROT_READ, 5));
	SHOW(protect(at, 0, PROT_READ, 5));
	SHOW(protect(at, 1, 0x40, 5));
	SHOW(protect(at + 1, 0, PROT_READ, 5));
	SHOW(protect(at, 0, PROT_GROWSDOWN | PROT_GROWSUP, 5));
	SHOW(protect(at, PAGE, PROT_GROWSDOWN | PROT_GROWSUP, 5));
	SHOW(protect(at, -PAGE, PROT_READ, 5));
	SHOW(protect(at, -PAGE, 0x40, 5));
	SHOW(protect(FAR, 2 * PAGE, PROT_READ, 5));
	for (int key = -2; key <= 17; key++)
		if (key != 0)
			say("free %d: %s", key, syscall(SYS_pkey_free, key) ? error_name(errno) : "0");

	section("none to be had");
	SHOW(syscall(SYS_pkey_alloc, 1, 0));
	SHOW(syscall(SYS_pkey_alloc, 0, 4));
	SHOW(syscall(SYS_pkey_alloc, 0, 1ul << 32));
	SHOW(syscall(SYS_pkey_alloc, 1ul << 32, 0));
	MISSING(syscall(SYS_pkey_alloc, 0, 0), ENOSPC);
	MISSING(syscall(SYS_pkey_alloc, 0, 3), ENOSPC);
	return 0;
}
