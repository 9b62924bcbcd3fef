/* Masks of threads beside signals: who takes one that is sent to the whole process while threads block it, let it and end; that actions come whole. */
#include "t.h"

#include <pthread.h>
#include <stdatomic.h>

#define ROUNDS 100
#define THREADS 4

static atomic_int taken, over, ready, other_took;

static void count(int signal)
{
	(void)signal;
	taken++;
}

static void on(int signal, void (*handler)(int), int flags)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = flags };
	if (sigaction(signal, &action, 0) != 0)
		say("sigaction: %s", error_name(errno));
}

static sigset_t only(int signal)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, signal);
	return set;
}

static void mask(int how, int signal)
{
	sigset_t set = only(signal);
	pthread_sigmask(how, &set, 0);
}

static pthread_t start(void *(*body)(void *), long argument)
{
	pthread_t thread;
	if ((errno = pthread_create(&thread, 0, body, (void *)argument)) != 0)
		say("pthread_create: %s", error_name(errno));
	return thread;
}

/* Waits until `word` is at least `least`; 0: it has not come in a long time. */
static int wait_until(atomic_int *word, int least)
{
	for (int i = 0; i < 30000; i++) {
		for (int j = 0; j < 200 && *word < least; j++)
			sched_yield();
		if (*word >= least)
			return 1;
		nap(1);
	}
	return 0;
}

static void *sleeper(void *argument)
{
	(void)argument;
	mask(SIG_UNBLOCK, SIGUSR1);
	ready++;
	/* Who is not told of a signal does not look when a sleep is over. */
	while (!over)
		nap(5);
	return 0;
}

static atomic_int go;

/* Lets the signal, and blocks it for good when the round begins. */
static void *blocker(void *argument)
{
	mask(SIG_UNBLOCK, SIGUSR1);
	ready++;
	while (!go)
		sched_yield();
	for (long i = 0; i < (long)argument * 7; i++)
		atomic_signal_fence(memory_order_seq_cst);
	mask(SIG_BLOCK, SIGUSR1);
	while (go == 1)
		sched_yield();
	return 0;
}

/* Ends when the round begins. */
static void *leaver(void *argument)
{
	(void)argument;
	mask(SIG_UNBLOCK, SIGUSR1);
	ready++;
	while (!go)
		sched_yield();
	return 0;
}

static void rounds(const char *what, void *(*body)(void *))
{
	int lost = 0;
	on(SIGUSR1, count, 0);
	mask(SIG_BLOCK, SIGUSR1);
	for (int round = 0; round < ROUNDS && !lost; round++) {
		pthread_t threads[THREADS];
		ready = 0;
		go = 0;
		for (int i = 0; i < THREADS; i++)
			threads[i] = start(body, (round * 13 + i * 5) % 97);
		pthread_t sleeps = start(sleeper, 0);
		wait_until(&ready, THREADS + 1);
		int before = taken;
		go = 1;
		kill(getpid(), SIGUSR1);
		lost = !wait_until(&taken, before + 1);
		go = 2;
		for (int i = 0; i < THREADS; i++)
			pthread_join(threads[i], 0);
		over = 1;
		pthread_join(sleeps, 0);
		over = 0;
	}
	say("%s: %s", what, lost ? "a signal is lost" : "each is taken");
}

/* The second signal waits for the process while a thread that was to take it takes another, which blocks it. */
static void took_second(int signal)
{
	(void)signal;
	other_took = 1;
}

static void took_first(int signal)
{
	(void)signal;
	say("in the first handler, another thread takes the second signal: %s", wait_until(&other_took, 1) ? "yes" : "no");
}

static void *second_sleeper(void *argument)
{
	(void)argument;
	mask(SIG_BLOCK, SIGUSR1);
	ready = 1;
	while (!other_took)
		nap(5);
	return 0;
}

static void handler_blocks(void)
{
	struct sigaction action = { .sa_handler = took_first, .sa_mask = only(SIGUSR2) };
	sigaction(SIGUSR1, &action, 0);
	on(SIGUSR2, took_second, 0);
	pthread_t other = start(second_sleeper, 0);
	wait_until(&ready, 1);
	pid_t self = getpid();
	/* This thread sleeps in vfork, where no signal reaches it. */
	pid_t child = vfork();
	if (child == 0) {
		kill(self, SIGUSR1);
		kill(self, SIGUSR2);
		_exit(0);
	}
	wait_for(child);
	pthread_join(other, 0);
}

static void *other_user(void *argument)
{
	wait_until(&ready, 1);
	SHOW(syscall(SYS_setresuid, 2000, 2000, 2000));
	SHOW(kill(getpid(), 0));
	SHOW(kill(getpid(), SIGURG));
	SHOW(syscall(SYS_tgkill, getpid(), getpid(), 0));
	SHOW(syscall(SYS_tkill, getpid(), SIGURG));
	SHOW(sigqueue(getpid(), SIGURG, (union sigval){ 0 }));
	return argument;
}

static void own_process(void)
{
	pthread_t other = start(other_user, 0);
	SHOW(syscall(SYS_setresuid, 1000, 1000, 1000));
	ready = 1;
	pthread_join(other, 0);
}

/* A signal to oneself has come when the call returns, or when it is let. */
static _Thread_local volatile int own;

static void count_own(int signal)
{
	(void)signal;
	own++;
}

static void *raises(void *argument)
{
	for (int i = 0; i < 300; i++) {
		int before = own;
		raise(SIGUSR2);
		if (own != before + 1)
			return "raise has not come";
		mask(SIG_BLOCK, SIGUSR2);
		raise(SIGUSR2);
		raise(SIGUSR2);
		sigset_t waits;
		sigpending(&waits);
		if (own != before + 1 || !sigismember(&waits, SIGUSR2))
			return "blocked, and does not wait";
		mask(SIG_UNBLOCK, SIGUSR2);
		if (own != before + 2)
			return "let, and has not come";
		mask(SIG_BLOCK, SIGUSR2);
		raise(SIGUSR2);
		sigset_t set = only(SIGUSR2);
		if (sigtimedwait(&set, 0, &(struct timespec){ 0 }) != SIGUSR2)
			return "sigtimedwait does not take it";
		mask(SIG_UNBLOCK, SIGUSR2);
		if (own != before + 2)
			return "taken twice";
	}
	return argument;
}

static void all(const char *what, void *(*body)(void *))
{
	pthread_t threads[THREADS];
	void *result;
	for (int i = 0; i < THREADS; i++)
		threads[i] = start(body, (long)"well");
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], &result);
		say("%s: %s", what, (char *)result);
	}
}

/* Two actions, each with a mask that tells it from the other. */
static atomic_int torn, calls;

static int blocks(int signal)
{
	sigset_t now;
	pthread_sigmask(SIG_BLOCK, 0, &now);
	return sigismember(&now, signal);
}

static void first_action(int signal)
{
	(void)signal;
	calls++;
	if (!blocks(SIGHUP) || blocks(SIGWINCH))
		torn++;
}

static void second_action(int signal, siginfo_t *info, void *context)
{
	(void)context;
	calls++;
	if (blocks(SIGHUP) || !blocks(SIGWINCH) || info->si_signo != signal)
		torn++;
}

static void *changes_actions(void *argument)
{
	struct sigaction first = { .sa_handler = first_action, .sa_mask = only(SIGHUP) };
	struct sigaction second = { .sa_sigaction = second_action, .sa_flags = SA_SIGINFO, .sa_mask = only(SIGWINCH) };
	for (int i = 0; !over; i++)
		sigaction(SIGUSR2, i & 1 ? &second : &first, 0);
	return argument;
}

static void *raises_much(void *argument)
{
	for (int i = 0; i < 500; i++)
		raise(SIGUSR2);
	return argument;
}

static void actions(void)
{
	struct sigaction first = { .sa_handler = first_action, .sa_mask = only(SIGHUP) };
	sigaction(SIGUSR2, &first, 0);
	pthread_t changes = start(changes_actions, 0);
	all("raises beside one who changes the action", raises_much);
	over = 1;
	pthread_join(changes, 0);
	over = 0;
	say("%d calls, %d with another's mask", calls, torn);
}

/* SA_RESETHAND: of several who take the signal at the same time one has the handler; the others have the default, to ignore it. */
static void *raises_once(void *argument)
{
	ready++;
	while (!go)
		sched_yield();
	raise(SIGURG);
	return argument;
}

static void once(void)
{
	int wrong = 0;
	for (int round = 0; round < ROUNDS; round++) {
		pthread_t threads[THREADS];
		on(SIGURG, count, SA_RESETHAND);
		taken = ready = go = 0;
		for (int i = 0; i < THREADS; i++)
			threads[i] = start(raises_once, 0);
		wait_until(&ready, THREADS);
		go = 1;
		for (int i = 0; i < THREADS; i++)
			pthread_join(threads[i], 0);
		wrong += taken != 1;
	}
	say("a handler for once: %d of %d rounds wrong", wrong, ROUNDS);
}

/* Each sends real-time signals to the next thread, which blocks them now and then; all come. */
static pthread_t ring[THREADS];
static atomic_int got[THREADS];
static _Thread_local long place;

static void count_place(int signal)
{
	(void)signal;
	got[place]++;
}

static void *in_ring(void *argument)
{
	place = (long)argument;
	ready++;
	while (!go)
		sched_yield();
	for (int i = 0; i < 200; i++) {
		if (i % 3 == 0)
			mask(SIG_BLOCK, SIGRTMIN);
		while (pthread_kill(ring[(place + 1) % THREADS], SIGRTMIN) == EAGAIN)
			sched_yield();
		if (i % 3 == 1)
			mask(SIG_UNBLOCK, SIGRTMIN);
	}
	mask(SIG_UNBLOCK, SIGRTMIN);
	wait_until(&got[place], 200);
	return argument;
}

static void rings(void)
{
	on(SIGRTMIN, count_place, SA_RESTART);
	ready = go = 0;
	for (int i = 0; i < THREADS; i++)
		ring[i] = start(in_ring, i);
	wait_until(&ready, THREADS);
	go = 1;
	for (int i = 0; i < THREADS; i++)
		pthread_join(ring[i], 0);
	for (int i = 0; i < THREADS; i++)
		say("thread %d: %d signals", i, got[i]);
}

int main(void)
{
	section("a process may signal itself");
	in_child("threads of two users", own_process);
	section("to oneself");
	on(SIGUSR2, count_own, 0);
	all("a thread", raises);
	rings();
	section("actions");
	actions();
	once();
	section("for the whole process");
	in_child("a handler that blocks the next signal", handler_blocks);
	rounds("beside threads that block it", blocker);
	rounds("beside threads that end", leaver);
	return 0;
}
