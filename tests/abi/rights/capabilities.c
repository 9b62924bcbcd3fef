/* Capabilities: the sets, the calls that change them, and what changes of ids and exec make of them. (What each is asked for: required.c) */
#include "sets.h"

#include <grp.h>
#include <sys/mount.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/timerfd.h>

static void calls(void)
{
	section("capget and capset");
	struct data data[2];
	static const uint32_t versions[] = { V1, V2, V3 };
	for (int i = 0; i < 3; i++) {
		memset(data, 0xcc, sizeof data);
		SHOW(get(versions[i], 0, data));
		say("%x %x %x, %x %x %x", data[0].effective, data[0].permitted, data[0].inheritable, data[1].effective, data[1].permitted, data[1].inheritable);
	}
	struct header header = { 7, 0 };
	SHOW(syscall(SYS_capget, &header, 0));
	say("%x", header.version);
	header.version = 7;
	SHOW(syscall(SYS_capget, &header, data));
	say("%x", header.version);
	header.version = 7;
	SHOW(syscall(SYS_capset, &header, data));
	say("%x", header.version);
	SHOW(syscall(SYS_capget, 0, data));
	SHOW(syscall(SYS_capget, 0, 0));
	SHOW(syscall(SYS_capget, 1, 0));
	header = (struct header){ V3, 0 };
	SHOW(syscall(SYS_capget, &header, 0));
	header.pid = -1;
	SHOW(syscall(SYS_capget, &header, 0));
	SHOW(syscall(SYS_capget, &header, 8));
	SHOW(get(V3, -1, data));
	SHOW(get(V3, 4000000, data));
	SHOW(get(V3, 1, data));
	SHOW(get(V3, getpid(), data));
	SHOW(syscall(SYS_capset, 0, data));
	SHOW(syscall(SYS_capset, &header, data));
	header.pid = getppid();
	SHOW(syscall(SYS_capset, &header, data));
	SHOW(syscall(SYS_capset, &header, 8));
	header.pid = 0;
	SHOW(syscall(SYS_capset, &header, 8));
	header.pid = getpid();
	get(V3, 0, data);
	SHOW(syscall(SYS_capset, &header, data));

	section("rules of capset");
	show("first");
	SHOW(put(ALL, ALL, ALL));
	show("inheritable");
	SHOW(put(~0ull, ~0ull, ~0ull));
	show("more than there are");
	SHOW(put(BIT(CHOWN), BIT(KILL), 0));
	SHOW(put(BIT(SETPCAP), BIT(KILL) | BIT(SETPCAP), BIT(CHOWN)));
	show("fewer");
	SHOW(put(BIT(SETPCAP), ALL, 0));
	SHOW(put(0, BIT(KILL), BIT(KILL)));
	show("few");
	SHOW(put(0, BIT(KILL), BIT(KILL) | BIT(CHOWN)));
	SHOW(put(BIT(KILL), BIT(KILL), 0));
	SHOW(put(0, 0, BIT(KILL)));
	SHOW(put(0, BIT(KILL), BIT(KILL)));
	/* Version 1 speaks of the first 32 alone. */
	show("none");
}

static void version_1(void)
{
	struct header header = { V1, 0 };
	struct data data = { 0xffffffff, 0xffffffff, 0 };
	SHOW(syscall(SYS_capset, &header, &data));
	show("version 1");
}

static void bounding(void)
{
	section("bounding set");
	SHOW(prctl(PR_CAPBSET_READ, 0, 0, 0, 0));
	SHOW(prctl(PR_CAPBSET_READ, LAST, 9, 9, 9));
	SHOW(prctl(PR_CAPBSET_READ, LAST + 1, 0, 0, 0));
	SHOW(prctl(PR_CAPBSET_READ, -1, 0, 0, 0));
	SHOW(prctl(PR_CAPBSET_DROP, NET_RAW, 0, 0, 0));
	SHOW(prctl(PR_CAPBSET_READ, NET_RAW, 0, 0, 0));
	SHOW(prctl(PR_CAPBSET_DROP, LAST + 1, 0, 0, 0));
	show("dropped");
	SHOW(put(ALL, ALL, BIT(NET_RAW)));
	SHOW(put(ALL, ALL, BIT(CHOWN)));
	SHOW(put(ALL & ~BIT(SETPCAP), ALL, BIT(CHOWN)));
	SHOW(prctl(PR_CAPBSET_DROP, 1, 0, 0, 0));
	SHOW(prctl(PR_CAPBSET_DROP, LAST + 1, 0, 0, 0));
	SHOW(prctl(PR_CAPBSET_READ, 1, 0, 0, 0));
}

static void ambient(void)
{
	section("ambient set");
	enum { IS_SET = 1, RAISE, LOWER, CLEAR };
	SHOW(prctl(PR_CAP_AMBIENT, IS_SET, CHOWN, 0, 0));
	SHOW(prctl(PR_CAP_AMBIENT, RAISE, CHOWN, 0, 0));
	put(ALL, ALL, BIT(CHOWN) | BIT(KILL));
	SHOW(prctl(PR_CAP_AMBIENT, RAISE, CHOWN, 0, 0));
	SHOW(prctl(PR_CAP_AMBIENT, RAISE, KILL, 0, 0));
	SHOW(prctl(PR_CAP_AMBIENT, IS_SET, CHOWN, 0, 0));
	SHOW(prctl(PR_CAP_AMBIENT, IS_SET, LAST + 1, 0, 0));
	SHOW(prctl(PR_CAP_AMBIENT, IS_SET, CHOWN, 1, 0));
	SHOW(prctl(PR_CAP_AMBIENT, IS_SET, CHOWN, 0, 1));
	SHOW(prctl(PR_CAP_AMBIENT, 0, CHOWN, 0, 0));
	SHOW(prctl(PR_CAP_AMBIENT, 5, CHOWN, 0, 0));
	SHOW(prctl(PR_CAP_AMBIENT, 5, LAST + 1, 0, 0));
	show("raised");
	SHOW(prctl(PR_CAP_AMBIENT, LOWER, KILL, 0, 0));
	show("lowered");
	SHOW(prctl(PR_CAP_AMBIENT, CLEAR, 1, 0, 0));
	SHOW(prctl(PR_CAP_AMBIENT, CLEAR, 0, 1, 0));
	SHOW(prctl(PR_CAP_AMBIENT, CLEAR, 0, 0, 0));
	show("cleared");
	prctl(PR_CAP_AMBIENT, RAISE, CHOWN, 0, 0);
	prctl(PR_CAP_AMBIENT, RAISE, KILL, 0, 0);
	put(ALL, ALL, BIT(KILL));
	show("less inheritable");
	put(ALL & ~BIT(KILL), ALL & ~BIT(KILL), BIT(KILL));
	show("less permitted");
	SHOW(prctl(PR_SET_SECUREBITS, 0x40, 0, 0, 0));
	put(ALL & ~BIT(KILL), ALL & ~BIT(KILL), BIT(CHOWN));
	SHOW(prctl(PR_CAP_AMBIENT, RAISE, CHOWN, 0, 0));
}

static void bits(void)
{
	section("secure bits");
	SHOW(prctl(PR_GET_SECUREBITS, 5, 5, 5, 5));
	for (int bit = 0; bit < 13; bit++) {
		long result = prctl(PR_SET_SECUREBITS, 1 << bit, 0, 0, 0);
		if (bit % 2 == 1 && bit < 8)
			continue; /* a lock: below, in a child */
		say("bit %d: %ld %s, now %#x", bit, result, result < 0 ? error_name(errno) : "", prctl(PR_GET_SECUREBITS, 0, 0, 0, 0));
	}
}

static void locks(void)
{
	for (int bit = 1; bit < 8; bit += 2) {
		pid_t pid = must_fork();
		if (pid == 0) {
			int lock = 1 << bit, base = 1 << (bit - 1);
			say("lock %d: %d %d %d %d %d, %#x", bit, prctl(PR_SET_SECUREBITS, lock), prctl(PR_SET_SECUREBITS, 0), prctl(PR_SET_SECUREBITS, base),
			    prctl(PR_SET_SECUREBITS, lock | base), prctl(PR_SET_SECUREBITS, BITS_ALL & ~base), prctl(PR_GET_SECUREBITS));
			say("keep: %d %d", prctl(PR_SET_KEEPCAPS, 1), prctl(PR_GET_KEEPCAPS));
			put(0, ALL, 0);
			say("without the right: %d", prctl(PR_SET_SECUREBITS, prctl(PR_GET_SECUREBITS)));
			_exit(0);
		}
		wait_for(pid);
	}
	SHOW(prctl(PR_SET_KEEPCAPS, 2, 0, 0, 0));
	SHOW(prctl(PR_SET_KEEPCAPS, 1, 7, 7, 7));
	SHOW(prctl(PR_GET_KEEPCAPS, 0, 0, 0, 0));
	SHOW(prctl(PR_GET_SECUREBITS, 0, 0, 0, 0));
	SHOW(prctl(PR_SET_KEEPCAPS, 0, 0, 0, 0));
	SHOW(prctl(PR_GET_SECUREBITS, 0, 0, 0, 0));
}

struct body {
	const char *what;
	void (*run)(void);
};

static void each(const char *what, int bits_first, void (*body)(void))
{
	pid_t pid = must_fork();
	if (pid == 0) {
		say("-- %s, bits %#x", what, bits_first);
		prctl(PR_SET_SECUREBITS, bits_first);
		put(ALL, ALL, BIT(KILL) | BIT(CHOWN));
		prctl(PR_CAP_AMBIENT, 2, KILL, 0, 0);
		body();
		_exit(0);
	}
	wait_for(pid);
}

#define DO(call) (call, show(#call))
static void setuid_down(void) { DO(setuid(1000)); say("%s", setuid(0) ? error_name(errno) : "back"); }
static void seteuid_down(void) { DO(setresuid(-1, 1000, -1)); DO(setresuid(-1, 0, -1)); }
static void setreuid_down(void) { DO(setreuid(1000, 0)); DO(setreuid(-1, 1000)); DO(setreuid(-1, 0)); DO(setreuid(0, 1000)); }
static void real_stays(void) { DO(setresuid(0, 1000, 1000)); DO(setresuid(1000, 1000, 1000)); }
static void saved_stays(void) { DO(setresuid(1000, 1000, 0)); DO(setresuid(-1, 0, -1)); }
static void from_user(void) { prctl(PR_SET_KEEPCAPS, 1); DO(setresuid(1000, 1000, 1000)); DO(put(BIT(7), ALL, 0)); DO(setresuid(0, 0, 0)); }
static void files_id(void) { DO(syscall(SYS_setfsuid, 1000)); DO(syscall(SYS_setfsuid, 0)); DO(syscall(SYS_setfsuid, 1000)); DO(setresuid(-1, -1, -1)); DO(setresuid(-1, 0, -1)); }
static void groups(void) { DO(setresgid(5, 6, 7)); DO(setgid(9)); DO(syscall(SYS_setfsgid, 5)); }

/* Each of `bodies` with each of `firsts`. */
static void all(const struct body *bodies, size_t count, const int *firsts, size_t bits)
{
	for (size_t i = 0; i < bits; i++)
		for (size_t n = 0; n < count; n++)
			each(bodies[n].what, firsts[i], bodies[n].run);
}
#define LENGTH(array) (sizeof(array) / sizeof *(array))

static void transitions(void)
{
	section("changes of ids");
	static const int firsts[] = { 0, 0x10, 0x04, 0x01 };
	static const struct body bodies[] = {
		{ "setuid", setuid_down }, { "effective id", seteuid_down }, { "setreuid", setreuid_down }, { "the real id stays 0", real_stays },
		{ "the saved id stays 0", saved_stays }, { "to user 0", from_user }, { "setfsuid", files_id }, { "groups", groups },
	};
	all(bodies, LENGTH(bodies), firsts, LENGTH(firsts));
}

static void again(void)
{
	execl("/proc/self/exe", "again", (char *)0);
	say("no exec: %s", error_name(errno));
}

static void keep_and_exec(void) { prctl(PR_SET_KEEPCAPS, 1); setresuid(1000, 1000, 1000); again(); }
static void ambient_exec(void)
{
	prctl(PR_SET_KEEPCAPS, 1);
	setresuid(1000, 1000, 1000);
	put(ALL, ALL, BIT(CHOWN) | BIT(KILL));
	prctl(PR_CAP_AMBIENT, 2, CHOWN, 0, 0);
	show("before");
	again();
}
static void real_root(void) { setresuid(0, 1000, 1000); again(); }
static void effective_root(void) { setresuid(1000, 0, 1000); again(); }
static void saved_root(void) { setresuid(1000, 1000, 0); again(); }
static void bounded(void) { prctl(PR_CAPBSET_DROP, CHOWN); put(ALL, ALL, BIT(CHOWN)); prctl(PR_CAPBSET_DROP, NET_RAW); again(); }
static void lowered(void) { put(0, 0, 0); again(); }
static void no_new(void) { prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); put(BIT(KILL), BIT(KILL), BIT(KILL)); again(); }
static void no_new_ambient(void) { prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); setresuid(0, 1000, 0); again(); }

static void at_exec(void)
{
	section("exec");
	static const int firsts[] = { 0, 0x01, 0x04, 0x05, 0x10 };
	static const struct body bodies[] = {
		{ "as it is", again }, { "user with kept", keep_and_exec }, { "user with ambient", ambient_exec }, { "real 0", real_root },
		{ "effective 0", effective_root }, { "saved 0", saved_root }, { "bounded", bounded }, { "lowered", lowered },
		{ "no new privileges, lowered", no_new }, { "no new privileges, real 0", no_new_ambient },
	};
	all(bodies, LENGTH(bodies), firsts, LENGTH(firsts));
}

static void child(void (*body)(void))
{
	pid_t pid = must_fork();
	if (pid == 0) {
		body();
		_exit(0);
	}
	wait_for(pid);
}

static void *in_thread(void *unused)
{
	(void)unused;
	show("a thread begins");
	put(BIT(KILL), BIT(KILL), 0);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	show("a thread has given up");
	return 0;
}

static void threads(void)
{
	section("threads");
	pthread_t thread;
	put(ALL, ALL, BIT(KILL));
	pthread_create(&thread, 0, in_thread, 0);
	pthread_join(thread, 0);
	show("the first thread");
}

int main(int argc, char **argv)
{
	(void)argc;
	setvbuf(stdout, 0, _IONBF, 0);
	if (strcmp(argv[0], "again") == 0) {
		show("after exec");
		SHOW(prctl(PR_GET_SECUREBITS));
		SHOW(prctl(PR_GET_DUMPABLE));
		return 0;
	}
	child(calls);
	child(version_1);
	child(bounding);
	child(ambient);
	child(bits);
	child(locks);
	transitions();
	at_exec();
	child(threads);
	return 0;
}
