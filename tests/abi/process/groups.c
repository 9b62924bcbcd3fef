/* Process groups and sessions: who may join which, orphaned groups, and that a signal to a group reaches members that fork just then. */
#include "t.h"
#include <sys/prctl.h>

static void end_of(pid_t pid)
{
    kill(pid, SIGKILL);
    wait_for(pid);
}

static char stack[65536] __attribute__((aligned(16)));

static int sleep_in_thread(void *tid)
{
    *(volatile pid_t *)tid = (pid_t)syscall(SYS_gettid);
    for (;;)
        pause();
    return 0;
}

static void joining(void)
{
    section("joining");
    pid_t a = parked(0), b = parked(0);
    SHOW(setpgid(a, a));
    CHECK(getpgid(a) == a);
    SHOW(setpgid(b, a));
    CHECK(getpgid(b) == a);
    SHOW(setpgid(b, b));
    SHOW(setpgid(b, a));
    errno = 0;
    show_value("a group that nobody is in", setpgid(a, b));
    SHOW(setpgid(0, a));
    CHECK(getpgrp() == a);
    SHOW(setsid() == -1 ? 0 : 1);
    errno = 0;
    show_value("a group made again", setpgid(0, 0));
    SHOW(setpgid(1, 1));
    SHOW(setpgid(-1, 0));
    SHOW(setpgid(0, -1));
    SHOW(setpgid(999999, 0));

    /* The leader is gone, the group is not: it can be joined, and its number is a group's. */
    end_of(a);
    CHECK(kill(-a, 0) == 0);
    pid_t c = parked(0);
    errno = 0;
    show_value("a group without leader", setpgid(c, a));
    end_of(b);
    CHECK(kill(-a, 0) == 0);

    /* A zombie is a member. */
    kill(c, SIGKILL);
    siginfo_t info;
    waitid(P_PID, (id_t)c, &info, WEXITED | WNOWAIT);
    CHECK(kill(-a, 0) == 0);
    errno = 0;
    show_value("a group of a zombie", setpgid(0, a));
    SHOW(setpgid(0, 0));
    wait_for(c);
    CHECK(kill(-a, 0) == -1 && errno == ESRCH);
    errno = 0;
    show_value("a group that is gone", setpgid(0, a));

    volatile pid_t tid = 0;
    clone(sleep_in_thread, stack + sizeof stack, CLONE_VM | CLONE_SIGHAND | CLONE_THREAD, (void *)(uintptr_t)&tid);
    while (tid == 0)
        nap(1);
    errno = 0;
    show_value("a thread's number", setpgid(tid, 0));
}

static void sessions(void)
{
    section("sessions");
    pid_t a = parked(0);
    int ready[2], go[2];
    if (pipe(ready) || pipe(go))
        return;
    pid_t b = must_fork();
    if (b == 0) {
        char byte;
        CHECK(setsid() == getpid());
        CHECK(getpgrp() == getpid() && getsid(0) == getpid());
        SHOW(setsid());
        SHOW(setpgid(0, 0));
        errno = 0;
        show_value("a group of another session", setpgid(0, getpgid(getppid())));
        pid_t c = parked(0);
        CHECK(setpgid(c, c) == 0 && setpgid(c, getpid()) == 0);
        errno = 0;
        show_value("a child into another session", setpgid(c, getpgid(getppid())));
        if (write(ready[1], "", 1) != 1 || read(go[0], &byte, 1) != 1)
            _exit(1);
        end_of(c);
        _exit(0);
    }
    char byte;
    if (read(ready[0], &byte, 1) != 1)
        return;
    errno = 0;
    show_value("a child of another session", setpgid(b, 0));
    errno = 0;
    show_value("a child into a group of another session", setpgid(a, b));
    CHECK(getsid(b) == b);
    if (write(go[1], "", 1) != 1)
        return;
    say("session leader: %s", status_text(wait_for(b)));
    SHOW(setpgid(a, a));

    int gate[2];
    if (pipe(gate))
        return;
    pid_t c = must_fork();
    if (c == 0) {
        if (read(gate[0], &byte, 1) < 0)
            _exit(1);
        /* It leads a group with another member, so its number is taken. */
        setpgid(0, 0);
        pid_t d = parked(0);
        setpgid(0, a);
        SHOW(setsid() == -1 ? 0 : 1);
        end_of(d);
        CHECK(setsid() == getpid());
        _exit(0);
    }
    setpgid(c, a);
    if (write(gate[1], "", 1) != 1)
        return;
    say("number of a group: %s", status_text(wait_for(c)));
    end_of(a);
}

static int told[2];

static void tell(int signal)
{
    char byte = (char)signal;
    if (write(told[1], &byte, 1) < 0)
        _exit(1);
}

/* A stopped group whose last link to its session's other groups goes is told. */
static void orphaned(int by_child)
{
    if (pipe(told))
        return;
    pid_t leader = must_fork();
    if (leader == 0) {
        setsid();
        pid_t middle = must_fork();
        if (middle == 0) {
            if (by_child)
                setpgid(0, 0);
            pid_t stopped = must_fork();
            if (stopped == 0) {
                if (!by_child)
                    setpgid(0, 0);
                signal(SIGHUP, tell);
                signal(SIGCONT, tell);
                raise(SIGSTOP);
                for (int i = 0; i < 200; i++)
                    nap(10);
                _exit(0);
            }
            siginfo_t info;
            waitid(P_PID, (id_t)stopped, &info, WSTOPPED | WNOWAIT);
            _exit(0);
        }
        wait_for(middle);
        nap(100);
        _exit(0);
    }
    char first = 0, second = 0;
    if (read(told[0], &first, 1) != 1 || read(told[0], &second, 1) != 1)
        return;
    say("told: SIGHUP %d, SIGCONT %d", first == SIGHUP || second == SIGHUP, first == SIGCONT || second == SIGCONT);
    wait_for(leader);
    close(told[0]);
    close(told[1]);
}

static volatile sig_atomic_t handled;

static void handle(int signal)
{
    (void)signal;
    handled++;
}

/* A handler runs once for each signal, also in who forks all the time; children of a process that has handled it are not sent it. */
static void handlers(void)
{
    section("handlers");
    pid_t leader = must_fork();
    if (leader == 0) {
        setpgid(0, 0);
        signal(SIGUSR1, handle);
        while (handled < 3) {
            pid_t pid = fork();
            if (pid == 0)
                _exit(0);
            wait_for(pid);
        }
        _exit(handled);
    }
    setpgid(leader, leader);
    nap(50);
    int sent = 0;
    while (sent < 3 && kill(-leader, SIGUSR1) == 0) {
        sent++;
        nap(30);
    }
    say("%d sent, %s", sent, status_text(wait_for(leader)));
}

/* More members than a visitor comes by in one go, some of which leave meanwhile. */
static void large(void)
{
    section("a large group");
    enum { MEMBERS = 200 };
    static pid_t c[MEMBERS];
    int status, n = 0;
    for (int i = 0; i < MEMBERS; i++) {
        c[i] = must_fork();
        if (c[i] == 0) {
            setpgid(0, i ? c[0] : 0);
            signal(SIGUSR1, i % 3 ? SIG_DFL : SIG_IGN);
            for (;;)
                pause();
        }
        setpgid(c[i], c[0]);
    }
    nap(100);
    CHECK(kill(-c[0], SIGUSR1) == 0);
    for (int i = 0; i < MEMBERS - (MEMBERS + 2) / 3; i++)
        n += waitpid(-c[0], &status, 0) > 0 && WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR1;
    say("%d ended", n);
    CHECK(waitpid(-c[0], &status, WNOHANG) == 0);
    kill(-c[0], SIGTERM);
    for (n = 0; waitpid(-c[0], &status, 0) > 0; n++) {}
    say("%d more", n);
}

/* Not the library's fork, which blocks signals around the call: one that comes before the call, and waits, is not the child's. */
static pid_t bare_fork(void)
{
    return (pid_t)syscall(SYS_fork);
}

/* Each member forks and exits for ever: the group runs from the signal. None escapes. */
static void storm(void)
{
    section("members that fork");
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    int rounds = 12;
    for (int round = 0; round < rounds; round++) {
        pid_t leader = must_fork();
        if (leader == 0) {
            setpgid(0, 0);
            for (int i = 0; i < 6; i++)
                if (bare_fork() == 0)
                    for (;;)
                        if (bare_fork() > 0)
                            _exit(0);
            for (;;)
                pause();
        }
        setpgid(leader, leader);
        nap(5 + round);
        kill(-leader, round % 2 ? SIGKILL : SIGTERM);
        int status;
        while (waitpid(-1, &status, 0) > 0) {}
        if (kill(-leader, 0) != -1 || errno != ESRCH)
            say("round %d: the group lives", round);
    }
    say("none is left");
    prctl(PR_SET_CHILD_SUBREAPER, 0);
}

/* A shell and its job both make the job a group: neither fails, whoever is first. */
static void made_by_both(void)
{
    section("made by both");
    int failed = 0, elsewhere = 0;
    for (int round = 0; round < 100; round++) {
        pid_t child = must_fork();
        if (child == 0)
            _exit(setpgid(0, 0) != 0 ? 1 : getpgrp() != getpid() ? 2 : 0);
        /* It may be a zombie by now, which is moved too. */
        failed += setpgid(child, child) != 0;
        elsewhere += getpgid(child) != child;
        failed += wait_for(child) != 0;
    }
    say("%d failed, %d are elsewhere", failed, elsewhere);
}

int main(void)
{
    in_child("joining", joining);
    in_child("sessions", sessions);
    section("orphaned groups");
    orphaned(0);
    orphaned(1);
    made_by_both();
    storm();
    handlers();
    large();
    return 0;
}
