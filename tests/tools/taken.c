/*
 * Threads, one on each CPU, that write to one event counter in turns ("shared"), or each to a counter of its own with nothing between them ("apart"), so many times each as
 * the second argument says. For the tests of `darter flame --lines`: in turns the counter's line moves once with each write, and so does the line of the turn when it is
 * passed on.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static long rounds;
static int threads, shared;
/* Of threads that share nothing each has a line to itself, too. */
static struct {
	_Alignas(64) volatile int turn;
	char rest[60];
} now;
static _Alignas(64) int one_for_all;

static __attribute__((noinline)) void await_turn(int mine)
{
	while (now.turn != mine)
		__builtin_ia32_pause();
}

static __attribute__((noinline)) void pass_turn(int mine)
{
	now.turn = (mine + 1) % threads;
}

static __attribute__((noinline)) void add(int events)
{
	static const unsigned long long one = 1;
	if (write(events, &one, sizeof one) != sizeof one)
		abort();
}

static void *work(void *argument)
{
	int mine = (long)argument;
	cpu_set_t cpu;
	CPU_ZERO(&cpu);
	CPU_SET(mine, &cpu);
	int events = shared ? one_for_all : eventfd(0, 0);
	if (events < 0 || pthread_setaffinity_np(pthread_self(), sizeof cpu, &cpu))
		abort();
	for (long round = 0; round < rounds; round++) {
		if (shared)
			await_turn(mine);
		add(events);
		if (shared)
			pass_turn(mine);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t ids[64];
	shared = argc > 1 && !strcmp(argv[1], "shared");
	rounds = argc > 2 ? atol(argv[2]) : 1;
	threads = sysconf(_SC_NPROCESSORS_ONLN);
	one_for_all = eventfd(0, 0);
	for (long n = 0; n < threads; n++)
		if (pthread_create(&ids[n], NULL, work, (void *)n))
			abort();
	for (int n = 0; n < threads; n++)
		pthread_join(ids[n], NULL);
	return 6;
}
