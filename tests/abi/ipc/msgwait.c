/* Waiting for messages and for room: who gets what, signals, removal. */
#include "ipc.h"

struct message { long kind; char text[64]; };

static int log_pipe[2];

static long send(int id, long kind, const char *text)
{
	struct message m = { .kind = kind };
	strcpy(m.text, text);
	return syscall(SYS_msgsnd, id, &m, strlen(text), 0);
}

static char outcome(long r)
{
	return r >= 0 ? '+' : errno == EINTR ? 'i' : errno == EIDRM ? 'r' : errno == E2BIG ? 'b' : errno == EACCES ? 'c' : '?';
}

/* Does it sleep in a call? */
static void until_asleep(pid_t pid)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/stat", pid);
	for (;;) {
		char *text = read_file(path);
		int asleep = text && (strstr(text, ") S ") || strstr(text, ") Z "));
		free(text);
		if (asleep)
			break;
		usleep(1000);
	}
	nap(5);
}

static pid_t receiver(char letter, int id, size_t size, long kind, int flags)
{
	pid_t pid = must_fork();
	if (pid == 0) {
		struct message m = { 0 };
		long r = syscall(SYS_msgrcv, id, &m, size, kind, flags);
		char text[16] = { letter, outcome(r), r >= 0 ? (char)('0' + m.kind) : '-', r > 0 ? m.text[0] : '-', ' ' };
		write(log_pipe[1], text, 5);
		_exit(0);
	}
	until_asleep(pid);
	return pid;
}

static pid_t sender(char letter, int id, long kind, const char *message)
{
	pid_t pid = must_fork();
	if (pid == 0) {
		long r = send(id, kind, message);
		char text[16] = { letter, outcome(r), '-', '-', ' ' };
		write(log_pipe[1], text, 5);
		_exit(0);
	}
	until_asleep(pid);
	return pid;
}

static void done(const char *what, int count)
{
	char parts[8][8] = { "" }, text[64] = "";
	for (int n = 0; n < count; n++) {
		read(log_pipe[0], parts[n], 5);
		wait(NULL);
	}
	qsort(parts, (size_t)count, 8, (int (*)(const void *, const void *))strcmp);
	for (int n = 0; n < count; n++)
		strcat(text, parts[n]);
	say("%s: %s", what, text);
}

static void state(const char *what, int id)
{
	struct msqid_ds ds;
	if (msgctl(id, IPC_STAT, &ds) < 0)
		say("%s: %s", what, error_name(errno));
	else
		say("%s: %lu messages, %lu bytes, sender %s, receiver %s", what, (unsigned long)ds.msg_qnum, ((unsigned long *)&ds)[9], who(ds.msg_lspid), who(ds.msg_lrpid));
}

static void set_room(int id, unsigned long bytes)
{
	struct msqid_ds ds;
	msgctl(id, IPC_STAT, &ds);
	ds.msg_qbytes = bytes;
	SHOW(msgctl(id, IPC_SET, &ds));
}

static void nothing(int signal)
{
	(void)signal;
}

static void receivers(void)
{
	section("receivers");
	int id = msgget(IPC_PRIVATE, 0600);
	receiver('a', id, 9, 3, 0);
	receiver('b', id, 9, 0, 0);
	receiver('c', id, 9, -2, 0);
	receiver('d', id, 9, 5, MSG_EXCEPT);
	SHOW(send(id, 5, "x"));
	done("any takes it", 1);
	SHOW(send(id, 5, "y"));
	state("nobody wants it", id);
	SHOW(send(id, 3, "z"));
	done("of that kind", 1);
	SHOW(send(id, 3, "w"));
	done("any but 5", 1);
	SHOW(send(id, 1, "v"));
	done("up to 2", 1);
	receiver('e', id, 0, 7, 0);
	receiver('f', id, 0, 7, MSG_NOERROR);
	receiver('g', id, 9, 7, 0);
	SHOW(send(id, 7, "long"));
	done("too long for one, cut off for the next", 2);
	SHOW(send(id, 7, "long"));
	done("whole", 1);
	state("left", id);
	struct message m;
	SHOW(msgrcv(id, &m, 9, 0, 0));
	pid_t pid = receiver('h', id, 9, 0, 0);
	kill(pid, SIGUSR1);
	done("signal", 1);
	pid = receiver('i', id, 9, 0, 0);
	kill(pid, SIGSTOP);
	nap(20);
	kill(pid, SIGCONT);
	nap(20);
	SHOW(send(id, 4, "u"));
	done("stopped, continued and given", 1);
	receiver('j', id, 9, 8, 0);
	set_room(id, 100);
	SHOW(send(id, 8, "t"));
	done("after a change", 1);
	receiver('k', id, 9, 8, 0);
	receiver('l', id, 9, 0, 0);
	SHOW(msgctl(id, IPC_RMID, NULL));
	done("removed", 2);
}

static void becomes_user(void)
{
	setgroups(0, NULL);
	setresgid(100, 100, 100);
	setresuid(100, 100, 100);
}

static void senders(void)
{
	section("senders");
	int id = msgget(IPC_PRIVATE, 0666);
	set_room(id, 4);
	SHOW(send(id, 1, "1234"));
	sender('a', id, 2, "ab");
	sender('b', id, 3, "cde");
	sender('c', id, 4, "");
	state("full", id);
	struct message m;
	SHOW(msgrcv(id, &m, 9, 1, 0));
	nap(50);
	/* Both whose messages fit are woken, and either may be first. */
	long bytes = 0;
	for (int n = 0; n < 3; n++)
		bytes += msgrcv(id, &m, 9, 0, 0);
	say("three more: %ld bytes", bytes);
	done("all sent", 3);
	SHOW(send(id, 1, "1234"));
	pid_t pid = sender('d', id, 2, "x");
	kill(pid, SIGUSR1);
	done("signal", 1);
	sender('e', id, 2, "x");
	set_room(id, 50);
	done("more room", 1);
	state("with more room", id);
	set_room(id, 5);
	sender('f', id, 2, "x");
	pid = must_fork();
	if (pid == 0) {
		becomes_user();
		long r = send(id, 6, "y");
		char text[16] = { 'g', outcome(r), '-', '-', ' ' };
		write(log_pipe[1], text, 5);
		_exit(0);
	}
	until_asleep(pid);
	struct msqid_ds ds;
	msgctl(id, IPC_STAT, &ds);
	ds.msg_perm.mode = 0600;
	ds.msg_qbytes = 50;
	SHOW(msgctl(id, IPC_SET, &ds));
	done("no right any more", 2);
	set_room(id, 5);
	sender('h', id, 2, "x");
	sender('i', id, 2, "");
	state("before", id);
	SHOW(msgctl(id, IPC_RMID, NULL));
	done("removed", 2);
	id = msgget(IPC_PRIVATE, 0600);
	set_room(id, 3);
	send(id, 1, "abc");
	pid = sender('j', id, 1, "d");
	kill(pid, SIGKILL);
	say("killed: %s", status_text(wait_for(pid)));
	SHOW(msgrcv(id, &m, 9, 0, 0));
	SHOW(send(id, 1, "abc"));
	state("end", id);
	SHOW(msgctl(id, IPC_RMID, NULL));
}

int main(void)
{
	pipe(log_pipe);
	struct sigaction action = { .sa_handler = nothing, .sa_flags = SA_RESTART };
	sigaction(SIGUSR1, &action, NULL);
	receivers();
	senders();
	return 0;
}
