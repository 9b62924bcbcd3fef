/* arch_prctl beside the bases of FS and GS (selectors.c): CPUID, vector state, and what this machine does not have. */
#include "t.h"

#define A(...) SHOW(syscall(SYS_arch_prctl, __VA_ARGS__))

static uint64_t components(void)
{
	uint32_t low, high;
	__asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
	return (uint64_t)high << 32 | low;
}

int main(void)
{
	setvbuf(stdout, 0, _IONBF, 0);
	section("CPUID");
	A(0x1011, 0);
	A(0x1011, 5);
	A(0x1012, 0);
	A(0x1012, 1);
	A(0x1012, 2);
	section("vector state");
	uint64_t value = 1;
	A(0x1021, &value);
	CHECK(value == components());
	A(0x1021, 8);
	value = 1;
	A(0x1022, &value);
	CHECK(value == components());
	A(0x1022, 8);
	for (long n = 0; n < 22; n++)
		A(0x1023, n);
	A(0x1023, -1l);
	A(0x1024, &value);
	A(0x1025, 0);
	A(0x1025, 18);
	A(0x1025, 19);
	section("others");
	A(0x1000, 0);
	A(0x1005, 0);
	A(0x1013, 0);
	A(0x1026, 0);
	A(0x4001, 8);
	A(0x4002, 1);
	A(0x4003, 8);
	A(0x4004, 0);
	A(-1l, 0);
	return 0;
}
