/* What the programs of System V IPC share. */
#ifndef IPC_H
#define IPC_H

#include "t.h"
#include <grp.h>
#include <pthread.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>

#ifndef SHM_STAT_ANY
#define SHM_STAT_ANY 15
#endif
#ifndef MSG_COPY
#define MSG_COPY 040000
#endif
#define SEM_STAT_ANY_ 20
#define MSG_STAT_ANY_ 13
#define PAGE 4096

/* A key of this program's own. */
#define KEY(n) (0x51500000 + (n))

/* "me", "zero" or "other": whose process id it is. */
static inline const char *who(pid_t pid)
{
	return pid == getpid() ? "me" : pid == 0 ? "zero" : "other";
}

/* A time is none, of about now, or something else. */
static inline const char *when(time_t t)
{
	time_t now = time(NULL);
	return t == 0 ? "never" : t >= now - 60 && t <= now + 1 ? "now" : "odd";
}

static inline void show_perm(const char *what, const struct ipc_perm *p, int id)
{
	say("%s: key %#x, owner %u %u, maker %u %u, mode %o, sequence %s", what, p->__ipc_perm_key, p->uid, p->gid, p->cuid, p->cgid, p->mode,
	    p->__ipc_perm_seq == id >> 15 ? "as in the id" : "other");
}

/* The line of an object in a file of /proc/sysvipc, by its id: its length and its words, of which ids, times and process ids are not shown. */
static inline void show_line(const char *file, int id, int first_pid, int first_time)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/sysvipc/%s", file);
	char *text = read_file(path), *rest = text, *line;
	while ((line = strsep(&rest, "\n")) && *line) {
		int key, found, column = 0;
		if (line == text)
			say("%s", line);
		if (sscanf(line, "%d %d", &key, &found) != 2 || found != id)
			continue;
		char shown[512];
		int used = snprintf(shown, sizeof shown, "%zu:", strlen(line));
		for (char *word = strtok(line, " "); word; word = strtok(NULL, " "), column++) {
			int is_pid = first_pid && (column == first_pid || column == first_pid + 1), is_time = column >= first_time && column < first_time + 3;
			int varies = column == 1 || ((is_pid || is_time) && strtoul(word, NULL, 10) != 0);
			used += snprintf(shown + used, sizeof shown - used, " %s", varies ? "#" : word);
		}
		say("%s", shown);
	}
	free(text);
}

/* What programs before this one have left goes. */
static inline void remove_all(void)
{
	static const char *const files[] = { "/proc/sysvipc/shm", "/proc/sysvipc/sem", "/proc/sysvipc/msg" };
	for (int n = 0; n < 3; n++) {
		char *text = read_file(files[n]), *rest = text, *line;
		while ((line = strsep(&rest, "\n")) && *line) {
			int key, id;
			if (sscanf(line, "%d %d", &key, &id) == 2)
				syscall(n == 0 ? SYS_shmctl : n == 1 ? SYS_semctl : SYS_msgctl, id, 0, IPC_RMID);
		}
		free(text);
	}
}

static inline long as_user(uid_t uid, gid_t gid, long (*f)(int), int argument)
{
	/* The result and its error come back through a pipe. */
	int ends[2];
	long result[2] = { -1, 0 };
	pipe(ends);
	pid_t pid = must_fork();
	if (pid == 0) {
		setgroups(0, NULL);
		setresgid(gid, gid, gid);
		setresuid(uid, uid, uid);
		errno = 0;
		result[0] = f(argument);
		result[1] = errno;
		write(ends[1], result, sizeof result);
		_exit(0);
	}
	read(ends[0], result, sizeof result);
	waitpid(pid, NULL, 0);
	close(ends[0]);
	close(ends[1]);
	errno = (int)result[1];
	return result[0];
}

#endif
