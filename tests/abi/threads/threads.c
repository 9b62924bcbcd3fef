/* Threads: create and join, locks and conditions, futexes and their errors, thread-local storage, exit and exec of many threads. */
#include "t.h"

#include <pthread.h>
#include <semaphore.h>

#ifndef FUTEX_WAIT
#define FUTEX_WAIT 0
#define FUTEX_WAKE 1
#define FUTEX_REQUEUE 3
#define FUTEX_CMP_REQUEUE 4
#define FUTEX_WAKE_OP 5
#define FUTEX_LOCK_PI 6
#define FUTEX_WAIT_BITSET 9
#define FUTEX_WAKE_BITSET 10
#define FUTEX_PRIVATE_FLAG 128
#endif

static __thread int local = 5;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static long sum;
static int turn;

static void *adder(void *argument)
{
	local += (int)(intptr_t)argument;
	for (int i = 0; i < 1000; i++) {
		pthread_mutex_lock(&mutex);
		sum++;
		pthread_mutex_unlock(&mutex);
	}
	return (void *)(intptr_t)local;
}

static void *player(void *argument)
{
	int own = (int)(intptr_t)argument;
	for (int i = 0; i < 100; i++) {
		pthread_mutex_lock(&mutex);
		while (turn % 3 != own)
			pthread_cond_wait(&condition, &mutex);
		turn++;
		pthread_cond_broadcast(&condition);
		pthread_mutex_unlock(&mutex);
	}
	return 0;
}

static void basics(void)
{
	section("pthreads");
	pthread_t threads[20];
	for (int i = 0; i < 20; i++)
		if (pthread_create(&threads[i], 0, adder, (void *)(intptr_t)i) != 0)
			say("pthread_create failed");
	long locals = 0;
	for (int i = 0; i < 20; i++) {
		void *result;
		pthread_join(threads[i], &result);
		locals += (intptr_t)result;
	}
	say("sum %ld locals %ld own %d", sum, locals, local);
	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], 0, player, (void *)(intptr_t)i);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], 0);
	SHOW(turn);
	struct timespec when;
	clock_gettime(CLOCK_REALTIME, &when);
	pthread_mutex_lock(&mutex);
	say("timed wait: %s", error_name(pthread_cond_timedwait(&condition, &mutex, &when)));
	pthread_mutex_unlock(&mutex);
	sem_t semaphore;
	sem_init(&semaphore, 0, 1);
	SHOW(sem_wait(&semaphore));
	SHOW(sem_trywait(&semaphore));
	SHOW(sem_timedwait(&semaphore, &when));
	/* Recursion, error checking, robustness. */
	pthread_mutexattr_t attr;
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ERRORCHECK);
	pthread_mutex_t checked;
	pthread_mutex_init(&checked, &attr);
	pthread_mutex_lock(&checked);
	say("relock: %s", error_name(pthread_mutex_lock(&checked)));
	/* 300 threads one after another: stacks and ids come back. */
	int good = 0;
	for (int i = 0; i < 300; i++) {
		pthread_t one;
		if (pthread_create(&one, 0, adder, 0) == 0 && pthread_join(one, 0) == 0)
			good++;
		if (i > 20)
			i += 9;
	}
	SHOW(good);
}

static pthread_mutex_t *robust;

static void *dies_holding(void *argument)
{
	pthread_mutex_lock(robust);
	return argument;
}

static void robustness(void)
{
	section("robust mutex");
	robust = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_mutexattr_t attr;
	pthread_mutexattr_init(&attr);
	SHOW(pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST));
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(robust, &attr);
	pthread_t thread;
	pthread_create(&thread, 0, dies_holding, 0);
	pthread_join(thread, 0);
	say("thread: %s", error_name(pthread_mutex_lock(robust)));
	SHOW(pthread_mutex_consistent(robust));
	pthread_mutex_unlock(robust);
	pid_t pid = must_fork();
	if (pid == 0) {
		pthread_mutex_lock(robust);
		kill(getpid(), SIGKILL);
	}
	wait_for(pid);
	say("process: %s", error_name(pthread_mutex_lock(robust)));
	pthread_mutex_consistent(robust);
	pthread_mutex_unlock(robust);
	say("again: %s", error_name(pthread_mutex_lock(robust)));
	pthread_mutex_unlock(robust);
	void *head;
	size_t length;
	SHOW(syscall(SYS_get_robust_list, 0, &head, &length));
	SHOW(length);
	SHOW(syscall(SYS_set_robust_list, head, 1));
	SHOW(syscall(SYS_get_robust_list, 99999999, &head, &length));
}

static int word, other;
static long futex(int *at, int operation, int value, const void *timeout, int *second, int third)
{
	return syscall(SYS_futex, at, operation, value, timeout, second, third);
}

static void *waiter(void *argument)
{
	(void)argument;
	futex(&word, FUTEX_WAIT, 0, 0, 0, 0);
	__atomic_add_fetch(&other, 1, __ATOMIC_SEQ_CST);
	return 0;
}

static void futexes(void)
{
	section("futex");
	struct timespec none = { 0 }, little = { 0, 20000000 }, bad = { 0, 2000000000 };
	SHOW(futex(&word, FUTEX_WAIT, 1, 0, 0, 0));
	SHOW(futex(&word, FUTEX_WAIT, 0, &none, 0, 0));
	SHOW(futex(&word, FUTEX_WAIT, 0, &little, 0, 0));
	SHOW(futex(&word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 0, &little, 0, 0));
	SHOW(futex(&word, FUTEX_WAIT, 0, &bad, 0, 0));
	SHOW(futex((int *)((char *)&word + 1), FUTEX_WAIT, 0, 0, 0, 0));
	SHOW(futex((int *)16, FUTEX_WAIT, 0, 0, 0, 0));
	SHOW(futex((int *)16, FUTEX_WAKE, 1, 0, 0, 0));
	SHOW(futex((int *)16, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1, 0, 0, 0));
	SHOW(futex(&word, FUTEX_WAKE, 1, 0, 0, 0));
	SHOW(futex(&word, 99, 1, 0, 0, 0));
	SHOW(futex(&word, FUTEX_WAIT_BITSET, 0, &little, 0, 0));
	SHOW(futex(&word, FUTEX_WAIT_BITSET, 0, &none, 0, -1));
	SHOW(futex(&word, FUTEX_WAKE_BITSET, 1, 0, 0, 0));
	SHOW(futex(&word, FUTEX_CMP_REQUEUE, 1, (void *)1, &other, 5));
	SHOW(futex(&word, FUTEX_REQUEUE, 1, (void *)1, &other, 0));
	SHOW(futex(&word, FUTEX_WAIT, 0, (void *)16, 0, 0));
	pthread_t threads[6];
	for (int i = 0; i < 6; i++)
		pthread_create(&threads[i], 0, waiter, 0);
	/* Until all six wait: a requeue onto another word moves those that it does not wake. */
	nap(100);
	int second = 0;
	say("wake 2: %ld", futex(&word, FUTEX_WAKE, 2, 0, 0, 0));
	nap(30);
	SHOW(__atomic_load_n(&other, __ATOMIC_SEQ_CST));
	say("requeue: %ld", futex(&word, FUTEX_CMP_REQUEUE, 1, (void *)2, &second, 0));
	nap(30);
	SHOW(__atomic_load_n(&other, __ATOMIC_SEQ_CST));
	say("on the second word: %ld", futex(&second, FUTEX_WAKE, 100, 0, 0, 0));
	say("on the first: %ld", futex(&word, FUTEX_WAKE, 100, 0, 0, 0));
	for (int i = 0; i < 6; i++)
		pthread_join(threads[i], 0);
	SHOW(other);
	/* Between processes, through shared memory. */
	int *shared = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pid = must_fork();
	if (pid == 0) {
		long result = futex(shared, FUTEX_WAIT, 0, &(struct timespec){ 5, 0 }, 0, 0);
		_exit(result == 0 || errno == EAGAIN ? 0 : 1);
	}
	nap(50);
	*shared = 1;
	futex(shared, FUTEX_WAKE, 1, 0, 0, 0);
	say("across processes: %s", status_text(wait_for(pid)));
}

static void *sleeper(void *argument)
{
	for (;;)
		pause();
	return argument;
}

static void *quits(void *argument)
{
	(void)argument;
	/* By then the first thread has left, even on a loaded host. */
	nap(200);
	exit(33);
}

static void *spins(void *argument)
{
	for (volatile long i = 0;; i++)
		;
	return argument;
}

static void many(void *(*body)(void *), int count)
{
	pthread_t thread;
	for (int i = 0; i < count; i++)
		pthread_create(&thread, 0, body, 0);
}

static void exit_with_sleepers(void) { many(sleeper, 10); _exit(21); }
static void exit_with_spinners(void) { many(spins, 2); nap(10); _exit(22); }
static void exit_from_thread(void) { many(sleeper, 5); many(quits, 1); for (;;) pause(); }
static void first_thread_leaves(void) { many(quits, 1); pthread_exit(0); }
static void fault_in_thread_body(void) { *(volatile char *)16 = 1; }
static void *faults(void *argument) { fault_in_thread_body(); return argument; }
static void fault_in_thread(void) { many(sleeper, 5); many(faults, 1); for (;;) pause(); }
static void exec_with_threads(void)
{
	many(sleeper, 8);
	execl("/proc/self/exe", "again", (char *)0);
}
static void *execs(void *argument) { execl("/proc/self/exe", "again", (char *)0); return argument; }
static void exec_from_thread(void) { many(sleeper, 4); many(execs, 1); for (;;) pause(); }
static void fork_with_threads(void)
{
	many(sleeper, 4);
	pid_t pid = must_fork();
	if (pid == 0) {
		CHECK(getpid() == (pid_t)syscall(SYS_gettid));
		_exit(4);
	}
	say("child: %s", status_text(wait_for(pid)));
}

static pid_t ids[4];
static void *identity(void *argument)
{
	ids[(intptr_t)argument] = (pid_t)syscall(SYS_gettid);
	return 0;
}

static volatile pid_t handled_by;
static void on_signal(int number) { (void)number; handled_by = (pid_t)syscall(SYS_gettid); }
static volatile pid_t target_id;
static volatile int stop;
static void *signal_target(void *argument)
{
	(void)argument;
	target_id = (pid_t)syscall(SYS_gettid);
	while (!stop)
		nap(5);
	return 0;
}

static void identities(void)
{
	section("ids and signals");
	CHECK((pid_t)syscall(SYS_gettid) == getpid());
	pthread_t threads[4];
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], 0, identity, (void *)(intptr_t)i);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], 0);
	int distinct = 1;
	for (int i = 0; i < 4; i++)
		for (int j = 0; j < i; j++)
			distinct &= ids[i] != ids[j] && ids[i] != getpid();
	CHECK(distinct);
	/* Who is joined has told so, and is about to go. */
	for (int i = 0; i < 1000 && syscall(SYS_tgkill, getpid(), ids[0], 0) == 0; i++)
		usleep(1000);
	SHOW(syscall(SYS_tgkill, getpid(), ids[0], 0));
	signal(SIGUSR1, on_signal);
	pthread_t thread;
	pthread_create(&thread, 0, signal_target, 0);
	while (!target_id)
		nap(1);
	SHOW(pthread_kill(thread, SIGUSR1));
	while (!handled_by)
		nap(1);
	CHECK(handled_by == target_id);
	sigset_t set;
	sigemptyset(&set), sigaddset(&set, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &set, 0);
	handled_by = 0;
	kill(getpid(), SIGUSR1);
	while (!handled_by)
		nap(1);
	say("a signal for the process goes to the thread that lets it in: %d", handled_by == target_id);
	stop = 1;
	pthread_join(thread, 0);
	pthread_sigmask(SIG_UNBLOCK, &set, 0);
	unsigned long base = 0;
	SHOW(syscall(SYS_arch_prctl, 0x1003, &base));
	CHECK(base == (unsigned long)pthread_self());
	SHOW(syscall(SYS_arch_prctl, 0x1002, 0xffff800000000000));
	SHOW(syscall(SYS_arch_prctl, 0x9999, 0));
	SHOW(syscall(SYS_set_tid_address, &stop) == getpid());
}

static int clears(void *argument) { (void)argument; nap(5); return 0; }

/* The word that CLONE_CHILD_CLEARTID names is cleared, and woken, only where somebody else shares the memory. */
static void cleared_words(void)
{
	section("words cleared at the end");
	enum { CLEAR = 0x00200000, SHARES = 0x00000100 };
	static char stack[16384] __attribute__((aligned(16)));
	volatile int *word = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	*word = 5;
	fflush(stdout);
	long child = syscall(SYS_clone, CLEAR | SIGCHLD, 0, 0, word, 0);
	if (child == 0)
		_exit(0);
	wait_for((pid_t)child);
	say("memory of its own: %d", *word);
	child = clone(clears, stack + sizeof stack, CLEAR | SHARES | SIGCHLD, 0, 0, 0, word);
	while (*word)
		syscall(SYS_futex, word, FUTEX_WAIT, 5, 0, 0, 0);
	wait_for((pid_t)child);
	say("shared memory: %d", *word);
}

int main(int argc, char **argv)
{
	(void)argc;
	if (strcmp(argv[0], "again") == 0) {
		say("again: alone %d", getpid() == (pid_t)syscall(SYS_gettid));
		return 44;
	}
	basics();
	futexes();
	robustness();
	identities();
	cleared_words();
	section("ends");
	in_child("exit with sleeping threads", exit_with_sleepers);
	in_child("exit with spinning threads", exit_with_spinners);
	in_child("exit from a thread", exit_from_thread);
	in_child("the first thread leaves first", first_thread_leaves);
	in_child("a fault in a thread", fault_in_thread);
	in_child("exec with threads", exec_with_threads);
	in_child("exec from a thread", exec_from_thread);
	in_child("fork with threads", fork_with_threads);
	return 0;
}
