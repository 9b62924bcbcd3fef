/* What the programs about ptrace(2) share: a child that is traced, and what it is asked for. */
#ifndef TRACER_H
#define TRACER_H

#include "t.h"

#include <elf.h>
#include <stddef.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>

#ifndef __WALL
#define __WALL 0x40000000
#endif
#ifndef PTRACE_GET_SYSCALL_INFO
#define PTRACE_GET_SYSCALL_INFO 0x420e
#endif
#define GET_RSEQ_CONFIGURATION 0x420f

/* The bare call: the library's gives peeked words another way. */
static inline long trace(int request, pid_t pid, unsigned long address, unsigned long data)
{
	return syscall(SYS_ptrace, request, pid, address, data);
}
#define AT(pointer) ((unsigned long)(pointer))

/* "stopped SIGTRAP", with what tells stops apart: "stopped SIGTRAP|80", "stopped SIGTRAP event 4". */
static inline const char *stop_text(int status)
{
	static char text[80];
	if (!WIFSTOPPED(status))
		return status_text(status);
	int signal = WSTOPSIG(status) & 0x7f, event = status >> 16;
	snprintf(text, sizeof text, "stopped %s%s%s", signal_name(signal), WSTOPSIG(status) & 0x80 ? "|80" : "", event ? " event" : "");
	if (event)
		snprintf(text + strlen(text), sizeof text - strlen(text), " %d", event);
	return text;
}

/* Waits for the traced thread; its status. */
static inline int waits(pid_t pid)
{
	int status = 0;
	pid_t got;
	do
		got = waitpid(pid, &status, __WALL);
	while (got < 0 && errno == EINTR);
	if (got != pid)
		say("no wait: %s", error_name(errno));
	return status;
}

static inline void show_stop(const char *what, pid_t pid)
{
	int status = waits(pid);
	say("%s: %s", what, stop_text(status));
}

/* A child that has itself traced, stops by SIGSTOP, and then runs `body`. It is stopped when this returns. */
static inline pid_t traced(void (*body)(void))
{
	pid_t pid = must_fork();
	if (pid == 0) {
		if (trace(PTRACE_TRACEME, 0, 0, 0) != 0)
			say("not traced: %s", error_name(errno));
		raise(SIGSTOP);
		if (body)
			body();
		_exit(7);
	}
	int status = waits(pid);
	if (!WIFSTOPPED(status) || WSTOPSIG(status) != SIGSTOP)
		say("begins: %s", stop_text(status));
	return pid;
}

static inline void ends(pid_t pid)
{
	kill(pid, SIGKILL);
	say("ends: %s", status_text(waits(pid)));
}

/* One line of /proc/PID/status without its name. */
static inline const char *status_line(pid_t pid, const char *name)
{
	static char line[128];
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/status", pid);
	char *text = read_file(path), *at = text ? strstr(text, name) : 0;
	snprintf(line, sizeof line, "%s", at ? at + strlen(name) + 1 : "none");
	line[strcspn(line, "\n")] = 0;
	free(text);
	return line;
}

#endif
