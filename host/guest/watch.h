/*
 * Files that the host wants to see again and again while the program runs (the job's words set, watch, every).
 *
 * Before the program starts each `set` is written, which is FILE=TEXT, and each watched file is sent once; then again whenever so many milliseconds have
 * passed, and once more when the program has ended. A file goes as frames of type P: the number of the file among those watched, then a piece of
 * its text; a frame without text ends it. So what the host has is whole up to its last frame, whatever becomes of the machine.
 *
 * `maps N`: the Nth watched file tells of threads, in the third word of a line, with their names behind the fifth (/proc/darter/samples). The mappings
 * of each that has not been told of under this name come as one more file, numbered behind the others: `THREAD NAME`, then its /proc/PID/maps.
 *
 * Included by init.c alone. A job without these words costs nothing.
 */
#ifndef WATCH_H
#define WATCH_H

#include <time.h>

#include "frames.h"

#define WATCHED 8

static struct {
	const char *file[WATCHED], *set[WATCHED];
	size_t files, sets;
	long maps;     /* the file that tells of threads; -1: none does */
	int64_t every; /* ms */
	int64_t next;  /* when they are due again, ms of the monotonic clock */
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

/* A whole line: the mappings of the thread that it tells of, if they are not known. One that has ended has none. */
static void send_maps(const char *line)
{
	static struct {
		unsigned id;
		char name[16];
	} told[THREADS];
	static size_t next;
	unsigned id;
	char name[16], path[32];
	if (sscanf(line, "%*s %*s %u %*s %*s %15[^\n]", &id, name) != 2 || id == 0)
		return;
	for (size_t i = 0; i < THREADS; i++)
		if (told[i].id == id && !strcmp(told[i].name, name))
			return;
	snprintf(path, sizeof path, "/proc/%u/maps", id);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	told[next].id = id;
	memcpy(told[next].name, name, sizeof name);
	next = (next + 1) % THREADS;
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
	static char line[2048];
	static size_t have;
	for (size_t i = 0; i < len; i++) {
		if (text[i] != '\n') {
			if (have < sizeof line - 1)
				line[have++] = (char)text[i];
			continue;
		}
		line[have] = 0;
		have = 0;
		send_maps(line);
	}
}

static void send_file(size_t number)
{
	unsigned char data[FRAME_DATA];
	data[0] = (unsigned char)number;
	int fd = open(watch.file[number], O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		fail(watch.file[number]);
	ssize_t n;
	while ((n = read(fd, data + 1, sizeof data - 1)) > 0) {
		send_frame('P', data, 1 + (size_t)n);
		if (watch.maps == (long)number)
			take_threads(data + 1, (size_t)n);
	}
	if (n < 0)
		fail(watch.file[number]);
	close(fd);
	send_frame('P', data, 1);
}

static void send_watched(void)
{
	for (size_t i = 0; i < watch.files; i++)
		send_file(i);
	watch.next = now_ms() + watch.every;
}

/* Before the program starts. */
static void begin_watch(void)
{
	for (size_t i = 0; i < watch.sets; i++) {
		char path[256];
		const char *text = strchr(watch.set[i], '=');
		size_t len = text ? (size_t)(text - watch.set[i]) : sizeof path;
		if (len >= sizeof path) {
			errno = EINVAL;
			fail("a word of the job");
		}
		memcpy(path, watch.set[i], len);
		path[len] = 0;
		int fd = open(path, O_WRONLY | O_CLOEXEC);
		if (fd < 0 || write(fd, text + 1, strlen(text + 1)) < 0)
			fail(path);
		close(fd);
	}
	if (watch.files > 0)
		send_watched();
}

/* For poll: how long until they are due; -1: nothing ever is. Sends those that are. */
static int watch_timeout(void)
{
	if (watch.files == 0 || watch.every <= 0)
		return -1;
	int64_t left = watch.next - now_ms();
	if (left <= 0) {
		send_watched();
		left = watch.every;
	}
	return (int)left;
}

#endif
