/* The options of every benchmark. See bench.h. */
#define _GNU_SOURCE
#include "bench.h"
#include "pin.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef GRID
_Thread_local struct options opt;
#else
struct options opt;
#endif

static void usage(const struct bench *bench, int status)
{
	FILE *out = status ? stderr : stdout;
	fprintf(out, "usage: %s [N] [-s SECONDS | -c OPS] [-w OPS] [-nqS]", bench->name);
	for (const char *flag = bench->flags; *flag; flag++)
		fprintf(out, strchr("mbx", *flag) ? " [-%c %s]" : " [-%c]", *flag,
			*flag == 'm' ? "MIB" : *flag == 'b' ? "BYTES" : "PROGRAM");
	fprintf(out, "\n%s\n"
		"  N           tasks (default: one per CPU); task i is pinned to CPU i\n"
		"  -s SECONDS  run this long (default 5)\n"
		"  -c OPS      run this many operations per task, reading no clock between them\n"
		"  -w OPS      operations per task before the window (default %llu)\n"
		"  -n          do not pin\n"
		"  -q          print the closing line alone\n"
		"  -S          spin at barriers, never sleep\n",
		bench->what, (unsigned long long)bench->warm);
	static const struct { char flag; const char *what; } known[] = {
		{ 't', "tasks are threads of one process" },
		{ 'o', "all tasks use one object (file, directory) instead of one each" },
		{ 'k', "keep what was mapped: no unmapping" },
		{ 'v', "vfork instead of fork" },
		{ 'p', "map privately" },
		{ 'a', "each task's partner is on the next CPU" },
		{ 'l', "files of the host, under an overlay, as a live root has them" },
		{ 'm', "memory per task, in MiB" },
		{ 'b', "bytes per operation" },
		{ 'x', "the program to execute, a path" },
	};
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (strchr(bench->flags, known[i].flag))
			fprintf(out, "  -%c          %s\n", known[i].flag, known[i].what);
	exit(status);
}

static uint64_t number(const struct bench *bench, const char *text)
{
	char *end;
	errno = 0;
	unsigned long long value = strtoull(text, &end, 10);
	if (errno || end == text || *end || *text == '-') {
		fprintf(stderr, "%s: not a number: %s\n", bench->name, text);
		usage(bench, 2);
	}
	return value;
}

void bench_options(int argc, char **argv, const struct bench *bench)
{
	opt = (struct options){ .seconds = 5, .warm = bench->warm, .mib = bench->mib, .bytes = bench->bytes };
	for (;;) {
		int letter = getopt(argc, argv, "+s:c:w:nqShtokvpalm:b:x:");
		if (letter == -1) {
			/* N may stand before options: "+" stops there (glibc would move it), and the loop goes on after it. */
			if (optind >= argc)
				break;
			opt.tasks = (unsigned)number(bench, argv[optind++]);
			if (opt.tasks == 0 || opt.tasks > 4096)
				usage(bench, 2);
			continue;
		}
		if (strchr("tokvpalmbx", letter) && !strchr(bench->flags, letter))
			usage(bench, 2);
		switch (letter) {
		case 's': {
			char *end;
			opt.seconds = strtod(optarg, &end);
			if (*end || !(opt.seconds > 0))
				usage(bench, 2);
			break;
		}
		case 'c': opt.ops = number(bench, optarg); break;
		case 'w': opt.warm = number(bench, optarg); opt.warm_given = 1; break;
		case 'n': opt.unpinned = 1; break;
		case 'q': opt.quiet = 1; break;
		case 'S': opt.spin = 1; break;
		case 't': opt.threads = 1; break;
		case 'o': opt.shared = 1; break;
		case 'k': opt.keep = 1; break;
		case 'v': opt.vfork = 1; break;
		case 'p': opt.private_map = 1; break;
		case 'a': opt.across = 1; break;
		case 'l': opt.live = 1; break;
		case 'm': opt.mib = number(bench, optarg); break;
		case 'b': opt.bytes = number(bench, optarg); break;
		case 'x': opt.program = optarg; break;
		case 'h': usage(bench, 0); break;
		default: usage(bench, 2);
		}
	}
	if (opt.tasks == 0)
		opt.tasks = pin_cpus();
	pin_prepare();
	if (opt.live)
		bench_live();
}
