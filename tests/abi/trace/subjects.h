/* Whom one may look into and whom not: processes of root, of a user, and of another. */
#include <grp.h>
#include <sys/prctl.h>

static void as(int id, int dumpable)
{
	setgroups(0, 0), setresgid(id, id, id), setresuid(id, id, id);
	prctl(PR_SET_DUMPABLE, dumpable);
}
static void as_user(void) { as(1000, 1); }
static void as_closed(void) { as(1000, 0); }
static void as_other(void) { as(1001, 1); }
static void as_root(void) {}

static const struct { const char *what; void (*body)(void); } subjects[] = {
	{ "root's", as_root }, { "its user's", as_user }, { "one that is not dumpable", as_closed }, { "another user's", as_other },
};
