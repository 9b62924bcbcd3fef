/* RLIMIT_NPROC: exact, for processes, threads and zombies of a user; given back when they are waited for; follows setuid. */
#include "t.h"
#include <sys/resource.h>

enum { USER = 4321, OTHER = 4322, THIRD = 4323, FOURTH = 4324 };

static char stacks[8][16384] __attribute__((aligned(16)));
static volatile int leave;

static int thread(void *unused)
{
    (void)unused;
    while (!leave)
        syscall(SYS_sched_yield);
    syscall(SYS_exit, 0);
    return 0;
}

static long make_thread(int n)
{
    static pid_t tids[8];
    int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_CHILD_CLEARTID;
    tids[n] = 1;
    return clone(thread, stacks[n] + sizeof stacks[n], flags, 0, 0, 0, &tids[n]) > 0 ? 0 : -1;
}

static int until_full(pid_t *children, int most)
{
    int n = 0;
    while (n < most && (children[n] = fork()) >= 0) {
        if (children[n] == 0)
            for (;;)
                pause();
        n++;
    }
    return n;
}

static void limited(void)
{
    struct rlimit limit = { 8, 8 };
    pid_t children[16];
    setrlimit(RLIMIT_NPROC, &limit);
    if (setuid(USER))
        return;
    int n = until_full(children, 16);
    say("children beside the parent: %d, then %s", n, error_name(errno));
    kill(children[0], SIGKILL);
    siginfo_t info;
    waitid(P_PID, (id_t)children[0], &info, WEXITED | WNOWAIT);
    say("with a zombie: %d %s", fork() == -1, error_name(errno));
    wait_for(children[0]);
    SHOW(make_thread(0));
    SHOW(make_thread(1));
    say("with a thread: %d %s", fork() == -1, error_name(errno));
    leave = 1;
    /* The thread is gone a moment after its last instruction. */
    for (int i = 0; i < 1000 && make_thread(2); i++)
        nap(1);
    for (int i = 1; i < n; i++)
        kill(children[i], SIGKILL);
    while (wait(0) > 0) {}
    nap(20);
    say("all given back: %d", until_full(children, 16));
    for (int i = 0; i < 16; i++)
        if (i < 7)
            kill(children[i], SIGKILL);
    while (wait(0) > 0) {}
}

/* Four that fork as much as they may never have more than the limit together. */
static void race(void)
{
    struct rlimit limit = { 40, 40 };
    int made[2], gate[2];
    if (pipe(made) || pipe(gate))
        return;
    setrlimit(RLIMIT_NPROC, &limit);
    if (setuid(OTHER))
        return;
    for (int i = 0; i < 4; i++)
        if (must_fork() == 0) {
            pid_t children[64];
            char byte;
            close(gate[1]);
            if (read(gate[0], &byte, 1) < 0)
                _exit(1);
            int n = until_full(children, 64);
            if (write(made[1], &n, sizeof n) < 0)
                _exit(1);
            pause();
        }
    close(gate[1]);
    int sum = 0, n;
    for (int i = 0; i < 4; i++)
        if (read(made[0], &n, sizeof n) == sizeof n)
            sum += n;
    say("made by four: %d", sum);
    kill(-1, SIGKILL);
    while (wait(0) > 0) {}
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    say("afterwards: %d", pid > 0);
}

static void moved(void)
{
    struct rlimit limit = { 2, 2 };
    setrlimit(RLIMIT_NPROC, &limit);
    if (setresuid(THIRD, THIRD, 0))
        return;
    pid_t child = must_fork();
    if (child == 0)
        for (;;)
            pause();
    SHOW(fork());
    /* The parent counts for another user now. */
    SHOW(setresuid(-1, 0, -1));
    SHOW(setresuid(FOURTH, FOURTH, 0));
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    say("as another user: %d", pid > 0);
    SHOW(setresuid(-1, 0, -1));
    kill(child, SIGKILL);
    while (wait(0) > 0) {}
}

int main(void)
{
    in_child("one user", limited);
    in_child("four at once", race);
    in_child("setuid", moved);
    return 0;
}
