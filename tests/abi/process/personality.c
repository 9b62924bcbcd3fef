/* personality: whose it is, what it survives, and what each flag does. */
#include <pthread.h>
#include <sys/personality.h>
#include <sys/select.h>
#include <sys/utsname.h>
#include "t.h"

#define PAGE 4096L
#define RW (PROT_READ | PROT_WRITE)
#define ANON (MAP_PRIVATE | MAP_ANONYMOUS)

static const char *self;

/* The rights of what lies at `at`, as /proc/self/maps has them. */
static const char *rights(void *at)
{
	static char found[8];
	char *text = read_file("/proc/self/maps");

	strcpy(found, "none");
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		unsigned long start, end;
		char word[8];

		if (sscanf(line, "%lx-%lx %7s", &start, &end, word) == 3 && start <= (unsigned long)at && (unsigned long)at < end)
			strcpy(found, word);
	}
	free(text);
	return found;
}

static void show(const char *what)
{
	struct utsname name;

	uname(&name);
	say("%s: %lx, machine %s, 2.6: %d, page 0 %s, mappings %s", what, (unsigned long)personality(0xffffffff), name.machine,
	    !strncmp(name.release, "2.6.72", 6), rights(0), (uintptr_t)mmap(0, PAGE, RW, ANON, -1, 0) < 1L << 46 ? "low" : "high");
}

/* Executes this program with `persona`, which then shows what it has. */
static void exec_with(unsigned long persona)
{
	pid_t pid = must_fork();

	if (pid == 0) {
		personality(persona);
		execl(self, self, "show", NULL);
		_exit(100);
	}
	wait_for(pid);
}

static void exec_as_user(void)
{
	setresuid(1000, 1000, 1000);
	personality(MMAP_PAGE_ZERO);
	execl(self, self, "show", NULL);
	_exit(100);
}

static void *other(void *unused)
{
	(void)unused;
	SHOW(personality(0xffffffff));
	SHOW(personality(ADDR_NO_RANDOMIZE));
	return NULL;
}

static void read_implies_exec(void)
{
	char *before = mmap(0, PAGE, PROT_READ, ANON, -1, 0);
	int fd = open("file", O_CREAT | O_RDWR, 0644);

	ftruncate(fd, 4 * PAGE);
	personality(READ_IMPLIES_EXEC);
	say("before: %s", rights(before));
	say("read: %s", rights(mmap(0, PAGE, PROT_READ, ANON, -1, 0)));
	say("write: %s", rights(mmap(0, PAGE, PROT_WRITE, ANON, -1, 0)));
	say("none: %s", rights(mmap(0, PAGE, PROT_NONE, ANON, -1, 0)));
	say("file: %s", rights(mmap(0, PAGE, PROT_READ, MAP_PRIVATE, fd, 0)));
	say("shared: %s", rights(mmap(0, PAGE, RW, MAP_SHARED, fd, 0)));
	SHOW(mprotect(before, PAGE, RW));
	say("mprotect: %s", rights(before));
	SHOW(mprotect(before, PAGE, PROT_WRITE));
	say("mprotect: %s", rights(before));
	char *heap = sbrk(4 * PAGE);
	say("heap: %s", rights(heap + 2 * PAGE));
	personality(0);
	say("read: %s", rights(mmap(0, PAGE, PROT_READ, ANON, -1, 0)));
	say("heap: %s", rights(heap + 2 * PAGE));
}


static void sticky(void)
{
	struct timeval time = {0, 20000};

	personality(STICKY_TIMEOUTS);
	SHOW(syscall(SYS_select, 0, NULL, NULL, NULL, &time));
	say("sticky: %ld.%06ld", (long)time.tv_sec, (long)time.tv_usec);
	struct timespec short_time = {0, 20000000};
	SHOW(syscall(SYS_pselect6, 0, NULL, NULL, NULL, &short_time, NULL));
	say("sticky: %ld.%09ld", (long)short_time.tv_sec, short_time.tv_nsec);
	personality(0);
	SHOW(syscall(SYS_select, 0, NULL, NULL, NULL, &time));
	say("not sticky: %ld.%06ld", (long)time.tv_sec, (long)time.tv_usec);
}

int main(int count, char **words)
{
	self = words[0];
	if (count > 1) {
		show("after exec");
		return 0;
	}
	section("whose");
	SHOW(personality(0xffffffff));
	SHOW(personality(ADDR_NO_RANDOMIZE | 0xabc));
	SHOW(personality(0xffffffff));
	pid_t pid = must_fork();
	if (pid == 0) {
		SHOW(personality(0xffffffff));
		SHOW(personality(0x1234));
		_exit(0);
	}
	wait_for(pid);
	SHOW(personality(0xffffffff));
	pthread_t thread;
	SHOW(personality(SHORT_INODE));
	pthread_create(&thread, NULL, other, NULL);
	pthread_join(thread, NULL);
	SHOW(personality(0xffffffff));
	SHOW(personality(0));

	section("exec");
	exec_with(0);
	exec_with(ADDR_NO_RANDOMIZE | STICKY_TIMEOUTS | WHOLE_SECONDS | SHORT_INODE | ADDR_LIMIT_3GB | ADDR_LIMIT_32BIT);
	exec_with(READ_IMPLIES_EXEC | ADDR_NO_RANDOMIZE);
	exec_with(ADDR_COMPAT_LAYOUT);
	exec_with(MMAP_PAGE_ZERO);
	exec_with(UNAME26);
	exec_with(PER_LINUX32);
	exec_with(PER_LINUX32 | UNAME26 | MMAP_PAGE_ZERO);
	in_child("a user's page 0", exec_as_user);

	section("READ_IMPLIES_EXEC");
	in_child("READ_IMPLIES_EXEC", read_implies_exec);
	section("STICKY_TIMEOUTS");
	in_child("STICKY_TIMEOUTS", sticky);
	return 0;
}
