/*
 * The control port (ttyS2) of the guest's first program, and the frames that it sends there.
 *
 * A frame is u8 type, u16 length (little endian), then the data; the types are in host/src/relay/protocol.rs. Whatever goes wrong
 * with the port ends the machine: without it nobody learns what the program did.
 *
 * Included by init.c alone, which reads the frames of the host.
 */
#ifndef FRAMES_H
#define FRAMES_H

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/reboot.h>
#include <termios.h>
#include <unistd.h>

#define CONTROL "/dev/ttyS2"

#define INPUT_WINDOW 3072   /* as in host/src/relay/protocol.rs */
#define FRAME_DATA 4096     /* most data in one frame that we send */

static int control = -1;    /* ttyS2 */

static void say(const char *text)
{
	int fd = open("/dev/console", O_WRONLY | O_NOCTTY);
	if (fd >= 0) {
		(void)!write(fd, text, strlen(text));
		close(fd);
	}
}

/* Nothing can go on without it: says why on the console, where the host finds the last words, and ends the machine. */
static _Noreturn void fail(const char *what)
{
	char text[256];
	snprintf(text, sizeof text, "init: %s: %s\n", what, strerror(errno));
	say(text);
	reboot(RB_POWER_OFF);
	for (;;)
		pause();
}

static void write_all(int fd, const void *data, size_t len)
{
	const char *at = data;
	while (len > 0) {
		ssize_t n = write(fd, at, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			fail("write to the control port");
		at += n;
		len -= (size_t)n;
	}
}

static void send_frame(char type, const void *data, size_t len)
{
	unsigned char frame[3 + FRAME_DATA];
	frame[0] = (unsigned char)type;
	frame[1] = (unsigned char)len;
	frame[2] = (unsigned char)(len >> 8);
	if (len > 0)
		memcpy(frame + 3, data, len);
	write_all(control, frame, 3 + len);
}

static void send_u32(char type, uint32_t value)
{
	unsigned char data[4] = { (unsigned char)value, (unsigned char)(value >> 8), (unsigned char)(value >> 16),
	                          (unsigned char)(value >> 24) };
	send_frame(type, data, sizeof data);
}

static void open_control(void)
{
	struct termios mode;
	control = open(CONTROL, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (control < 0)
		fail(CONTROL);
	if (tcgetattr(control, &mode) != 0)
		fail("terminal settings of " CONTROL);
	cfmakeraw(&mode);
	cfsetspeed(&mode, B115200);
	mode.c_cflag |= CLOCAL | CREAD;
	mode.c_cc[VMIN] = 1;
	mode.c_cc[VTIME] = 0;
	if (tcsetattr(control, TCSANOW, &mode) != 0)
		fail("raw mode of " CONTROL);
}

#endif
