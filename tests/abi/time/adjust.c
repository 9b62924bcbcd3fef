/* adjtimex and clock_adjtime: what they tell, what they refuse, and that the clocks really run as they say. All is put back at the end. */
#include "t.h"

#include <stddef.h>
#include <sys/timex.h>

#ifndef ADJ_OFFSET_SS_READ
#define ADJ_OFFSET_SS_READ 0xa001
#endif
#define ADJ_ADJTIME_ONLY 0x8000
#define FULL 16000000

/* musl's adjtimex is clock_adjtime: the calls themselves. */
static int adjust(struct timex *timex) { return (int)syscall(SYS_adjtimex, timex); }
static int adjust_clock(int clock, struct timex *timex) { return (int)syscall(SYS_clock_adjtime, clock, timex); }

/* The state as adjtimex names it. */
static const char *state(int number)
{
	static const char *const names[] = { "ok", "ins", "del", "oop", "wait", "error" };
	return number < 0 ? error_name(errno) : number < 6 ? names[number] : "?";
}

/* Errors grow with each second, so they are told to the nearest tens of milliseconds. */
static long rough(long error)
{
	return (error + 5000) / 10000 * 10000;
}

static void tell(const char *text, int result, const struct timex *t)
{
	say("%s: %s offset %ld freq %ld max %ld est %ld status %x constant %ld precision %ld tolerance %ld tick %ld tai %d", text, state(result),
	    t->offset, t->freq, rough(t->maxerror), t->esterror, t->status, t->constant, t->precision, t->tolerance, t->tick, t->tai);
}

static struct timex with(unsigned modes)
{
	struct timex t;
	memset(&t, 0x55, sizeof t);
	t.modes = modes;
	return t;
}

static void ask(const char *text)
{
	struct timex t = with(0);
	tell(text, adjust(&t), &t);
}

/* Makes one change, and says how the clock stands then. */
#define CHANGE(text, ...) do { \
	struct timex t = { __VA_ARGS__ }; \
	int result = (errno = 0, adjust(&t)); \
	tell(text, result, &t); \
} while (0)

static void plain(void)
{
	section("as it is");
	struct timex t = with(0);
	tell("adjtimex", adjust(&t), &t);
	say("signal %ld %ld %d %ld %ld %ld %ld %ld, modes %x", t.ppsfreq, t.jitter, t.shift, t.stabil, t.jitcnt, t.calcnt, t.errcnt, t.stbcnt, t.modes);
	/* What lies between and behind the fields stays. */
	unsigned char *bytes = (unsigned char *)&t;
	say("gaps %x %x %x %x", bytes[4], bytes[44], bytes[116], bytes[207]);
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	CHECK(t.time.tv_usec >= 0 && t.time.tv_usec < 1000000);
	CHECK(now.tv_sec - t.time.tv_sec <= 10 && now.tv_sec >= t.time.tv_sec);
	t = with(0);
	tell("clock_adjtime", adjust_clock(CLOCK_REALTIME, &t), &t);
	SHOW(sizeof t);
}

static void refused(void)
{
	section("refused");
	SHOW(syscall(SYS_adjtimex, (void *)1));
	SHOW(syscall(SYS_clock_adjtime, 0, (void *)1));
	SHOW(syscall(SYS_clock_adjtime, 99, (void *)1));
	for (int clock = -16; clock <= 17; clock++) {
		struct timex t = with(0);
		if (clock)
			say("clock %d: %s", clock, state(adjust_clock(clock, &t)));
	}
	CHANGE("tick too short", .modes = ADJ_TICK, .tick = 8999);
	CHANGE("tick too long", .modes = ADJ_TICK, .tick = 11001);
	CHANGE("frequency that no word holds", .modes = ADJ_FREQUENCY, .freq = 0x7fffffffffffffffl / 65536000 + 1);
	CHANGE("and below", .modes = ADJ_FREQUENCY, .freq = -0x7fffffffffffffffl / 65536000 - 1);
	CHANGE("microseconds", .modes = ADJ_SETOFFSET, .time = { 0, 1000000 });
	CHANGE("microseconds below 0", .modes = ADJ_SETOFFSET, .time = { 0, -1 });
	CHANGE("nanoseconds", .modes = ADJ_SETOFFSET | ADJ_NANO, .time = { 0, 1000000000 });
	CHANGE("before 1970", .modes = ADJ_SETOFFSET, .time = { -0x7fffffffl * 4, 0 });
	CHANGE("after the end", .modes = ADJ_SETOFFSET, .time = { 0x7fffffffffffffl, 0 });
	CHANGE("a bad tick beside a single adjustment", .modes = ADJ_OFFSET_SINGLESHOT | ADJ_TICK, .tick = 1);
}

static void as_user(void)
{
	if (setgid(1000) || setuid(1000))
		_exit(1);
	ask("adjtimex");
	static const unsigned modes[] = { ADJ_OFFSET, ADJ_FREQUENCY, ADJ_MAXERROR, ADJ_ESTERROR, ADJ_STATUS, ADJ_TIMECONST, ADJ_SETOFFSET, ADJ_MICRO,
		ADJ_NANO, ADJ_TICK, ADJ_TAI, ADJ_OFFSET_SINGLESHOT, ADJ_ADJTIME_ONLY, ADJ_OFFSET_SS_READ, ADJ_OFFSET_SS_READ | ADJ_SETOFFSET, 0x40 };
	for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
		struct timex t = with(modes[i]);
		say("%x: %s", modes[i], state(adjust(&t)));
	}
	CHANGE("a bad tick", .modes = ADJ_TICK, .tick = 1);
}

/* Each mode by each call. */
static void modes(void)
{
	static const unsigned all[] = { ADJ_STATUS, ADJ_SETOFFSET, ADJ_OFFSET, ADJ_FREQUENCY, ADJ_MAXERROR, ADJ_ESTERROR, ADJ_TIMECONST, ADJ_MICRO,
		ADJ_NANO, ADJ_TICK, ADJ_TAI, ADJ_OFFSET_SINGLESHOT, ADJ_OFFSET_SS_READ, ADJ_MICRO };
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		struct timex first = { .modes = all[i], .tick = 10000 }, second = first;
		int by_clock = adjust_clock(CLOCK_REALTIME, &second);
		say("%x: %s %s", all[i], state(adjust(&first)), state(by_clock));
	}
	ask("then");
}

static void values(void)
{
	section("modes");
	modes();
	section("values");
	CHANGE("frequency", .modes = ADJ_FREQUENCY, .freq = 12345);
	CHANGE("below", .modes = ADJ_FREQUENCY, .freq = -7);
	CHANGE("too high", .modes = ADJ_FREQUENCY, .freq = 1l << 32);
	CHANGE("too low", .modes = ADJ_FREQUENCY, .freq = -32768001);
	CHANGE("none", .modes = ADJ_FREQUENCY, .freq = 0);
	CHANGE("errors", .modes = ADJ_MAXERROR | ADJ_ESTERROR, .maxerror = 1000000, .esterror = 77);
	CHANGE("too much", .modes = ADJ_MAXERROR | ADJ_ESTERROR, .maxerror = FULL * 2l, .esterror = FULL + 1l);
	CHANGE("too little", .modes = ADJ_ESTERROR, .esterror = -5);
	CHANGE("constant", .modes = ADJ_TIMECONST, .constant = 3);
	CHANGE("constant, the finer", .modes = ADJ_NANO | ADJ_TIMECONST, .constant = 3);
	CHANGE("constant, too high", .modes = ADJ_TIMECONST, .constant = 11);
	CHANGE("constant, below", .modes = ADJ_MICRO | ADJ_TIMECONST, .constant = -1);
	CHANGE("constant, of long", .modes = ADJ_TIMECONST, .constant = 0x7fffffffffffffffl);
	CHANGE("both units", .modes = ADJ_NANO | ADJ_MICRO);
	CHANGE("TAI", .modes = ADJ_TAI, .constant = 37);
	CHANGE("TAI, below", .modes = ADJ_TAI, .constant = -1);
	CHANGE("TAI, too far", .modes = ADJ_TAI, .constant = 100001);
	CHANGE("TAI, far", .modes = ADJ_TAI, .constant = 100000);
	CHANGE("TAI and the constant", .modes = ADJ_TAI | ADJ_TIMECONST, .constant = 2);
	CHANGE("TAI, none", .modes = ADJ_TAI, .constant = 0);
	CHANGE("tick", .modes = ADJ_TICK, .tick = 10001);
	CHANGE("tick as it was", .modes = ADJ_TICK, .tick = 10000);
	section("status");
	CHANGE("in step", .modes = ADJ_STATUS | ADJ_MAXERROR, .status = 0);
	CHANGE("bits that are read only", .modes = ADJ_STATUS, .status = 0xff00);
	CHANGE("others", .modes = ADJ_STATUS, .status = STA_PPSFREQ | STA_PPSTIME | STA_FLL | STA_FREQHOLD);
	CHANGE("loop", .modes = ADJ_STATUS, .status = STA_PLL | STA_FREQHOLD);
	CHANGE("not in step", .modes = ADJ_STATUS, .status = STA_PLL | STA_FREQHOLD | STA_UNSYNC);
	CHANGE("loop, in step", .modes = ADJ_STATUS, .status = STA_PLL | STA_FREQHOLD);
	CHANGE("loop ends", .modes = ADJ_STATUS, .status = STA_FREQHOLD);
	CHANGE("ns", .modes = ADJ_NANO);
	ask("then");
	CHANGE("µs", .modes = ADJ_MICRO);
	CHANGE("an offset without a loop", .modes = ADJ_OFFSET, .offset = 1000);
}

/* Differences to another clock. */
static double seconds(clockid_t clock, int direct)
{
	struct timespec at;
	if (direct)
		syscall(SYS_clock_gettime, clock, &at);
	else
		clock_gettime(clock, &at);
	return (double)at.tv_sec + (double)at.tv_nsec / 1e9;
}

/* How much faster than the raw clock another runs, in parts in a thousand, to the nearest ten, over 300 ms. */
static long faster(clockid_t clock, int direct)
{
	/* A virtual CPU may lose its turn between two readings: the closest ones count. */
	double raw[2] = { 0, 0 }, other[2] = { 0, 0 };
	for (int end = 0; end < 2; end++) {
		double best = 1;
		for (int i = 0; i < 50; i++) {
			double before = seconds(CLOCK_MONOTONIC_RAW, direct), is = seconds(clock, direct), after = seconds(CLOCK_MONOTONIC_RAW, direct);
			if (after - before < best)
				best = after - before, raw[end] = (before + after) / 2, other[end] = is;
		}
		if (!end)
			nap(300);
	}
	double parts = ((other[1] - other[0]) / (raw[1] - raw[0]) - 1) * 1000;
	return (long)(parts < 0 ? parts / 10 - 0.5 : parts / 10 + 0.5) * 10;
}

static void rates(const char *text)
{
	long real = faster(CLOCK_REALTIME, 0), monotonic = faster(CLOCK_MONOTONIC, 0);
	say("%s: real %ld, monotonic %ld, by calls %ld %ld", text, real, monotonic, faster(CLOCK_REALTIME, 1), faster(CLOCK_MONOTONIC, 1));
}

static void carried_out(void)
{
	section("carried out");
	rates("as it was");
	CHANGE("tick", .modes = ADJ_TICK, .tick = 11000);
	rates("a tenth faster");
	struct timespec before, after, nap_time = { 0, 200000000 };
	clock_gettime(CLOCK_MONOTONIC_RAW, &before);
	nanosleep(&nap_time, 0);
	clock_gettime(CLOCK_MONOTONIC_RAW, &after);
	long took = (after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000;
	CHECK(took >= 180);
	CHANGE("tick", .modes = ADJ_TICK, .tick = 9000);
	rates("a tenth slower");
	clock_gettime(CLOCK_MONOTONIC_RAW, &before);
	nanosleep(&nap_time, 0);
	clock_gettime(CLOCK_MONOTONIC_RAW, &after);
	took = (after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000;
	CHECK(took >= 220);
	CHANGE("tick", .modes = ADJ_TICK, .tick = 10000);
	rates("as it was again");
	/* It never goes back, whatever the rate does. */
	struct timespec last = { 0, 0 };
	int back = 0;
	for (int i = 0; i < 20000; i++) {
		if (i % 100 == 0) {
			struct timex t = { .modes = ADJ_TICK, .tick = i % 200 ? 9000 : 11000 };
			adjust(&t);
		}
		struct timespec now;
		if (i & 1)
			clock_gettime(CLOCK_MONOTONIC, &now);
		else
			syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
		back += now.tv_sec < last.tv_sec || (now.tv_sec == last.tv_sec && now.tv_nsec < last.tv_nsec);
		last = now;
	}
	SHOW(back);
	struct timex t = { .modes = ADJ_TICK, .tick = 10000 };
	adjust(&t);
}

/* By how much the wall clock is ahead of the raw one, in ms. */
static double ahead(void)
{
	double best = 1, found = 0;
	for (int i = 0; i < 50; i++) {
		double before = seconds(CLOCK_MONOTONIC_RAW, 0), is = seconds(CLOCK_REALTIME, 0), after = seconds(CLOCK_MONOTONIC_RAW, 0);
		if (after - before < best)
			best = after - before, found = is - (before + after) / 2;
	}
	return found * 1000;
}

/* Whole units of `size` ms, to the nearest. */
static long units(double ms, double size)
{
	return (long)(ms < 0 ? ms / size - 0.5 : ms / size + 0.5);
}

static void moved(void)
{
	section("moved at once");
	double was = ahead();
	CHANGE("three seconds", .modes = ADJ_SETOFFSET, .time = { 3, 0 });
	SHOW(units(ahead() - was, 500));
	CHANGE("two and a half back", .modes = ADJ_SETOFFSET | ADJ_NANO, .time = { -3, 500000000 });
	SHOW(units(ahead() - was, 500));
	CHANGE("half a second back", .modes = ADJ_SETOFFSET | ADJ_MICRO, .time = { -1, 500000 });
	SHOW(units(ahead() - was, 500));
	CHANGE("errors and status", .modes = ADJ_STATUS | ADJ_MAXERROR | ADJ_ESTERROR, .status = 0);
	CHANGE("moved by nothing", .modes = ADJ_SETOFFSET, .time = { 0, 0 });

	section("moved slowly");
	CHANGE("loop", .modes = ADJ_STATUS | ADJ_NANO | ADJ_TIMECONST | ADJ_MAXERROR | ADJ_ESTERROR, .status = STA_PLL | STA_FREQHOLD);
	was = ahead();
	struct timex t = { .modes = ADJ_OFFSET, .offset = 200000000 };
	tell("offset", adjust(&t), &t);
	nap(3300);
	/* Three or four of its seconds: 116 or 137 ms. */
	double by = ahead() - was;
	CHECK(by > 80 && by < 160);
	t = (struct timex){ 0 };
	adjust(&t);
	CHECK(t.offset > 40000000 && t.offset < 120000000);
	CHECK(t.freq == 0);
	CHANGE("offset taken back", .modes = ADJ_OFFSET, .offset = 0);
	CHANGE("too far", .modes = ADJ_OFFSET, .offset = 0x7fffffffffffffffl);
	CHANGE("taken back", .modes = ADJ_OFFSET | ADJ_MICRO, .offset = 0);
	CHANGE("µs, too far", .modes = ADJ_OFFSET, .offset = -0x7fffffffffffffffl);
	CHANGE("taken back again", .modes = ADJ_OFFSET, .offset = 0);
	CHANGE("loop ends", .modes = ADJ_OFFSET | ADJ_STATUS, .status = 0);

	section("moved once");
	CHANGE("none", .modes = ADJ_OFFSET_SS_READ);
	was = ahead();
	CHANGE("2 ms", .modes = ADJ_OFFSET_SINGLESHOT, .offset = 2000);
	nap(2500);
	t = (struct timex){ .modes = ADJ_OFFSET_SS_READ };
	adjust(&t);
	CHECK(t.offset == 1000 || t.offset == 500);
	by = ahead() - was;
	CHECK(by > 0.3 && by < 2);
	t = (struct timex){ .modes = ADJ_OFFSET_SINGLESHOT, .offset = -7 };
	adjust(&t);
	CHECK(t.offset == 1000 || t.offset == 500 || t.offset == 0);
	CHANGE("stop", .modes = ADJ_OFFSET_SINGLESHOT, .offset = 0);
	nap(1100);
	CHANGE("stopped", .modes = ADJ_OFFSET_SS_READ);
}

static void tai(void)
{
	section("TAI");
	CHANGE("37", .modes = ADJ_TAI, .constant = 37);
	SHOW(units((seconds(CLOCK_TAI, 0) - seconds(CLOCK_REALTIME, 0)) * 1000, 500));
	SHOW(units((seconds(CLOCK_TAI, 1) - seconds(CLOCK_REALTIME, 1)) * 1000, 500));
	struct timespec at;
	clock_gettime(CLOCK_TAI, &at);
	at.tv_nsec += 300000000;
	at.tv_sec += at.tv_nsec / 1000000000, at.tv_nsec %= 1000000000;
	long began = ms(CLOCK_MONOTONIC);
	SHOW(clock_nanosleep(CLOCK_TAI, TIMER_ABSTIME, &at, 0));
	began = ms(CLOCK_MONOTONIC) - began;
	CHECK(began >= 295 && began < 10000);
	CHANGE("none", .modes = ADJ_TAI, .constant = 0);
}

/* The clock is set to 23:59:57 of some day. */
static void leap(const char *text, int bit)
{
	enum { DAY = 86400 };
	struct timespec was, mono, now, mono_now;
	clock_gettime(CLOCK_REALTIME, &was), clock_gettime(CLOCK_MONOTONIC, &mono);
	struct timespec to = { (was.tv_sec / DAY + 30) * DAY - 3, 0 };
	CHANGE("status", .modes = ADJ_STATUS | ADJ_TAI | ADJ_MAXERROR, .status = bit, .constant = 37);
	clock_settime(CLOCK_REALTIME, &to);
	CHANGE("status", .modes = ADJ_STATUS | ADJ_MAXERROR, .status = bit);
	char states[8][8];
	int count = 0;
	for (int i = 0; i < 480 && count < 8; i++) {
		struct timex t = { 0 };
		const char *is = state(adjust(&t));
		if (!count || strcmp(states[count - 1], is)) {
			snprintf(states[count++], 8, "%s", is);
			say("%s: %s, %s midnight, tai %d", text, is, t.time.tv_sec >= to.tv_sec + 3 ? "after" : "before", t.tai);
		}
		nap(10);
	}
	clock_gettime(CLOCK_REALTIME, &now), clock_gettime(CLOCK_MONOTONIC, &mono_now);
	double wall = (double)(now.tv_sec - to.tv_sec) + (double)(now.tv_nsec - to.tv_nsec) / 1e9;
	double passed = (double)(mono_now.tv_sec - mono.tv_sec) + (double)(mono_now.tv_nsec - mono.tv_nsec) / 1e9;
	SHOW(units((wall - passed) * 1000, 500));
	CHANGE("over", .modes = ADJ_STATUS, .status = 0);
	nap(1100);
	clock_gettime(CLOCK_MONOTONIC, &mono_now);
	was.tv_sec += mono_now.tv_sec - mono.tv_sec;
	clock_settime(CLOCK_REALTIME, &was);
	ask("set again");
}

int main(void)
{
	plain();
	refused();
	in_child("user", as_user);
	values();
	carried_out();
	moved();
	tai();
	section("leap seconds");
	leap("inserted", STA_INS);
	leap("taken out", STA_DEL);
	CHANGE("as it was", .modes = ADJ_STATUS | ADJ_TAI | ADJ_TIMECONST | ADJ_FREQUENCY | ADJ_MICRO, .status = STA_UNSYNC, .constant = 0);
	CHANGE("constant", .modes = ADJ_TIMECONST | ADJ_NANO, .constant = 2);
	CHANGE("errors", .modes = ADJ_MICRO | ADJ_MAXERROR | ADJ_ESTERROR, .maxerror = FULL, .esterror = FULL);
	return 0;
}
