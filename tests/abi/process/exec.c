/* execve: arguments, environment, auxiliary vector, errors, scripts, close-on-exec, what a new image keeps and loses. */
#include "t.h"

#include <elf.h>
#include <sys/auxv.h>
#include <sys/prctl.h>

extern char **environ;

static char self[PATH_MAX];

/* The program in its second life: says what it was given. */
static int reborn(int argc, char **argv)
{
	if (strcmp(argv[0], "auxv") == 0) {
		static const struct { unsigned long type; const char *name; } kinds[] = {
			{ AT_PHDR, "PHDR" }, { AT_PHENT, "PHENT" }, { AT_PHNUM, "PHNUM" }, { AT_PAGESZ, "PAGESZ" }, { AT_BASE, "BASE" },
			{ AT_ENTRY, "ENTRY" }, { AT_UID, "UID" }, { AT_EUID, "EUID" }, { AT_GID, "GID" }, { AT_EGID, "EGID" },
			{ AT_SECURE, "SECURE" }, { AT_CLKTCK, "CLKTCK" },
		};
		for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
			unsigned long value = getauxval(kinds[i].type);
			int address = kinds[i].type == AT_PHDR || kinds[i].type == AT_ENTRY;
			say("AT_%s %lu", kinds[i].name, address ? value != 0 : value);
		}
		CHECK(getauxval(AT_RANDOM) != 0);
		CHECK(getauxval(AT_HWCAP) != 0);
		say("AT_PLATFORM %s", (char *)getauxval(AT_PLATFORM));
		const char *name = (char *)getauxval(AT_EXECFN);
		say("AT_EXECFN %s", name ? strrchr(name, '/') ? strrchr(name, '/') + 1 : name : "none");
		unsigned char *random = (unsigned char *)getauxval(AT_RANDOM);
		int differ = 0;
		for (int i = 1; i < 16; i++)
			differ |= random[i] != random[0];
		CHECK(differ);
		CHECK(((uintptr_t)argv & 7) == 0);
		return 0;
	}
	if (strcmp(argv[0], "closer") == 0) {
		say("fd 60: %s, fd 61: %s", fcntl(60, F_GETFD) < 0 ? "closed" : "open", fcntl(61, F_GETFD) < 0 ? "closed" : "open");
		close(60);
		return 0;
	}
	if (strcmp(argv[0], "count") == 0) {
		size_t bytes = 0;
		for (int i = 0; i < argc; i++)
			bytes += strlen(argv[i]) + 1;
		say("argc %d bytes %zu", argc, bytes);
		return 0;
	}
	if (strcmp(argv[0], "kept") == 0) {
		sigset_t set;
		sigprocmask(SIG_BLOCK, 0, &set);
		say("blocked USR1 %d TERM %d", sigismember(&set, SIGUSR1), sigismember(&set, SIGTERM));
		sigpending(&set);
		say("pending USR1 %d", sigismember(&set, SIGUSR1));
		struct sigaction action;
		sigaction(SIGUSR2, 0, &action);
		say("USR2 handler default: %d", action.sa_handler == SIG_DFL);
		sigaction(SIGHUP, 0, &action);
		say("HUP ignored: %d", action.sa_handler == SIG_IGN);
		stack_t stack;
		sigaltstack(0, &stack);
		say("sigaltstack disabled: %d", stack.ss_flags == SS_DISABLE);
		say("fd 50: %s, fd 51: %s", fcntl(50, F_GETFD) < 0 ? "closed" : "open", fcntl(51, F_GETFD) < 0 ? "closed" : "open");
		say("alarm left: %d", alarm(0) > 0);
		char name[32] = "";
		prctl(PR_GET_NAME, name);
		say("name %s", name);
		say("umask %o", umask(0));
		char cwd[PATH_MAX];
		say("cwd kept: %d", getcwd(cwd, sizeof cwd) && strcmp(strrchr(cwd, '/') + 1, "sub") == 0);
		return 0;
	}
	for (int i = 0; i < argc; i++)
		say("argv[%d]=%s", i, strcmp(argv[i], self) == 0 ? "SELF" : argv[i]);
	for (char **entry = environ; *entry; entry++)
		say("env %s", *entry);
	return argc;
}

static char **vector;
static char *env[] = { "A=1", "REBORN=1", "EMPTY=", 0 };
static const char *path;

static void execute(void)
{
	execve(path, vector, env);
	say("execve: %s", error_name(errno));
	_exit(100);
}

#define EXEC(file, ...) do { path = file; char *list[] = { __VA_ARGS__, 0 }; vector = list; in_child("exec " #file, execute); } while (0)

static void make_script(const char *name, const char *text, int mode)
{
	write_file(name, text);
	chmod(name, (mode_t)mode);
}

static void errors(void)
{
	section("errors");
	EXEC("missing", "x");
	EXEC("", "x");
	EXEC("/", "x");
	EXEC(".", "x");
	make_script("noexec", "#!/bin/sh\n", 0644);
	EXEC("noexec", "x");
	EXEC("noexec/x", "x");
	make_script("text", "just text\n", 0755);
	EXEC("text", "x");
	make_script("empty", "", 0755);
	EXEC("empty", "x");
	make_script("short", "\x7f" "ELF", 0755);
	EXEC("short", "x");
	EXEC("/dev/null", "x");
	symlink("self-loop", "self-loop");
	EXEC("self-loop", "x");
	make_script("badinterp", "#!/no/such/interpreter\n", 0755);
	EXEC("badinterp", "x");
	make_script("nointerp", "#!\n", 0755);
	EXEC("nointerp", "x");
	make_script("blankinterp", "#!   \n", 0755);
	EXEC("blankinterp", "x");
	make_script("dirinterp", "#!/tmp\n", 0755);
	EXEC("dirinterp", "x");
	int fd = open("busy", O_CREAT | O_RDWR, 0755);
	EXEC("busy", "x");
	close(fd);
	SHOW(syscall(SYS_execve, 16, 0, 0));
	SHOW(syscall(SYS_execve, self, 16, 0));
	SHOW(syscall(SYS_execve, self, (char *[]){ "x", (char *)16, 0 }, 0));
	SHOW(syscall(SYS_execve, self, (char *[]){ "x", 0 }, 16));
	SHOW(syscall(SYS_execveat, 999, "x", (char *[]){ "x", 0 }, 0, 0));
	SHOW(syscall(SYS_execveat, AT_FDCWD, "missing", (char *[]){ "x", 0 }, 0, 0));
	SHOW(syscall(SYS_execveat, AT_FDCWD, "x", (char *[]){ "x", 0 }, 0, 0x80000));
	/* One string may have 128 KiB, terminator included; all together a quarter of the stack's limit. */
	static char *large;
	large = malloc(131073);
	memset(large, 'x', 131072);
	large[131072] = 0;
	EXEC(self, "count", large);
	large[131071] = 0;
	EXEC(self, "count", large);
	static char *many[200];
	many[0] = "count";
	for (int i = 1; i < 100; i++)
		many[i] = large;
	path = self, vector = many;
	in_child("too many bytes", execute);
	many[10] = 0;
	in_child("not too many", execute);
}

static void scripts(void)
{
	section("scripts");
	char text[PATH_MAX + 64];
	snprintf(text, sizeof text, "#!%s\n", self);
	make_script("plain", text, 0755);
	EXEC("plain", "zero", "one", "two");
	EXEC("./plain", "zero");
	snprintf(text, sizeof text, "#! \t%s  first argument  \n", self);
	make_script("spaces", text, 0755);
	EXEC("spaces", "zero", "one");
	snprintf(text, sizeof text, "#!%s", self);
	make_script("nonewline", text, 0755);
	EXEC("nonewline", "zero");
	make_script("nested", "#!./plain nest\n", 0755);
	EXEC("nested", "zero", "one");
	char from[16], line[32];
	make_script("n0", "#!./plain\n", 0755);
	for (int i = 1; i < 6; i++) {
		snprintf(from, sizeof from, "n%d", i);
		snprintf(line, sizeof line, "#!./n%d\n", i - 1);
		make_script(from, line, 0755);
	}
	EXEC("n1", "zero");
	EXEC("n2", "zero");
	EXEC("n3", "zero");
	EXEC("n4", "zero");
	EXEC("n5", "zero");
	make_script("self", "#!./self\n", 0755);
	EXEC("self", "zero");
	/* A first line longer than the buffer of 256. */
	memset(text, ' ', 300);
	memcpy(text, "#!", 2);
	snprintf(text + 300, 64, "%s\n", "/bin/x");
	make_script("long", text, 0755);
	EXEC("long", "zero");
	snprintf(text, sizeof text, "#!%s ", self);
	size_t length = strlen(text);
	memset(text + length, 'a', 300);
	text[length + 300] = '\n', text[length + 301] = 0;
	make_script("longarg", text, 0755);
	path = "longarg";
	vector = (char *[]){ "zero", 0 };
	pid_t pid = must_fork();
	if (pid == 0) {
		int null = open("/dev/null", O_WRONLY);
		dup2(null, 1);
		execve(path, vector, env);
		_exit(100);
	}
	say("long argument: %s", status_text(wait_for(pid)));
	int fd = open("plain", O_RDONLY);
	pid = must_fork();
	if (pid == 0) {
		int null = open("/dev/null", O_WRONLY);
		dup2(null, 1);
		syscall(SYS_execveat, fd, "", vector, env, AT_EMPTY_PATH);
		_exit(100);
	}
	say("execveat of a script: %s", status_text(wait_for(pid)));
}

/* A program that runs until the other end of descriptor 40 is closed. */
static int sleeper(void)
{
	char byte;
	write(41, "r", 1);
	close(41);
	read(40, &byte, 1);
	return 0;
}

static void copy_program(const char *to)
{
	static char bytes[1 << 16];
	int from = open(self, O_RDONLY), fd = open(to, O_CREAT | O_TRUNC | O_WRONLY, 0755);
	ssize_t got;
	while ((got = read(from, bytes, sizeof bytes)) > 0)
		write(fd, bytes, (size_t)got);
	close(from), close(fd);
}

/* Starts `program` as a sleeper; `hold` closed ends it. */
static pid_t start(const char *program, const char *argument, int *hold)
{
	int up[2], down[2];
	pipe(up), pipe(down);
	pid_t pid = must_fork();
	if (pid == 0) {
		dup2(down[0], 40), dup2(up[1], 41);
		close(down[1]);
		execve(program, (char *[]){ "sleeper", (char *)argument, 0 }, env);
		say("execve: %s", error_name(errno));
		_exit(100);
	}
	close(up[1]), close(down[0]);
	char byte;
	read(up[0], &byte, 1);
	close(up[0]);
	*hold = down[1];
	return pid;
}

static void busy(void)
{
	section("busy");
	copy_program("program");
	int hold;
	pid_t pid = start("./program", 0, &hold);
	SHOW_OK(open("program", O_RDONLY));
	SHOW_OK(open("program", O_WRONLY));
	SHOW_OK(open("program", O_RDWR));
	SHOW_OK(open("program", O_RDONLY | O_TRUNC));
	SHOW_OK(open("program", O_CREAT | O_WRONLY | O_TRUNC, 0755));
	SHOW_OK(open("program", O_PATH));
	SHOW(truncate("program", 100));
	SHOW(access("program", W_OK));
	SHOW(chmod("program", 0700));
	SHOW(rename("program", "other"));
	SHOW_OK(open("other", O_WRONLY));
	close(hold);
	say("sleeper: %s", status_text(wait_for(pid)));
	int fd = SHOW_OK(open("other", O_WRONLY));
	EXEC("./other", "zero");
	int again = dup(fd);
	close(fd);
	EXEC("./other", "zero");
	close(again);
	EXEC("./other", "zero");
	/* A child that was only forked runs the program as well. */
	pid = start("./other", "fork", &hold);
	SHOW_OK(open("other", O_WRONLY));
	say("its parent: %s", status_text(wait_for(pid)));
	SHOW_OK(open("other", O_WRONLY));
	close(hold);
	/* The child is nobody's to wait for: it is gone soon. */
	for (int i = 0; i < 500 && (fd = open("other", O_WRONLY)) < 0; i++)
		nap(10);
	CHECK(fd >= 0);
	close(fd);
	char text[PATH_MAX + 64];
	snprintf(text, sizeof text, "#!%s\n", self);
	make_script("script", text, 0755);
	fd = open("script", O_WRONLY);
	EXEC("./script", "zero");
	close(fd);
	EXEC("./script", "zero");
	snprintf(text, sizeof text, "#!%s/other\n", ".");
	make_script("script", text, 0755);
	fd = open("other", O_WRONLY);
	EXEC("./script", "zero");
	close(fd);
	pid = start("./script", 0, &hold);
	SHOW_OK(open("script", O_WRONLY));
	close(hold);
	wait_for(pid);
}

static void handler(int number)
{
	(void)number;
}

static void kept(void)
{
	sigset_t set;
	sigemptyset(&set), sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, 0);
	kill(getpid(), SIGUSR1);
	signal(SIGUSR2, handler);
	signal(SIGHUP, SIG_IGN);
	static char stack[16384];
	stack_t alternate = { .ss_sp = stack, .ss_size = sizeof stack };
	sigaltstack(&alternate, 0);
	dup2(1, 50), dup2(1, 51);
	fcntl(50, F_SETFD, FD_CLOEXEC);
	alarm(100);
	prctl(PR_SET_NAME, "before");
	umask(012);
	mkdir("sub", 0755);
	chdir("sub");
	execve(self, (char *[]){ "kept", 0 }, env);
}

static void descriptor(void)
{
	int fd = open(self, O_RDONLY | O_CLOEXEC);
	syscall(SYS_execveat, fd, "", (char *[]){ "by descriptor", 0 }, env, AT_EMPTY_PATH);
	say("%s", error_name(errno));
	_exit(1);
}

static void no_arguments(void)
{
	syscall(SYS_execve, self, 0, env);
	say("%s", error_name(errno));
	_exit(1);
}

/* A child that shares its parent's descriptors and executes a program has its own from then on. */
static void shared_descriptors(void)
{
	dup2(1, 60), dup2(1, 61);
	fcntl(61, F_SETFD, FD_CLOEXEC);
	pid_t pid = (pid_t)syscall(SYS_clone, CLONE_FILES | SIGCHLD, 0, 0, 0, 0);
	if (pid == 0) {
		dup2(1, 62);
		execl(self, "closer", (char *)0);
		_exit(1);
	}
	say("child: %s", status_text(wait_for(pid)));
	CHECK(fcntl(60, F_GETFD) == 0);
	CHECK(fcntl(61, F_GETFD) == FD_CLOEXEC);
	CHECK(fcntl(62, F_GETFD) == 0);
}

int main(int argc, char **argv)
{
	ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
	if (length > 0)
		self[length] = 0;
	if (argc > 1 && strcmp(argv[0], "sleeper") == 0 && strcmp(argv[1], "fork") == 0)
		return fork() == 0 ? sleeper() : (close(41), 0);
	if (argc > 0 && strcmp(argv[0], "sleeper") == 0)
		return sleeper();
	if (getenv("REBORN"))
		return reborn(argc, argv);
	section("arguments");
	EXEC(self, "zero", "one", "", "three");
	EXEC(self, "auxv");
	env[0] = 0;
	env[0] = "REBORN=1", env[1] = 0;
	EXEC(self, "only one variable");
	in_child("no argv", no_arguments);
	in_child("execveat", descriptor);
	errors();
	scripts();
	busy();
	section("what is kept");
	in_child("kept", kept);
	section("descriptors shared with the parent");
	setenv("REBORN", "1", 1);
	in_child("shared descriptors", shared_descriptors);
	return 0;
}
