/* /proc/PID/smaps, smaps_rollup, numa_maps, pagemap and map_files: what they say of mappings whose pages are known. */
#include "t.h"

#include <dirent.h>

#define PAGE 4096
#define PAGES 16

/* The lines of /proc/self/smaps that belong to the mapping at `at`, but its first. */
static char *part_of(const char *path, const void *at)
{
	char *text = read_file(path), key[32];
	if (!text)
		return 0;
	snprintf(key, sizeof key, "%08lx-", (unsigned long)at);
	char *start = strncmp(text, key, strlen(key)) == 0 ? text : 0;
	if (!start) {
		char needle[40];
		snprintf(needle, sizeof needle, "\n%s", key);
		start = strstr(text, needle);
		start = start ? start + 1 : 0;
	}
	return start ? strchr(start, '\n') + 1 : 0;
}

static long field(const char *part, const char *name)
{
	char needle[40];
	snprintf(needle, sizeof needle, "%s:", name);
	for (const char *line = part; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : 0)
		if (strncmp(line, needle, strlen(needle)) == 0)
			return atol(line + strlen(needle));
	return -1;
}

/* What is told of a mapping that is larger by far than its neighbours could be. */
static void tell(const char *what, const void *at)
{
	static const char *const names[] = { "Size", "KernelPageSize", "MMUPageSize", "Rss", "Pss", "Pss_Dirty", "Shared_Clean",
		"Shared_Dirty", "Private_Clean", "Private_Dirty", "Anonymous", "Swap", "Locked", 0 };
	char *part = part_of("/proc/self/smaps", at);
	if (!part) {
		say("%s: not there", what);
		return;
	}
	for (int i = 0; names[i]; i++)
		say("%s %s %ld", what, names[i], field(part, names[i]));
	/* Linux knows of each whether it was changed (sd), counts for overcommit (ac) or could be large; Darter does not ask. */
	char *flags = strstr(part, "VmFlags:");
	char *end = flags ? strchr(flags, '\n') : 0;
	if (end)
		*end = 0;
	char line[128] = "";
	for (char *word = flags ? strtok(flags + 8, " ") : 0; word; word = strtok(0, " "))
		if (strcmp(word, "sd") && strcmp(word, "ac") && strcmp(word, "nr"))
			strcat(strcat(line, " "), word);
	say("%s flags%s", what, line);
}

static void order(void)
{
	section("the order of the lines");
	FILE *file = fopen("/proc/self/smaps", "r");
	char line[512];
	int lines = 0;
	while (file && fgets(line, sizeof line, file) && lines < 26) {
		char *colon = strchr(line, ':');
		if (lines++ == 0 || !colon || strncmp(line, "ProtectionKey", 13) == 0)
			continue;
		*colon = 0;
		say("%s", line);
		if (strcmp(line, "VmFlags") == 0)
			break;
	}
	fclose(file);
}

static char *anonymous(int flags)
{
	return mmap(0, PAGES * PAGE, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
}

static unsigned long long entry_of(int fd, const char *at)
{
	unsigned long long entry = 0;
	if (pread(fd, &entry, sizeof entry, (unsigned long)at / PAGE * 8) != sizeof entry)
		say("no entry: %s", error_name(errno));
	return entry;
}

static void show_entry(const char *what, int fd, const char *at)
{
	unsigned long long entry = entry_of(fd, at);
	say("%s: present %d swapped %d file %d exclusive %d frame %s", what, (int)(entry >> 63), (int)(entry >> 62 & 1),
	    (int)(entry >> 61 & 1), (int)(entry >> 56 & 1), entry & ((1ull << 55) - 1) ? "shown" : "hidden");
}

static void mappings(void)
{
	section("mappings");
	/* A page that nobody may touch on either side keeps each a mapping of its own. */
	char *room = mmap(0, 8 * (PAGES + 2) * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *at = room + PAGE;
	char *private = mmap(at, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	madvise(private, PAGES * PAGE, MADV_NOHUGEPAGE);
	for (int i = 0; i < 5; i++)
		private[i * 2 * PAGE] = 1;
	at += (PAGES + 2) * PAGE;
	char *shared = mmap(at, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	memset(shared, 1, 3 * PAGE);
	at += (PAGES + 2) * PAGE;
	char *locked = mmap(at, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	mlock(locked, PAGES * PAGE);
	madvise(locked, PAGES * PAGE, MADV_DONTFORK);
	madvise(locked, PAGES * PAGE, MADV_DONTDUMP);
	at += (PAGES + 2) * PAGE;
	int fd = open("a file", O_CREAT | O_RDWR, 0644);
	ftruncate(fd, PAGES * PAGE);
	char *file = mmap(at, PAGES * PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0);
	at += (PAGES + 2) * PAGE;
	char *wiped = mmap(at, PAGES * PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	madvise(wiped, PAGES * PAGE, MADV_WIPEONFORK);
	tell("shared", shared);
	tell("locked", locked);
	tell("wiped", wiped);
	char *part = part_of("/proc/self/smaps", private);
	say("private: Rss %ld Pss %ld Private_Dirty %ld Anonymous %ld Referenced %ld", field(part, "Rss"), field(part, "Pss"),
	    field(part, "Private_Dirty"), field(part, "Anonymous"), field(part, "Referenced"));
	part = part_of("/proc/self/smaps", file);
	say("file: Size %ld Rss %ld", field(part, "Size"), field(part, "Rss"));

	section("shared by fork");
	pid_t child = parked(0);
	part = part_of("/proc/self/smaps", private);
	say("private: Rss %ld Pss %ld Shared_Dirty %ld Private_Dirty %ld", field(part, "Rss"), field(part, "Pss"),
	    field(part, "Shared_Dirty"), field(part, "Private_Dirty"));
	part = part_of("/proc/self/smaps", shared);
	say("shared: Rss %ld", field(part, "Rss"));
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/smaps", child);
	part = part_of(path, private);
	say("the child's: Rss %ld Pss %ld", field(part, "Rss"), field(part, "Pss"));
	kill(child, SIGKILL);
	wait_for(child);
	part = part_of("/proc/self/smaps", private);
	say("alone again: Pss %ld Private_Dirty %ld", field(part, "Pss"), field(part, "Private_Dirty"));

	section("pagemap");
	int map = open("/proc/self/pagemap", O_RDONLY);
	show_entry("written", map, private);
	show_entry("untouched", map, private + PAGE);
	show_entry("shared memory", map, shared);
	show_entry("unmapped", map, 0);
	unsigned long long entries[PAGES];
	SHOW(pread(map, entries, sizeof entries, (unsigned long)private / PAGE * 8));
	int present = 0;
	for (int i = 0; i < PAGES; i++)
		present += entries[i] >> 63 == (unsigned)(i % 2 == 0 && i < 10);
	say("%d of %d as they should be", present, PAGES);
	SHOW(pread(map, entries, 12, 0));
	SHOW(pread(map, entries, 8, 4));
	SHOW(pread(map, entries, 0, 0));
	SHOW(pread(map, entries, 8, 1l << 60));
	SHOW(lseek(map, 16, SEEK_SET));
	SHOW(read(map, entries, 8));
	SHOW(lseek(map, 0, SEEK_CUR));
	SHOW(lseek(map, 0, SEEK_END));
	SHOW_OK(write(map, entries, 8));
	SHOW_OK(open("/proc/self/pagemap", O_RDWR));
	setresuid(65534, 65534, 65534);
	show_entry("by who opened it as root", map, private);

}

static void rollup(void)
{
	section("sums");
	char *text = read_file("/proc/self/smaps_rollup");
	say("%.10s", strstr(text, "---p"));
	static const char *const names[] = { "Rss", "Pss", "Pss_Dirty", "Pss_Anon", "Pss_File", "Pss_Shmem", "Shared_Clean", "Shared_Dirty",
		"Private_Clean", "Private_Dirty", "Referenced", "Anonymous", "KSM", "LazyFree", "AnonHugePages", "Swap", "Locked", 0 };
	for (int i = 0; names[i]; i++)
		say("%s %s", names[i], field(text, names[i]) >= 0 ? "told" : "missing");
	/* What both tell at about the same time: the same, but for what reading itself brings in. */
	char *all = read_file("/proc/self/smaps");
	long sum = 0;
	for (char *line = all; (line = strstr(line, "\nRss:")); line++)
		sum += atol(line + 5);
	text = read_file("/proc/self/smaps_rollup");
	long rss = field(text, "Rss");
	CHECK(sum > 0 && labs(sum - rss) <= 256);
}

static void files(void)
{
	section("map_files");
	int fd = open("mapped", O_CREAT | O_RDWR, 0644);
	write(fd, "contents", 8);
	ftruncate(fd, 4 * PAGE);
	char *at = mmap(0, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	char name[96], target[PATH_MAX];
	snprintf(name, sizeof name, "/proc/self/map_files/%lx-%lx", (unsigned long)at, (unsigned long)at + 4 * PAGE);
	struct stat st, own;
	SHOW(lstat(name, &st));
	say("%o", st.st_mode);
	ssize_t length = readlink(name, target, sizeof target - 1);
	target[length > 0 ? length : 0] = 0;
	say("%s", strrchr(target, '/') ? strrchr(target, '/') : target);
	fstat(fd, &own);
	SHOW(stat(name, &st));
	CHECK(st.st_ino == own.st_ino && st.st_dev == own.st_dev);
	unlink("mapped");
	length = readlink(name, target, sizeof target - 1);
	target[length > 0 ? length : 0] = 0;
	say("%s", strrchr(target, '/') ? strrchr(target, '/') : target);
	int again = open(name, O_RDONLY);
	char text[9] = "";
	SHOW(read(again, text, 8));
	say("%s", text);
	snprintf(name, sizeof name, "/proc/self/map_files/%lx-%lx", (unsigned long)at, (unsigned long)at + 3 * PAGE);
	SHOW(lstat(name, &st));
	snprintf(name, sizeof name, "/proc/self/map_files/%lx-%lx", (unsigned long)at + PAGE, (unsigned long)at + 4 * PAGE);
	SHOW(lstat(name, &st));
	snprintf(name, sizeof name, "/proc/self/map_files/0%lx-%lx", (unsigned long)at, (unsigned long)at + 4 * PAGE);
	SHOW(lstat(name, &st));
	SHOW(lstat("/proc/self/map_files/x", &st));
	SHOW(stat("/proc/self/map_files", &st));
	say("%o", st.st_mode);
	DIR *dir = opendir("/proc/self/map_files");
	int found = 0;
	snprintf(name, sizeof name, "%lx-%lx", (unsigned long)at, (unsigned long)at + 4 * PAGE);
	for (struct dirent *entry; dir && (entry = readdir(dir));)
		found += strcmp(entry->d_name, name) == 0;
	say("listed %d times", found);
	SHOW_OK(open("/proc/self/task/1/map_files", O_RDONLY));
	snprintf(name, sizeof name, "/proc/self/map_files/%lx-%lx", (unsigned long)at, (unsigned long)at + 4 * PAGE);
	setresuid(65534, 65534, 65534);
	SHOW_OK(open(name, O_RDONLY));
}

static void nodes(void)
{
	section("numa_maps");
	char *at = anonymous(MAP_PRIVATE);
	madvise(at, PAGES * PAGE, MADV_NOHUGEPAGE);
	madvise(at, PAGES * PAGE, MADV_DONTFORK);
	memset(at, 1, 3 * PAGE);
	char *text = read_file("/proc/self/numa_maps"), key[32];
	snprintf(key, sizeof key, "%08lx ", (unsigned long)at);
	char *line = strstr(text, key);
	say("%.25s", line ? line + strlen(key) : "not there");
}

static void others(void)
{
	section("of another user");
	pid_t root = parked(0);
	if (must_fork() == 0) {
		setresgid(65534, 65534, 65534);
		setresuid(65534, 65534, 65534);
		static const char *const names[] = { "smaps", "smaps_rollup", "numa_maps", "pagemap", "map_files", "io", "personality", "timers",
			"maps", "uid_map", 0 };
		for (int i = 0; names[i]; i++) {
			char path[64], byte;
			snprintf(path, sizeof path, "/proc/%d/%s", root, names[i]);
			int fd = open(path, O_RDONLY);
			long got = fd < 0 ? -1 : strcmp(names[i], "map_files") == 0 ? 0 : read(fd, &byte, 1);
			say("%s: %s", names[i], fd < 0 ? error_name(errno) : got < 0 ? error_name(errno) : got ? "read" : "empty");
		}
		_exit(0);
	}
	wait(0);
	kill(root, SIGKILL);
	wait_for(root);
}

int main(void)
{
	order();
	in_child("mappings", mappings);
	rollup();
	in_child("files", files);
	nodes();
	others();
	return 0;
}
