/* /proc: which files and fields there are, in what shape. Values only where they are the same everywhere. */
#include "t.h"

#include <dirent.h>
#include <sys/prctl.h>

/* Prints the names of the fields of a "Name: value" file that a kernel has to have. */
static void fields(const char *path, const char *const *names)
{
	char *text = read_file(path);
	if (!text) {
		say("%s: %s", path, error_name(errno));
		return;
	}
	for (; *names; names++) {
		char needle[64];
		snprintf(needle, sizeof needle, "\n%s:", *names);
		int found = strstr(text, needle) != 0 || strncmp(text, needle + 1, strlen(needle) - 1) == 0;
		say("%s %s: %s", path, *names, found ? "yes" : "no");
	}
	free(text);
}

/* Digits become N, so that only the shape is left. */
static void shape(const char *path, int lines)
{
	char *text = read_file(path);
	if (!text) {
		say("%s: %s", path, error_name(errno));
		return;
	}
	char out[512];
	size_t length = 0;
	for (char *at = text; *at && length < sizeof out - 2 && lines > 0; at++) {
		if (*at == '\n') {
			out[length] = 0;
			say("%s: %s", path, out);
			length = 0, lines--;
		} else if (*at >= '0' && *at <= '9') {
			if (length == 0 || out[length - 1] != 'N')
				out[length++] = 'N';
		} else {
			out[length++] = *at;
		}
	}
	free(text);
}

static void status(void)
{
	section("status");
	static const char *const names[] = { "Name", "Umask", "State", "Tgid", "Pid", "PPid", "TracerPid", "Uid", "Gid", "FDSize",
		"Groups", "VmPeak", "VmSize", "VmRSS", "VmData", "VmStk", "VmExe", "Threads", "SigPnd", "ShdPnd", "SigBlk", "SigIgn",
		"SigCgt", "Cpus_allowed", "voluntary_ctxt_switches", "nonvoluntary_ctxt_switches", 0 };
	fields("/proc/self/status", names);
	prctl(PR_SET_NAME, "na me)x");
	char *text = read_file("/proc/self/stat");
	if (text) {
		char *name = strchr(text, '('), *end = strrchr(text, ')');
		int pid = atoi(text), parent = 0, group = 0, session = 0;
		char state = '?';
		if (end) {
			sscanf(end + 2, "%c %d %d %d", &state, &parent, &group, &session);
			*end = 0;
		}
		say("stat: name %s state %c pid %d ppid %d group %d session %d", name ? name + 1 : "?", state, pid == getpid(),
		    parent == getppid(), group == getpgrp(), session == getsid(0));
		int count = 0;
		for (char *at = end ? end + 1 : text; *at; at++)
			count += *at == ' ';
		say("fields after the name: %d", count);
	}
	text = read_file("/proc/self/comm");
	say("comm %s", text ? strtok(text, "\n") : "?");
	shape("/proc/self/statm", 1);
	int fd = open("/proc/self/cmdline", O_RDONLY);
	char buffer[256];
	long length = read(fd, buffer, sizeof buffer);
	CHECK(length > 0 && buffer[length - 1] == 0);
	close(fd);
	fd = open("/proc/self/environ", O_RDONLY);
	length = read(fd, buffer, sizeof buffer);
	CHECK(length > 0 && memcmp(buffer, "PATH=", 5) == 0);
	close(fd);
}

static void links(void)
{
	section("links");
	char target[PATH_MAX], cwd[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", target, sizeof target - 1);
	target[length > 0 ? length : 0] = 0;
	say("exe %s", strrchr(target, '/') ? strrchr(target, '/') : target);
	length = readlink("/proc/self/cwd", target, sizeof target - 1);
	target[length > 0 ? length : 0] = 0;
	CHECK(getcwd(cwd, sizeof cwd) && strcmp(cwd, target) == 0);
	length = readlink("/proc/self/root", target, sizeof target - 1);
	target[length > 0 ? length : 0] = 0;
	say("root %s", target);
	length = readlink("/proc/self", target, sizeof target - 1);
	target[length > 0 ? length : 0] = 0;
	CHECK(atoi(target) == getpid());
	int fd = open("some-file", O_CREAT | O_RDWR, 0644);
	char name[64];
	snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
	length = readlink(name, target, sizeof target - 1);
	target[length > 0 ? length : 0] = 0;
	say("fd %s", strrchr(target, '/') ? strrchr(target, '/') : target);
	unlink("some-file");
	length = readlink(name, target, sizeof target - 1);
	target[length > 0 ? length : 0] = 0;
	say("after unlink %s", strrchr(target, '/') ? strrchr(target, '/') : target);
	write(fd, "still", 5);
	int again = open(name, O_RDONLY);
	char text[8] = { 0 };
	SHOW(read(again, text, 5));
	say("%s", text);
	int ends[2];
	pipe(ends);
	snprintf(name, sizeof name, "/proc/self/fd/%d", ends[0]);
	length = readlink(name, target, sizeof target - 1);
	target[length > 0 ? length : 0] = 0;
	say("pipe %.6s", target);
	SHOW_OK(open("/proc/self/fd/999", O_RDONLY));
	SHOW_OK(open("/proc/99999999/stat", O_RDONLY));
	SHOW_OK(open("/proc/self/nothing", O_RDONLY));
	SHOW_OK(open("/proc/new", O_CREAT | O_RDWR, 0644));
	SHOW(mkdir("/proc/x", 0755));
	SHOW(unlink("/proc/uptime"));
	struct stat st;
	SHOW(stat("/proc/self/stat", &st));
	say("%o %ld", st.st_mode, (long)st.st_size);
	SHOW(lstat("/proc/self/exe", &st));
	say("%o", st.st_mode);
	snprintf(name, sizeof name, "/proc/%d", getpid());
	SHOW(stat(name, &st));
	say("%o", st.st_mode);
	DIR *dir = opendir("/proc/self/fd");
	int count = 0;
	for (struct dirent *entry; dir && (entry = readdir(dir));)
		count += entry->d_name[0] != '.';
	CHECK(count >= 6);
	dir = opendir("/proc");
	int self = 0, one = 0, numbers = 0;
	for (struct dirent *entry; dir && (entry = readdir(dir));) {
		numbers += atoi(entry->d_name) > 0;
		self |= atoi(entry->d_name) == getpid();
		one |= strcmp(entry->d_name, "1") == 0;
	}
	CHECK(self && one && numbers >= 2);
	dir = opendir("/proc/self/task");
	numbers = 0;
	for (struct dirent *entry; dir && (entry = readdir(dir));)
		numbers += atoi(entry->d_name) > 0;
	SHOW(numbers);
}

static void maps(void)
{
	section("maps");
	char *area = mmap(0, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mprotect(area + 4096, 4096, PROT_READ);
	char *text = read_file("/proc/self/maps");
	if (!text) {
		say("no maps");
		return;
	}
	int stack = 0, exe = 0, found = 0, ordered = 1;
	unsigned long last = 0;
	for (char *line = strtok(text, "\n"); line; line = strtok(0, "\n")) {
		unsigned long from, to;
		char flags[8] = "";
		if (sscanf(line, "%lx-%lx %4s", &from, &to, flags) != 3) {
			say("odd line %s", line);
			continue;
		}
		ordered &= from >= last && to > from;
		last = to;
		stack |= strstr(line, "[stack]") != 0 && strcmp(flags, "rw-p") == 0;
		exe |= strstr(line, "procfs") != 0 && strcmp(flags, "r-xp") == 0;
		if (from == (unsigned long)area + 4096 && to == (unsigned long)area + 8192) {
			char *rest = strchr(line, ' ');
			say("the middle:%s", rest ? rest : "?");
			found = 1;
		}
	}
	CHECK(stack);
	CHECK(exe);
	CHECK(found);
	CHECK(ordered);
}

/* The name that maps has for what lies at `at`. */
static void show_name(const char *what, void *at)
{
	char *text = read_file("/proc/self/maps");
	for (char *line = text ? strtok(text, "\n") : 0; line; line = strtok(0, "\n")) {
		unsigned long from, number = 0;
		int name = 0;
		char flags[8] = "";
		if (sscanf(line, "%lx-%*x %4s %*x %*x:%*x %lu %n", &from, flags, &number, &name) >= 3 && from == (unsigned long)at)
			say("%s: %s %s", what, flags, name ? line + name : "?");
	}
}

/* What a mapping is called after its file has lost its name, or never had one. */
static void names_of_mappings(void)
{
	section("names of mappings");
	int both = PROT_READ | PROT_WRITE;
	int fd = open("mapped", O_RDWR | O_CREAT, 0600);
	ftruncate(fd, 4096);
	void *file = mmap(0, 4096, both, MAP_SHARED, fd, 0), *copy = mmap(0, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
	unlink("mapped");
	close(fd);
	char *text = read_file("/proc/self/maps");
	CHECK(text && strstr(text, "/mapped (deleted)\n"));
	(void)file, (void)copy;
	fd = syscall(SYS_memfd_create, "a name", 0);
	ftruncate(fd, 4096);
	show_name("memory file", mmap(0, 4096, both, MAP_SHARED, fd, 0));
	show_name("its copy", mmap(0, 4096, PROT_READ, MAP_PRIVATE, fd, 0));
	char link[64], target[64] = "";
	for (int i = 0; i < 2; i++) {
		snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
		readlink(link, target, sizeof target - 1);
		say("link: %s", target);
		fd = open(link, O_RDWR);
		CHECK(fd >= 0);
	}
	int unnamed = syscall(SYS_memfd_create, "", 0);
	snprintf(link, sizeof link, "/proc/self/fd/%d", unnamed);
	target[readlink(link, target, sizeof target - 1)] = 0;
	say("link: %s", target);
	show_name("shared memory", mmap(0, 4096, both, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
	text = read_file("/proc/self/maps");
	CHECK(text && strstr(text, "r-xp 00000000 00:00 0                          [vdso]\n"));
	text = read_file("/proc/self/maps");
	CHECK(text && strstr(text, "r--p 00000000 00:00 0                          [vvar]\n"));
}

static void system_files(void)
{
	section("system");
	static const char *const memory[] = { "MemTotal", "MemFree", "MemAvailable", "Buffers", "Cached", "SwapTotal", "SwapFree", "Shmem", 0 };
	fields("/proc/meminfo", memory);
	shape("/proc/uptime", 1);
	shape("/proc/loadavg", 1);
	char *text = read_file("/proc/stat");
	CHECK(text && strncmp(text, "cpu  ", 5) == 0);
	CHECK(text && strstr(text, "\ncpu0 ") && strstr(text, "\ncpu1 ") && strstr(text, "\nbtime ") && strstr(text, "\nprocesses ") && strstr(text, "\nctxt "));
	text = read_file("/proc/cpuinfo");
	CHECK(text && strncmp(text, "processor\t: 0\n", 14) == 0 && strstr(text, "\nprocessor\t: 1\n") && strstr(text, "\nflags\t\t: "));
	text = read_file("/proc/version");
	CHECK(text && strstr(text, " version "));
	text = read_file("/proc/filesystems");
	CHECK(text && strstr(text, "nodev\ttmpfs\n") && strstr(text, "nodev\tproc\n"));
	text = read_file("/proc/mounts");
	CHECK(text && strstr(text, " / ") && strstr(text, "proc /proc proc "));
	text = read_file("/proc/self/mounts");
	CHECK(text && strstr(text, "proc /proc proc "));
	text = read_file("/proc/self/mountinfo");
	CHECK(text && strstr(text, " - proc proc "));
	text = read_file("/proc/cmdline");
	CHECK(text && strchr(text, '\n'));
	text = read_file("/proc/sys/kernel/ostype");
	say("ostype %s", text ? strtok(text, "\n") : "?");
	text = read_file("/proc/sys/kernel/hostname");
	CHECK(text && strchr(text, '\n'));
	text = read_file("/proc/sys/kernel/pid_max");
	CHECK(text && atoi(text) >= 32768);
	/* A read at an offset, and one byte at a time. */
	int fd = open("/proc/meminfo", O_RDONLY);
	char byte, whole[10] = "";
	for (int i = 0; i < 9 && read(fd, &byte, 1) == 1; i++)
		whole[i] = byte;
	say("%s", whole);
	SHOW(lseek(fd, 0, SEEK_SET));
	SHOW(pread(fd, whole, 3, 3));
	say("%.3s", whole);
	SHOW(write(fd, "x", 1));
	/* A process seen from outside: sleeping, stopped, a zombie. */
	pid_t pid = must_fork();
	if (pid == 0) {
		pause();
		_exit(0);
	}
	char name[64];
	snprintf(name, sizeof name, "/proc/%d/stat", pid);
	static const char *const what[] = { "sleeping", "stopped", "zombie" };
	for (int i = 0; i < 3; i++) {
		if (i == 1)
			kill(pid, SIGSTOP);
		if (i == 2)
			kill(pid, SIGKILL);
		/* Another CPU does it, when its turn comes. */
		char *end = 0;
		for (int n = 0; n < 200 && (!end || end[2] != "STZ"[i]); n++) {
			nap(20);
			text = read_file(name);
			end = text ? strrchr(text, ')') : 0;
		}
		say("%s: %c", what[i], end ? end[2] : '?');
	}
	wait_for(pid);
	SHOW_OK(open(name, O_RDONLY));
}

/* A link of /proc to where no path of PATH_MAX bytes leads. */
static void far_links(void)
{
	section("far links");
	char name[201], text[8192];
	memset(name, 'd', 200);
	name[200] = 0;
	int back = open(".", O_RDONLY | O_DIRECTORY), shown = 0;
	for (int i = 0; i < 25; i++) {
		mkdir(name, 0755);
		chdir(name);
		int n = readlink("/proc/self/cwd", text, sizeof text);
		if (n > 0)
			shown++;
		else if (i == 24)
			say("the last: %s", error_name(errno));
	}
	say("%s", shown >= 18 && shown <= 20 ? "as long as a path" : "otherwise");
	int fd = open("f", O_RDWR | O_CREAT, 0600);
	snprintf(text, sizeof text, "/proc/self/fd/%d", fd);
	SHOW(readlink(text, name, 100));
	close(fd);
	unlink("f");
	for (int i = 0; i < 25; i++) {
		chdir("..");
		rmdir(name);
	}
	fchdir(back);
	close(back);
}

int main(void)
{
	status();
	links();
	far_links();
	maps();
	names_of_mappings();
	system_files();
	return 0;
}
