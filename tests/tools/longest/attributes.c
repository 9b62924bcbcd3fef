/* longest: extended attributes and access control lists. */
#include "longest.h"
#include <grp.h>
#include <sys/xattr.h>

enum { ATTRIBUTES = 20000, ENTRIES = 8000 };

static int new_file(void)
{
	int fd = open("attributes", O_CREAT | O_RDWR | O_TRUNC, 0600);
	if (fd < 0)
		cannot();
	return fd;
}

static void attributes(void)
{
	static char list[65536];
	int fd = new_file();
	char name[32];
	for (int i = 0; i < ATTRIBUTES; i++) {
		snprintf(name, sizeof name, "user.%d", i);
		if (fsetxattr(fd, name, "v", 1, 0))
			cannot();
		if (i == ATTRIBUTES / 4)
			flistxattr(fd, list, sizeof list);
	}
	flistxattr(fd, list, sizeof list);
	flistxattr(fd, 0, 0);
	fgetxattr(fd, "user.7", list, sizeof list);
	unlink("attributes");
	close(fd);
}

static void long_attributes(void)
{
	static char value[65536];
	int fd = new_file();
	char name[32];
	for (int round = 0; round < 3; round++)
		for (int i = 0; i < 100; i++) {
			snprintf(name, sizeof name, "user.%d", i);
			if (fsetxattr(fd, name, value, sizeof value, 0) || fgetxattr(fd, name, value, sizeof value) < 0)
				cannot();
		}
	unlink("attributes");
	close(fd);
}

/* A list of many groups. */
static size_t list(char *to)
{
	struct entry { uint16_t tag, permissions; uint32_t id; } entry = { 1, 7, ~0U };
	size_t at = 4;
	memcpy(to, &(uint32_t){ 2 }, 4);
	memcpy(to + at, &entry, 8), at += 8;
	entry = (struct entry){ 4, 0, ~0U };
	memcpy(to + at, &entry, 8), at += 8;
	for (uint32_t i = 0; i < ENTRIES; i++, at += 8) {
		entry = (struct entry){ 8, 4, 1000000 + i };
		memcpy(to + at, &entry, 8);
	}
	entry = (struct entry){ 16, 7, ~0U };
	memcpy(to + at, &entry, 8), at += 8;
	entry = (struct entry){ 32, 0, ~0U };
	memcpy(to + at, &entry, 8), at += 8;
	return at;
}

static void access_lists(void)
{
	static char value[65536];
	char name[32];
	mkdir("lists", 0700);
	if (setxattr("lists", "system.posix_acl_default", value, list(value), 0))
		cannot();
	for (int i = 0; i < 200; i++) {
		snprintf(name, sizeof name, "lists/%d", i);
		if (i % 2 ? mkdir(name, 0777) : mknod(name, S_IFREG | 0666, 0))
			cannot();
		chmod(name, 0750);
		getxattr(name, "system.posix_acl_access", value, sizeof value);
	}
	for (int i = 0; i < 200; i++) {
		snprintf(name, sizeof name, "lists/%d", i);
		remove(name);
	}
	rmdir("lists");
}

static void judged_by_list(void)
{
	static char value[65536];
	static gid_t groups[65536];
	for (unsigned i = 0; i < 65536; i++)
		groups[i] = 5000000 + 2 * i;
	int fd = new_file();
	if (setgroups(65536, groups) || fsetxattr(fd, "system.posix_acl_access", value, list(value), 0) || fchown(fd, 5, 5))
		cannot();
	for (int i = 0; i < 100; i++)
		access("attributes", R_OK | W_OK);
	close(fd);
	unlink("attributes");
}

const struct call attribute_calls[] = { CASE(attributes), CASE(long_attributes), CASE(access_lists), { 0, 0 } };
const struct call attribute_root_calls[] = { CASE(judged_by_list), { 0, 0 } };
