/*
 * Threads, one on each CPU, that write to one event counter in turns ("shared"), or each to a counter of its own with nothing between them ("apart"), so many times each as
 * the second argument says. For the tests of `darter flame --lines`: in turns the counter's line moves once with each write, and so does the line of the turn when it is
 * passed on. How often that moves to those who wait is up to them: who sees the turn come may be told of before who passes it. So a message is handed over besides, which
 * is written before the turn is passed and read when it has come: its line moves once to be written and once to be read. Threads that share nothing begin together when each is on its CPU, has its counter and has written to it, and end together: who begins or ends another's thread
 * or opens a file beside writes what the others' calls read.
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
static struct {
	_Alignas(64) volatile int from;
	char rest[60];
} message;
static _Alignas(64) int one_for_all;
static _Alignas(64) int arrived;

static __attribute__((noinline)) void await_turn(int mine)
{
	while (now.turn != mine)
		__builtin_ia32_pause();
}

static __attribute__((noinline)) void pass_turn(int mine)
{
	now.turn = (mine + 1) % threads;
}

static __attribute__((noinline)) void hand_over(int mine)
{
	message.from = mine;
}

static __attribute__((noinline)) int take_over(void)
{
	return message.from;
}

static __attribute__((noinline)) void add(int events)
{
	static const unsigned long long one = 1;
	if (write(events, &one, sizeof one) != sizeof one)
		abort();
}

/* The nth time that all threads come together. */
static __attribute__((noinline)) void meet(int nth)
{
	__atomic_add_fetch(&arrived, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&arrived, __ATOMIC_SEQ_CST) < nth * threads)
		__builtin_ia32_pause();
}

static __attribute__((noinline)) void warm_up(int events)
{
	meet(1);
	for (int i = 0; i < 3; i++)
		add(events);
	meet(2);
}

static void *work(void *argument)
{
	int mine = (long)argument;
	cpu_set_t cpu;
	CPU_ZERO(&cpu);
	CPU_SET(mine, &cpu);
	if (pthread_setaffinity_np(pthread_self(), sizeof cpu, &cpu))
		abort();
	int events = shared ? one_for_all : eventfd(0, 0);
	if (events < 0)
		abort();
	/* Each has read the lines before anybody writes to them. */
	if (shared && now.turn >= 0 && message.from >= 0)
		meet(1);
	else
		warm_up(events);
	for (long round = 0; round < rounds; round++) {
		if (shared) {
			await_turn(mine);
			if (take_over() != (round || mine ? (mine + threads - 1) % threads : 0))
				abort();
		}
		add(events);
		if (shared) {
			hand_over(mine);
			pass_turn(mine);
		}
	}
	if (!shared)
		meet(3);
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
