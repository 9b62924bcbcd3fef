/* Calls that a filter leaves to who listens (seccomp_unotify(2)): told, answered, given descriptors, interrupted, and left alone. */
#include "seccomp.h"

#include <poll.h>
#include <sys/ioctl.h>

enum { NEW_LISTENER = 8, WAIT_KILLABLE_RECV = 32 };
#define RECV 0xc0502100ul
#define SEND 0xc0182101ul
#define ID_VALID 0x40082102ul
#define ADDFD 0x40182103ul
#define SET_FLAGS 0x40082104ul

struct notice { uint64_t id; uint32_t pid, flags; struct seccomp_data data; };
struct answer { uint64_t id; int64_t val; int32_t error; uint32_t flags; };
struct gift { uint64_t id; uint32_t flags, srcfd, newfd, newfd_flags; };

static struct shared { volatile int fd, go, handled, said; } *shared;
static pid_t child;
static int listener;

static long call(void)
{
	errno = 0;
	return syscall(NOWHERE, 1, 2, 3, 4, 5, 6);
}

static void say_call(const char *what)
{
	long got = call();
	say("  %s: %ld %s", what, got, got < 0 ? error_name(errno) : "");
	shared->said++;
}

/* Until the child has said what became of its call. */
static void until_said(int before)
{
	for (int i = 0; i < 5000 && shared->said == before; i++)
		usleep(1000);
}

/* A child with a filter whose listener this process has alone. */
static void begin(const char *name, void (*body)(void), int flags)
{
	section(name);
	shared->fd = shared->go = shared->handled = 0;
	child = must_fork();
	if (child == 0) {
		no_privileges();
		shared->fd = refuse(NOWHERE, SECCOMP_RET_USER_NOTIF, NEW_LISTENER | flags);
		while (!shared->go)
			usleep(1000);
		close(shared->fd);
		body();
		_exit(0);
	}
	while (!shared->fd)
		usleep(1000);
	int pidfd = syscall(SYS_pidfd_open, child, 0);
	listener = syscall(438, pidfd, shared->fd, 0);
	close(pidfd);
	if (listener < 0)
		say("no listener: %s", error_name(errno));
	shared->go = 1;
}

static void end(void)
{
	int status = 0;
	waitpid(child, &status, 0);
	say("ends: %s", status_text(status));
	close(listener);
}

static int ready(int wait_ms)
{
	struct pollfd one = { .fd = listener, .events = POLLIN | POLLOUT };
	poll(&one, 1, wait_ms);
	return one.revents;
}

static struct notice hear(void)
{
	struct notice notice;
	memset(&notice, 0, sizeof notice);
	if (ioctl(listener, RECV, &notice))
		say("not told: %s", error_name(errno));
	return notice;
}

static long reply(uint64_t id, int64_t val, int32_t error, uint32_t flags)
{
	struct answer answer = { id, val, error, flags };
	int before = shared->said;
	long done = ioctl(listener, SEND, &answer), error_was = errno;
	if (!done)
		until_said(before);
	errno = error_was;
	return done;
}

static void answered_body(void)
{
	say_call("a value");
	say_call("an error");
	say_call("made");
	say("  an allowed one: %d", getppid() > 0);
}

static void answered(void)
{
	begin("answered", answered_body, 0);
	say("ready %x", ready(5000));
	struct notice notice = hear();
	say("of it %d, flags %u, call %d, machine %x, arguments %lu to %lu", notice.pid == (uint32_t)child, notice.flags, notice.data.nr, notice.data.arch,
	    notice.data.args[0], notice.data.args[5]);
	say("ready %x", ready(0));
	SHOW(ioctl(listener, ID_VALID, &notice.id));
	uint64_t other = notice.id + 1;
	SHOW(ioctl(listener, ID_VALID, &other));
	SHOW(reply(notice.id, 1, 0, 2));
	SHOW(reply(notice.id, 1, 0, 1));
	SHOW(reply(notice.id, 0, 1, 1));
	SHOW(reply(other, 1, 0, 0));
	SHOW(ioctl(listener, SEND, 8));
	SHOW(reply(notice.id, 4711, 0, 0));
	notice = hear();
	SHOW(reply(notice.id, 5, -ENOTDIR, 0));
	notice = hear();
	SHOW(reply(notice.id, 0, 0, 1));
	end();
}

static void refused_body(void)
{
	say_call("it");
}

static void refused(void)
{
	begin("refused", refused_body, 0);
	say("ready %x", ready(5000));
	struct notice notice;
	memset(&notice, 1, sizeof notice);
	SHOW(ioctl(listener, RECV, &notice));
	SHOW(ioctl(listener, RECV, 8));
	SHOW(ioctl(listener, SET_FLAGS, 2ul));
	SHOW(ioctl(listener, SET_FLAGS, 1ul));
	SHOW(ioctl(listener, SET_FLAGS, 0ul));
	SHOW(ioctl(listener, 0x2105, 0));
	SHOW(ioctl(listener, FIONREAD, &notice));
	char byte;
	SHOW(read(listener, &byte, 1));
	SHOW(write(listener, &byte, 1));
	SHOW(lseek(listener, 0, SEEK_CUR));
	void *readonly = mmap(0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	SHOW(ioctl(listener, RECV, readonly));
	say("ready again %x", ready(0));
	char path[64], name[64] = "";
	snprintf(path, sizeof path, "/proc/self/fd/%d", listener);
	readlink(path, name, sizeof name - 1);
	say("%s", name);
	notice = hear();
	SHOW(reply(notice.id, 0, 0, 0));
	/* It may be asked for before it has gone, and is answered once. */
	end();
	listener = -1;
}

static void given_body(void)
{
	long got = call();
	say("  descriptor %s", got > 2 ? "there" : error_name(errno));
	char text[8] = "";
	say("  reads %ld, closes on exec %d", (long)pread(got, text, 3, 0), fcntl(got, F_GETFD));
	shared->said++;
	got = call();
	say("  the second: %s; at 77: %ld, closes on exec %d", error_name(errno), (long)pread(77, text, 3, 0), fcntl(77, F_GETFD));
	shared->said++;
	say_call("the third");
}

static void given(void)
{
	int fd = memfd_create("given", 0);
	write(fd, "abc", 3);
	begin("given", given_body, 0);
	struct notice notice = hear();
	struct gift gift = { notice.id, 0, fd, 0, 0 };
#define WITH(field, value) ({ struct gift one = gift; one.field = value; ioctl(listener, ADDFD, &one); })
	SHOW(WITH(flags, 4));
	SHOW(WITH(newfd, 5));
	SHOW(WITH(newfd_flags, 1));
	SHOW(WITH(srcfd, 9999));
	SHOW(WITH(id, notice.id + 1));
	SHOW(ioctl(listener, ADDFD - (1 << 16), &gift));
	SHOW(ioctl(listener, ADDFD, 8));
	struct { struct gift gift; uint64_t more; } longer = { gift, 1 };
	SHOW(ioctl(listener, ADDFD + (8 << 16), &longer));
	gift.newfd_flags = O_CLOEXEC;
	long at = ioctl(listener, ADDFD, &gift);
	say("given: %d", at > 2);
	SHOW(reply(notice.id, at, 0, 0));
	notice = hear();
	gift = (struct gift){ notice.id, 1, fd, 77, 0 };
	SHOW(ioctl(listener, ADDFD, &gift));
	gift.newfd = 1 << 30;
	SHOW(ioctl(listener, ADDFD, &gift));
	SHOW(reply(notice.id, 0, -EDOM, 0));
	notice = hear();
	gift = (struct gift){ notice.id, 3, fd, 78, 0 };
	int before = shared->said;
	long done = ioctl(listener, ADDFD, &gift);
	until_said(before);
	say("given and answered: %ld", done);
	say("answered by it: %s", reply(notice.id, 0, 0, 0) ? "yes" : "no");
	end();
	close(fd);
}

static void handler(int signal)
{
	(void)signal;
	shared->handled++;
}

static void interrupted_body(void)
{
	struct sigaction action = { .sa_handler = handler };
	sigaction(SIGUSR1, &action, 0);
	action.sa_flags = SA_RESTART;
	sigaction(SIGUSR2, &action, 0);
	say_call("without restart");
	say_call("with it");
}

static void interrupted(void)
{
	begin("interrupted", interrupted_body, 0);
	struct notice notice = hear();
	kill(child, SIGUSR1);
	struct notice next = hear();
	say("another: %d, the first is %s", next.id != notice.id, reply(notice.id, 0, 0, 0) ? error_name(errno) : "there");
	kill(child, SIGUSR2);
	struct notice again = hear();
	say("another: %d, handled %d", again.id != next.id, shared->handled);
	SHOW(reply(again.id, 8, 0, 0));
	end();

	begin("by a fatal signal alone", interrupted_body, WAIT_KILLABLE_RECV);
	notice = hear();
	kill(child, SIGUSR1);
	usleep(50000);
	say("handled %d", shared->handled);
	SHOW(ioctl(listener, ID_VALID, &notice.id));
	SHOW(reply(notice.id, 9, 0, 0));
	notice = hear();
	say("handled %d", shared->handled);
	kill(child, SIGKILL);
	end();
}

static void closed(void)
{
	begin("closed", interrupted_body, 0);
	struct notice notice = hear();
	say("told: %d", notice.id != 0);
	close(listener);
	end();
	begin("closed unheard", interrupted_body, 0);
	say("ready %x", ready(5000));
	close(listener);
	end();
}

static void quick(void)
{
}

static void lonely(void)
{
	begin("lonely", quick, 0);
	int status;
	waitpid(child, &status, 0);
	/* Who has just gone may be seen a moment. */
	for (int i = 0; i < 200 && !(ready(10) & POLLHUP); i++)
		;
	say("ready %x", ready(0));
	struct notice notice;
	memset(&notice, 0, sizeof notice);
	SHOW(ioctl(listener, RECV, &notice));
	close(listener);
}

static void flags_body(void)
{
	no_privileges();
	SHOW(refuse(NOWHERE, SECCOMP_RET_USER_NOTIF, WAIT_KILLABLE_RECV));
	SHOW(refuse(NOWHERE, SECCOMP_RET_USER_NOTIF, NEW_LISTENER | SECCOMP_FILTER_FLAG_TSYNC));
	SHOW(refuse(NOWHERE, SECCOMP_RET_USER_NOTIF, 0));
	say_call("nobody listens");
	long fd = refuse(NOWHERE, SECCOMP_RET_USER_NOTIF, NEW_LISTENER | SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_TSYNC_ESRCH);
	say("listens: %d, closes on exec %d", fd > 2, fcntl(fd, F_GETFD));
	SHOW(refuse(NOWHERE, SECCOMP_RET_USER_NOTIF, NEW_LISTENER));
	SHOW(refuse(NOWHERE + 1, SECCOMP_RET_ALLOW, 0));
	close(fd);
	fd = refuse(NOWHERE, SECCOMP_RET_USER_NOTIF, NEW_LISTENER);
	say("listens anew: %d", fd > 2);
	close(fd);
	say_call("it has gone");
}

int main(void)
{
	shared = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	answered();
	refused();
	given();
	interrupted();
	closed();
	lonely();
	section("flags");
	child = must_fork();
	if (child == 0) {
		flags_body();
		_exit(0);
	}
	wait_for(child);
	return 0;
}
