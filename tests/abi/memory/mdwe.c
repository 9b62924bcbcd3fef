/* PR_SET_MDWE: what is not executable does not become so, and nothing is writable and executable at once. */
#include "t.h"

#include <sys/personality.h>
#include <sys/prctl.h>

#define SET_MDWE 65
#define GET_MDWE 66
#define RW (PROT_READ | PROT_WRITE)
#define RX (PROT_READ | PROT_EXEC)
#define RWX (PROT_READ | PROT_WRITE | PROT_EXEC)
#define P(...) SHOW(syscall(SYS_prctl, __VA_ARGS__))

static void *map(int prot)
{
	return mmap(0, 3 * 4096, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void arguments(void)
{
	P(GET_MDWE, 0, 0, 0, 0);
	P(GET_MDWE, 1, 0, 0, 0);
	P(GET_MDWE, 0, 0, 0, 1);
	P(SET_MDWE, 0, 0, 0, 0);
	P(SET_MDWE, 2, 0, 0, 0);
	P(SET_MDWE, 4, 0, 0, 0);
	P(SET_MDWE, 1, 1, 0, 0);
	P(SET_MDWE, 1, 0, 0, 1);
	P(SET_MDWE, -1l, 0, 0, 0);
	P(SET_MDWE, 257, 0, 0, 0);
	P(SET_MDWE, 1, 0, 0, 0);
	P(SET_MDWE, 1, 0, 0, 0);
	P(SET_MDWE, 3, 0, 0, 0);
	P(SET_MDWE, 0, 0, 0, 0);
	P(GET_MDWE, 0, 0, 0, 0);
}

static void changes(void)
{
	char *data = map(RW), *code = map(RX), *none = map(PROT_NONE), *both = map(RWX);
	data[0] = 1;
	P(SET_MDWE, 1, 0, 0, 0);
	SHOW_PTR(map(RWX));
	SHOW_PTR(map(PROT_WRITE | PROT_EXEC));
	SHOW_PTR(map(RX));
	SHOW_PTR(map(RW));
	SHOW(mprotect(data, 4096, RX));
	SHOW(mprotect(data, 4096, PROT_EXEC));
	SHOW(mprotect(data, 4096, PROT_READ));
	SHOW(mprotect(data, 4096, RX));
	SHOW(mprotect(none, 4096, RX));
	SHOW(mprotect(none, 4096, RW));
	SHOW(mprotect(code, 4096, RWX));
	SHOW(mprotect(code, 4096, RX));
	SHOW(mprotect(code, 4096, PROT_EXEC));
	SHOW(mprotect(code, 4096, PROT_READ));
	SHOW(mprotect(code, 4096, RX));
	SHOW(mprotect(both, 4096, RWX));
	SHOW(mprotect(both, 4096, RX));
	SHOW(mprotect(both, 4096, RW));
	SHOW(mprotect(both, 4096, RX));
	/* What lies before the first that is refused is changed. */
	mprotect(code + 4096, 4096, PROT_READ);
	code = map(RX);
	mprotect(code + 4096, 4096, PROT_READ);
	SHOW(mprotect(code, 3 * 4096, PROT_EXEC));
	int fd = open("f", O_CREAT | O_RDWR, 0600);
	ftruncate(fd, 4096);
	SHOW_PTR(mmap(0, 4096, RWX, MAP_SHARED, fd, 0));
	SHOW_PTR(mmap(0, 4096, RX, MAP_SHARED, fd, 0));
	char *file = mmap(0, 4096, RW, MAP_SHARED, fd, 0);
	SHOW(mprotect(file, 4096, RX));
	SHOW_PTR(mmap(data, 4096, RWX, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
	SHOW_PTR(mmap(0, 0, RWX, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	SHOW_PTR(mmap(0, 4096, RWX, MAP_SHARED, 99, 0));
	close(fd);
}

static void implied(void)
{
	char *data = map(RW);
	P(SET_MDWE, 1, 0, 0, 0);
	personality(0x400000);
	SHOW_PTR(map(RW));
	SHOW_PTR(map(PROT_READ));
	SHOW(mprotect(data, 4096, PROT_READ));
	SHOW(mprotect(data, 4096, PROT_WRITE));
}

static const char *self;
static void tell(const char *text)
{
	say("%s: %d", text, prctl(GET_MDWE, 0, 0, 0, 0));
}

static int bits;
static void inherits(void)
{
	P(SET_MDWE, bits, 0, 0, 0);
	pid_t pid = must_fork();
	if (pid == 0) {
		tell("a child");
		SHOW_PTR(map(RWX));
		_exit(0);
	}
	wait_for(pid);
	tell("the parent");
	execl("/proc/self/exe", self, "again", (char *)0);
}

int main(int count, char **names)
{
	setvbuf(stdout, 0, _IONBF, 0);
	self = names[0];
	if (count > 1) {
		tell("after exec");
		SHOW_PTR(map(RWX));
		return 0;
	}
	in_child("arguments", arguments);
	in_child("changes", changes);
	in_child("read implies exec", implied);
	for (bits = 1; bits < 4; bits += 2)
		in_child("inherited", inherits);
	return 0;
}
