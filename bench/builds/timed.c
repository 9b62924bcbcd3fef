/*
 * timed NAME OPS COMMAND...: runs a command and prints the closing line of a benchmark, with the processor time of all that the command waited for. It has a window
 * (marker.h) around the command.
 */
#define _GNU_SOURCE
#include "../marker.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static double seconds(struct timeval time)
{
	return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

int main(int argc, char **argv)
{
	if (argc < 4) {
		fprintf(stderr, "usage: %s NAME OPS COMMAND...\n", argv[0]);
		return 2;
	}
	const char *limit = getenv("BENCH_LIMIT"), *window = getenv("BENCH_WINDOW");
	unsigned long long ops = strtoull(argv[2], 0, 10);
	unsigned long number = window ? strtoul(window, 0, 10) : 0;
	struct rusage used;
	int status;
	if (limit)
		alarm((unsigned)strtoul(limit, 0, 10));
	MARK_WATCH();
	double began = now();
	MARK_OPEN(number);
	pid_t child = fork();
	if (child == 0) {
		execvp(argv[3], argv + 3);
		perror(argv[3]);
		_exit(127);
	}
	if (child < 0 || wait4(child, &status, 0, &used) != child) {
		perror("timed");
		return 1;
	}
	MARK_CLOSE();
	double took = now() - began;
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
		fprintf(stderr, "%s ended with wait status %#x\n", argv[1], (unsigned)status);
		return 1;
	}
	printf("bench=%s cpus=%ld ops=%llu seconds=%.6f rate=%.2f min_per_task=%llu max_per_task=%llu user=%.3f sys=%.3f\n", argv[1],
	       sysconf(_SC_NPROCESSORS_ONLN), ops, took, (double)ops / took, ops, ops, seconds(used.ru_utime), seconds(used.ru_stime));
	return 0;
}
