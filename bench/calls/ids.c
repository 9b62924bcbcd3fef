/* Who a process is and what it may: identities, limits, names of the machine, settings of prctl. */
#include "calls.h"

static long op_umask(struct work *w)
{
	ok(w, syscall(SYS_umask, 022));
	return ok(w, syscall(SYS_umask, 077));
}

static void s_groups(struct work *w)
{
	*(uint32_t *)w->buf = 7;
}

/* The workers stay on their CPUs: so nothing may bound what is promised. */
static void s_unbound(struct work *w)
{
	int fd = open("/proc/sys/kernel/sched_rt_runtime_us", O_WRONLY);
	ok(w, fd);
	ok(w, write(fd, "-1", 2));
	close(fd);
	uint32_t *attr = (uint32_t *)(w->buf + C_DEADLINE);
	uint64_t *times = (uint64_t *)(w->buf + C_DEADLINE + 24);
	attr[0] = 48;
	attr[1] = 6;
	times[0] = 50000000;
	times[1] = times[2] = 100000000;
}

static long op_deadline(struct work *w)
{
	ok(w, syscall(SYS_sched_setattr, 0, w->buf + C_DEADLINE, 0));
	return ok(w, syscall(SYS_sched_setattr, 0, w->buf + C_ATTR, 0));
}

static long op_none(struct work *w)
{
	(void)w;
	/* No kernel has given it to a call; Linux has given 335, which lies in a hole, to one that kills. */
	syscall(400);
	return 0;
}

/* The page begins with a struct sock_fprog; its program lies in `code`, and allows every call with its last instruction. */
static void set_filter(struct work *w, uint64_t *code, uint64_t len)
{
	uint64_t *program = (uint64_t *)w->buf;
	program[0] = len;
	program[1] = (uint64_t)code;
	code[len - 1] = 0x7fff000000000006;
}

static void s_filtered(struct work *w)
{
	set_filter(w, (uint64_t *)(w->buf + 64), 1);
	ok(w, syscall(SYS_seccomp, 1, 0, w->buf));
}

/* It has no end. */
static void s_bad_filter(struct work *w)
{
	set_filter(w, (uint64_t *)(w->buf + 64), 1);
	memset(w->buf + 64, 0, 8);
}

/* As many filters of a page as there is room for: each jumps to its end at once. */
static void s_full_of_filters(struct work *w)
{
	enum { COUNT = 512 };
	uint64_t *code = mmap(0, COUNT * 8, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ok(w, (long)code);
	code[0] = ((uint64_t)(COUNT - 2) << 32) | 5;
	set_filter(w, code, COUNT);
	while (syscall(SYS_seccomp, 1, 0, w->buf) == 0) {}
}

static long op_allowed(struct work *w)
{
	return ok(w, syscall(SYS_getppid));
}

const struct kase ids[] = {
	OP("absent", none, PT, 0, op_none),
	RAW("getpid", getpid, PT, 0, 0),
	RAW("getppid", getppid, PT, 0, 0),
	RAW("gettid", gettid, PT, 0, 0),
	RAW("getuid", getuid, PT, 0, 0),
	RAW("geteuid", geteuid, PT, 0, 0),
	RAW("getgid", getgid, PT, 0, 0),
	RAW("getegid", getegid, PT, 0, 0),
	RAW("getpgrp", getpgrp, PT, 0, 0),
	RAW("getpgid", getpgid, PT, 0, 0),
	RAW("getpgid-parent", getpgid, PTO, 0, PPID),
	RAW("getsid", getsid, PT, 0, 0),
	RAW("getsid-parent", getsid, PTO, 0, PPID),
	RAW("setpgid", setpgid, PT, 0, 0, 0),
	RAW("setpgid-child", setpgid, P, s_child, CHILD, CHILD),
	RAW("getresuid", getresuid, PT, 0, BUF(0), BUF(4), BUF(8)),
	RAW("getresgid", getresgid, PT, 0, BUF(0), BUF(4), BUF(8)),
	RAW("getgroups", getgroups, PT, 0, 0, 0),
	RAW("getgroups-list", getgroups, PT, 0, 64, BUF(0)),
	RAW("setgroups", setgroups, PT, s_groups, 1, BUF(0)),
	RAW("setuid", setuid, PT, 0, 0),
	RAW("setgid", setgid, PT, 0, 0),
	RAW("setreuid", setreuid, PT, 0, 0, 0),
	RAW("setregid", setregid, PT, 0, 0, 0),
	RAW("setresuid", setresuid, PT, 0, -1, 0, -1),
	RAW("setresgid", setresgid, PT, 0, -1, 0, -1),
	RAW("setfsuid", setfsuid, PT, 0, 0),
	RAW("setfsgid", setfsgid, PT, 0, 0),
	OP("umask", umask, PT, 0, op_umask),
	RAW("capget", capget, PT, 0, BUF(C_CAPS), BUF(0)),
	RAW("capset", capset, PT, 0, BUF(C_CAPS), BUF(C_CAPDATA)),
	RAW("uname", uname, PT, 0, BUF(0)),
	RAW("sysinfo", sysinfo, PT, 0, BUF(0)),
	RAW("sethostname", sethostname, PT, 0, TEXT("name"), 4),
	RAW("setdomainname", setdomainname, PT, 0, TEXT("name"), 4),
	RAW("syslog-size", syslog, PT, 0, 10, 0, 0),
	RAW("syslog-read-all", syslog, PT, 0, 3, BUF(0), 64),
	RAW("getrlimit", getrlimit, PT, 0, 7, BUF(0)),
	RAW("setrlimit", setrlimit, PT, 0, 7, BUF(C_RLIMIT)),
	RAW("prlimit64-get", prlimit64, PT, 0, 0, 7, 0, BUF(0)),
	RAW("prlimit64-set", prlimit64, PT, 0, 0, 7, BUF(C_RLIMIT), 0),
	RAW("prlimit64-parent", prlimit64, PTO, 0, PPID, 7, 0, BUF(0)),
	RAW("getrandom", getrandom, PT, 0, BUF(0), 32, 0),
	RAW("getrandom-random", getrandom, PT, 0, BUF(0), 32, 2),
	RAW("personality", personality, PT, 0, 0xffffffff),
	RAW("personality-set", personality, PT, 0, 0),
	RAW("arch_prctl-get-fs", arch_prctl, PT, 0, 0x1003, BUF(0)),
	RAW("arch_prctl-get-gs", arch_prctl, PT, 0, 0x1004, BUF(0)),
	RAW("arch_prctl-set-gs", arch_prctl, PT, 0, 0x1001, 0),
	RAW("arch_prctl-get-cpuid", arch_prctl, PT, 0, 0x1011),
	RAW("set_robust_list", set_robust_list, PT, 0, BUF(C_ROBUST), 24),
	RAW("get_robust_list", get_robust_list, PT, 0, 0, BUF(0), BUF(8)),
	RAW("set_tid_address", set_tid_address, P, 0, BUF(0)),
	FAILS("rseq-unregister", rseq, PT, 0, ANY, BUF(0), 32, 1, 0x53053053),
	FAILS("membarrier-query", membarrier, PT, 0, ANY, 0, 0, 0),
	FAILS("membarrier-global", membarrier, PT, 0, ANY, 1, 0, 0),
	FAILS("membarrier-global-expedited", membarrier, PT, 0, ANY, 2, 0, 0),
	FAILS("membarrier-register-global", membarrier, PT, 0, ANY, 4, 0, 0),
	FAILS("membarrier-private-unregistered", membarrier, PT, 0, ANY, 8, 0, 0),
	FAILS("membarrier-register-private", membarrier, PT, 0, ANY, 16, 0, 0),
	RAW("prctl-get-pdeathsig", prctl, PT, 0, 2, BUF(0)),
	RAW("prctl-set-pdeathsig", prctl, PT, 0, 1, 0),
	RAW("prctl-get-dumpable", prctl, PT, 0, 3),
	RAW("prctl-set-dumpable", prctl, PT, 0, 4, 1),
	RAW("prctl-get-keepcaps", prctl, PT, 0, 7),
	RAW("prctl-set-keepcaps", prctl, PT, 0, 8, 0),
	RAW("prctl-get-timing", prctl, PT, 0, 13),
	RAW("prctl-set-name", prctl, PT, 0, 15, TEXT("name")),
	RAW("prctl-get-name", prctl, PT, 0, 16, BUF(0)),
	RAW("prctl-get-seccomp", prctl, PT, 0, 21),
	RAW("prctl-capbset-read", prctl, PT, 0, 23, 1),
	RAW("prctl-get-tsc", prctl, PT, 0, 25, BUF(0)),
	RAW("prctl-set-tsc", prctl, PT, 0, 26, 1),
	RAW("prctl-get-securebits", prctl, PT, 0, 27),
	RAW("prctl-set-securebits", prctl, PT, 0, 28, 0),
	RAW("prctl-set-timerslack", prctl, PT, 0, 29, 50000),
	RAW("prctl-get-timerslack", prctl, PT, 0, 30),
	FAILS("prctl-mce-kill-get", prctl, PT, 0, ANY, 34, 0, 0, 0, 0),
	RAW("prctl-set-subreaper", prctl, PT, 0, 36, 0),
	RAW("prctl-get-subreaper", prctl, PT, 0, 37, BUF(0)),
	RAW("prctl-get-no-new-privs", prctl, PT, 0, 39, 0, 0, 0, 0),
	FAILS("prctl-get-tid-address", prctl, PT, 0, ANY, 40, BUF(0)),
	RAW("prctl-set-thp-disable", prctl, PT, 0, 41, 0, 0, 0, 0),
	RAW("prctl-get-thp-disable", prctl, PT, 0, 42, 0, 0, 0, 0),
	FAILS("prctl-cap-ambient", prctl, PT, 0, ANY, 47, 4, 0, 0, 0),
	FAILS("prctl-get-io-flusher", prctl, PT, 0, ANY, 58, 0, 0, 0, 0),
	FAILS("prctl-get-mdwe", prctl, PT, 0, ANY, 66, 0, 0, 0, 0),
	OP("seccomp-allowed", seccomp, PT, s_filtered, op_allowed),
	FAILS("seccomp-bad", seccomp, PT, s_bad_filter, EINVAL, 1, 0, BUF(0)),
	FAILS("seccomp-full", seccomp, PT, s_full_of_filters, ENOMEM, 1, 0, BUF(0)),
	RAW("seccomp-action", seccomp, PT, 0, 2, 0, BUF(0)),
	RAW("getpriority", getpriority, PT, 0, 0, 0),
	RAW("getpriority-group", getpriority, PT, 0, 1, 0),
	RAW("getpriority-user", getpriority, PT, 0, 2, 0),
	RAW("ioprio_get", ioprio_get, PT, 0, 1, 0),
	RAW("ioprio_get-own", ioprio_get, PT, 0, 1, TID),
	RAW("ioprio_set", ioprio_set, PT, 0, 1, 0, 0x4004),
	RAW("unshare", unshare, PT, 0, 0x400 | 0x200),
	RAW("unshare-files", unshare, P, 0, 0x400),
	RAW("unshare-fs", unshare, P, 0, 0x200),
	RAW("getpriority-parent", getpriority, PTO, 0, 0, PPID),
	RAW("setpriority", setpriority, PT, 0, 0, 0, 0),
	RAW("setpriority-group", setpriority, PT, 0, 1, 0, 0),
	RAW("sched_yield", sched_yield, PT, 0, 0),
	RAW("sched_getparam", sched_getparam, PT, 0, 0, BUF(0)),
	RAW("sched_setparam", sched_setparam, PT, 0, 0, BUF(C_PARAM)),
	RAW("sched_getscheduler", sched_getscheduler, PT, 0, 0),
	RAW("sched_setscheduler", sched_setscheduler, PT, 0, 0, 0, BUF(C_PARAM)),
	RAW("sched_setscheduler-batch", sched_setscheduler, PT, 0, 0, 3, BUF(C_PARAM)),
	RAW("sched_get_priority_max", sched_get_priority_max, PT, 0, 1),
	RAW("sched_get_priority_min", sched_get_priority_min, PT, 0, 1),
	RAW("sched_rr_get_interval", sched_rr_get_interval, PT, 0, 0, BUF(0)),
	RAW("sched_getattr", sched_getattr, PT, 0, 0, BUF(0), 48, 0),
	RAW("sched_setattr", sched_setattr, PT, 0, 0, BUF(C_ATTR), 0),
	OP("sched_setattr-deadline", sched_setattr, PT, s_unbound, op_deadline),
	RAW("sched_getaffinity", sched_getaffinity, PT, 0, 0, 128, BUF(0)),
	RAW("sched_getaffinity-parent", sched_getaffinity, PTO, 0, PPID, 128, BUF(0)),
	RAW("getcpu", getcpu, PT, 0, BUF(0), BUF(4), 0),
	RAW("getrusage-self", getrusage, PT, 0, 0, BUF(0)),
	RAW("getrusage-thread", getrusage, PT, 0, 1, BUF(0)),
	RAW("getrusage-children", getrusage, PT, 0, -1, BUF(0)),
	RAW("times", times, PT, 0, BUF(0)),
	FAILS("reboot-refused", reboot, PT, 0, EINVAL, 1, 2, 3, 0),
	END
};
