/*
 * Files that the host wants to see again and again while the program runs (the words set, watch, every, maps of the job or of a request).
 *
 * At first each `set` is written, which is FILE=TEXT, and each watched file is sent once; then again whenever so many milliseconds have
 * passed, and once more at the end. A file goes as frames of type P: the number of the file among those watched, then a piece of
 * its text; a frame without text ends it. So what the host has is whole up to its last frame, whatever becomes of the machine.
 *
 * `maps N`: the Nth watched file tells of threads, in the third word of a line, with their names behind the fifth (/proc/darter/samples). The mappings
 * of each that has not been told of under this name come as one more file, numbered behind the others: `THREAD NAME`, then its /proc/PID/maps.
 *
 * The words stand in the job, and hold from before the program starts to its end; or somebody attaches while it runs. Then a frame V of the host has the words.
 * After all files have come once we send a frame L, and wait with the next time for the host's own L, which says that all has been taken: so who is slow gets
 * less, and holds up nobody. A frame V without words ends it: the files are sent once more, each file that was set gets what it said before, in the second word of its
 * second line, and our V answers. A V of ours with a text says that it has ended so because of an error; the machine goes on.
 *
 * Included by init.c alone. Where there are no such words this costs nothing.
 */
#ifndef WATCH_H
#define WATCH_H

#include <time.h>

#include "frames.h"

#define WATCHED 8
#define PLACE 256   /* bytes of a name of a file that is set */
#define REQUEST 512 /* bytes of a request; as in host/src/attach/wire.rs */

static struct {
	const char *file[WATCHED], *set[WATCHED];
	size_t files, sets;
	long maps;     /* the file that tells of threads; -1: none does */
	int64_t every; /* ms */
	int64_t next;  /* when they are due again, ms of the monotonic clock */
	int attached;  /* the words are a request's */
	int untaken;   /* the host has not said yet that it has taken what was sent last */
	size_t done;   /* of the sets of a request: those that are to be undone */
	char before[WATCHED][32];
} watch = { .maps = -1 };

static int64_t now_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Takes one of the job's words; says whether it is one of these. */
static int take_watch(const char *key, const char *value)
{
	if (!strcmp(key, "every"))
		watch.every = strtol(value, NULL, 10);
	else if (!strcmp(key, "maps"))
		watch.maps = strtol(value, NULL, 10);
	else if (!strcmp(key, "watch") && watch.files < WATCHED)
		watch.file[watch.files++] = value;
	else if (!strcmp(key, "set") && watch.sets < WATCHED)
		watch.set[watch.sets++] = value;
	else
		return 0;
	return 1;
}

/* The rest of an open file as a file of this number, which ends with it. */
static ssize_t send_rest(size_t number, int fd)
{
	unsigned char data[FRAME_DATA];
	ssize_t n;
	data[0] = (unsigned char)number;
	while ((n = read(fd, data + 1, sizeof data - 1)) > 0)
		send_frame('P', data, 1 + (size_t)n);
	send_frame('P', data, 1);
	return n;
}

#define THREADS 512 /* told of lately */

static struct {
	struct {
		unsigned id;
		char name[16];
	} told[THREADS];
	size_t next;
	char line[2048]; /* as far as it has come */
	size_t have;
} threads;

/* A whole line: the mappings of the thread that it tells of, if they are not known. One that has ended has none. */
static void send_maps(const char *line)
{
	unsigned id;
	char name[16], path[32];
	if (sscanf(line, "%*s %*s %u %*s %*s %15[^\n]", &id, name) != 2 || id == 0)
		return;
	for (size_t i = 0; i < THREADS; i++)
		if (threads.told[i].id == id && !strcmp(threads.told[i].name, name))
			return;
	snprintf(path, sizeof path, "/proc/%u/maps", id);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	threads.told[threads.next].id = id;
	memcpy(threads.told[threads.next].name, name, sizeof name);
	threads.next = (threads.next + 1) % THREADS;
	char head[1 + 32];
	head[0] = (char)watch.files;
	int len = snprintf(head + 1, sizeof head - 1, "%u %s\n", id, name);
	send_frame('P', head, 1 + (size_t)len);
	send_rest(watch.files, fd);
	close(fd);
}

/* Puts lines together from the pieces of the file. One that is too long is cut, as its end tells nothing. */
static void take_threads(const unsigned char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (text[i] != '\n') {
			if (threads.have < sizeof threads.line - 1)
				threads.line[threads.have++] = (char)text[i];
			continue;
		}
		threads.line[threads.have] = 0;
		threads.have = 0;
		send_maps(threads.line);
	}
}

/* Returns 0, or -1 with errno: the file cannot be read. */
static int send_file(size_t number)
{
	unsigned char data[FRAME_DATA];
	data[0] = (unsigned char)number;
	int fd = open(watch.file[number], O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	ssize_t n;
	while ((n = read(fd, data + 1, sizeof data - 1)) > 0) {
		send_frame('P', data, 1 + (size_t)n);
		if (watch.maps == (long)number)
			take_threads(data + 1, (size_t)n);
	}
	int error = errno;
	close(fd);
	errno = error;
	if (n < 0)
		return -1;
	send_frame('P', data, 1);
	return 0;
}

/* A word FILE=TEXT: puts the name into `path`, returns the text, or NULL with errno. */
static const char *split(const char *word, char path[PLACE])
{
	const char *text = strchr(word, '=');
	size_t len = text ? (size_t)(text - word) : PLACE;
	if (len >= PLACE) {
		errno = EINVAL;
		return NULL;
	}
	memcpy(path, word, len);
	path[len] = 0;
	return text + 1;
}

/* Returns 0, or -1 with errno. */
static int write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	ssize_t n = write(fd, text, strlen(text));
	int error = errno;
	close(fd);
	errno = error;
	return n < 0 ? -1 : 0;
}

/* What is to be written into the file so that it says again what it says now: the second word of its second line. Returns 0, or -1 with errno. */
static int setting_of(const char *path, char *to, size_t room)
{
	char text[256];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	ssize_t n = read(fd, text, sizeof text - 1);
	int error = errno;
	close(fd);
	errno = error;
	if (n < 0)
		return -1;
	text[n] = 0;
	const char *word = strchr(text, '\n');
	word = word ? strchr(word, ' ') : NULL;
	size_t len = word ? strcspn(++word, " \n") : 0;
	if (len == 0 || len >= room) {
		errno = EINVAL;
		return -1;
	}
	memcpy(to, word, len);
	to[len] = 0;
	return 0;
}

/* Sets the files back, the last one first. One that cannot be is left. */
static void restore(void)
{
	char path[PLACE];
	while (watch.done > 0) {
		watch.done--;
		if (split(watch.set[watch.done], path))
			write_text(path, watch.before[watch.done]);
	}
}

/* Nothing is watched any more: forgets the request and answers with what was wrong, if anything was. */
static void detach(const char *what, int error)
{
	char text[PLACE + 128] = "";
	restore();
	if (what)
		snprintf(text, sizeof text, "%s: %s", what, strerror(error));
	memset(&watch, 0, sizeof watch);
	watch.maps = -1;
	send_frame('V', text, strlen(text));
}

/* Something cannot be done: without what the job asks for nothing goes on, and who attached is told. */
static void refuse(const char *what)
{
	if (!watch.attached)
		fail(what);
	detach(what, errno);
}

static void send_watched(void)
{
	for (size_t i = 0; i < watch.files; i++) {
		if (send_file(i) != 0) {
			refuse(watch.file[i]);
			return;
		}
	}
	if (watch.attached) {
		send_frame('L', NULL, 0);
		watch.untaken = 1;
	}
	watch.next = now_ms() + watch.every;
}

/* Before the program starts, and when somebody attaches. */
static void begin_watch(void)
{
	for (size_t i = 0; i < watch.sets; i++) {
		char path[PLACE];
		const char *text = split(watch.set[i], path);
		if (!text) {
			refuse("a word of what is to be set");
			return;
		}
		if (watch.attached) {
			if (setting_of(path, watch.before[i], sizeof watch.before[i]) != 0) {
				refuse(path);
				return;
			}
			watch.done = i + 1;
		}
		if (write_text(path, text) != 0) {
			refuse(path);
			return;
		}
	}
	if (watch.files > 0)
		send_watched();
}

/* Somebody attaches, with these words, or goes: without any. The host lets in one at a time, and none where the job has files watched. */
static void take_request(const unsigned char *words, size_t len)
{
	static char text[REQUEST + 1];
	if (len == 0) {
		if (watch.attached)
			send_watched();
		if (watch.attached)
			detach(NULL, 0);
		return;
	}
	if (watch.files > 0 || len > REQUEST) {
		errno = watch.files > 0 ? EBUSY : E2BIG;
		fail("a request to watch");
	}
	memcpy(text, words, len);
	text[len] = 0;
	watch.attached = 1;
	memset(&threads, 0, sizeof threads);
	for (char *at = text; at < text + len;) {
		char *key = at, *value = key + strlen(key) + 1;
		if (value >= text + len || !take_watch(key, value)) {
			detach("a word of the request", EINVAL);
			return;
		}
		at = value + strlen(value) + 1;
	}
	if (watch.files == 0 || watch.every <= 0)
		detach("a request that watches nothing", EINVAL);
	else
		begin_watch();
}

/* The host has taken all that was sent. */
static void taken(void)
{
	watch.untaken = 0;
}

/* For poll: how long until they are due; -1: nothing ever is. Sends those that are. */
static int watch_timeout(void)
{
	if (watch.files == 0 || watch.every <= 0 || watch.untaken)
		return -1;
	int64_t left = watch.next - now_ms();
	if (left <= 0) {
		send_watched();
		if (watch.files == 0 || watch.untaken)
			return -1;
		left = watch.every;
	}
	return (int)left;
}

#endif
