/* Pipes with O_DIRECT: what a write is to who reads, how many fit, and what splice and tee make of it. */
#include "t.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/uio.h>

static char bytes[1 << 17];
static int ends[2];

static void fresh(int flags)
{
	if (ends[1])
		close(ends[0]), close(ends[1]);
	if (pipe2(ends, flags))
		say("no pipe: %s", error_name(errno));
	fcntl(ends[0], F_SETFL, O_NONBLOCK);
}

static void put(const char *text)
{
	long n = write(ends[1], text, strlen(text));
	say("write %s: %ld %s", text, n, error_name(n < 0 ? errno : 0));
}

static void get_from(int fd, size_t len)
{
	char got[200];
	errno = 0;
	long n = read(fd, got, len);
	say("read %zu: %ld %s \"%.*s\"", len, n, error_name(n < 0 ? errno : 0), n > 0 ? (int)n : 0, got);
}

static void get(size_t len) { get_from(ends[0], len); }

static void waiting(void)
{
	int n = -1;
	struct pollfd p[2] = { { .fd = ends[0], .events = POLLIN }, { .fd = ends[1], .events = POLLOUT } };
	ioctl(ends[0], FIONREAD, &n);
	poll(p, 2, 0);
	say("%d bytes, events %x and %x", n, p[0].revents, p[1].revents);
}

static void basics(void)
{
	section("packets");
	fresh(O_DIRECT);
	say("flags %o and %o", fcntl(ends[0], F_GETFL) & ~O_NONBLOCK, fcntl(ends[1], F_GETFL));
	put("one"), put("two"), put("three");
	waiting();
	get(100), get(1), get(100), get(100);
	waiting();
	SHOW(write(ends[1], "", 0));
	waiting();
	struct iovec parts[2] = { { "ab", 2 }, { "cd", 2 } };
	SHOW(writev(ends[1], parts, 2));
	SHOW(writev(ends[1], parts, 2));
	char a[2], b[100];
	struct iovec to[2] = { { a, sizeof a }, { b, sizeof b } };
	SHOW(readv(ends[0], to, 2));
	SHOW(read(ends[0], a, 0));
	get(100);
	close(ends[1]);
	ends[1] = dup(ends[0]);
	get(100);
}

static void large(void)
{
	section("more than a page");
	fresh(O_DIRECT);
	SHOW(write(ends[1], bytes, 10000));
	waiting();
	SHOW(read(ends[0], bytes, sizeof bytes));
	SHOW(read(ends[0], bytes, 10));
	SHOW(read(ends[0], bytes, sizeof bytes));
	SHOW(read(ends[0], bytes, sizeof bytes));
}

static void full(void)
{
	section("full");
	fresh(O_DIRECT | O_NONBLOCK);
	int n = 0;
	while (write(ends[1], "x", 1) == 1)
		n++;
	say("%d packets, then %s", n, error_name(errno));
	waiting();
	SHOW(fcntl(ends[1], F_SETPIPE_SZ, 4096));
	SHOW(fcntl(ends[1], F_SETPIPE_SZ, 1 << 17));
	n = 0;
	while (write(ends[1], bytes, 5000) > 0)
		n++;
	say("%d more, then %s", n, error_name(errno));
	waiting();
	get(5);
	waiting();
	SHOW(write(ends[1], bytes, 4096));
	for (n = 0; read(ends[0], bytes, sizeof bytes) > 0;)
		n++;
	say("%d packets were read", n);
	SHOW(fcntl(ends[1], F_SETPIPE_SZ, 4096));
	SHOW(write(ends[1], bytes, 5000));
	SHOW(write(ends[1], bytes, 1));
	SHOW(read(ends[0], bytes, sizeof bytes));
}

static void mixed(void)
{
	section("with bytes");
	fresh(0);
	put("ab"), put("cd");
	SHOW(fcntl(ends[1], F_SETFL, O_DIRECT));
	say("flags %o", fcntl(ends[1], F_GETFL));
	put("packet"), put("other");
	SHOW(fcntl(ends[1], F_SETFL, 0));
	put("ef"), put("gh");
	waiting();
	get(3), get(3), get(100), get(100), get(100);
	SHOW(fcntl(ends[0], F_SETFL, O_DIRECT | O_NONBLOCK));
	say("flags %o", fcntl(ends[0], F_GETFL));
	put("ab"), put("cd");
	get(3), get(100);
}

static void fifos(void)
{
	section("fifos");
	SHOW(mkfifo("fifo", 0600));
	int reader = open("fifo", O_RDONLY | O_NONBLOCK);
	SHOW(open("fifo", O_WRONLY | O_DIRECT));
	int writer = open("fifo", O_WRONLY);
	SHOW(fcntl(writer, F_SETFL, O_DIRECT));
	SHOW(write(writer, "abc", 3));
	SHOW(write(writer, "de", 2));
	get_from(reader, 2), get_from(reader, 100);
	close(reader), close(writer);
	unlink("fifo");
}

static void spliced(void)
{
	section("splice and tee");
	int other[2];
	pipe2(other, O_NONBLOCK);
	fresh(O_DIRECT | O_NONBLOCK);
	put("abcd"), put("ef"), put("gh");
	SHOW(tee(ends[0], other[1], 100, SPLICE_F_NONBLOCK));
	get_from(other[0], 3), get_from(other[0], 100), get_from(other[0], 100), get_from(other[0], 100);
	SHOW(splice(ends[0], NULL, other[1], NULL, 3, SPLICE_F_NONBLOCK));
	get_from(other[0], 100), get_from(other[0], 100);
	get(100), get(100);
	waiting();
	get(100);
	int file = open("file", O_CREAT | O_RDWR | O_TRUNC, 0600);
	put("abcd"), put("ef");
	SHOW(splice(ends[0], NULL, file, NULL, 3, 0));
	get(100);
	SHOW(splice(ends[0], NULL, file, NULL, 100, 0));
	SHOW(pread(file, bytes, 100, 0));
	off_t at = 0;
	SHOW(splice(file, &at, ends[1], NULL, 5, 0));
	struct iovec part = { "xy", 2 };
	SHOW(vmsplice(ends[1], &part, 1, 0));
	put("zz");
	get(100), get(100);
	/* Packets and room for bytes alone. */
	while (write(other[1], bytes, 4096) > 0)
		;
	SHOW(read(other[0], bytes, 100));
	put("packet");
	SHOW(splice(ends[0], NULL, other[1], NULL, 100, SPLICE_F_NONBLOCK));
	close(file), close(other[0]), close(other[1]);
	unlink("file");
}

static void sleeping(void)
{
	section("who waits");
	fresh(O_DIRECT);
	fcntl(ends[0], F_SETFL, 0);
	pid_t child = must_fork();
	if (child == 0) {
		close(ends[0]);
		for (int i = 1; i <= 40; i++)
			if (write(ends[1], bytes, i) != i)
				_exit(1);
		_exit(0);
	}
	close(ends[1]);
	ends[1] = 0;
	nap(50);
	int right = 1, n, i;
	for (i = 1; (n = read(ends[0], bytes, sizeof bytes)) > 0; i++)
		right &= n == i;
	say("%d packets, %s", i - 1, right ? "in order and whole" : "mixed");
	say("%s", status_text(wait_for(child)));
	close(ends[0]);
	SHOW(pipe2(ends, O_DIRECT | 0x100));
}

int main(void)
{
	basics();
	large();
	full();
	mixed();
	fifos();
	spliced();
	sleeping();
	return 0;
}
