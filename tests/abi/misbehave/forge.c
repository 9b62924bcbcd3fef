/*
 * Frames with a code segment that no program may have, while another thread has SIGSEGV ignored and handled in turn. How a process ends depends on who is
 * faster; the machine goes on.
 */
#include "t.h"

#include <pthread.h>
#include <ucontext.h>

#define SEGMENTS(cs, ss) ((greg_t)(cs) | (greg_t)(ss) << 48)
#define ROUNDS 30

static void mends(int number, siginfo_t *info, void *context)
{
	(void)number, (void)info;
	((ucontext_t *)context)->uc_mcontext.gregs[REG_CSGSFS] = SEGMENTS(0x33, 0x2b);
}

static void forges(int number, siginfo_t *info, void *context)
{
	(void)number, (void)info;
	((ucontext_t *)context)->uc_mcontext.gregs[REG_CSGSFS] = SEGMENTS(0x10, 0x2b);
}

static const struct sigaction handled = { .sa_sigaction = mends, .sa_flags = SA_SIGINFO };

static void *takes_turns(void *pause)
{
	struct sigaction ignored = { .sa_handler = SIG_IGN };

	for (;;) {
		sigaction(SIGSEGV, &ignored, NULL);
		sigaction(SIGSEGV, &handled, NULL);
		for (volatile long i = 0; i < (long)pause; i++)
			;
	}
	return NULL;
}

int main(void)
{
	struct sigaction forging = { .sa_sigaction = forges, .sa_flags = SA_SIGINFO };
	int odd = 0;

	sigaction(SIGUSR1, &forging, NULL);
	sigaction(SIGSEGV, &handled, NULL);
	for (long round = 0; round < ROUNDS; round++) {
		pid_t pid = must_fork();
		if (pid == 0) {
			pthread_t thread;
			pthread_create(&thread, NULL, takes_turns, (void *)(round % 30 * 33));
			for (int i = 0; i < 1000; i++)
				raise(SIGUSR1);
			_exit(0);
		}
		int status = wait_for(pid);
		odd += status != 0 && WTERMSIG(status) != SIGSEGV;
	}
	say("%d processes ended neither by themselves nor by SIGSEGV", odd);
	return 0;
}
