/*
 * contend ROUNDS DIRECTORY...: four processes make, take, replace and append to the same names of each directory at once.
 *
 * Whatever stands for a lock (a name that is made, a link, a directory, a symbolic link, a name that is moved away, flock, a record lock) lets one in at a time; who replaces a file
 * by rename never has others find none, or half of one; no line that was appended is lost. A directory that is named from the root is worked in by such paths, another by paths from
 * where the program stands. Prints what was wrong, or "DIRECTORY: good". Status 0: all are good; 1: one is not; 2: usage.
 */
#include "t.h"

#include <sys/file.h>
#include <sys/mman.h>

enum { WORKERS = 4, LOCKS = 7, WHOLE = 5000, LINE = 9 };

static char base[PATH_MAX / 2];
/* What each lock guards. */
static volatile int *counts;
static int rounds;

static const char *in(const char *name)
{
	static char paths[4][PATH_MAX];
	static int next;
	char *path = paths[next++ % 4];
	snprintf(path, PATH_MAX, "%s/%s", base, name);
	return path;
}

static void fail(const char *what)
{
	say("%s: %s: %s", base, what, error_name(errno));
	_exit(1);
}

static void check(int good, const char *what)
{
	if (!good)
		fail(what);
}

/* Others come between what is read and what is written. */
static void count(int lock)
{
	int now = counts[lock];
	if (now % 7 == 0)
		sched_yield();
	counts[lock] = now + 1;
}

/* Tries until it is done; `busy` says that another is in. */
#define UNTIL(call, busy, what)              \
	while ((call) < 0) {                 \
		check(errno == (busy), what); \
		sched_yield();               \
	}

static void locks(const char *own, const char *token)
{
	int fd;
	UNTIL(fd = open(in("exclusive"), O_CREAT | O_EXCL | O_RDWR, 0600), EEXIST, "O_EXCL");
	count(0), close(fd);
	check(unlink(in("exclusive")) == 0, "the name is gone that O_EXCL made");
	UNTIL(link(in(own), in("link")), EEXIST, "link");
	count(1);
	check(unlink(in("link")) == 0, "the link is gone");
	UNTIL(mkdir(in("directory"), 0700), EEXIST, "mkdir");
	count(2);
	check(rmdir(in("directory")) == 0, "the directory is gone");
	UNTIL(symlink("nowhere", in("symlink")), EEXIST, "symlink");
	count(3);
	check(unlink(in("symlink")) == 0, "the symbolic link is gone");
	UNTIL(rename(in("token"), in(token)), ENOENT, "rename");
	count(4);
	check(rename(in(token), in("token")) == 0, "what was moved away is gone");
	fd = open(in("locked"), O_CREAT | O_RDWR, 0600);
	check(fd >= 0 && flock(fd, LOCK_EX) == 0, "flock");
	count(5), flock(fd, LOCK_UN);
	check(fcntl(fd, F_SETLKW, &(struct flock){ .l_type = F_WRLCK }) == 0, "F_SETLKW");
	count(6), close(fd);
}

static void replace(int me, const char *temporary)
{
	static char whole[WHOLE], read_back[WHOLE + 1];
	memset(whole, 'a' + me, WHOLE);
	int fd = open(in(temporary), O_CREAT | O_TRUNC | O_WRONLY, 0600);
	check(fd >= 0 && write(fd, whole, WHOLE) == WHOLE && close(fd) == 0, "write");
	check(rename(in(temporary), in("replaced")) == 0, "rename over");
	struct stat shown;
	check(stat(in("replaced"), &shown) == 0 && chmod(in("replaced"), 0600) == 0, "the name that is replaced");
	fd = open(in("replaced"), O_RDONLY);
	check(fd >= 0, "open what is replaced");
	errno = 0;
	check(read(fd, read_back, sizeof read_back) == WHOLE, "half a file");
	for (int i = 1; i < WHOLE; i++)
		check(read_back[i] == read_back[0], "a file of two");
	close(fd);
}

static void work(int me)
{
	char own[16], token[16], temporary[16], line[LINE + 1];
	snprintf(own, sizeof own, "own.%d", me), snprintf(token, sizeof token, "token.%d", me);
	snprintf(temporary, sizeof temporary, "new.%d", me);
	close(open(in(own), O_CREAT | O_RDWR, 0600));
	for (int round = 0; round < rounds; round++) {
		locks(own, token);
		replace(me, temporary);
		int fd = open(in("log"), O_CREAT | O_APPEND | O_WRONLY, 0600);
		snprintf(line, sizeof line, "%d %06d\n", me, round);
		check(write(fd, line, LINE) == LINE && close(fd) == 0, "append");
		/* Below a directory that comes and goes. */
		mkdir(in("outer"), 0700), mkdir(in("outer/inner"), 0700);
		fd = open(in("outer/inner/file"), O_CREAT | O_RDWR, 0600);
		check(fd >= 0 || errno == ENOENT, "open in a directory that goes");
		close(fd), unlink(in("outer/inner/file")), rmdir(in("outer/inner")), rmdir(in("outer"));
	}
	_exit(0);
}

/* How many of the lines are there, each once. */
static int lines(void)
{
	char *text = read_file(in("log")), *seen = calloc(WORKERS, (size_t)rounds);
	int found = 0, me, round;
	for (char *line = text; line && sscanf(line, "%d %d", &me, &round) == 2; line += LINE)
		if (me >= 0 && me < WORKERS && round >= 0 && round < rounds && !seen[me * rounds + round]++)
			found++;
	free(text), free(seen);
	return found;
}

static int contend(const char *directory)
{
	snprintf(base, sizeof base, "%s/contended", directory);
	mkdir(base, 0700);
	memset((void *)counts, 0, LOCKS * sizeof *counts);
	close(open(in("token"), O_CREAT | O_RDWR, 0600));
	for (int me = 0; me < WORKERS; me++)
		if (must_fork() == 0)
			work(me);
	int bad = 0, status;
	while (wait(&status) > 0)
		bad |= status;
	for (int lock = 0; lock < LOCKS; lock++)
		if (!bad && counts[lock] != WORKERS * rounds) {
			say("%s: lock %d let in two at once: %d of %d", base, lock, counts[lock], WORKERS * rounds);
			bad = 1;
		}
	if (!bad && lines() != WORKERS * rounds) {
		say("%s: %d of %d lines were appended", base, lines(), WORKERS * rounds);
		bad = 1;
	}
	static const char *const left[] = { "own.0", "own.1", "own.2", "own.3", "token", "locked", "replaced", "log" };
	for (size_t i = 0; i < sizeof left / sizeof *left; i++)
		unlink(in(left[i]));
	if (!bad && rmdir(base) != 0) {
		say("%s: something is left", base);
		bad = 1;
	}
	if (!bad)
		say("%s: good", directory);
	return bad;
}

int main(int argc, char **argv)
{
	rounds = argc > 2 ? atoi(argv[1]) : 0;
	if (rounds < 1) {
		say("usage: contend ROUNDS DIRECTORY...");
		return 2;
	}
	counts = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int bad = 0;
	for (int i = 2; i < argc; i++)
		bad |= contend(argv[i]) != 0;
	return bad;
}
