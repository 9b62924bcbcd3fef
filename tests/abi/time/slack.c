/* /proc/PID/timerslack_ns, and PR_SET_TIMERSLACK. */
#include "t.h"

#include <sys/prctl.h>

static void show(const char *path)
{
	char text[64] = "";
	int fd = open(path, O_RDONLY);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	say("read: %s %s", n < 0 ? error_name(errno) : "ok", n > 0 ? strtok(text, "\n") : "");
	close(fd);
}

static void put(const char *path, const char *text)
{
	errno = 0;
	int fd = open(path, O_WRONLY);
	ssize_t n = write(fd, text, strlen(text));
	char shown[64];
	snprintf(shown, sizeof shown, "%s", text);
	strtok(shown, "\n");
	say("write %s: %s", shown, n < 0 ? error_name(errno) : n == (ssize_t)strlen(text) ? "all" : "part");
	close(fd);
}

/* A child whose file is `other`, to which `text` is written. */
static char other[64];
static pid_t child(const char *text)
{
	pid_t pid = parked(NULL);
	snprintf(other, sizeof other, "/proc/%d/timerslack_ns", pid);
	show(other);
	put(other, text);
	return pid;
}

static void as_another(void)
{
	syscall(SYS_setresuid, 1000, 1000, 1000);
	show("/proc/self/timerslack_ns");
	put("/proc/self/timerslack_ns", "800\n");
	show("/proc/self/timerslack_ns");
	show(other);
	put(other, "900\n");
	/* One's own child as well. */
	pid_t pid = child("900\n");
	kill(pid, SIGKILL);
	wait_for(pid);
}

int main(void)
{
	setvbuf(stdout, 0, _IONBF, 0);
	show("/proc/self/timerslack_ns");
	prctl(PR_SET_TIMERSLACK, 12345);
	show("/proc/self/timerslack_ns");
	static const char *const texts[] = { "777\n", "888", "+999\n", "0\n", "-1\n", "0x10\n", " 5\n", "5 \n", "5x\n", "", "\n", "18446744073709551615\n", "18446744073709551616\n", "077\n" };
	for (unsigned i = 0; i < sizeof texts / sizeof *texts; i++) {
		put("/proc/self/timerslack_ns", texts[i]);
		show("/proc/self/timerslack_ns");
	}
	SHOW(prctl(PR_GET_TIMERSLACK));
	pid_t pid = child("4321\n");
	show(other);
	put(other, "0\n");
	show(other);
	in_child("another user", as_another);
	kill(pid, SIGKILL);
	wait_for(pid);
	struct stat st;
	stat("/proc/self/timerslack_ns", &st);
	say("mode %o", st.st_mode);
	return 0;
}
