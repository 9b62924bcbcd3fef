/*
 * longest [US [CASE]...]: what each of the calls below costs the others on its CPU: the longest time without giving way, as /proc/latency tells.
 *
 * Each case is made in a child that is an ordinary user, but for those of root_calls and the like. Printed are the case, and the kinds whose figure has grown by it, in microseconds; with an
 * exclamation mark where it is above US (2000 unless given).
 * Status 0: none is; 1: some is; 2: there is no /proc/latency.
 */
#include "longest.h"
#include <time.h>

enum { KINDS = 600 };

static struct figure { char kind[32]; long ns; char pc[32]; } before[KINDS], after[KINDS];
static int had;

static int figures(struct figure *to)
{
	FILE *f = fopen("/proc/latency", "r");
	char line[200];
	int n = 0, cpu;
	if (!f || !fgets(line, sizeof line, f) || !fgets(line, sizeof line, f))
		exit(2);
	while (fgets(line, sizeof line, f)) {
		struct figure g = { 0 };
		if (sscanf(line, "%d %ld %31s %31[^\n]", &cpu, &g.ns, g.pc, g.kind) != 4)
			continue;
		int i = 0;
		while (i < n && strcmp(to[i].kind, g.kind))
			i++;
		if (i == n && n < KINDS)
			n++;
		if (i < n && to[i].ns < g.ns)
			to[i] = g;
	}
	fclose(f);
	return n;
}

static int wanted(int argc, char **argv, const char *name)
{
	for (int i = 2; i < argc; i++)
		if (!strcmp(argv[i], name))
			return 1;
	return argc <= 2;
}

/* Makes one case in a child, and prints what it cost. True if it was too long, or could not be made. */
static int made(const struct call *call, int by_root, long limit)
{
	pid_t pid = fork();
	if (pid == 0) {
		if (!by_root) {
			setgid(1000);
			setuid(1000);
		}
		call->make();
		_exit(0);
	}
	int status, bad = 0;
	waitpid(pid, &status, 0);
	/* What it left for after a grace period is its own. */
	nap(300);
	int has = figures(after);
	printf("%-18s", call->name);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 4) {
		printf("  could not be made!");
		bad = 1;
	}
	for (int i = 0; i < has; i++) {
		int j = 0;
		while (j < had && strcmp(before[j].kind, after[i].kind))
			j++;
		if (j < had && before[j].ns >= after[i].ns)
			continue;
		int over = after[i].ns > limit;
		if (after[i].ns >= 200000)
			printf("  %s: %ld%s at %s", after[i].kind, after[i].ns / 1000, over ? "!" : "", after[i].pc);
		bad |= over;
	}
	printf("\n");
	fflush(stdout);
	memcpy(before, after, sizeof before);
	had = has;
	return bad;
}

int main(int argc, char **argv)
{
	struct rlimit many = { 1 << 20, 1 << 20 };
	setrlimit(RLIMIT_NOFILE, &many);
	setrlimit(RLIMIT_SIGPENDING, &many);
	setrlimit(RLIMIT_NPROC, &many);
	long limit = (argc > 1 ? atol(argv[1]) : 2000) * 1000, bad = 0, known = 2;
	had = figures(before);
	const struct call *const tables[] = { memory_calls, file_calls, task_calls, crowd_calls, socket_calls, attribute_calls, root_calls, socket_root_calls,
		attribute_root_calls, filter_calls };
	const unsigned by_root = 6;
	for (unsigned t = 0; t < sizeof tables / sizeof *tables; t++)
		for (const struct call *call = tables[t]; call->name; call++)
			if (wanted(argc, argv, call->name)) {
				known++;
				bad |= made(call, t >= by_root, limit);
			}
	if (argc > 2 && known != argc) {
		printf("there is no such case\n");
		return 1;
	}
	return bad != 0;
}
