/*
 * docomp: each task compiles small C files with a real compiler, one after another, and waits for each. An operation is one compilation: fork, exec, wait.
 *
 *   docomp [N] -x "COMPILER [ARG...]" ...
 *
 * A task has a folder of its own with FILES sources, which it takes in turn. Those of the window are compared with the last that the warm-up made from the same
 * source. `made HASH` is of the first task's objects: with -c the same on every system.
 */
#define _GNU_SOURCE
#include "../bench.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FILES = 16, WORDS = 32, MOST_BYTES = 1 << 20 };

struct own {
	unsigned next;
	uint64_t hash[FILES];
	char *words[WORDS];
	char source[16], object[16];
};

static char folder[PATH_MAX - 64];

static uint64_t hash_of(const char *name)
{
	static unsigned char block[MOST_BYTES];
	uint64_t hash = 0xcbf29ce484222325u;
	int fd = open(name, O_RDONLY);
	ssize_t length = fd < 0 ? -1 : read(fd, block, sizeof block);
	if (length <= 0)
		bench_fail(name);
	close(fd);
	for (ssize_t i = 0; i < length; i++)
		hash = (hash ^ block[i]) * 0x100000001b3u;
	return hash;
}

/* A file like those of which programs have many: three headers of the C library, a table, a few functions. */
static void write_source(unsigned number)
{
	char name[16];
	snprintf(name, sizeof name, "%u.c", number);
	FILE *to = fopen(name, "w");
	if (!to)
		bench_fail(name);
	fprintf(to, "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n\n"
		    "struct item%u { const char *name; int count; struct item%u *next; };\n"
		    "static struct item%u *first;\n"
		    "static const int weight[] = { %u, 3, 5, 7, 11, 13 };\n\n", number, number, number, number);
	for (unsigned i = 0; i < 4 + number % 4; i++)
		fprintf(to, "struct item%u *find%u_%u(const char *name)\n{\n"
			    "\tfor (struct item%u *item = first; item; item = item->next)\n"
			    "\t\tif (strcmp(item->name, name) == 0 && item->count %% %u < weight[%u])\n\t\t\treturn item;\n"
			    "\tstruct item%u *made = malloc(sizeof *made);\n"
			    "\tif (!made) {\n\t\tfprintf(stderr, \"no memory for %%s\\n\", name);\n\t\texit(1);\n\t}\n"
			    "\tmade->name = name;\n\tmade->count = (int)strlen(name) * weight[%u];\n"
			    "\tmade->next = first;\n\treturn first = made;\n}\n\n",
			number, number, i, number, i + 2, i % 6, number, (i + 1) % 6);
	if (fclose(to) != 0)
		bench_fail(name);
}

static void prepare(void)
{
	snprintf(folder, sizeof folder, "%s/docomp.XXXXXX", bench_tmp());
	if (!opt.program) {
		fprintf(stderr, "docomp: -x names the compiler\n");
		exit(2);
	}
	if (!mkdtemp(folder))
		bench_fail(folder);
}

static void setup(struct task *task)
{
	struct own *own = calloc(1, sizeof *own);
	char *line = own ? strdup(opt.program) : 0, at[PATH_MAX];
	unsigned count = 0;
	if (!line)
		bench_fail("malloc");
	for (char *word = strtok(line, " "); word && count < WORDS - 5; word = strtok(0, " "))
		own->words[count++] = word;
	own->words[count++] = "-c";
	own->words[count++] = own->source;
	own->words[count++] = "-o";
	own->words[count++] = own->object;
	snprintf(at, sizeof at, "%s/%u", folder, task->index);
	if (mkdir(at, 0700) != 0 || chdir(at) != 0)
		bench_fail(at);
	for (unsigned i = 0; i < FILES; i++)
		write_source(i);
	task->state = own;
}

static uint64_t op(struct task *task)
{
	struct own *own = task->state;
	unsigned number = own->next++ % FILES;
	int status;
	snprintf(own->source, sizeof own->source, "%u.c", number);
	snprintf(own->object, sizeof own->object, "%u.o", number);
	pid_t child = opt.vfork ? vfork() : fork();
	if (child == 0) {
		execvp(own->words[0], own->words);
		_exit(127);
	}
	if (child < 0 || waitpid(child, &status, 0) != child)
		bench_fail("fork");
	if (status != 0) {
		fprintf(stderr, "docomp: %s ended with wait status %#x\n", own->words[0], (unsigned)status);
		exit(1);
	}
	return 1;
}

/* What there is of objects, before the window and after it: each is the same. */
static void check(struct task *task, int again)
{
	struct own *own = task->state;
	for (unsigned i = 0; i < FILES; i++) {
		char name[16];
		snprintf(name, sizeof name, "%u.o", i);
		if (access(name, F_OK) != 0)
			continue;
		uint64_t hash = hash_of(name);
		if (again && own->hash[i] && own->hash[i] != hash) {
			fprintf(stderr, "docomp: %s is not what it was\n", name);
			exit(1);
		}
		own->hash[i] = hash;
	}
}

static void between(struct task *task)
{
	check(task, 0);
}

static void teardown(struct task *task)
{
	struct own *own = task->state;
	check(task, 1);
	if (task->index == 0) {
		uint64_t all = 0;
		for (unsigned i = 0; i < FILES; i++)
			all = all * 31 + own->hash[i];
		printf("made %016llx\n", (unsigned long long)all);
		fflush(stdout);
	}
	char name[PATH_MAX];
	for (unsigned i = 0; i < FILES; i++) {
		for (unsigned object = 0; object < 2; object++) {
			snprintf(name, sizeof name, object ? "%u.o" : "%u.c", i);
			if (unlink(name) != 0 && errno != ENOENT)
				bench_fail(name);
		}
	}
	snprintf(name, sizeof name, "%s/%u", folder, task->index);
	if (rmdir(name) != 0)
		bench_fail(name);
}

static void cleanup(void)
{
	if (rmdir(folder) != 0)
		bench_fail(folder);
}

static const struct bench bench = {
	.name = "docomp", .what = "compile small files with -x COMPILER", .flags = "vx", .warm = 0,
	.prepare = prepare, .setup = setup, .op = op, .between = between, .teardown = teardown, .cleanup = cleanup,
};

BENCH_MAIN(bench)
