/* Queues of messages: msgget, msgctl, and sending and receiving without waiting. */
#include "ipc.h"

#define GET(key, flags) (int)syscall(SYS_msgget, key, flags)
#define CTL(id, command, buffer) syscall(SYS_msgctl, id, command, buffer)

struct message { long kind; char text[9000]; };

static long send(int id, long kind, const char *text, int flags)
{
	struct message m = { .kind = kind };
	strcpy(m.text, text);
	return syscall(SYS_msgsnd, id, &m, strlen(text), flags);
}

static void receive(const char *what, int id, size_t size, long kind, int flags)
{
	struct message m;
	memset(&m, '.', sizeof m);
	long n = syscall(SYS_msgrcv, id, &m, size, kind, flags);
	if (n < 0)
		say("%s: %s", what, error_name(errno));
	else
		say("%s: %ld bytes of kind %ld: %.*s", what, n, m.kind, (int)n + 1, m.text);
}

static void show(const char *what, int id)
{
	struct msqid_ds ds;
	memset(&ds, 0xff, sizeof ds);
	if (CTL(id, IPC_STAT, &ds) < 0) {
		say("%s: %s", what, error_name(errno));
		return;
	}
	show_perm(what, &ds.msg_perm, id);
	unsigned long *words = (unsigned long *)&ds;
	say("%s: %lu bytes in %lu of %lu, sender %s, receiver %s, sent %s, received %s, changed %s, unused %lx %lx", what, words[9], words[10], words[11],
	    who(ds.msg_lspid), who(ds.msg_lrpid), when(ds.msg_stime), when(ds.msg_rtime), when(ds.msg_ctime), words[13], words[14]);
}

static void making(void)
{
	section("making");
	SHOW(GET(KEY(40), 0600));
	int id = GET(KEY(40), 0640 | IPC_CREAT);
	CHECK(id >= 0);
	show("new", id);
	CHECK(GET(KEY(40), 0) == id);
	CHECK(GET(KEY(40), 0600 | IPC_CREAT) == id);
	CHECK(GET(KEY(40), 0777 | IPC_EXCL) == id);
	SHOW(GET(KEY(40), 0600 | IPC_CREAT | IPC_EXCL));
	int other = GET(IPC_PRIVATE, 0777);
	CHECK(other >= 0 && other != id);
	SHOW(CTL(other, IPC_RMID, NULL));
	SHOW(CTL(other, IPC_RMID, NULL));
	SHOW(CTL(id, IPC_RMID, NULL));
	show("removed", id);
	SHOW(send(id, 1, "x", 0));
	receive("removed", id, 1, 0, 0);
}

static void commands(void)
{
	section("commands");
	int id = GET(KEY(41), 0600 | IPC_CREAT);
	struct msqid_ds ds;
	SHOW(CTL(-1, IPC_STAT, &ds));
	SHOW(CTL(id, -1, &ds));
	SHOW(CTL(id, 99, &ds));
	SHOW(CTL(id, IPC_STAT | 0x100, &ds));
	SHOW(CTL(id, IPC_STAT, NULL));
	SHOW(CTL(id, IPC_SET, NULL));
	SHOW(CTL(id + (1 << 15), IPC_STAT, &ds));
	memset(&ds, 0, sizeof ds);
	ds.msg_perm.uid = 7;
	ds.msg_perm.gid = 8;
	ds.msg_perm.mode = 07641;
	ds.msg_qbytes = 20;
	SHOW(CTL(id, IPC_SET, &ds));
	show("set", id);
	SHOW(send(id, 1, "0123456789", IPC_NOWAIT));
	SHOW(send(id, 2, "01234567890", IPC_NOWAIT));
	SHOW(send(id, 2, "0123456789", IPC_NOWAIT));
	SHOW(send(id, 2, "", IPC_NOWAIT));
	SHOW(send(id, 2, "", IPC_NOWAIT));
	SHOW(send(id, 2, "x", IPC_NOWAIT));
	show("full", id);
	show_line("msg", id, 5, 11);
	ds.msg_qbytes = 3;
	SHOW(CTL(id, IPC_SET, &ds));
	SHOW(send(id, 2, "", IPC_NOWAIT));
	ds.msg_qbytes = 1 << 20;
	SHOW(CTL(id, IPC_SET, &ds));
	ds.msg_perm.uid = -1;
	SHOW(CTL(id, IPC_SET, &ds));
	CHECK(CTL(id, MSG_STAT_ANY_, &ds) == id);
	CHECK(CTL(id & 0x7fff, MSG_STAT, &ds) == id);
	SHOW(CTL(0x7ffe, MSG_STAT, &ds));
	int info[8];
	memset(info, 0xff, sizeof info);
	CHECK(CTL(0, IPC_INFO, info) >= (id & 0x7fff));
	say("limits %d %d %d %d %d %d %d %x", info[0], info[1], info[2], info[3], info[4], info[5], info[6], info[7] & 0xffff);
	CHECK(CTL(0, MSG_INFO, info) >= (id & 0x7fff));
	say("sums %d %d %d %d %d %d %d %x", info[0], info[1], info[2], info[3], info[4], info[5], info[6], info[7] & 0xffff);
	SHOW(CTL(0, MSG_INFO, NULL));
	SHOW(CTL(id, IPC_RMID, NULL));
	CTL(0, MSG_INFO, info);
	say("sums without %d %d %d", info[0], info[1], info[6]);
}

static void sending(void)
{
	section("sending");
	int id = GET(IPC_PRIVATE, 0600);
	struct message m = { .kind = 1 };
	SHOW(syscall(SYS_msgsnd, id, NULL, 1, 0));
	SHOW(syscall(SYS_msgsnd, -1, NULL, -1L, 0));
	SHOW(syscall(SYS_msgsnd, id, &m, -1L, 0));
	SHOW(syscall(SYS_msgsnd, id, &m, 8193, 0));
	SHOW(syscall(SYS_msgsnd, -1, &m, 1, 0));
	SHOW(syscall(SYS_msgsnd, id + (1 << 15), &m, 1, 0));
	m.kind = 0;
	SHOW(syscall(SYS_msgsnd, id, &m, 1, 0));
	m.kind = -1;
	SHOW(syscall(SYS_msgsnd, id, &m, 1, 0));
	m.kind = LONG_MAX;
	SHOW(syscall(SYS_msgsnd, id, &m, 8192, 0));
	char *edge = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	munmap(edge + PAGE, PAGE);
	struct message *last = (void *)(edge + PAGE - 12);
	last->kind = 5;
	SHOW(syscall(SYS_msgsnd, id, last, 4, 0));
	SHOW(syscall(SYS_msgsnd, id, last, 5, 0));
	SHOW(syscall(SYS_msgsnd, id, edge + PAGE - 4, 0, 0));
	show("two", id);
	receive("too long", id, 10, LONG_MAX, 0);
	receive("cut off", id, 3, LONG_MAX, MSG_NOERROR);
	receive("last", id, 4, 0, 0);
	show("none", id);
	SHOW(send(id, 1, "lost", 0));
	SHOW(syscall(SYS_msgrcv, id, NULL, 10, 0, 0));
	show("lost", id);
	SHOW(send(id, 1, "lost", 0));
	SHOW(syscall(SYS_msgrcv, id, last, 5, 0, 0));
	SHOW(send(id, 1, "lost too", 0));
	SHOW(syscall(SYS_msgrcv, id, last, 8, 0, 0));
	SHOW(syscall(SYS_msgrcv, id, last, 8, 0, IPC_NOWAIT));
	CTL(id, IPC_RMID, NULL);
}

static void receiving(void)
{
	section("receiving");
	int id = GET(IPC_PRIVATE, 0600);
	SHOW(syscall(SYS_msgrcv, -1, NULL, 1, 0, 0));
	SHOW(syscall(SYS_msgrcv, id, NULL, -1L, 0L, 0));
	receive("empty", id, 1, 0, IPC_NOWAIT);
	receive("empty", id, 1, 3, IPC_NOWAIT);
	receive("empty", id, 1, -3, IPC_NOWAIT);
	receive("bad id", id + (1 << 15), 1, 0, IPC_NOWAIT);
	static const long kinds[] = { 3, 5, 2, 3, 9, 2, 1, 9 };
	for (int n = 0; n < 8; n++) {
		char text[4] = { (char)('a' + n), 0 };
		send(id, kinds[n], text, 0);
	}
	receive("copy 0", id, 9, 0, MSG_COPY | IPC_NOWAIT);
	receive("copy 4", id, 9, 4, MSG_COPY | IPC_NOWAIT);
	receive("copy 8", id, 9, 8, MSG_COPY | IPC_NOWAIT);
	receive("copy -1", id, 9, -1, MSG_COPY | IPC_NOWAIT);
	receive("copy and wait", id, 9, 0, MSG_COPY);
	receive("copy except", id, 9, 0, MSG_COPY | IPC_NOWAIT | MSG_EXCEPT);
	receive("copy short", id, 0, 0, MSG_COPY | IPC_NOWAIT);
	receive("copy short, cut off", id, 0, 0, MSG_COPY | IPC_NOWAIT | MSG_NOERROR);
	SHOW(syscall(SYS_msgrcv, id, NULL, 1, 0, MSG_COPY | IPC_NOWAIT));
	show("all there", id);
	receive("of kind 2", id, 9, 2, 0);
	receive("of kind 2, too long", id, 0, 2, 0);
	receive("of kind 4", id, 9, 4, IPC_NOWAIT);
	receive("any but 3", id, 9, 3, MSG_EXCEPT);
	receive("up to 2", id, 9, -2, 0);
	receive("up to 2", id, 9, -2, 0);
	receive("up to 2", id, 9, -2, IPC_NOWAIT);
	receive("up to all", id, 9, LONG_MIN, 0);
	receive("first", id, 9, 0, MSG_EXCEPT);
	receive("any but 9", id, 9, 9, MSG_EXCEPT | IPC_NOWAIT);
	receive("up to 9", id, 9, -9, 0);
	receive("any", id, 9, 0, 0);
	receive("empty", id, 9, 0, IPC_NOWAIT);
	show("empty", id);
	for (int n = 0; n < 3000; n++)
		send(id, 6, "", 0);
	send(id, 7, "behind", 0);
	receive("any but 6", id, 9, 6, MSG_EXCEPT);
	receive("any but 6", id, 9, 6, MSG_EXCEPT | IPC_NOWAIT);
	receive("copy 2999", id, 9, 2999, MSG_COPY | IPC_NOWAIT);
	receive("copy 3000", id, 9, 3000, MSG_COPY | IPC_NOWAIT);
	show("many", id);
	CTL(id, IPC_RMID, NULL);
}

static int shared;
static long sends(int id)
{
	return send(id, 1, "x", IPC_NOWAIT);
}
static long receives(int id)
{
	struct message m;
	return syscall(SYS_msgrcv, id, &m, 100, 0, IPC_NOWAIT);
}
static long copies(int id)
{
	struct message m;
	memset(&m, 0, sizeof m);
	return syscall(SYS_msgrcv, id, &m, 100, 0, IPC_NOWAIT | MSG_COPY);
}
static long stat_of(int id)
{
	struct msqid_ds ds;
	return CTL(id, IPC_STAT, &ds);
}
static long stat_any(int id)
{
	struct msqid_ds ds;
	return CTL(id & 0x7fff, MSG_STAT_ANY_, &ds) == shared;
}
static long removes(int id)
{
	return CTL(id, IPC_RMID, NULL);
}
static long sets(int id)
{
	struct msqid_ds ds = { .msg_perm = { .uid = 100, .gid = 100, .mode = 0777 }, .msg_qbytes = 100 };
	return CTL(id, IPC_SET, &ds);
}
static long sets_more(int id)
{
	struct msqid_ds ds = { .msg_perm = { .uid = 100, .gid = 100, .mode = 0777 }, .msg_qbytes = 16385 };
	return CTL(id, IPC_SET, &ds);
}

static void rights(void)
{
	section("rights");
	static const struct { const char *name; long (*f)(int); } calls[] = { { "send", sends }, { "receive", receives }, { "copy", copies }, { "stat", stat_of },
		{ "stat any", stat_any }, { "set more", sets_more }, { "set", sets }, { "remove", removes } };
	static const int modes[] = { 0600, 0004, 0006, 0002 };
	for (unsigned m = 0; m < 4; m++)
		for (unsigned owner = 0; owner < 200; owner += 100)
			for (unsigned c = 0; c < sizeof calls / sizeof *calls; c++) {
				shared = GET(IPC_PRIVATE, modes[m]);
				send(shared, 1, "y", 0);
				struct msqid_ds ds = { .msg_perm = { .uid = owner, .gid = owner, .mode = modes[m] }, .msg_qbytes = 16384 };
				CTL(shared, IPC_SET, &ds);
				long r = as_user(100, 100, calls[c].f, shared);
				say("mode %o, owner %u, %s: %ld %s", modes[m], owner, calls[c].name, r < 0 ? -1 : r, r < 0 ? error_name(errno) : "ok");
				CTL(shared, IPC_RMID, NULL);
			}
}

int main(void)
{
	remove_all();
	making();
	commands();
	sending();
	receiving();
	rights();
	return 0;
}
