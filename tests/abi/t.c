/* See t.h. */
#include "t.h"

void say(const char *format, ...)
{
	char line[4096];
	va_list list;
	va_start(list, format);
	int length = vsnprintf(line, sizeof line - 1, format, list);
	va_end(list);
	if (length < 0)
		return;
	if ((size_t)length > sizeof line - 2)
		length = sizeof line - 2;
	line[length++] = '\n';
	for (int at = 0; at < length;) {
		ssize_t done = write(1, line + at, (size_t)(length - at));
		if (done < 0 && errno != EINTR)
			_exit(99);
		if (done > 0)
			at += (int)done;
	}
}

const char *error_name(int error)
{
	static char other[24];
	static const struct { int number; const char *name; } names[] = {
#define E(name) { name, #name }
		E(EPERM), E(ENOENT), E(ESRCH), E(EINTR), E(EIO), E(ENXIO), E(E2BIG), E(ENOEXEC), E(EBADF), E(ECHILD), E(EAGAIN),
		E(ENOMEM), E(EACCES), E(EFAULT), E(ENOTBLK), E(EBUSY), E(EEXIST), E(EXDEV), E(ENODEV), E(ENOTDIR), E(EISDIR),
		E(EINVAL), E(ENFILE), E(EMFILE), E(ENOTTY), E(ETXTBSY), E(EFBIG), E(ENOSPC), E(ESPIPE), E(EROFS), E(EMLINK),
		E(EPIPE), E(EDOM), E(ERANGE), E(EDEADLK), E(ENAMETOOLONG), E(ENOLCK), E(ENOSYS), E(ENOTEMPTY), E(ELOOP),
		E(ENOMSG), E(EIDRM), E(ENODATA), E(ETIME), E(EOVERFLOW), E(EILSEQ), E(EUSERS), E(ENOTSOCK), E(EDESTADDRREQ),
		E(EMSGSIZE), E(EPROTOTYPE), E(ENOPROTOOPT), E(EPROTONOSUPPORT), E(EOPNOTSUPP), E(EAFNOSUPPORT), E(EADDRINUSE),
		E(ENOBUFS), E(EISCONN), E(ENOTCONN), E(ETIMEDOUT), E(ECONNREFUSED), E(EALREADY), E(EINPROGRESS), E(ESTALE),
		E(ECANCELED), E(EOWNERDEAD), E(ENOTRECOVERABLE), E(ELIBBAD), E(EBADFD), E(EUCLEAN), E(ENOKEY),
#undef E
	};
	if (error == 0)
		return "0";
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (names[i].number == error)
			return names[i].name;
	snprintf(other, sizeof other, "E#%d", error);
	return other;
}

const char *signal_name(int number)
{
	static char other[24];
	static const char *const names[] = {
		"0", "SIGHUP", "SIGINT", "SIGQUIT", "SIGILL", "SIGTRAP", "SIGABRT", "SIGBUS", "SIGFPE", "SIGKILL", "SIGUSR1",
		"SIGSEGV", "SIGUSR2", "SIGPIPE", "SIGALRM", "SIGTERM", "SIGSTKFLT", "SIGCHLD", "SIGCONT", "SIGSTOP", "SIGTSTP",
		"SIGTTIN", "SIGTTOU", "SIGURG", "SIGXCPU", "SIGXFSZ", "SIGVTALRM", "SIGPROF", "SIGWINCH", "SIGIO", "SIGPWR", "SIGSYS",
	};
	if (number >= 0 && (size_t)number < sizeof names / sizeof *names)
		return names[number];
	snprintf(other, sizeof other, "SIG#%d", number);
	return other;
}

const char *status_text(int status)
{
	static char text[64];
	if (WIFEXITED(status))
		snprintf(text, sizeof text, "exit %d", WEXITSTATUS(status));
	else if (WIFSIGNALED(status))
		snprintf(text, sizeof text, "signal %s", signal_name(WTERMSIG(status)));
	else if (WIFSTOPPED(status))
		snprintf(text, sizeof text, "stopped %s", signal_name(WSTOPSIG(status)));
	else if (WIFCONTINUED(status))
		snprintf(text, sizeof text, "continued");
	else
		snprintf(text, sizeof text, "status %#x", (unsigned)status);
	return text;
}

long show_value(const char *text, long value)
{
	int error = errno;
	if (value == -1 && error)
		say("%s = -1 %s", text, error_name(error));
	else
		say("%s = %ld", text, value);
	errno = error;
	return value;
}

long show_success(const char *text, long value)
{
	int error = errno;
	if (value < 0)
		say("%s = %ld %s", text, value, error_name(error));
	else
		say("%s ok", text);
	errno = error;
	return value;
}

long show_missing(const char *text, long value, int error)
{
	int got = errno;
	if (value == -1 && got != error)
		say("%s = -1 %s", text, error_name(got));
	else
		say("%s is done, or %s", text, error_name(error));
	errno = got;
	return value;
}

void *show_pointer(const char *text, void *value)
{
	int error = errno;
	if (value == MAP_FAILED)
		say("%s failed %s", text, error_name(error));
	else if (!value)
		say("%s null %s", text, error_name(error));
	else
		say("%s ok", text);
	errno = error;
	return value;
}

void show_truth(const char *text, int truth)
{
	say("%s: %s", text, truth ? "yes" : "no");
}

pid_t must_fork(void)
{
	pid_t pid = fork();
	if (pid < 0) {
		say("fork failed: %s", error_name(errno));
		_exit(98);
	}
	return pid;
}

pid_t parked(void (*prepare)(void))
{
	int ends[2];
	if (pipe(ends) != 0) {
		say("no pipe: %s", error_name(errno));
		_exit(98);
	}
	pid_t pid = must_fork();
	if (pid == 0) {
		if (prepare)
			prepare();
		close(ends[0]), close(ends[1]);
		for (;;)
			pause();
	}
	close(ends[1]);
	char byte;
	read(ends[0], &byte, 1);
	close(ends[0]);
	return pid;
}

static volatile int thread_ends;

static int only_wait(void *unused)
{
	(void)unused;
	while (!thread_ends)
		nap(1);
	return 0;
}

pid_t parked_thread(void)
{
	static char stack[65536] __attribute__((aligned(16)));
	thread_ends = 0;
	return clone(only_wait, stack + sizeof stack, CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD, NULL);
}

void let_thread_go(void)
{
	thread_ends = 1;
	nap(20);
}

int wait_for(pid_t pid)
{
	int status = 0;
	pid_t got;
	do
		got = waitpid(pid, &status, 0);
	while (got < 0 && errno == EINTR);
	if (got != pid)
		say("waitpid failed: %s", error_name(errno));
	return status;
}

int in_child(const char *text, void (*body)(void))
{
	pid_t pid = must_fork();
	if (pid == 0) {
		body();
		_exit(0);
	}
	int status = wait_for(pid);
	say("%s: %s", text, status_text(status));
	return status;
}

void nap(int milliseconds)
{
	struct timespec left = { milliseconds / 1000, milliseconds % 1000 * 1000000L };
	while (nanosleep(&left, &left) != 0 && errno == EINTR)
		;
}

long ms(clockid_t clock)
{
	struct timespec now;
	clock_gettime(clock, &now);
	return now.tv_sec * 1000L + now.tv_nsec / 1000000L;
}

void write_file(const char *path, const char *text)
{
	int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0644);
	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		say("cannot write %s: %s", path, error_name(errno));
	close(fd);
}

char *read_file(const char *path)
{
	int fd = open(path, O_RDONLY);
	if (fd < 0)
		return 0;
	size_t room = 1 << 16, length = 0;
	char *text = malloc(room + 1);
	ssize_t got;
	while (text && length < room && (got = read(fd, text + length, room - length)) > 0)
		length += (size_t)got;
	if (text)
		text[length] = 0;
	close(fd);
	return text;
}

void section(const char *name)
{
	say("-- %s", name);
}
