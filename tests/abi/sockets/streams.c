/* Streams by name: bind, listen, connect, accept; the errors of each; the backlog; files of names and their permissions; unread bytes. */
#include "s.h"

static char buffer[4096];

static void order(void)
{
	section("order");
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	show_poll("new", fd);
	SHOW(listen(fd, 1));
	SHOW(accept(fd, 0, 0));
	SHOW(recv(fd, buffer, 1, 0));
	SHOW(send(fd, "x", 1, 0));
	SHOW(write(fd, "", 0));
	show_names(fd);
	SHOW(connect_to(fd, "none"));
	write_file("plain", "");
	SHOW(connect_to(fd, "plain"));
	SHOW(connect_to(fd, "@none"));
	SHOW(bind_to(fd, "here"));
	SHOW(connect_to(fd, "here"));
	struct stat st;
	SHOW(stat("here", &st));
	say("%o", st.st_mode);
	SHOW(open("here", O_RDWR));
	SHOW(bind_to(fd, "there"));
	SHOW(access("there", F_OK));
	SHOW(bind_to(fd, "here"));
	int other = socket(AF_UNIX, SOCK_STREAM, 0);
	SHOW(bind_to(other, "here"));
	SHOW(bind_to(other, "no/where"));
	SHOW(bind_to(other, "plain/x"));
	SHOW(bind_to(other, "dir/"));
	SHOW(bind_to(other, "here/"));
	SHOW(bind_to(other, "/"));
	SHOW(bind_to(other, "."));
	SHOW(listen(fd, 0));
	SHOW(listen(fd, 1));
	show_poll("listens", fd);
	SHOW(connect_to(fd, "here"));
	SHOW(option(fd, SO_ACCEPTCONN));
	SHOW(option(other, SO_ACCEPTCONN));
	SHOW(recv(fd, buffer, 1, 0));
	SHOW(send(fd, "x", 1, 0));
	int n;
	SHOW(ioctl(fd, SIOCINQ, &n));
	SHOW(connect_to(other, "here"));
	show_poll("somebody waits", fd);
	show_names(other);
	SHOW(connect_to(other, "here"));
	SHOW(listen(other, 1));
	SHOW(bind_to(other, "late"));
	SHOW(send(other, "early", 5, 0));
	struct sockaddr_un name;
	socklen_t len = sizeof name;
	int end = accept4(fd, (struct sockaddr *)&name, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
	SHOW_OK(end);
	say_name("accepted from", &name, len);
	SHOW(fcntl(end, F_GETFL));
	SHOW(fcntl(end, F_GETFD));
	show_names(end);
	SHOW(recv(end, buffer, 10, 0));
	SHOW(recv(end, buffer, 10, 0));
	SHOW(syscall(SYS_accept4, fd, 0, 0, 1));
	SHOW(fcntl(fd, F_SETFL, O_NONBLOCK));
	SHOW(accept(fd, 0, 0));
	SHOW(unlink("here"));
	int late = socket(AF_UNIX, SOCK_STREAM, 0);
	SHOW(connect_to(late, "here"));
	SHOW(close(fd));
	SHOW(send(other, "still", 5, 0));
	SHOW(recv(end, buffer, 10, 0));
	SHOW(close(end));
	show_poll("peer closed", other);
	SHOW(recv(other, buffer, 10, 0));
	SHOW(recv(other, buffer, 10, 0));
}

static void refused(void)
{
	section("refused");
	int fd = listener(SOCK_STREAM, "listens", 2), packets = listener(SOCK_SEQPACKET, "packets", 2);
	int one = socket(AF_UNIX, SOCK_SEQPACKET, 0), two = socket(AF_UNIX, SOCK_DGRAM, 0), three = socket(AF_UNIX, SOCK_STREAM, 0);
	SHOW(connect_to(one, "listens"));
	SHOW(connect_to(two, "listens"));
	SHOW(connect_to(three, "packets"));
	SHOW(connect_to(one, "packets"));
	SHOW(connect(three, (struct sockaddr *)16, 10));
	struct sockaddr_un name = { AF_UNIX, "listens" };
	SHOW(connect(three, (struct sockaddr *)&name, 1));
	SHOW(connect(three, (struct sockaddr *)&name, 2));
	SHOW(connect(three, (struct sockaddr *)&name, 111));
	SHOW(connect(three, (struct sockaddr *)&name, 200));
	SHOW(connect(three, (struct sockaddr *)&name, -1));
	name.sun_family = AF_UNSPEC;
	SHOW(connect(three, (struct sockaddr *)&name, sizeof name));
	name.sun_family = 2;
	SHOW(connect(three, (struct sockaddr *)&name, sizeof name));
	SHOW(bind(three, (struct sockaddr *)&name, sizeof name));
	SHOW(symlink("listens", "link"));
	SHOW(connect_to(three, "link"));
	SHOW(close(fd));
	int four = socket(AF_UNIX, SOCK_STREAM, 0);
	SHOW(connect_to(four, "listens"));
	SHOW(recv(three, buffer, 1, 0));
	SHOW(send(three, "x", 1, MSG_NOSIGNAL));
	SHOW(recv(three, buffer, 1, 0));
	SHOW(option(three, SO_ERROR));
	SHOW(option(three, SO_ERROR));
	close(packets);
}

static void backlog(void)
{
	section("backlog");
	int fd = listener(SOCK_STREAM, "@backlog", 1);
	int got = 0;
	for (int i = 0; i < 6; i++) {
		int s = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
		if (connect_to(s, "@backlog") == 0)
			got++;
		else
			say("%d: %s", i, error_name(errno));
	}
	SHOW(got);
	int s = socket(AF_UNIX, SOCK_STREAM, 0);
	struct timeval time = { 0, 20000 };
	SHOW(setsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time));
	SHOW(connect_to(s, "@backlog"));
	pid_t child = must_fork();
	if (child == 0) {
		int s = socket(AF_UNIX, SOCK_STREAM, 0);
		char byte;
		_exit(connect_to(s, "@backlog") ? 1 : read(s, &byte, 1) == 1 ? 0 : 2);
	}
	nap(30);
	SHOW_OK(accept(fd, 0, 0));
	nap(30);
	SHOW_OK(accept(fd, 0, 0));
	int last = accept(fd, 0, 0);
	SHOW_OK(last);
	long written = write(last, "x", 1);
	say("child: %s", status_text(wait_for(child)));
	SHOW(written);
	SHOW(listen(fd, 3));
	got = 0;
	for (int i = 0; i < 6; i++)
		got += connect_to(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0), "@backlog") == 0;
	SHOW(got);
	SHOW(shutdown(fd, SHUT_RD));
	SHOW(connect_to(socket(AF_UNIX, SOCK_STREAM, 0), "@backlog"));
	got = 0;
	while (accept(fd, 0, 0) >= 0)
		got++;
	say("%d accepted, then %s", got, error_name(errno));
}

static void unread(void)
{
	section("unread");
	for (int i = 0; i < 2; i++) {
		int ends[2];
		socketpair(AF_UNIX, i ? SOCK_SEQPACKET : SOCK_STREAM, 0, ends);
		write(ends[0], "lost", 4);
		write(ends[1], "kept", 4);
		SHOW(close(ends[1]));
		show_poll("after", ends[0]);
		SHOW(recv(ends[0], buffer, 10, 0));
		SHOW(recv(ends[0], buffer, 10, 0));
		SHOW(recv(ends[0], buffer, 10, 0));
		SHOW(option(ends[0], SO_ERROR));
	}
}

static void rights(void)
{
	section("permissions");
	umask(0);
	int fd = listener(SOCK_STREAM, "open", 9);
	umask(022);
	int closed = listener(SOCK_STREAM, "guarded", 9);
	struct stat st;
	SHOW(stat("open", &st));
	say("%o", st.st_mode);
	SHOW(stat("guarded", &st));
	say("%o", st.st_mode);
	int own = socket(AF_UNIX, SOCK_STREAM, 0);
	SHOW(fchmod(own, 0640));
	SHOW(bind_to(own, "chosen"));
	SHOW(stat("chosen", &st));
	say("%o", st.st_mode);
	chmod(".", 0755);
	pid_t child = must_fork();
	if (child == 0) {
		SHOW(setgid(1000));
		SHOW(setuid(1000));
		SHOW(connect_to(socket(AF_UNIX, SOCK_STREAM, 0), "open"));
		SHOW(connect_to(socket(AF_UNIX, SOCK_STREAM, 0), "guarded"));
		SHOW(bind_to(socket(AF_UNIX, SOCK_STREAM, 0), "mine"));
		_exit(0);
	}
	wait_for(child);
	close(fd);
	close(closed);
}

int main(void)
{
	order();
	refused();
	backlog();
	unread();
	rights();
	return 0;
}
