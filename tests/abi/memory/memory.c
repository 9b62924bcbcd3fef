/* mmap, munmap, mprotect, mremap, madvise, msync, brk: flags, errors, contents, and the faults that follow. */
#include "t.h"

#define PAGE 4096L
#define RW (PROT_READ | PROT_WRITE)
#define ANON (MAP_PRIVATE | MAP_ANONYMOUS)

static volatile char *spot;
static void touch_read(void) { (void)*spot; }
static void touch_write(void) { *spot = 1; }

static void try_at(const char *what, char *at)
{
	char text[128];
	spot = at;
	snprintf(text, sizeof text, "read %s", what);
	in_child(text, touch_read);
	snprintf(text, sizeof text, "write %s", what);
	in_child(text, touch_write);
}

static void errors(void)
{
	section("mmap errors");
	int fd = open("file", O_CREAT | O_RDWR, 0644), reader = open("file", O_RDONLY), writer = open("file", O_WRONLY);
	int dir = open(".", O_RDONLY | O_DIRECTORY), path = open("file", O_PATH), ends[2];
	if (pipe(ends) != 0)
		say("no pipe");
	SHOW_PTR(mmap(0, 0, RW, ANON, -1, 0));
	SHOW_PTR(mmap(0, PAGE, RW, MAP_ANONYMOUS, -1, 0));
	SHOW_PTR(mmap(0, PAGE, RW, MAP_PRIVATE, -1, 0));
	SHOW_PTR(mmap(0, PAGE, RW, MAP_PRIVATE, 999, 0));
	SHOW_PTR((void *)syscall(SYS_mmap, 0, PAGE, RW, MAP_PRIVATE, fd, 1));
	SHOW_PTR((void *)syscall(SYS_mmap, 0, PAGE, RW, MAP_PRIVATE | MAP_SHARED | MAP_ANONYMOUS | 0xf, -1, 0));
	SHOW_PTR((void *)syscall(SYS_mmap, 0x1001, PAGE, RW, ANON | MAP_FIXED, -1, 0));
	SHOW_PTR((void *)syscall(SYS_mmap, 0, -1L, RW, ANON, -1, 0));
	SHOW_PTR((void *)syscall(SYS_mmap, 0, 1L << 47, RW, ANON, -1, 0));
	SHOW_PTR((void *)syscall(SYS_mmap, 0xffff800000000000, PAGE, RW, ANON | MAP_FIXED, -1, 0));
	SHOW_PTR(mmap(0, PAGE, RW, MAP_SHARED, reader, 0));
	SHOW_PTR(mmap(0, PAGE, PROT_READ, MAP_SHARED, writer, 0));
	SHOW_PTR(mmap(0, PAGE, RW, MAP_PRIVATE, reader, 0));
	SHOW_PTR(mmap(0, PAGE, PROT_READ, MAP_PRIVATE, writer, 0));
	SHOW_PTR(mmap(0, PAGE, PROT_READ, MAP_PRIVATE, dir, 0));
	SHOW_PTR(mmap(0, PAGE, PROT_READ, MAP_PRIVATE, path, 0));
	SHOW_PTR(mmap(0, PAGE, PROT_READ, MAP_PRIVATE, ends[0], 0));
	SHOW_PTR((void *)syscall(SYS_mmap, 0, PAGE, PROT_READ, MAP_SHARED, fd, 0x7ffffffffffff000));
	SHOW(munmap((void *)1, PAGE));
	SHOW(munmap((void *)(16 * PAGE), 0));
	SHOW(munmap((void *)(16 * PAGE), PAGE));
	SHOW(munmap((void *)0xffff800000000000, PAGE));
	SHOW(mprotect((void *)(16 * PAGE), PAGE, PROT_READ));
	SHOW(mprotect((void *)(16 * PAGE + 1), PAGE, PROT_READ));
	SHOW(mprotect((void *)(16 * PAGE), 0, PROT_READ));
	SHOW(syscall(SYS_mprotect, 16 * PAGE, PAGE, 0x1000));
	SHOW(madvise((void *)(16 * PAGE), PAGE, MADV_DONTNEED));
	SHOW(madvise((void *)(16 * PAGE + 1), PAGE, MADV_DONTNEED));
	SHOW(madvise((void *)(16 * PAGE), PAGE, 9999));
	SHOW(msync((void *)(16 * PAGE), PAGE, MS_SYNC));
	SHOW(msync((void *)(16 * PAGE + 1), PAGE, MS_SYNC));
	SHOW(msync((void *)(16 * PAGE), PAGE, MS_SYNC | MS_ASYNC));
	SHOW_PTR(mremap((void *)(16 * PAGE), PAGE, 2 * PAGE, MREMAP_MAYMOVE));
	SHOW_PTR(mremap((void *)(16 * PAGE + 1), PAGE, 2 * PAGE, MREMAP_MAYMOVE));
	close(fd), close(reader), close(writer), close(dir), close(path), close(ends[0]), close(ends[1]);
}

static void anonymous(void)
{
	section("anonymous");
	char *area = mmap(0, 8 * PAGE, RW, ANON, -1, 0);
	int zero = 1;
	for (long i = 0; i < 8 * PAGE; i++)
		zero &= area[i] == 0;
	CHECK(zero);
	CHECK(((uintptr_t)area & (PAGE - 1)) == 0);
	memset(area, 'a', 8 * PAGE);
	SHOW(munmap(area + 2 * PAGE, PAGE));
	try_at("in the hole", area + 2 * PAGE);
	try_at("before the hole", area + 2 * PAGE - 1);
	try_at("after the hole", area + 3 * PAGE);
	SHOW(mprotect(area, 8 * PAGE, PROT_READ));
	try_at("before the hole, after mprotect across it", area);
	try_at("after the hole, after mprotect across it", area + 4 * PAGE);
	SHOW(munmap(area, 8 * PAGE));
	SHOW(munmap(area, 8 * PAGE));

	area = mmap(0, 4 * PAGE, RW, ANON, -1, 0);
	memset(area, 'b', 4 * PAGE);
	SHOW(mprotect(area + PAGE, PAGE, PROT_NONE));
	try_at("PROT_NONE", area + PAGE);
	SHOW(mprotect(area + PAGE, PAGE, PROT_READ));
	try_at("PROT_READ", area + PAGE);
	SHOW(mprotect(area + PAGE, PAGE, RW));
	try_at("PROT_READ|PROT_WRITE again", area + PAGE);
	CHECK(area[PAGE] == 'b');
	SHOW(mprotect(area + PAGE, PAGE, PROT_WRITE));
	try_at("PROT_WRITE alone", area + PAGE);
	char *fixed = mmap(area + 2 * PAGE, PAGE, RW, ANON | MAP_FIXED, -1, 0);
	CHECK(fixed == area + 2 * PAGE);
	CHECK(fixed[0] == 0);
	CHECK(area[3 * PAGE] == 'b');
	SHOW_PTR(mmap(area, PAGE, RW, ANON | MAP_FIXED_NOREPLACE, -1, 0));
	munmap(area, PAGE);
	char *hint = mmap(area, PAGE, RW, ANON, -1, 0);
	CHECK(hint == area);
	hint = mmap(area + 2 * PAGE, PAGE, RW, ANON, -1, 0);
	CHECK(hint != area + 2 * PAGE);
	CHECK(hint != MAP_FAILED);
	munmap(hint, PAGE);
	SHOW(madvise(area + 3 * PAGE, PAGE, MADV_DONTNEED));
	CHECK(area[3 * PAGE] == 0);
	SHOW(madvise(area, 4 * PAGE, MADV_WILLNEED));
	SHOW(madvise(area, 4 * PAGE, MADV_NORMAL));
	munmap(area, 4 * PAGE);

	/* A reservation far beyond memory costs nothing until it is touched. */
	area = mmap(0, 1L << 40, PROT_NONE, ANON | MAP_NORESERVE, -1, 0);
	CHECK(area != MAP_FAILED);
	SHOW(mprotect(area + (1L << 39), PAGE, RW));
	try_at("in the middle of 1 TiB", area + (1L << 39));
	try_at("beside it", area + (1L << 39) + PAGE);
	SHOW(munmap(area, 1L << 40));

	/* Pieces that join and split again. */
	area = mmap(0, 16 * PAGE, PROT_NONE, ANON, -1, 0);
	for (int i = 0; i < 16; i += 2)
		mprotect(area + i * PAGE, PAGE, RW);
	for (int i = 0; i < 16; i += 2)
		area[i * PAGE] = (char)i;
	mprotect(area, 16 * PAGE, RW);
	int right = 1;
	for (int i = 0; i < 16; i++)
		right &= area[i * PAGE] == (i % 2 ? 0 : i);
	CHECK(right);
	munmap(area, 16 * PAGE);
}

static void remap(void)
{
	section("mremap");
	char *area = mmap(0, 4 * PAGE, RW, ANON, -1, 0);
	for (int i = 0; i < 4; i++)
		area[i * PAGE] = (char)('0' + i);
	char *guard = mmap(area + 4 * PAGE, PAGE, PROT_NONE, ANON | MAP_FIXED_NOREPLACE, -1, 0);
	(void)guard;
	SHOW_PTR(mremap(area, 4 * PAGE, 8 * PAGE, 0));
	char *moved = mremap(area, 4 * PAGE, 8 * PAGE, MREMAP_MAYMOVE);
	CHECK(moved != MAP_FAILED && moved != area);
	say("%c%c%c%c %d", moved[0], moved[PAGE], moved[2 * PAGE], moved[3 * PAGE], moved[7 * PAGE]);
	try_at("the old place", area);
	char *shrunk = mremap(moved, 8 * PAGE, 2 * PAGE, 0);
	CHECK(shrunk == moved);
	try_at("the part cut off", moved + 2 * PAGE);
	char *target = mmap(0, 2 * PAGE, RW, ANON, -1, 0);
	target[0] = 'x';
	char *fixed = mremap(moved, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, target);
	CHECK(fixed == target);
	say("%c%c", fixed[0], fixed[PAGE]);
	SHOW_PTR(mremap(target, 2 * PAGE, 2 * PAGE, MREMAP_FIXED, area));
	SHOW_PTR(mremap(target, 2 * PAGE, 0, MREMAP_MAYMOVE));
	SHOW_PTR(mremap(target, 2 * PAGE, 2 * PAGE, 0x100));
}

static void files(void)
{
	section("file mappings");
	int fd = open("data", O_CREAT | O_RDWR | O_TRUNC, 0644);
	char block[PAGE];
	for (int i = 0; i < 3; i++) {
		memset(block, 'A' + i, sizeof block);
		if (write(fd, block, i == 2 ? 100 : sizeof block) < 0)
			say("write failed");
	}
	char *shared = mmap(0, 5 * PAGE, RW, MAP_SHARED, fd, 0);
	char *private = mmap(0, 5 * PAGE, RW, MAP_PRIVATE, fd, 0);
	char *second = mmap(0, PAGE, PROT_READ, MAP_SHARED, fd, PAGE);
	say("%c%c%c %d", shared[0], private[PAGE], second[0], shared[2 * PAGE + 100]);
	shared[PAGE] = 'x';
	say("shared write seen by: second %c, private %c", second[0], private[PAGE]);
	pread(fd, block, 1, PAGE);
	say("by read: %c", block[0]);
	private[PAGE] = 'y';
	shared[PAGE] = 'z';
	say("after the private copy: private %c, second %c", private[PAGE], second[0]);
	pwrite(fd, "w", 1, 0);
	say("write() seen by: shared %c, private %c", shared[0], private[0]);
	try_at("past the end of the file", shared + 3 * PAGE);
	try_at("past the end, private", private + 4 * PAGE);
	try_at("in the last page, past the last byte", shared + 2 * PAGE + 2000);
	SHOW(ftruncate(fd, 4 * PAGE));
	try_at("after growing", shared + 3 * PAGE);
	SHOW(ftruncate(fd, PAGE));
	try_at("after shrinking, shared", shared + PAGE);
	try_at("after shrinking, private copy", private + PAGE);
	SHOW(ftruncate(fd, 3 * PAGE));
	say("cut off and grown: %d", shared[PAGE]);
	SHOW(msync(shared, PAGE, MS_SYNC));
	SHOW(madvise(private, PAGE, MADV_DONTNEED));
	int reader = open("data", O_RDONLY);
	char *view = mmap(0, PAGE, PROT_READ, MAP_SHARED, reader, 0);
	SHOW(mprotect(view, PAGE, RW));
	char *copy = mmap(0, PAGE, PROT_READ, MAP_PRIVATE, reader, 0);
	SHOW(mprotect(copy, PAGE, RW));
	copy[0] = 'c';
	say("%c %c", view[0], copy[0]);
	close(fd);
	SHOW(unlink("data"));
	say("after close and unlink: %c", shared[0]);
	munmap(shared, 5 * PAGE), munmap(private, 5 * PAGE), munmap(second, PAGE);
}

static void break_(void)
{
	section("brk");
	char *start = (char *)syscall(SYS_brk, 0);
	CHECK(start != 0);
	char *end = start + 10 * PAGE;
	CHECK((char *)syscall(SYS_brk, end) == end);
	CHECK(start[0] == 0 && end[-1] == 0);
	memset(start, 7, (size_t)(end - start));
	CHECK((char *)syscall(SYS_brk, start + PAGE) == start + PAGE);
	CHECK((char *)syscall(SYS_brk, end) == end);
	/* The page that holds the unaligned break stays, those above were dropped. */
	CHECK(end[-1] == 0);
	CHECK((char *)syscall(SYS_brk, 1) == end);
	CHECK((char *)syscall(SYS_brk, -1L) == end);
	CHECK((char *)syscall(SYS_brk, end + 5) == end + 5);
	CHECK((char *)syscall(SYS_brk, start) == start);
}

static void fork_child_writes(void)
{
	spot[0] = 'c';
	say("child sees %c", spot[0]);
}

static void child_looks(void) { say("child sees %d", *spot); }

static void forks(void)
{
	section("across fork");
	char *private = mmap(0, 4 * PAGE, RW, ANON, -1, 0);
	char *shared = mmap(0, 4 * PAGE, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	private[0] = shared[0] = 'p';
	spot = private;
	in_child("private", fork_child_writes);
	say("parent sees %c", private[0]);
	spot = shared;
	in_child("shared", fork_child_writes);
	say("parent sees %c", shared[0]);
	/* The parent's write after the fork must not reach the child. */
	int ends[2];
	if (pipe(ends) != 0)
		return;
	pid_t pid = must_fork();
	if (pid == 0) {
		char byte;
		if (read(ends[0], &byte, 1) != 1)
			_exit(1);
		say("child sees %c %c", private[0], shared[1]);
		pid_t grandchild = must_fork();
		if (grandchild == 0) {
			private[0] = 'g';
			say("grandchild sees %c", private[0]);
			_exit(0);
		}
		wait_for(grandchild);
		say("child still sees %c", private[0]);
		_exit(0);
	}
	private[0] = 'q';
	shared[1] = 's';
	if (write(ends[1], "x", 1) != 1)
		return;
	wait_for(pid);
	say("parent sees %c", private[0]);
	/* Many children write the same big area; the parent's stays. */
	char *big = mmap(0, 512 * PAGE, RW, ANON, -1, 0);
	for (int i = 0; i < 512; i++)
		big[i * PAGE] = (char)i;
	pid_t children[4];
	for (int n = 0; n < 4; n++) {
		children[n] = must_fork();
		if (children[n] == 0) {
			for (int i = n; i < 512; i += 4)
				big[i * PAGE] = (char)(100 + n);
			for (int i = 0; i < 512; i++)
				if (big[i * PAGE] != (char)(i % 4 == n ? 100 + n : i))
					_exit(1);
			_exit(0);
		}
	}
	for (int n = 0; n < 4; n++)
		say("writer %d: %s", n, status_text(wait_for(children[n])));
	int right = 1;
	for (int i = 0; i < 512; i++)
		right &= big[i * PAGE] == (char)i;
	CHECK(right);
	/* Protection after fork is each one's own. */
	pid = must_fork();
	if (pid == 0) {
		mprotect(big, 512 * PAGE, PROT_READ);
		_exit(0);
	}
	wait_for(pid);
	big[0] = 1;
	SHOW(madvise(private, PAGE, MADV_DONTFORK));
	try_at("MADV_DONTFORK in a child", private);
	try_at("beside it", private + PAGE);
	SHOW(madvise(private, PAGE, MADV_DOFORK));
	try_at("MADV_DOFORK in a child", private);
	SHOW(madvise(private, PAGE, MADV_WIPEONFORK));
	private[0] = 'w';
	spot = private;
	in_child("MADV_WIPEONFORK", child_looks);
	SHOW(madvise(private, PAGE, MADV_KEEPONFORK));
	in_child("MADV_KEEPONFORK", child_looks);
	SHOW(madvise(shared, PAGE, MADV_WIPEONFORK));
	SHOW(madvise(shared, PAGE, MADV_DONTFORK));
	try_at("a shared mapping with MADV_DONTFORK", shared);
}

/* The guard of a mapping that grows downwards would begin below address 0. */
static void low_stack(void)
{
	char *stack = (char *)(64 * PAGE), *hint = (char *)(32 * PAGE);
	CHECK(mmap(stack, 16 * PAGE, RW, ANON | MAP_FIXED | MAP_GROWSDOWN, -1, 0) == stack);
	char *got = mmap(hint, PAGE, RW, ANON, -1, 0);
	CHECK(got != MAP_FAILED && got != hint);
	/* Less than the 127 TiB: the place of the uppermost mapping is up to 1,041 GiB below the end, by chance. */
	SHOW_PTR(mmap(0, 126UL << 40, PROT_NONE, ANON | MAP_NORESERVE, -1, 0));
}

/* What vm.mmap_min_addr protects: root may map it, others may not. */
static void map_low(void)
{
	SHOW_PTR(mmap(0, PAGE, RW, ANON | MAP_FIXED, -1, 0));
	SHOW_PTR(mmap((void *)(8 * PAGE), PAGE, RW, ANON | MAP_FIXED_NOREPLACE, -1, 0));
	CHECK((uintptr_t)mmap((void *)(8 * PAGE), PAGE, RW, ANON, -1, 0) >= 16 * PAGE);
	char *area = mmap(0, PAGE, RW, ANON, -1, 0);
	SHOW_PTR(mremap(area, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)(9 * PAGE)));
}

static void map_low_as_nobody(void)
{
	if (setresuid(65534, 65534, 65534) != 0)
		say("still root");
	map_low();
}

static void low(void)
{
	section("below vm.mmap_min_addr");
	in_child("root", map_low);
	in_child("nobody", map_low_as_nobody);
}

int main(void)
{
	errors();
	anonymous();
	remap();
	files();
	break_();
	forks();
	low();
	section("a stack near address 0");
	in_child("low stack", low_stack);
	return 0;
}
