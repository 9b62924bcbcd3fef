/* Parents and children: which child a wait gives when several have changed, by number and by group; orphans, many of them. */
#include "t.h"
#include <sys/prctl.h>

enum { MANY = 300 };

static pid_t ended(int code)
{
    pid_t pid = must_fork();
    if (pid == 0)
        _exit(code);
    siginfo_t info;
    waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT);
    return pid;
}

static void end_of(pid_t pid)
{
    kill(pid, SIGKILL);
    siginfo_t info;
    waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT);
}

/* Which of `pids` a wait for `which` gives, as an index. */
static void next_of(const char *text, const pid_t *pids, int n, pid_t which, int options)
{
    int status = 0;
    errno = 0;
    pid_t got = waitpid(which, &status, options);
    if (got <= 0) {
        say("%s: %d %s", text, (int)got, error_name(errno));
        return;
    }
    for (int i = 0; i < n; i++)
        if (pids[i] == got)
            say("%s: child %d, %s", text, i, WIFCONTINUED(status) ? "continued" : status_text(status));
}

static void order(void)
{
    section("several have ended");
    pid_t c[6];
    for (int i = 0; i < 6; i++)
        c[i] = parked(0);
    for (int i = 5; i >= 0; i--)
        if (i != 2)
            end_of(c[i]);
    next_of("one in the middle", c, 6, c[4], WNOHANG);
    next_of("the one that lives", c, 6, c[2], WNOHANG);
    for (int i = 0; i < 5; i++)
        next_of("any", c, 6, -1, WNOHANG);
    end_of(c[2]);
    next_of("the last", c, 6, -1, 0);
    next_of("none", c, 6, -1, WNOHANG);
    next_of("none by number", c, 6, c[0], 0);

    siginfo_t info = { 0 };
    c[0] = ended(7);
    for (int i = 0; i < 3; i++)
        say("WNOWAIT: %d, %d", waitid(P_ALL, 0, &info, WEXITED | WNOWAIT), info.si_status);
    next_of("then taken", c, 1, -1, 0);
    say("WNOWAIT of none: %s", waitid(P_ALL, 0, &info, WEXITED | WNOWAIT) ? error_name(errno) : "0");
}

static void groups(void)
{
    section("by group");
    pid_t c[5];
    for (int i = 0; i < 5; i++) {
        c[i] = parked(0);
        setpgid(c[i], i < 2 ? c[0] : c[2]);
    }
    next_of("living", c, 5, -c[0], WNOHANG);
    next_of("no such group", c, 5, -c[1], WNOHANG);
    next_of("own group", c, 5, 0, WNOHANG);
    end_of(c[4]);
    end_of(c[1]);
    next_of("first group", c, 5, -c[0], WNOHANG);
    next_of("first group again", c, 5, -c[0], WNOHANG);
    next_of("second group", c, 5, -c[2], 0);
    CHECK(kill(-c[2], SIGKILL) == 0);
    end_of(c[3]);
    end_of(c[2]);
    next_of("second group", c, 5, -c[2], 0);
    next_of("second group", c, 5, -c[2], 0);
    next_of("second group is gone", c, 5, -c[2], 0);
    CHECK(kill(-c[2], 0) == -1 && errno == ESRCH);
    kill(c[0], SIGKILL);
    next_of("first group", c, 5, -c[0], 0);
}

static void stops(void)
{
    section("stopped and continued");
    pid_t c[4];
    int all = WUNTRACED | WCONTINUED | WNOHANG;
    siginfo_t info;
    for (int i = 0; i < 4; i++)
        c[i] = parked(0);
    for (int i = 3; i >= 1; i--) {
        kill(c[i], SIGSTOP);
        waitid(P_PID, (id_t)c[i], &info, WSTOPPED | WNOWAIT);
    }
    next_of("not asked for", c, 4, -1, WNOHANG);
    next_of("first stopped by number", c, 4, c[3], WUNTRACED | WNOHANG);
    next_of("told once", c, 4, c[3], WUNTRACED | WNOHANG);
    kill(c[1], SIGCONT);
    next_of("continued", c, 4, -1, WCONTINUED | WNOHANG);
    next_of("continued once", c, 4, -1, WCONTINUED | WNOHANG);
    next_of("the other stopped", c, 4, -1, WUNTRACED | WNOHANG);
    next_of("no more", c, 4, -1, all);
    kill(c[3], SIGCONT);
    next_of("continued by number", c, 4, c[3], all);
    kill(c[2], SIGCONT);
    waitid(P_PID, (id_t)c[2], &info, WCONTINUED | WNOWAIT);
    kill(c[2], SIGSTOP);
    waitid(P_PID, (id_t)c[2], &info, WSTOPPED | WNOWAIT);
    next_of("stopped again", c, 4, -1, all);
    kill(c[2], SIGCONT);
    end_of(c[2]);
    next_of("not continued, but dead", c, 4, -1, WCONTINUED | WNOHANG);
    next_of("dead", c, 4, -1, WNOHANG);
    for (int i = 0; i < 4; i++)
        if (i != 2) {
            kill(c[i], SIGKILL);
            wait_for(c[i]);
        }
}

/* A child with many children dies. They come to the subreaper, who waits for all. */
static void orphans(void)
{
    section("orphans");
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    int ready[2];
    if (pipe(ready))
        return;
    pid_t middle = must_fork();
    if (middle == 0) {
        for (int i = 0; i < MANY; i++)
            if (must_fork() == 0) {
                /* Two of three wait until the pipe has no writer: they die while they change parents, or after. */
                if (i % 3) {
                    close(ready[1]);
                    while (read(ready[0], &(char){ 0 }, 1) > 0) {}
                }
                _exit(i % 7);
            }
        _exit(0);
    }
    close(ready[1]);
    int codes[7] = { 0 }, n = 0, status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, 0)) > 0)
        if (pid != middle) {
            n++;
            codes[WEXITSTATUS(status)]++;
        }
    close(ready[0]);
    say("%d orphans, %d of code 3, then %s", n, codes[3], error_name(errno));
    prctl(PR_SET_CHILD_SUBREAPER, 0);
}

/* Many children that sleep are not in the way. */
static void many(void)
{
    section("many children");
    static pid_t c[MANY];
    for (int i = 0; i < MANY; i++)
        c[i] = parked(0);
    for (int i = 0; i < 3; i++) {
        int code = i;
        pid_t pid = must_fork();
        if (pid == 0)
            _exit(code);
        int status;
        pid_t got = wait(&status);
        say("the one that ended: %d, %s", got == pid, status_text(status));
    }
    for (int i = MANY - 1; i >= 0; i--)
        kill(c[i], SIGTERM);
    int n = 0, status;
    while (wait(&status) > 0)
        n += WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM;
    say("ended by SIGTERM: %d", n);
}

/* With SIGCHLD ignored nothing stays, whichever way a child goes. */
static void ignored(void)
{
    section("SIGCHLD ignored");
    signal(SIGCHLD, SIG_IGN);
    for (int i = 0; i < 20; i++)
        if (must_fork() == 0)
            _exit(0);
    int status;
    say("wait: %d %s", (int)wait(&status), error_name(errno));
    signal(SIGCHLD, SIG_DFL);
}

int main(void)
{
    order();
    groups();
    stops();
    orphans();
    many();
    ignored();
    return 0;
}
