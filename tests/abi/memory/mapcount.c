/* As many mappings as a process may have (vm.max_map_count), and what is refused then. */
#include <pthread.h>
#include "t.h"

#define PAGE 4096L
#define RW (PROT_READ | PROT_WRITE)
#define ANON (MAP_PRIVATE | MAP_ANONYMOUS)
#define SETTING "/proc/sys/vm/max_map_count"

/* What the tests go by, so that they are short. */
static long most;

static int set(const char *text)
{
	int fd = open(SETTING, O_WRONLY), n = write(fd, text, strlen(text));

	close(fd);
	return n == (int)strlen(text) ? 0 : -1;
}

static void set_most(long n)
{
	char text[32];

	most = n;
	snprintf(text, sizeof text, "%ld", n);
	CHECK(set(text) == 0);
}

static const char *get(void)
{
	static char text[32];
	int fd = open(SETTING, O_RDONLY), n = read(fd, text, sizeof text - 1);

	close(fd);
	text[n > 0 ? n - 1 : 0] = 0;
	return text;
}

/* Lines of maps, but for what is not the process's. */
static long lines(void)
{
	static char buffer[8 << 20];
	int fd = open("/proc/self/maps", O_RDONLY);
	long size = 0, count = 0, n;

	while ((n = read(fd, buffer + size, sizeof buffer - 1 - size)) > 0)
		size += n;
	close(fd);
	buffer[size] = 0;
	for (long i = 0; i < size; i++)
		count += buffer[i] == '\n';
	return count - (strstr(buffer, "[vsyscall]") != NULL);
}

static long map_until_refused(void)
{
	long count = 0;

	while (count < 100000 && mmap(0, PAGE, count % 2 ? PROT_READ : PROT_NONE, ANON, -1, 0) != MAP_FAILED)
		count++;
	return count;
}

static void at_the_limit(void)
{
	char *big = mmap(0, 8 * PAGE, RW, ANON, -1, 0), *first = NULL;

	for (int i = 0; i < 16; i++)
		first = mmap(0, PAGE, i % 2 ? RW : PROT_NONE, ANON, -1, 0);
	long count = map_until_refused();
	say("refused: %s", error_name(errno));
	CHECK(count > most / 2 && count < most);
	CHECK(lines() == most + 1);
	for (int again = 0; again < 2; again++) {
		SHOW_PTR(mmap(0, PAGE, RW, ANON, -1, 0));
		SHOW(munmap(big + 2 * PAGE, PAGE));
		SHOW(mprotect(big + 2 * PAGE, PAGE, PROT_READ));
		SHOW(mprotect(big, PAGE, PROT_READ));
		SHOW(madvise(big + 2 * PAGE, PAGE, MADV_DONTFORK));
		SHOW(madvise(big + 2 * PAGE, PAGE, MADV_DONTNEED));
		SHOW(mlock(big + 2 * PAGE, PAGE));
		SHOW_PTR(mremap(big, 8 * PAGE, 16 * PAGE, MREMAP_MAYMOVE));
		SHOW_PTR(mmap(big + 2 * PAGE, PAGE, PROT_READ, ANON | MAP_FIXED, -1, 0));
		long heap = syscall(SYS_brk, 0);
		CHECK(syscall(SYS_brk, heap + 4 * PAGE) == heap);
		CHECK(lines() == most + 1);
	}
	SHOW(mprotect(big, 8 * PAGE, RW));
	SHOW(munmap(big + 6 * PAGE, 2 * PAGE));
	SHOW(munmap(first, PAGE));
	SHOW(munmap(first + 2 * PAGE, PAGE));
	SHOW(munmap(first + 4 * PAGE, PAGE));
	SHOW(mprotect(big, PAGE, PROT_READ));
	SHOW(munmap(first + 6 * PAGE, 6 * PAGE));
	SHOW_PTR(mremap(big + PAGE, 5 * PAGE, 16 * PAGE, MREMAP_MAYMOVE));
	pid_t pid = must_fork();
	if (pid == 0)
		_exit(map_until_refused() < 100);
	say("a child: %s", status_text(wait_for(pid)));
}

/* Every other page of a mapping. Each makes two mappings more. */
static long protect_until_refused(char *area)
{
	long count = 0;

	while (count < 100000 && mprotect(area + 2 * PAGE * count + PAGE, PAGE, PROT_READ) == 0)
		count++;
	return count;
}

static void by_mprotect(void)
{
	char *area = mmap(0, 8 * most * PAGE, PROT_NONE, ANON | MAP_NORESERVE, -1, 0);

	protect_until_refused(area);
	say("refused: %s", error_name(errno));
	long count = lines();
	CHECK(count == most || count == most - 1);
	long refused = 0;
	for (int i = 0; i < 1000; i++) {
		refused += mprotect(area + PAGE, PAGE, PROT_NONE) != 0;
		refused += mprotect(area + PAGE, PAGE, PROT_READ) != 0;
	}
	say("back and forth: %ld refused", refused);
	CHECK(lines() == count);
	SHOW(mprotect(area + 2 * PAGE * (most + 8) + PAGE, PAGE, PROT_READ));
	SHOW(munmap(area, 8 * most * PAGE));
	CHECK(lines() < 100);
	SHOW_PTR(mmap(0, PAGE, RW, ANON, -1, 0));
}

static pthread_barrier_t all_made;

static void *map_many(void *unused)
{
	pthread_barrier_wait(&all_made);
	map_until_refused();
	return unused;
}

static void by_threads(void)
{
	pthread_t threads[4];

	/* A thread's stack is a mapping, too. */
	pthread_barrier_init(&all_made, NULL, 4);
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, map_many, NULL);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	long count = lines();
	CHECK(count > most - 100 && count <= most + 8);
}

/* A limit that is lowered holds for who is there already. */
static void lowered(void)
{
	for (int i = 0; i < 200; i++)
		mmap(0, PAGE, i % 2 ? PROT_READ : PROT_NONE, ANON, -1, 0);
	set_most(100);
	SHOW_PTR(mmap(0, PAGE, RW, ANON, -1, 0));
	set_most(400);
	CHECK(mmap(0, PAGE, RW, ANON, -1, 0) != MAP_FAILED);
	map_until_refused();
	CHECK(lines() == most + 1);
}

/* So many are made and listed faster two at a time. */
static void as_it_is(void)
{
	long before = lines(), count;

	CHECK(most == 65530);
	count = protect_until_refused(mmap(0, 2 * most * PAGE, PROT_NONE, ANON | MAP_NORESERVE, -1, 0));
	say("refused: %s", error_name(errno));
	count = before + 2 * count;
	CHECK(count == most || count == most - 1);
}

int main(void)
{
	say("%s", get());
	SHOW(set("-1"));
	SHOW(set("many"));
	SHOW(set("2147483648"));
	section("at the limit");
	set_most(500);
	say("%s", get());
	in_child("at the limit", at_the_limit);
	section("by mprotect");
	set_most(1000);
	in_child("by mprotect", by_mprotect);
	section("by threads");
	set_most(2000);
	in_child("by threads", by_threads);
	section("lowered");
	in_child("lowered", lowered);
	set_most(65530);
	say("%s", get());
	section("as it is");
	in_child("as it is", as_it_is);
	return 0;
}
