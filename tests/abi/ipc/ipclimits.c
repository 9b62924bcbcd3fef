/* The settings of System V IPC in /proc/sys/kernel, and what they limit; /proc/sysvipc. */
#include "ipc.h"

#define FOLDER "/proc/sys/kernel/"

static void look(const char *name)
{
	char path[64];
	snprintf(path, sizeof path, FOLDER "%s", name);
	struct stat st;
	int r = stat(path, &st);
	char *text = read_file(path);
	say("%s: %d, mode %o, %s", name, r, st.st_mode, text ? text : "none");
	free(text);
}

static void set(const char *name, const char *value)
{
	char path[64];
	snprintf(path, sizeof path, FOLDER "%s", name);
	int fd = open(path, O_WRONLY);
	errno = 0;
	long n = write(fd, value, strlen(value));
	int error = errno;
	close(fd);
	char *text = read_file(path);
	say("%s of \"%s\": %s, %s", name, value, n < 0 ? error_name(error) : "ok", text ? text : "none");
	free(text);
}

static void settings(void)
{
	section("settings");
	static const char *const names[] = { "auto_msgmni", "msg_next_id", "msgmax", "msgmnb", "msgmni", "sem", "sem_next_id", "shm_next_id", "shm_rmid_forced",
		"shmall", "shmmax", "shmmni" };
	for (unsigned n = 0; n < sizeof names / sizeof *names; n++)
		look(names[n]);
	static const char *const values[] = { "-1", "0", "x", "7", "5x", "0x10", "010", "32768", "32769", "2147483647", "2147483648", "18446744073709551615",
		"18446744073709551616", "-0" };
	static const char *const usual[] = { "0", NULL, "8192", "16384", "32000", "32000 1024000000 500 32000", NULL, NULL, "0", "18446744073692774399",
		"18446744073692774399", "4096" };
	for (unsigned n = 0; n < sizeof names / sizeof *names; n++) {
		if (!usual[n])
			continue;
		for (unsigned v = 0; v < sizeof values / sizeof *values; v++)
			set(names[n], values[v]);
		set(names[n], usual[n]);
	}
	set("sem", "250 1 2 3");
	set("sem", "250 1 2 40000");
	set("sem", "250 1 2 -1");
	set("sem", "-5 6");
	set("sem", "32000 1024000000 500 32000");
}

static void next_ids(void)
{
	section("next ids");
	set("shm_next_id", "-1");
	set("shm_next_id", "x");
	set("shm_next_id", "196677");
	int id = shmget(IPC_PRIVATE, 1, 0600), other;
	say("next: %d", id);
	look("shm_next_id");
	set("shm_next_id", "196677");
	other = shmget(IPC_PRIVATE, 1, 0600);
	say("taken: %d", other);
	shmctl(id, IPC_RMID, NULL);
	shmctl(other, IPC_RMID, NULL);
	set("sem_next_id", "65836");
	id = semget(IPC_PRIVATE, 1, 0600);
	say("next: %d", id);
	semctl(id, 0, IPC_RMID);
	set("msg_next_id", "2147463647");
	id = msgget(IPC_PRIVATE, 0600);
	say("next: %d", id);
	msgctl(id, IPC_RMID, NULL);
}

static void limits(void)
{
	section("limits");
	int ids[5];
	set("shmmni", "2");
	for (int n = 0; n < 3; n++) {
		ids[n] = shmget(IPC_PRIVATE, 1, 0600);
		say("segment %d: %s", n, ids[n] < 0 ? error_name(errno) : "ok");
	}
	shmctl(ids[0], IPC_RMID, NULL);
	ids[0] = shmget(KEY(60), 1, 0600 | IPC_CREAT);
	say("segment again: %s", ids[0] < 0 ? error_name(errno) : "ok");
	SHOW(shmget(KEY(61), 1, 0600 | IPC_CREAT));
	CHECK(shmget(KEY(60), 1, 0600 | IPC_CREAT) == ids[0]);
	shmctl(ids[0], IPC_RMID, NULL);
	shmctl(ids[1], IPC_RMID, NULL);
	set("shmmni", "4096");
	set("shmmax", "10000");
	SHOW(shmget(IPC_PRIVATE, 10001, 0600));
	ids[0] = shmget(IPC_PRIVATE, 10000, 0600);
	CHECK(ids[0] >= 0);
	set("shmall", "4");
	SHOW(shmget(IPC_PRIVATE, 4097, 0600));
	ids[1] = shmget(IPC_PRIVATE, 4096, 0600);
	CHECK(ids[1] >= 0);
	SHOW(shmget(IPC_PRIVATE, 1, 0600));
	shmctl(ids[0], IPC_RMID, NULL);
	shmctl(ids[1], IPC_RMID, NULL);
	set("shmall", "18446744073692774399");
	set("shmmax", "18446744073692774399");
	set("sem", "5 8 3 2");
	SHOW(semget(IPC_PRIVATE, 6, 0600));
	ids[0] = semget(IPC_PRIVATE, 5, 0600);
	CHECK(ids[0] >= 0);
	SHOW(semget(IPC_PRIVATE, 4, 0600));
	ids[1] = semget(IPC_PRIVATE, 3, 0600);
	CHECK(ids[1] >= 0);
	SHOW(semget(IPC_PRIVATE, 1, 0600));
	struct sembuf ops[4] = { { 0, 1, 0 }, { 0, 1, 0 }, { 0, 1, 0 }, { 0, 1, 0 } };
	SHOW(semop(ids[0], ops, 3));
	SHOW(semop(ids[0], ops, 4));
	semctl(ids[0], 0, IPC_RMID);
	semctl(ids[1], 0, IPC_RMID);
	set("sem", "32000 1024000000 500 32000");
	set("msgmni", "1");
	set("msgmnb", "10");
	set("msgmax", "8");
	ids[0] = msgget(IPC_PRIVATE, 0600);
	CHECK(ids[0] >= 0);
	SHOW(msgget(IPC_PRIVATE, 0600));
	struct { long kind; char text[16]; } m = { 1, "" };
	SHOW(msgsnd(ids[0], &m, 9, IPC_NOWAIT));
	SHOW(msgsnd(ids[0], &m, 8, IPC_NOWAIT));
	SHOW(msgsnd(ids[0], &m, 3, IPC_NOWAIT));
	SHOW(msgsnd(ids[0], &m, 2, IPC_NOWAIT));
	msgctl(ids[0], IPC_RMID, NULL);
	set("msgmni", "32000");
	set("msgmnb", "16384");
	set("msgmax", "8192");
}

static void files(void)
{
	section("files");
	static const char *const names[] = { "", "msg", "sem", "shm" };
	for (int n = 0; n < 4; n++) {
		char path[64];
		snprintf(path, sizeof path, "/proc/sysvipc/%s", names[n]);
		struct stat st;
		int r = stat(path, &st);
		say("%s: %d, mode %o, %lu links, size %ld", path, r, st.st_mode, (unsigned long)st.st_nlink, (long)st.st_size);
		if (n > 0)
			SHOW(open(path, O_WRONLY));
	}
	char *empty = read_file("/proc/sysvipc/shm");
	say("%s", empty);
	free(empty);
}

int main(void)
{
	remove_all();
	settings();
	next_ids();
	limits();
	files();
	return 0;
}
