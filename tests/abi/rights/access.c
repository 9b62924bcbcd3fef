/* Who may look into a process: /proc/PID and get_robust_list, by ids and by what makes a process not dumpable. */
#include "t.h"

#include <grp.h>
#include <sys/prctl.h>

static const char *const names[] = { "maps", "smaps_rollup", "environ", "auxv", "exe", "cwd", "root", "fd", "fd/0", "stat", "statm", "status", "limits", "cmdline" };

static void try_file(pid_t pid, const char *name)
{
	char path[64], text[4096];
	snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
	struct stat facts;
	int fd = open(path, O_RDONLY | O_NONBLOCK), error = errno;
	long got = fd < 0 ? -1 : read(fd, text, sizeof text);
	say("  %s: open %s, something to read %d, link %s, of %s", name, fd < 0 ? error_name(error) : "ok", got > 0,
	    readlink(path, text, sizeof text) < 0 ? error_name(errno) : "ok", stat(path, &facts) < 0 ? error_name(errno) : facts.st_uid ? "a user" : "root");
	close(fd);
}

/* The fields of stat that say where things lie, and whether they say it. */
static void addresses(pid_t pid)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/stat", pid);
	char *text = read_file(path), *at = text ? strrchr(text, ')') : 0;
	if (!at)
		return;
	int field = 2;
	for (char *word = strtok(at + 1, " "); word; word = strtok(0, " ")) {
		field++;
		if ((field >= 26 && field <= 28) || (field >= 45 && field <= 51))
			say("  field %d: %s", field, strcmp(word, "0") == 0 ? "0" : strcmp(word, "1") == 0 ? "1" : "an address");
	}
	free(text);
}

static void look(const char *what, pid_t pid)
{
	say("%s", what);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		try_file(pid, names[i]);
	addresses(pid);
	void *head;
	size_t size;
	SHOW(syscall(SYS_get_robust_list, pid, &head, &size));
}

static void become(int real, int effective, int saved)
{
	if (setgroups(0, 0) != 0 || setresgid(real, effective, saved) != 0 || setresuid(real, effective, saved) != 0)
		say("no other ids");
}

static void is_root(void) {}
static void is_user(void) { become(1000, 1000, 1000); prctl(PR_SET_DUMPABLE, 1); }
static void has_changed(void) { become(1000, 1000, 1000); say("dumpable %d", prctl(PR_GET_DUMPABLE)); }
static void has_saved(void) { become(1000, 1000, 0); prctl(PR_SET_DUMPABLE, 1); }
static void is_other(void) { become(1001, 1001, 1001); prctl(PR_SET_DUMPABLE, 1); }

static void looks(const char *who, void (*body)(void))
{
	static const struct { const char *what; void (*body)(void); } subjects[] = {
		{ "at root's", is_root }, { "at a user's", is_user }, { "at one that has changed its ids", has_changed },
		{ "at one with a saved id", has_saved }, { "at another user's", is_other },
	};
	section(who);
	for (size_t i = 0; i < sizeof subjects / sizeof *subjects; i++) {
		pid_t pid = parked(subjects[i].body), watcher = must_fork();
		if (watcher == 0) {
			body();
			look(subjects[i].what, pid);
			_exit(0);
		}
		wait_for(watcher);
		kill(pid, SIGKILL);
		wait_for(pid);
	}
}

/* What changes the flag. */
static void flag(void)
{
	section("dumpable");
	pid_t pid = must_fork();
	if (pid == 0) {
		say("first %d", prctl(PR_GET_DUMPABLE));
		SHOW(prctl(PR_SET_DUMPABLE, 2));
		SHOW(prctl(PR_SET_DUMPABLE, 0));
		say("set %d", prctl(PR_GET_DUMPABLE));
		prctl(PR_SET_DUMPABLE, 1);
		prctl(PR_SET_PDEATHSIG, SIGUSR1);
		setresuid(0, 0, 0);
		say("the same ids %d", prctl(PR_GET_DUMPABLE));
		setresuid(-1, -1, 1000);
		say("another saved id %d", prctl(PR_GET_DUMPABLE));
		setresuid(-1, 1000, -1);
		int signal = -1;
		prctl(PR_GET_PDEATHSIG, &signal);
		say("another effective id %d, signal %d", prctl(PR_GET_DUMPABLE), signal);
		setresuid(1000, 1000, 1000);
		say("a user %d", prctl(PR_GET_DUMPABLE));
		execl("/proc/self/exe", "again", (char *)0);
		say("no exec: %s", error_name(errno));
		_exit(1);
	}
	wait_for(pid);
}

int main(int argc, char **argv)
{
	(void)argc;
	setvbuf(stdout, 0, _IONBF, 0);
	if (strcmp(argv[0], "again") == 0) {
		say("after exec %d", prctl(PR_GET_DUMPABLE));
		return 0;
	}
	flag();
	looks("root looks", is_root);
	looks("a user looks", is_user);
	return 0;
}
