/* CPUs, their caches and nodes as sysfs shows them. */
#include "t.h"

#include <dirent.h>
#include <sys/mount.h>
#include <sys/statfs.h>

#define SYSTEM "/sys/devices/system/"

static void show_file(const char *name)
{
	char path[200], text[4096];
	snprintf(path, sizeof path, SYSTEM "%s", name);
	int fd = open(path, O_RDONLY);
	if (fd < 0) {
		say("%s: %s", name, error_name(errno));
		return;
	}
	long n = read(fd, text, sizeof text - 1);
	text[n > 0 ? n : 0] = 0;
	say("%s: %ld bytes: %s", name, n, text);
	close(fd);
}

static const char *const of_cpu[] = {
	"online", "topology/core_cpus", "topology/core_cpus_list", "topology/core_id", "topology/core_siblings", "topology/core_siblings_list",
	"topology/die_cpus", "topology/die_cpus_list", "topology/die_id", "topology/package_cpus", "topology/package_cpus_list",
	"topology/physical_package_id", "topology/thread_siblings", "topology/thread_siblings_list",
};
static const char *const of_cache[] = {
	"coherency_line_size", "id", "level", "number_of_sets", "physical_line_partition", "shared_cpu_list", "shared_cpu_map", "size", "type",
	"ways_of_associativity",
};
static const char *const of_all[] = {
	"cpu/online", "cpu/possible", "cpu/present", "cpu/offline", "cpu/isolated", "cpu/nothing", "node/online", "node/possible",
	"node/has_cpu", "node/has_memory", "node/has_normal_memory", "node/node0/cpulist", "node/node0/cpumap", "node/node0/distance",
	"node/node1/cpulist", "cpu/cpu99/online", "cpu/cpu00/topology/core_id", "cpu/cpu/online",
};

static void texts(void)
{
	section("texts");
	char name[128];
	for (size_t i = 0; i < sizeof of_all / sizeof *of_all; i++)
		show_file(of_all[i]);
	for (long cpu = 0; cpu < sysconf(_SC_NPROCESSORS_CONF); cpu++) {
		for (size_t i = 0; i < sizeof of_cpu / sizeof *of_cpu; i++) {
			snprintf(name, sizeof name, "cpu/cpu%ld/%s", cpu, of_cpu[i]);
			show_file(name);
		}
		for (int cache = 0; cache < 5; cache++)
			for (size_t i = 0; i < sizeof of_cache / sizeof *of_cache; i++) {
				snprintf(name, sizeof name, "cpu/cpu%ld/cache/index%d/%s", cpu, cache, of_cache[i]);
				show_file(name);
			}
	}
}

static void links(void)
{
	section("links");
	char text[100] = "";
	SHOW(readlink(SYSTEM "cpu/cpu1/node0", text, sizeof text));
	say("%s", text);
	memset(text, 0, sizeof text);
	SHOW(readlink(SYSTEM "node/node0/cpu1", text, sizeof text));
	say("%s", text);
	show_file("cpu/cpu1/node0/cpulist");
	show_file("node/node0/cpu1/topology/core_id");
}

static void is_listed(const char *dir, const char *name)
{
	int found = 0;
	DIR *list = opendir(dir);
	struct dirent *entry;
	while (list && (entry = readdir(list)))
		found += !strcmp(entry->d_name, name);
	say("%s in %s: %d", name, dir, found);
	if (list)
		closedir(list);
}

static void kinds(void)
{
	section("kinds");
	struct stat about;
	SHOW(stat(SYSTEM "cpu/online", &about));
	say("%o %ld %ld", about.st_mode, (long)about.st_size, (long)about.st_nlink);
	SHOW(stat(SYSTEM "cpu/cpu1", &about));
	say("%o %ld", about.st_mode, (long)about.st_size);
	SHOW(lstat(SYSTEM "cpu/cpu1/node0", &about));
	say("%o", about.st_mode);
	struct statfs fs;
	SHOW(statfs("/sys", &fs));
	say("%#lx", (long)fs.f_type);
	is_listed("/sys/devices/system", "cpu");
	is_listed("/sys/devices/system", "node");
	is_listed(SYSTEM "cpu", "online");
	is_listed(SYSTEM "cpu", "kernel_max");
	is_listed(SYSTEM "cpu", "cpu1");
	is_listed(SYSTEM "cpu", "cpu99");
	is_listed(SYSTEM "cpu/cpu1", "topology");
	is_listed(SYSTEM "cpu/cpu1/cache", "index0");
	is_listed(SYSTEM "node/node0", "cpu1");
	is_listed(SYSTEM "cpu/online", "x");
}

static void refused(void)
{
	section("refused");
	SHOW(open(SYSTEM "cpu/online", O_WRONLY));
	SHOW(open(SYSTEM "cpu/online", O_RDWR));
	SHOW(open(SYSTEM "cpu/online", O_RDONLY | O_DIRECTORY));
	SHOW(open(SYSTEM "cpu/new", O_CREAT | O_RDWR, 0600));
	SHOW(mkdir(SYSTEM "cpu/new", 0700));
	SHOW(unlink(SYSTEM "cpu/online"));
	SHOW(rmdir(SYSTEM "cpu/cpu1"));
	SHOW(rename(SYSTEM "cpu/online", SYSTEM "cpu/x"));
	SHOW(symlink("x", SYSTEM "cpu/x"));
	SHOW(readlink(SYSTEM "cpu/online", (char[9]){ 0 }, 9));
	int fd = open(SYSTEM "cpu/online", O_RDONLY);
	char text[8] = "";
	SHOW(lseek(fd, 1, SEEK_SET));
	SHOW(read(fd, text, 2));
	SHOW(pread(fd, text, 1, 0));
	SHOW(write(fd, "x", 1));
	SHOW(ftruncate(fd, 0));
	close(fd);
	SHOW(mkdir("sysfs", 0700));
	SHOW(mount("sysfs", "sysfs", "sysfs", 0, ""));
	is_listed("sysfs/devices/system", "cpu");
	SHOW(umount("sysfs"));
}

int main(void)
{
	texts();
	links();
	kinds();
	refused();
	return 0;
}
