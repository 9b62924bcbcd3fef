/* On a machine with four NUMA nodes: where memory lies that policies place and calls move. Prints only what must be the same on every such machine, whatever
 * kernel runs it. */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* As set_mempolicy(2) has them. */
enum { MPOL_DEFAULT, MPOL_PREFERRED, MPOL_BIND, MPOL_INTERLEAVE, MPOL_LOCAL, MPOL_PREFERRED_MANY, MPOL_WEIGHTED_INTERLEAVE };
enum { MPOL_F_RELATIVE_NODES = 1 << 14, MPOL_F_STATIC_NODES = 1 << 15 };
enum { MPOL_F_NODE = 1, MPOL_F_ADDR = 2, MPOL_F_MEMS_ALLOWED = 4 };
enum { MPOL_MF_STRICT = 1, MPOL_MF_MOVE = 2, MPOL_MF_MOVE_ALL = 4 };

#ifndef SYS_set_mempolicy_home_node
#define SYS_set_mempolicy_home_node 450
#endif
#define PAGE 4096L
#define PAGES 24
#define RW (PROT_READ | PROT_WRITE)

typedef unsigned long word;

static void say(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
	fflush(stdout);
}

static long set(int mode, word mask)
{
	return syscall(SYS_set_mempolicy, mode, mask ? &mask : 0, 65) < 0 ? -errno : 0;
}

static long bind_to(void *at, long len, int mode, word mask, unsigned flags)
{
	return syscall(SYS_mbind, at, len, mode, mask ? &mask : 0, 65, flags) < 0 ? -errno : 0;
}

/* The node of each page; '.' for none. */
static void show(const char *what, char *at, int pages)
{
	void *addresses[64];
	int status[64];
	char text[65] = "";
	for (int i = 0; i < pages; i++)
		addresses[i] = at + i * PAGE;
	long r = syscall(SYS_move_pages, 0, (long)pages, addresses, 0, status, 0);
	for (int i = 0; i < pages; i++)
		text[i] = status[i] < 0 ? '.' : '0' + status[i];
	say("  %-28s %ld %s", what, r, text);
}

static char *memory(void)
{
	/* At a place that begins at a multiple of what is interleaved. */
	static char *next = (char *)0x200000000000;
	next += 1 << 24;
	return mmap(next, PAGES * PAGE, RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
}

static void touch(char *at, int pages)
{
	for (int i = 0; i < pages; i++)
		at[i * PAGE] = i + 1;
}

static int is_whole(const char *at, int pages)
{
	for (int i = 0; i < pages; i++)
		if (at[i * PAGE] != i + 1)
			return 0;
	return 1;
}

static void on_cpu(int cpu)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof set, &set);
}

static void tasks(void)
{
	static const struct { const char *name; int mode; word mask; } all[] = {
		{ "default", MPOL_DEFAULT, 0 }, { "preferred 2", MPOL_PREFERRED, 4 }, { "preferred, local", MPOL_PREFERRED, 0 },
		{ "bind 3", MPOL_BIND, 8 }, { "bind 1 2", MPOL_BIND, 6 }, { "bind 0 2", MPOL_BIND, 5 },
		{ "interleave all", MPOL_INTERLEAVE, 15 }, { "interleave 1 3", MPOL_INTERLEAVE, 10 }, { "interleave 0 1 2", MPOL_INTERLEAVE, 7 },
		{ "local", MPOL_LOCAL, 0 }, { "preferred many 2 3", MPOL_PREFERRED_MANY, 12 }, { "weighted 0 1", MPOL_WEIGHTED_INTERLEAVE, 3 },
		{ "relative bind 5", MPOL_BIND | MPOL_F_RELATIVE_NODES, 32 }, { "static bind 1 and 9", MPOL_BIND | MPOL_F_STATIC_NODES, 514 },
	};
	for (int cpu = 0; cpu < 4; cpu += 3) {
		say("tasks on CPU %d", cpu);
		on_cpu(cpu);
		for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
			long r = set(all[i].mode, all[i].mask);
			char *at = memory();
			touch(at, PAGES);
			set(MPOL_DEFAULT, 0);
			if (r)
				say("  %s: %ld", all[i].name, r);
			show(all[i].name, at, PAGES);
			munmap(at, PAGES * PAGE);
		}
	}
	on_cpu(0);
	say("a child, and what it copies");
	char *at = memory();
	touch(at, PAGES / 2);
	set(MPOL_BIND, 4);
	if (!fork()) {
		touch(at, PAGES);
		show("after fork", at, PAGES);
		exit(0);
	}
	wait(0);
	set(MPOL_DEFAULT, 0);
	munmap(at, PAGES * PAGE);
}

static void mappings(void)
{
	say("mappings");
	char *at = memory();
	say("  %ld", bind_to(at, 4 * PAGE, MPOL_BIND, 2, 0));
	say("  %ld", bind_to(at + 4 * PAGE, 8 * PAGE, MPOL_INTERLEAVE, 12, 0));
	say("  %ld", bind_to(at + 12 * PAGE, 4 * PAGE, MPOL_PREFERRED, 8, 0));
	say("  %ld", bind_to(at + 16 * PAGE, 4 * PAGE, MPOL_LOCAL, 0, 0));
	set(MPOL_BIND, 4);
	touch(at, PAGES);
	show("a part each", at, PAGES);
	set(MPOL_DEFAULT, 0);
	say("  home: %d", syscall(SYS_set_mempolicy_home_node, at, 4 * PAGE, 1L, 0L) ? -errno : 0);
	munmap(at, PAGES * PAGE);
	at = memory();
	bind_to(at, PAGES * PAGE, MPOL_BIND, 14, 0);
	say("  home: %d", syscall(SYS_set_mempolicy_home_node, at, 12 * PAGE, 3L, 0L) ? -errno : 0);
	touch(at, PAGES);
	show("homes", at, PAGES);
	munmap(at, PAGES * PAGE);
	say("a file's private pages");
	int fd = memfd_create("file", 0);
	ftruncate(fd, PAGES * PAGE);
	at = mmap(0, PAGES * PAGE, RW, MAP_SHARED, fd, 0);
	bind_to(at, PAGES / 2 * PAGE, MPOL_BIND, 4, 0);
	touch(at, PAGES);
	show("shared", at, PAGES);
	char *own = mmap(0, PAGES * PAGE, RW, MAP_PRIVATE, fd, 0);
	bind_to(own, PAGES * PAGE, MPOL_BIND, 8, 0);
	touch(own, PAGES);
	show("private", own, PAGES);
	munmap(own, PAGES * PAGE);
	say("  %ld", bind_to(at, PAGES * PAGE, MPOL_BIND, 2, MPOL_MF_MOVE | MPOL_MF_STRICT));
	show("moved", at, PAGES);
	say("  whole: %d", is_whole(at, PAGES));
	char byte = 0;
	pread(fd, &byte, 1, 5 * PAGE);
	say("  read: %d", byte);
	munmap(at, PAGES * PAGE);
	close(fd);
}

static long move(int pid, char *at, int pages, int to, int flags, int *status)
{
	void *addresses[64];
	int nodes[64];
	for (int i = 0; i < pages; i++)
		addresses[i] = at + i * PAGE, nodes[i] = to;
	return syscall(SYS_move_pages, pid, (long)pages, addresses, nodes, status, flags) < 0 ? -errno : 0;
}

static void moving(void)
{
	say("moving");
	int status[64];
	word mask;
	char *at = memory();
	touch(at, PAGES);
	show("at first", at, PAGES);
	say("  %ld", move(0, at, 4, 2, MPOL_MF_MOVE, status));
	show("move_pages", at, PAGES);
	say("  strict %ld", bind_to(at, PAGES * PAGE, MPOL_BIND, 1, MPOL_MF_STRICT));
	say("  move %ld", bind_to(at + 4 * PAGE, 8 * PAGE, MPOL_BIND, 8, MPOL_MF_MOVE | MPOL_MF_STRICT));
	show("mbind", at, PAGES);
	say("  interleave %ld", bind_to(at, PAGES * PAGE, MPOL_INTERLEAVE, 6, MPOL_MF_MOVE));
	char *text = at;
	(void)text;
	word from = 6, to = 9;
	say("  migrate_pages %ld", syscall(SYS_migrate_pages, 0, 65L, &from, &to));
	show("migrate_pages", at, PAGES);
	say("  whole: %d", is_whole(at, PAGES));
	munmap(at, PAGES * PAGE);

	say("what a child has too");
	at = memory();
	touch(at, PAGES);
	int pipes[2][2];
	if (pipe(pipes[0]) || pipe(pipes[1]))
		exit(1);
	int pid = fork();
	if (!pid) {
		char byte = at[0];
		write(pipes[0][1], &byte, 1);
		read(pipes[1][0], &byte, 1);
		exit(is_whole(at, PAGES));
	}
	char byte;
	read(pipes[0][0], &byte, 1);
	say("  move %ld", move(0, at, 4, 3, MPOL_MF_MOVE, status));
	say("  status %d", status[0]);
	say("  mbind %ld", bind_to(at, PAGES * PAGE, MPOL_BIND, 8, MPOL_MF_MOVE));
	show("kept", at, PAGES);
	say("  move all %ld", move(0, at, 4, 3, MPOL_MF_MOVE_ALL, status));
	show("moved", at, PAGES);
	write(pipes[1][1], &byte, 1);
	int end;
	wait(&end);
	say("  the child's is whole: %d, this one: %d", WEXITSTATUS(end), is_whole(at, PAGES));
	munmap(at, PAGES * PAGE);

	say("another process");
	at = memory();
	touch(at, PAGES);
	pid = fork();
	if (!pid) {
		touch(at, PAGES);
		write(pipes[0][1], &byte, 1);
		read(pipes[1][0], &byte, 1);
		show("its own", at, PAGES);
		exit(is_whole(at, PAGES));
	}
	read(pipes[0][0], &byte, 1);
	say("  %ld", move(pid, at, 8, 1, MPOL_MF_MOVE, status));
	mask = 2, to = 4;
	say("  %ld", syscall(SYS_migrate_pages, pid, 65L, &mask, &to));
	write(pipes[1][1], &byte, 1);
	wait(&end);
	say("  whole: %d", WEXITSTATUS(end));
	show("here", at, PAGES);
	munmap(at, PAGES * PAGE);
}

static void errors(void)
{
	say("errors");
	int status[64];
	char *at = memory();
	touch(at, 2);
	volatile char zero = at[3 * PAGE];
	(void)zero;
	say("  no such node %ld", move(0, at, 2, 4, MPOL_MF_MOVE, status));
	say("  none %ld", move(0, at, 2, -1, MPOL_MF_MOVE, status));
	say("  no such process %ld", move(1 << 21, at, 2, 1, MPOL_MF_MOVE, status));
	say("  flags %ld %ld", move(0, at, 2, 1, 1, status), move(0, at, 2, 1, 8, status));
	say("  %ld: %d %d %d %d", move(0, at, 4, 1, MPOL_MF_MOVE, status), status[0], status[1], status[2], status[3]);
	munmap(at, PAGE);
	say("  %ld: %d", move(0, at, 1, 1, MPOL_MF_MOVE, status), status[0]);
	word from = 1, to = 0, far = 16;
	say("  migrate to none %ld", syscall(SYS_migrate_pages, 0, 65L, &from, &to) < 0 ? -errno : 0L);
	say("  migrate to no node %ld", syscall(SYS_migrate_pages, 0, 65L, &from, &far) < 0 ? -errno : 0L);
}

int main(void)
{
	on_cpu(0);
	tasks();
	mappings();
	moving();
	errors();
	return 0;
}
