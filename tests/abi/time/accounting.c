/* What is told of processor time and of tasks: /proc/stat, loadavg, uptime, schedstat, /proc/PID/{stat, status, schedstat, sched}, sysinfo. */
#include "t.h"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>

static char text[1 << 16];

static char *file(const char *path)
{
	int fd = open(path, O_RDONLY);
	long n = 0, got;
	while (fd >= 0 && n < (long)sizeof text - 1 && (got = read(fd, text + n, sizeof text - 1 - n)) > 0)
		n += got;
	close(fd);
	text[n] = 0;
	return text;
}

/* The number behind `name` at the start of a line; -1: there is none. */
static long long after(const char *path, const char *name)
{
	for (char *line = file(path); line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (!strncmp(line, name, strlen(name)) && strspn(line + strlen(name), " \t:"))
			return atoll(line + strlen(name) + strspn(line + strlen(name), " \t:"));
	}
	return -1;
}

enum { USER, NICE, SYSTEM, IDLE, IOWAIT, IRQ, SOFTIRQ, STEAL, GUEST, GUEST_NICE, COLUMNS };

static void cpu_row(const char *name, long long *row)
{
	for (char *line = file("/proc/stat"); line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, name, strlen(name)) || line[strlen(name)] != ' ')
			continue;
		char *at = line + strlen(name);
		for (int i = 0; i < COLUMNS; i++)
			row[i] = strtoll(at, &at, 10);
	}
}

static long own_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void burn(long ms)
{
	for (long end = own_ms() + ms; own_ms() < end;)
		for (volatile int i = 0; i < 10000; i++)
			;
}

static void on_cpu(int cpu)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof set, &set);
}

static void stat_columns(void)
{
	section("/proc/stat");
	long long before[COLUMNS], now[COLUMNS], fields = 0, rows = 0;
	for (char *line = file("/proc/stat"); line && !strncmp(line, "cpu", 3); line = strchr(line, '\n') + 1, rows++)
		for (char *c = line; *c != '\n'; c++)
			fields += *c == ' ' && c[1] != ' ';
	CHECK(fields == rows * COLUMNS);
	CHECK(rows == sysconf(_SC_NPROCESSORS_ONLN) + 1);
	on_cpu(0);
	cpu_row("cpu0", before);
	burn(300);
	cpu_row("cpu0", now);
	CHECK(now[USER] + now[SYSTEM] - before[USER] - before[SYSTEM] >= 20);
	cpu_row("cpu0", before);
	pid_t child = must_fork();
	if (child == 0) {
		setpriority(PRIO_PROCESS, 0, 5);
		burn(300);
		_exit(0);
	}
	waitpid(child, 0, 0);
	cpu_row("cpu0", now);
	CHECK(now[NICE] - before[NICE] >= 15);
	cpu_row("cpu0", before);
	usleep(600000);
	cpu_row("cpu0", now);
	CHECK(now[IDLE] - before[IDLE] >= 20);
	for (int i = 0; i < COLUMNS; i++)
		if (now[i] < before[i])
			say("column %d fell", i);
	CHECK(now[GUEST] == 0 && now[GUEST_NICE] == 0);
}

static void *nothing(void *p) { return p; }

static void counts(void)
{
	section("counts");
	long long born = after("/proc/stat", "processes"), switches = after("/proc/stat", "ctxt");
	for (int i = 0; i < 5; i++) {
		pid_t child = must_fork();
		if (child == 0) {
			for (int n = 0; n < 20; n++)
				usleep(100);
			_exit(0);
		}
		waitpid(child, 0, 0);
	}
	for (int i = 0; i < 5; i++) {
		pthread_t thread;
		pthread_create(&thread, 0, nothing, 0);
		pthread_join(thread, 0);
	}
	/* Threads count too, and the dead. */
	long long more = after("/proc/stat", "processes") - born;
	CHECK(more >= 10 && more < 1000);
	CHECK(after("/proc/stat", "ctxt") - switches >= 100);
	CHECK(after("/proc/stat", "procs_running") >= 1);
	CHECK(after("/proc/stat", "procs_blocked") == 0);
	CHECK(after("/proc/stat", "intr") > 0);
	CHECK(after("/proc/stat", "softirq") >= 0);
	CHECK(after("/proc/stat", "btime") > 1700000000);
}

static void averages(void)
{
	section("loadavg");
	double one, five, fifteen;
	int running, threads, last, length = 0;
	int got = sscanf(file("/proc/loadavg"), "%lf %lf %lf %d/%d %d%n", &one, &five, &fifteen, &running, &threads, &last, &length);
	SHOW(got);
	CHECK(text[length] == '\n' && text[length + 1] == 0);
	CHECK(running >= 1 && threads >= running);
	pid_t child = must_fork();
	if (child == 0)
		_exit(0);
	waitpid(child, 0, 0);
	sscanf(file("/proc/loadavg"), "%lf %lf %lf %d/%d %d", &one, &five, &fifteen, &running, &threads, &last);
	CHECK(last >= child);
	/* Loops for longer than between two samples. */
	struct sysinfo info, later;
	sysinfo(&info);
	pid_t loops[4];
	for (int i = 0; i < 4; i++)
		if ((loops[i] = must_fork()) == 0) {
			alarm(60);
			for (;;)
				;
		}
	usleep(5500000);
	sysinfo(&later);
	int many = sscanf(file("/proc/loadavg"), "%lf %lf %lf %d/", &one, &five, &fifteen, &running);
	for (int i = 0; i < 4; i++) {
		kill(loops[i], SIGKILL);
		waitpid(loops[i], 0, 0);
	}
	SHOW(many);
	CHECK(running >= 5);
	CHECK(later.loads[0] > info.loads[0] && later.loads[1] > info.loads[1] && later.loads[2] > info.loads[2]);
	CHECK(later.loads[0] < 8 << 16);
	/* Both tell the same; a sample may come in between. */
	double told = later.loads[0] / 65536.0;
	CHECK(one > told - 0.01 && one < told + 0.7);
}

static void *burns_and_tells(void *tid)
{
	*(int *)tid = (int)syscall(SYS_gettid);
	burn(200);
	sleep(60);
	return 0;
}

/* The n-th field of a stat, from 1; the second has no blank. */
static long long field(const char *path, int n)
{
	char *at = strrchr(file(path), ')');
	for (n -= 2; at && n > 0; n--)
		at = strchr(at + 1, ' ');
	return at ? atoll(at + 1) : -1;
}

static void threads(void)
{
	section("threads");
	pthread_t thread;
	int tid = 0;
	long long before = field("/proc/self/stat", 14) + field("/proc/self/stat", 15);
	pthread_create(&thread, 0, burns_and_tells, &tid);
	usleep(800000);
	char path[64];
	snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
	long long its = field(path, 14) + field(path, 15);
	CHECK(its >= 15 && its <= 60);
	/* Of the process it is the sum; of the first thread alone it is not. Linux divides the sum into user and system time anew, and cuts each to ticks: one may be
	   lost by that. */
	CHECK(field("/proc/self/stat", 14) + field("/proc/self/stat", 15) >= before + its - 1);
	snprintf(path, sizeof path, "/proc/self/task/%d/stat", getpid());
	CHECK(field(path, 14) + field(path, 15) < before + its);
	snprintf(path, sizeof path, "/proc/self/task/%d/status", tid);
	long long switches = after(path, "voluntary_ctxt_switches");
	CHECK(switches >= 1 && switches < 20);
	long long mine = after("/proc/self/status", "voluntary_ctxt_switches");
	/* On a host with more to do a sleep may be over before it has begun. */
	for (int i = 0; i < 200; i++)
		usleep(100);
	CHECK(after("/proc/self/status", "voluntary_ctxt_switches") - mine >= 10);
	CHECK(after(path, "voluntary_ctxt_switches") == switches);
}

static void schedstats(void)
{
	section("schedstat");
	unsigned long long ran, waited, times, later, waited_later, times_later;
	int length = 0;
	int got = sscanf(file("/proc/self/schedstat"), "%llu %llu %llu%n", &ran, &waited, &times, &length);
	SHOW(got);
	CHECK(text[length] == '\n' && text[length + 1] == 0);
	/* Two loops on one CPU: each waits while the other runs. */
	on_cpu(0);
	pid_t child = must_fork();
	if (child == 0) {
		alarm(60);
		for (;;)
			;
	}
	burn(300);
	sscanf(file("/proc/self/schedstat"), "%llu %llu %llu", &later, &waited_later, &times_later);
	CHECK(later - ran >= 290000000);
	CHECK(waited_later - waited >= 100000000);
	CHECK(times_later - times >= 3);
	kill(child, SIGKILL);
	waitpid(child, 0, 0);
	char *at = file("/proc/schedstat");
	CHECK(!strncmp(at, "version 16\ntimestamp ", 21));
	at = strstr(at, "\ncpu0 ");
	int fields = 0;
	for (at = at ? at + 1 : ""; *at && *at != '\n'; at++)
		fields += *at == ' ';
	SHOW(fields);
}

static void sched_file(void)
{
	section("sched");
	const char *names[] = { "se.exec_start", "se.vruntime", "se.sum_exec_runtime", "se.nr_migrations", "nr_switches", "nr_voluntary_switches",
		"nr_involuntary_switches", "se.load.weight", "policy", "prio" };
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		show_truth(names[i], after("/proc/self/sched", names[i]) >= 0);
	SHOW(after("/proc/self/sched", "policy"));
	SHOW(after("/proc/self/sched", "prio"));
	SHOW(after("/proc/self/sched", "se.load.weight"));
	for (int nice = -20; nice <= 19; nice++) {
		setpriority(PRIO_PROCESS, 0, nice);
		long long priority = after("/proc/self/sched", "prio");
		say("nice %d: priority %lld, weight %lld", nice, priority, after("/proc/self/sched", "se.load.weight"));
	}
	sched_setscheduler(0, SCHED_BATCH, &(struct sched_param){ 0 });
	SHOW(after("/proc/self/sched", "policy"));
	long long switches = after("/proc/self/sched", "nr_voluntary_switches");
	usleep(1000);
	CHECK(after("/proc/self/sched", "nr_voluntary_switches") > switches);
	char head[64], *line = file("/proc/self/sched");
	snprintf(head, sizeof head, "accounting (%d, #threads: 2)\n-----", getpid());
	CHECK(!strncmp(line, head, strlen(head)));
	line = strchr(line, '\n');
	SHOW(strcspn(line + 1, "\n"));
	line = strstr(text, "nr_switches");
	SHOW(line ? strcspn(line, "\n") : 0);
	line = strstr(text, "se.vruntime");
	SHOW(line ? strcspn(line, ":") : 0);
	SHOW_OK(open("/proc/self/sched", O_RDWR));
	int fd = open("/proc/self/sched", O_WRONLY);
	SHOW(write(fd, "0", 1));
	close(fd);
	fd = open("/proc/schedstat", O_RDONLY);
	SHOW(lseek(fd, 0, SEEK_END));
	close(fd);
}

static void up(void)
{
	section("uptime");
	double all, idle, later, idle_later;
	int got = sscanf(file("/proc/uptime"), "%lf %lf", &all, &idle);
	SHOW(got);
	usleep(500000);
	sscanf(file("/proc/uptime"), "%lf %lf", &later, &idle_later);
	CHECK(later - all >= 0.49);
	CHECK(idle_later > idle && idle_later - idle <= (later - all) * sysconf(_SC_NPROCESSORS_ONLN) + 0.1);
}

int main(void)
{
	stat_columns();
	counts();
	averages();
	threads();
	schedstats();
	sched_file();
	up();
	return 0;
}
