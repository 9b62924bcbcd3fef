/*
 * The guest's first program: runs one job and relays its streams to the `darter` command on the other side.
 *
 * It is `/init` of the initramfs on Darter and on Linux alike, static, and uses few system calls so that a young kernel
 * can run it. The job stands in /.darter/job (key NUL value NUL, repeated: mode, cwd, hostname, module, root,
 * tag, share or rw, uid, gid, group, umask, set, watch, every, maps, env, arg); live.h says what a live root is, watch.h what is watched, for the job or
 * for somebody who attaches while it runs.
 *
 *   mode pipes   the program's stdin, stdout and stderr are pipes, carried as frames on the control port (ttyS2)
 *   mode tty     its controlling terminal is ttyS1; only signals, window size and the end are frames
 *
 * frames.h says what a frame is.
 * Input that the program has not taken yet is bounded by the window that the host keeps: it sends no more than
 * INPUT_WINDOW bytes ahead of our 'A' frames, which is less than a terminal's input buffer, so none is ever lost.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "audit.h"
#include "frames.h"
#include "live.h"
#include "markers.h"
#include "watch.h"

#define TERMINAL "/dev/ttyS1"
#define JOB "/.darter/job"

#define LARGEST_PIPE (1 << 20)

static struct {
	int tty;
	const char *cwd, *hostname;
	const char *root; /* the tag of the device that has a live root */
	char **env, **arg, **share; /* a share is a device's tag and where it stands */
	size_t envs, args, shares;
	unsigned long writes; /* bit n: the nth share may be written */
	/* The program's user, if the job names one. */
	int has_user;
	uid_t uid;
	gid_t gid, *group;
	size_t groups;
	mode_t umask;
} job = { .cwd = "/", .hostname = "darter", .umask = 022 };

static int terminal = -1;   /* ttyS1, in tty mode: kept open so that its output can be drained */
static int child_pipe[2];   /* written by the SIGCHLD handler */
static pid_t program;       /* leader of the program's session and process group */
static int ended, status;   /* the program's, from wait4 */

static int stream[2] = { -1, -1 }; /* our ends of its stdout and stderr */

/* Input on its way to the program. */
static unsigned char input[INPUT_WINDOW];
static size_t input_len;
static int input_fd = -1, input_eof;

static void mount_devices(void)
{
	mount_at("devtmpfs", "/dev", MS_NOSUID, "mode=0755");
}

/* What a program expects beside the files of its root. A live root has a /tmp of its own. */
static void mount_all(void)
{
	mount_at("proc", "/proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
	mount_at("sysfs", "/sys", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
	mount_at("devpts", "/dev/pts", MS_NOSUID | MS_NOEXEC, "mode=0620,ptmxmode=0666");
	mount_at("tmpfs", "/dev/shm", MS_NOSUID | MS_NODEV, "mode=1777");
	if (!job.root)
		mount_at("tmpfs", "/tmp", MS_NOSUID | MS_NODEV, "mode=1777");
	mount_at("tmpfs", "/run", MS_NOSUID | MS_NODEV, "mode=0755");
	(void)!symlink("/proc/self/fd", "/dev/fd");
	(void)!symlink("/proc/self/fd/0", "/dev/stdin");
	(void)!symlink("/proc/self/fd/1", "/dev/stdout");
	(void)!symlink("/proc/self/fd/2", "/dev/stderr");
}

/*
 * A machine that must run the same each time has no source of randomness, and Linux then hashes its pool anew at every exec,
 * which no real system does. Secrets are not made in such a machine; elsewhere this changes nothing.
 */
static void seed_randomness(void)
{
	/* random(4), RNDADDENTROPY; musl has no header of it. */
	static const struct { int bits, bytes; uint32_t data[16]; } seed = { 512, 64, { 1, 2, 3, 4 } };
	int fd = open("/dev/urandom", O_RDWR | O_CLOEXEC);
	if (fd >= 0) {
		ioctl(fd, _IOW('R', 3, int[2]), &seed);
		close(fd);
	}
}

static char *read_whole(const char *path, size_t *len)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		fail(path);
	size_t room = 1 << 16, used = 0;
	char *text = malloc(room + 1);
	while (text) {
		ssize_t n = read(fd, text + used, room - used);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			fail(path);
		if (n == 0)
			break;
		used += (size_t)n;
		if (used == room)
			text = realloc(text, (room *= 2) + 1);
	}
	if (!text)
		fail("out of memory for the job");
	close(fd);
	text[used] = 0;
	*len = used;
	return text;
}

static void read_job(void)
{
	size_t len, fields = 0;
	char *text = read_whole(JOB, &len);
	for (size_t i = 0; i < len; i++)
		fields += text[i] == 0;
	job.env = calloc(fields / 2 + 1, sizeof *job.env);
	job.arg = calloc(fields / 2 + 1, sizeof *job.arg);
	job.share = calloc(fields / 2 + 1, sizeof *job.share);
	job.group = calloc(fields / 2 + 1, sizeof *job.group);
	if (!job.env || !job.arg || !job.share || !job.group)
		fail("out of memory for the job");
	for (char *at = text; at < text + len;) {
		char *key = at, *value = key + strlen(key) + 1;
		if (value > text + len)
			break;
		at = value + strlen(value) + 1;
		if (take_watch(key, value))
			continue;
		if (!strcmp(key, "mode"))
			job.tty = !strcmp(value, "tty");
		else if (!strcmp(key, "input"))
			input_eof = !strcmp(value, "none");
		else if (!strcmp(key, "cwd"))
			job.cwd = value;
		else if (!strcmp(key, "hostname"))
			job.hostname = value;
		else if (!strcmp(key, "module"))
			insert_module(value);
		else if (!strcmp(key, "root"))
			job.root = value;
		else if (!strcmp(key, "uid"))
			job.uid = (uid_t)strtoul(value, NULL, 10), job.has_user = 1;
		else if (!strcmp(key, "gid"))
			job.gid = (gid_t)strtoul(value, NULL, 10);
		else if (!strcmp(key, "group"))
			job.group[job.groups++] = (gid_t)strtoul(value, NULL, 10);
		else if (!strcmp(key, "umask"))
			job.umask = (mode_t)strtoul(value, NULL, 8);
		else if (!strcmp(key, "rw"))
			job.writes |= 1ul << job.shares / 2, job.share[job.shares++] = value;
		else if (!strcmp(key, "tag") || !strcmp(key, "share"))
			job.share[job.shares++] = value;
		else if (!strcmp(key, "env"))
			job.env[job.envs++] = value;
		else if (!strcmp(key, "arg"))
			job.arg[job.args++] = value;
	}
	if (job.args == 0) {
		errno = EINVAL;
		fail("the job names no program");
	}
}

/* The host's folders. */
static void mount_shares(void)
{
	for (size_t i = 0; i + 1 < job.shares; i += 2) {
		char *at = job.share[i + 1];
		for (char *part = at; (part = strchr(part + 1, '/')); *part = '/') {
			*part = 0;
			mkdir(at, 0755);
		}
		mkdir(at, 0755);
		unsigned long readonly = job.writes >> i / 2 & 1 ? 0 : MS_RDONLY;
		if (mount(job.share[i], at, "9p", readonly | MS_NODEV, readonly ? SHARE_OPTIONS : WRITTEN_OPTIONS) != 0)
			fail(errno == ENODEV ? NO_9P : at);
	}
}

static void on_child(int signal)
{
	(void)signal;
	int saved = errno;
	(void)!write(child_pipe[1], "", 1);
	errno = saved;
}

static void make_pipe(int fd[2])
{
	if (pipe2(fd, O_CLOEXEC) != 0)
		fail("pipe");
}

/* The streams are the user's, who may open them anew by /dev/stdin and the like; so is the terminal, as login would leave it. */
static void give_to_user(int fd)
{
	if (job.has_user && fd >= 0)
		(void)!fchown(fd, job.uid, job.gid);
}

static void become_user(void)
{
	if (!job.has_user)
		return;
	umask(job.umask);
	if (setgroups(job.groups, job.group) != 0 || setgid(job.gid) != 0 || setuid(job.uid) != 0) {
		dprintf(2, "darter: cannot become user %u: %s\n", (unsigned)job.uid, strerror(errno));
		_exit(125);
	}
}

/* In the child: becomes the program, or leaves with what a shell would leave with. */
static _Noreturn void become_program(int in, int out, int err)
{
	setsid();
	if (job.tty) {
		in = out = err = open(TERMINAL, O_RDWR);
		if (in >= 0)
			ioctl(in, TIOCSCTTY, 0);
	}
	signal(SIGCHLD, SIG_DFL);
	signal(SIGPIPE, SIG_DFL);
	if (dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0)
		_exit(125);
	if (job.tty && in > 2)
		close(in);
	become_user();
	if (chdir(job.cwd) != 0) {
		dprintf(2, "darter: %s: %s\n", job.cwd, strerror(errno));
		_exit(125);
	}
	environ = job.env;
	execvp(job.arg[0], job.arg);
	int why = errno;
	dprintf(2, "darter: %s: %s\n", job.arg[0], why == ENOENT ? "command not found" : strerror(why));
	_exit(why == ENOENT || why == ENOTDIR ? 127 : 126);
}

static void set_window_size(unsigned rows, unsigned cols)
{
	struct winsize size = { .ws_row = (unsigned short)rows, .ws_col = (unsigned short)cols };
	if (terminal >= 0)
		ioctl(terminal, TIOCSWINSZ, &size);
}

/* Signals go to the whole foreground: in tty mode that group, else the program's own. */
static void signal_program(int number)
{
	pid_t group = program;
	if (ended || number <= 0)
		return;
	if (job.tty && terminal >= 0) {
		pid_t front = tcgetpgrp(terminal);
		if (front > 1 && front != program)
			kill(-front, number);
	}
	/* The child may not have called setsid yet. */
	if (kill(-group, number) != 0)
		kill(group, number);
}

static void close_stream(int which)
{
	if (stream[which] >= 0)
		close(stream[which]);
	stream[which] = -1;
}

static void take_frame(unsigned char type, const unsigned char *data, size_t len)
{
	switch (type) {
	case 'I':
		if (input_fd < 0) { /* nobody reads any more: it is consumed all the same */
			send_u32('A', (uint32_t)len);
		} else if (len <= sizeof input - input_len) {
			memcpy(input + input_len, data, len);
			input_len += len;
		} else {
			errno = EOVERFLOW;
			fail("the host sent more input than its window");
		}
		break;
	case 'E':
		input_eof = 1;
		break;
	case 'S':
		if (len >= 1)
			signal_program(data[0]);
		break;
	case 'W':
		if (len >= 4)
			set_window_size(data[0] | data[1] << 8, data[2] | data[3] << 8);
		break;
	case 'C': /* the reader of a stream has gone: the program learns it as it would on the host, by SIGPIPE */
		if (len >= 1)
			close_stream(data[0] == 'O' ? 0 : 1);
		break;
	case 'V':
		take_request(data, len);
		break;
	case 'L':
		taken();
		break;
	case 'K':
		reboot(RB_POWER_OFF);
		break;
	}
}

/* Frames arrive in pieces: what is not whole yet waits here. */
static void read_control(void)
{
	static unsigned char pending[2 * (INPUT_WINDOW + 3)];
	static size_t have;
	ssize_t n = read(control, pending + have, sizeof pending - have);
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n <= 0)
		fail("read from the control port");
	have += (size_t)n;
	size_t at = 0;
	while (have - at >= 3) {
		size_t len = pending[at + 1] | (size_t)pending[at + 2] << 8;
		if (len > INPUT_WINDOW) {
			errno = EPROTO;
			fail("control port");
		}
		if (have - at - 3 < len)
			break;
		take_frame(pending[at], pending + at + 3, len);
		at += 3 + len;
	}
	memmove(pending, pending + at, have - at);
	have -= at;
}

static void close_input(void)
{
	close(input_fd);
	input_fd = -1;
	if (input_len > 0)
		send_u32('A', (uint32_t)input_len);
	input_len = 0;
}

static void feed_program(void)
{
	if (input_len > 0) {
		ssize_t n = write(input_fd, input, input_len);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n < 0) { /* EPIPE: the program has closed its input */
			close_input();
			return;
		}
		input_len -= (size_t)n;
		memmove(input, input + n, input_len);
		send_u32('A', (uint32_t)n);
	}
	if (input_len == 0 && input_eof)
		close_input();
}

/* Passes on what is there; closes the stream at its end. Returns whether anything came. */
static int drain_stream(char type, int *fd)
{
	char data[FRAME_DATA];
	if (*fd < 0)
		return 0;
	ssize_t n = read(*fd, data, sizeof data);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0) {
		close(*fd);
		*fd = -1;
		return 0;
	}
	send_frame(type, data, (size_t)n);
	return 1;
}

static void reap(void)
{
	char sink[64];
	(void)!read(child_pipe[0], sink, sizeof sink);
	for (;;) {
		int word;
		pid_t pid = waitpid(-1, &word, WNOHANG);
		if (pid <= 0)
			return;
		if (pid == program) {
			PROGRAM_HAS_ENDED();
			ended = 1;
			status = word;
		}
	}
}

static void nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);
	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0)
		fail("O_NONBLOCK");
}

int main(void)
{
	int in[2] = { -1, -1 }, out[2] = { -1, -1 }, err[2] = { -1, -1 };
	mount_devices();
	/* A kernel that could not open /dev/console for us leaves 0, 1 and 2 free: nothing else may land there. */
	int null;
	while ((null = open("/dev/null", O_RDWR)) >= 0 && null < 3)
		;
	if (null >= 3)
		close(null);
	seed_randomness();
	read_job();
	if (job.root) {
		enter_live_root(job.root);
		mount_devices();
	}
	mount_all();
	if (job.root)
		finish_live_root();
	mount_shares();
	(void)!sethostname(job.hostname, strlen(job.hostname));
	open_control();
	make_pipe(child_pipe);
	nonblocking(child_pipe[0]);
	nonblocking(child_pipe[1]);
	struct sigaction on_chld = { .sa_handler = on_child, .sa_flags = SA_RESTART | SA_NOCLDSTOP };
	sigaction(SIGCHLD, &on_chld, NULL);
	signal(SIGPIPE, SIG_IGN);

	if (job.tty) {
		terminal = open(TERMINAL, O_RDWR | O_NOCTTY | O_CLOEXEC);
		if (terminal < 0)
			fail(TERMINAL);
		give_to_user(terminal);
		/* The host sends the size and only then anything else; it must hold before the program looks. */
		send_frame('R', NULL, 0);
		read_control();
	} else {
		make_pipe(in);
		make_pipe(out);
		make_pipe(err);
		give_to_user(in[0]);
		give_to_user(out[1]);
		give_to_user(err[1]);
		send_frame('R', NULL, 0);
	}
	begin_watch();
	PROGRAM_BEGINS();
	program = fork();
	if (program < 0)
		fail("fork");
	if (program == 0)
		become_program(in[0], out[1], err[1]);
	if (!job.tty) {
		close(in[0]);
		close(out[1]);
		close(err[1]);
		input_fd = in[1];
		nonblocking(input_fd);
		nonblocking(stream[0] = out[0]);
		nonblocking(stream[1] = err[0]);
	}

	while (!ended) {
		struct pollfd wait[5] = {
			{ .fd = control, .events = POLLIN },
			{ .fd = child_pipe[0], .events = POLLIN },
			{ .fd = stream[0], .events = POLLIN },
			{ .fd = stream[1], .events = POLLIN },
			{ .fd = input_len > 0 ? input_fd : -1, .events = POLLOUT },
		};
		if (poll(wait, 5, watch_timeout()) < 0) {
			if (errno == EINTR)
				continue;
			fail("poll");
		}
		if (wait[0].revents)
			read_control();
		if (wait[2].revents)
			drain_stream('O', &stream[0]);
		if (wait[3].revents)
			drain_stream('X', &stream[1]);
		if (input_fd >= 0 && (wait[4].revents || input_len > 0 || input_eof))
			feed_program();
		if (wait[1].revents)
			reap();
	}

	/* What it wrote before its end is in the pipes by now. A child left in the background may hold them open for
	 * ever, so "nothing there" is the end, not end-of-file; and may go on writing, so there is a bound. */
	for (int i = 0; i < LARGEST_PIPE / FRAME_DATA && drain_stream('O', &stream[0]); i++)
		;
	for (int i = 0; i < LARGEST_PIPE / FRAME_DATA && drain_stream('X', &stream[1]); i++)
		;
	if (terminal >= 0)
		tcdrain(terminal);
	if (watch.files > 0)
		send_watched();
	/* What the guest has written of the host's files and keeps yet. */
	if (job.writes)
		sync();
	audit();
	send_u32('Q', (uint32_t)status);
	tcdrain(control);
	/* The host ends the machine as soon as it has read that; this is for when it is gone. */
	poll(NULL, 0, 5000);
	reboot(RB_POWER_OFF);
	for (;;)
		pause();
}
