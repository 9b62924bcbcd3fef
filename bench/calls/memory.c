/* Mappings: making them, changing them, what is said about them; faults in them. One object: one mapping of one address space. */
#include "calls.h"

/* Each worker a page of the one mapping, or of its own. */
static char *page(struct work *w)
{
	return w->map + (w->one ? 4096 * (w->i % 16) : 0);
}

static long op_mmap(struct work *w)
{
	int fd = w->k->v[0] & MAP_ANONYMOUS ? -1 : w->fd;
	char *at = mmap(0, 16384, PROT_READ | PROT_WRITE, (int)w->k->v[0], fd, 0);
	if (at == MAP_FAILED)
		wrong(w, -1);
	if (w->k->v[1])
		for (int offset = 0; offset < 16384; offset += 4096)
			*(volatile char *)(at + offset) = 1;
	return ok(w, munmap(at, 16384));
}

static long op_none(struct work *w)
{
	char *at = mmap(0, 16384, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED)
		wrong(w, -1);
	return ok(w, munmap(at, 16384));
}

static long op_fixed(struct work *w)
{
	char *at = mmap(w->map, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	if (at == MAP_FAILED)
		wrong(w, -1);
	return 0;
}

static long op_touched(struct work *w)
{
	op_fixed(w);
	*(volatile char *)w->map = 1;
	return 0;
}

static long op_mprotect(struct work *w)
{
	ok(w, mprotect(page(w), 4096, PROT_READ));
	return ok(w, mprotect(page(w), 4096, PROT_READ | PROT_WRITE));
}

static long op_mprotect_behind(struct work *w)
{
	ok(w, mprotect(w->map + 8192, 4096, PROT_READ));
	return ok(w, mprotect(w->map + 8192, 4096, PROT_READ | PROT_WRITE));
}

static long op_brk(struct work *w)
{
	long end = syscall(SYS_brk, 0);
	if (syscall(SYS_brk, end + 16384) != end + 16384)
		wrong(w, end);
	if (w->k->v[0])
		*(volatile char *)end = 1;
	if (syscall(SYS_brk, end) != end)
		wrong(w, end);
	return 0;
}

static long op_grow(struct work *w)
{
	char *at = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *now = mremap(at, 8192, 65536, MREMAP_MAYMOVE);
	if (now == MAP_FAILED)
		wrong(w, -1);
	return ok(w, munmap(now, 65536));
}

static long op_shrink(struct work *w)
{
	char *at = mmap(0, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *now = mremap(at, 65536, 4096, 0);
	if (now == MAP_FAILED)
		wrong(w, -1);
	return ok(w, munmap(now, 4096));
}

/* To and fro between two places. */
static long op_move(struct work *w)
{
	char *to = w->map + 8 * 4096;
	if (mremap(w->map, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, to) != to ||
	    mremap(to, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, w->map) != w->map)
		wrong(w, -1);
	return 0;
}

static long op_dontunmap(struct work *w)
{
	char *to = mremap(w->map, 4096, 4096, MREMAP_MAYMOVE | 4);
	if (to == MAP_FAILED)
		wrong(w, -1);
	*(volatile char *)w->map = 1;
	return ok(w, munmap(to, 4096));
}

/* Pages go, and come back. */
static long op_drop(struct work *w)
{
	char *at = page(w);
	ok(w, madvise(at, 4096, (int)w->k->v[0]));
	*(volatile char *)at = 1;
	return 0;
}

static long op_mlock(struct work *w)
{
	ok(w, mlock(page(w), 4096));
	return ok(w, munlock(page(w), 4096));
}

static long op_mlock2(struct work *w)
{
	ok(w, syscall(SYS_mlock2, page(w), 4096, 1));
	return ok(w, munlock(page(w), 4096));
}

static long op_mlockall(struct work *w)
{
	ok(w, mlockall(MCL_CURRENT));
	return ok(w, munlockall());
}

static long op_madvise(struct work *w)
{
	(void)!madvise(page(w), 4096, (int)w->k->v[0]);
	return 0;
}

static void s_file_map(struct work *w)
{
	s_file(w);
	w->len = 65536;
	w->map = mmap(0, w->len, PROT_READ | PROT_WRITE, MAP_SHARED, w->fd, 0);
	if (w->map == MAP_FAILED)
		wrong(w, -1);
	memset(w->map, 1, w->len);
}

static void s_two_maps(struct work *w)
{
	s_map(w);
	*(uint64_t *)(w->buf + C_NOW) = (uint64_t)(uintptr_t)w->map;
}

/* Its first page is sealed. */
static void s_sealed(struct work *w)
{
	s_map(w);
	ok(w, syscall(SYS_mseal, w->map, 4096, 0));
}

/* In the buffer: the set of node 0 alone, a page's address. */
#define NODES 1024
#define PAGES 1032
#define BOUND 2

static void s_nodes(struct work *w)
{
	s_map(w);
	*(uint64_t *)(w->buf + NODES) = 1;
	*(uint64_t *)(w->buf + PAGES) = (uint64_t)(uintptr_t)w->map;
	if (syscall(SYS_mbind, w->map + 8192, 4096, BOUND, w->buf + NODES, 64, 0))
		wrong(w, -1);
}

/* In the buffer: a page of the map, as a segment. */
#define PART 1040

static void s_pidfd_of(struct work *w, pid_t pid)
{
	s_map(w);
	uint64_t part[] = { (uint64_t)(uintptr_t)w->map, 4096 };
	memcpy(w->buf + PART, part, sizeof part);
	w->fd = (int)ok(w, syscall(SYS_pidfd_open, pid, 0));
}

static void s_own_pidfd(struct work *w)
{
	s_pidfd_of(w, getpid());
}

/* The child has the map too. */
static void s_child_pidfd(struct work *w)
{
	s_map(w);
	void *map = w->map;
	s_child(w);
	s_pidfd_of(w, w->pid);
	uint64_t part = (uint64_t)(uintptr_t)map;
	memcpy(w->buf + PART, &part, sizeof part);
}

#define ANON (MAP_PRIVATE | MAP_ANONYMOUS)

const struct kase memory[] = {
	OP("mmap", mmap, PT, 0, op_mmap, ANON),
	OP("mmap-touch", mmap, PT, 0, op_mmap, ANON, 1),
	OP("mmap-populate", mmap, PT, 0, op_mmap, ANON | MAP_POPULATE),
	OP("mmap-locked", mmap, PT, 0, op_mmap, ANON | MAP_LOCKED),
	OP("mmap-growsdown", mmap, PT, 0, op_mmap, ANON | MAP_GROWSDOWN),
	OP("mmap-stack", mmap, PT, 0, op_mmap, ANON | MAP_STACK),
	OP("mmap-32bit", mmap, PT, 0, op_mmap, ANON | 0x40),
	OP("mmap-noreserve", mmap, PT, 0, op_none),
	OP("mmap-shared", mmap, PT, 0, op_mmap, MAP_SHARED | MAP_ANONYMOUS),
	OP("mmap-shared-touch", mmap, PT, 0, op_mmap, MAP_SHARED | MAP_ANONYMOUS, 1),
	OP("mmap-file", mmap, PTO, s_file, op_mmap, MAP_SHARED),
	OP("mmap-file-touch", mmap, PTO, s_file, op_mmap, MAP_SHARED, 1),
	OP("mmap-file-populate", mmap, PT, s_file, op_mmap, MAP_SHARED | MAP_POPULATE),
	OP("mmap-file-private", mmap, PTO, s_file, op_mmap, MAP_PRIVATE),
	OP("mmap-file-private-touch", mmap, PTO, s_file, op_mmap, MAP_PRIVATE, 1),
	OP("mmap-fixed", mmap, PT, s_map, op_fixed),
	OP("mmap-fixed-touch", mmap, PT, s_map, op_touched),
	FAILS("mmap-fixed-noreplace", mmap, PT, s_map, EEXIST, MAP(0), 4096, 3, ANON | 0x100000, -1, 0),
	OP("munmap", munmap, PT, 0, op_mmap, ANON, 1),
	RAW("munmap-nothing", munmap, PT, 0, 0x10000000, 4096),
	OP("mprotect", mprotect, PT | OT, s_map, op_mprotect),
	RAW("mprotect-same", mprotect, PT, s_map, MAP(0), 4096, 3),
	RAW("pkey_mprotect", pkey_mprotect, PT, s_map, MAP(0), 4096, 3, -1),
	FAILS("pkey_alloc", pkey_alloc, PT, 0, EINVAL, 1, 0),
	FAILS("pkey_free", pkey_free, PT, 0, EINVAL, 15),
	RAW("mseal-again", mseal, PT, s_sealed, MAP(0), 4096, 0),
	FAILS("munmap-sealed", munmap, PT, s_sealed, EPERM, MAP(0), 4096),
	FAILS("mprotect-sealed", mprotect, PT, s_sealed, EPERM, MAP(0), 4096, 1),
	OP("mprotect-beside-sealed", mprotect, PT, s_sealed, op_mprotect_behind),
	OP("mprotect-shared", mprotect, PT | OT, s_shared, op_mprotect),
	OP("brk", brk, P, 0, op_brk),
	OP("brk-touch", brk, P, 0, op_brk, 1),
	RAW("brk-ask", brk, PT, 0, 0),
	OP("mremap-grow", mremap, PT, 0, op_grow),
	OP("mremap-shrink", mremap, PT, 0, op_shrink),
	OP("mremap-move", mremap, PT, s_map, op_move),
	OP("mremap-dontunmap", mremap, PT, s_map, op_dontunmap),
	RAW("mremap-same", mremap, PT, s_map, MAP(0), 4096, 4096, 0),
	RAW("msync-async", msync, PT, s_file_map, MAP(0), 4096, 1),
	RAW("msync-sync", msync, PT | OT, s_file_map, MAP(0), 4096, 4),
	RAW("msync-invalidate", msync, PT, s_file_map, MAP(0), 4096, 2),
	RAW("mincore", mincore, PT | OT, s_map, MAP(0), LEN, BUF(0)),
	RAW("mincore-file", mincore, PT, s_file_map, MAP(0), LEN, BUF(0)),
	RAW("remap_file_pages", remap_file_pages, PT, s_file_map, MAP(0), 4096, 0, 0, 0),
	RAW("remap_file_pages-nonblock", remap_file_pages, PT, s_file_map, MAP(0), 4096, 0, 0, 0x10000),
	RAW("get_mempolicy", get_mempolicy, PT, s_nodes, BUF(0), BUF(8), 64, 0, 0),
	RAW("get_mempolicy-address", get_mempolicy, PT, s_nodes, BUF(0), BUF(8), 64, MAP(0), 2),
	RAW("get_mempolicy-node", get_mempolicy, PT, s_nodes, BUF(0), 0, 0, MAP(0), 3),
	RAW("get_mempolicy-allowed", get_mempolicy, PT, s_nodes, BUF(0), BUF(8), 64, 0, 4),
	RAW("set_mempolicy", set_mempolicy, PT, s_nodes, BOUND, BUF(NODES), 64),
	RAW("set_mempolicy-default", set_mempolicy, PT, s_nodes, 0, 0, 0),
	RAW("mbind", mbind, PT, s_nodes, MAP(0), 4096, BOUND, BUF(NODES), 64, 0),
	RAW("mbind-strict", mbind, PT, s_nodes, MAP(0), 4096, BOUND, BUF(NODES), 64, 1),
	RAW("mbind-move", mbind, PT, s_nodes, MAP(0), 4096, BOUND, BUF(NODES), 64, 2),
	RAW("set_mempolicy_home_node", set_mempolicy_home_node, PT, s_nodes, MAP(8192), 4096, 0, 0),
	RAW("move_pages", move_pages, PT, s_nodes, 0, 1, BUF(PAGES), BUF(C_ZERO), BUF(0), 2),
	RAW("move_pages-ask", move_pages, PT, s_nodes, 0, 1, BUF(PAGES), 0, BUF(0), 0),
	RAW("migrate_pages", migrate_pages, P, s_nodes, 0, 64, BUF(NODES), BUF(NODES)),
	OP("mlock", mlock, PT, s_map, op_mlock),
	OP("munlock", munlock, P, s_map, op_mlock),
	OP("mlock2-onfault", mlock2, PT, s_map, op_mlock2),
	OP("mlockall", mlockall, P, s_map, op_mlockall),
	RAW("munlockall", munlockall, P, s_map, 0),
	OP("madvise-normal", madvise, PT | OT, s_map, op_madvise, 0),
	OP("madvise-random", madvise, PT, s_map, op_madvise, 1),
	OP("madvise-sequential", madvise, PT, s_map, op_madvise, 2),
	OP("madvise-willneed", madvise, PT, s_map, op_madvise, 3),
	OP("madvise-willneed-file", madvise, PT, s_file_map, op_madvise, 3),
	OP("madvise-dontneed", madvise, PT | OT, s_map, op_drop, 4),
	OP("madvise-dontneed-shared", madvise, PT | OT, s_shared, op_drop, 4),
	OP("madvise-dontneed-file", madvise, PT, s_file_map, op_drop, 4),
	OP("madvise-free", madvise, PT | OT, s_map, op_drop, 8),
	OP("madvise-remove", madvise, PT, s_shared, op_drop, 9),
	OP("madvise-dontfork", madvise, PT, s_map, op_madvise, 10),
	OP("madvise-dofork", madvise, PT, s_map, op_madvise, 11),
	OP("madvise-mergeable", madvise, PT, s_map, op_madvise, 12),
	OP("madvise-unmergeable", madvise, PT, s_map, op_madvise, 13),
	OP("madvise-hugepage", madvise, PT, s_map, op_madvise, 14),
	OP("madvise-nohugepage", madvise, PT, s_map, op_madvise, 15),
	OP("madvise-dontdump", madvise, PT, s_map, op_madvise, 16),
	OP("madvise-dodump", madvise, PT, s_map, op_madvise, 17),
	OP("madvise-wipeonfork", madvise, PT, s_map, op_madvise, 18),
	OP("madvise-keeponfork", madvise, PT, s_map, op_madvise, 19),
	OP("madvise-cold", madvise, PT, s_map, op_madvise, 20),
	OP("madvise-pageout", madvise, PT, s_map, op_madvise, 21),
	OP("madvise-populate-read", madvise, PT, s_map, op_madvise, 22),
	OP("madvise-populate-write", madvise, PT, s_map, op_madvise, 23),
	OP("madvise-collapse", madvise, PT, s_map, op_madvise, 25),
	RAW("process_madvise-own", process_madvise, PT, s_own_pidfd, FD, BUF(PART), 1, 20, 0),
	RAW("process_madvise-child", process_madvise, P, s_child_pidfd, FD, BUF(PART), 1, 20, 0),
	RAW("process_vm_readv-own", process_vm_readv, PT, s_two_maps, PID, BUF(C_IOV), 1, BUF(C_SPLIT), 1, 0),
	RAW("process_vm_readv-child", process_vm_readv, P, s_child, CHILD, BUF(C_IOV), 1, BUF(C_IOV + 16), 1, 0),
	RAW("process_vm_writev-own", process_vm_writev, PT, s_two_maps, PID, BUF(C_IOV), 1, BUF(C_SPLIT), 1, 0),
	RAW("process_vm_writev-child", process_vm_writev, P, s_child, CHILD, BUF(C_IOV), 1, BUF(C_IOV + 16), 1, 0),
	END
};

/* Faults: no call, but what calls prepare. The call named is the one that takes the page away. */
static long op_cow(struct work *w)
{
	int status;
	pid_t child = (pid_t)ok(w, syscall(SYS_fork));
	if (child == 0) {
		for (int at = 0; at < 65536; at += 4096)
			*(volatile char *)(w->map + at) = 2;
		syscall(SYS_exit_group, 0);
	}
	return ok(w, syscall(SYS_wait4, child, &status, 0, 0));
}

static long op_read_fault(struct work *w)
{
	ok(w, madvise(page(w), 4096, 4));
	return *(volatile char *)page(w);
}

static long op_zero_then_write(struct work *w)
{
	op_read_fault(w);
	*(volatile char *)page(w) = 1;
	return 0;
}

const struct kase faults[] = {
	DEAR("fault-cow", fork, P, s_map, op_cow),
	DEAR("fault-cow-beside-shared", fork, P | BESIDE, s_map, op_cow),
	OP("fault-read", madvise, PT | OT, s_map, op_read_fault),
	OP("fault-read-then-write", madvise, PT, s_map, op_zero_then_write),
	OP("fault-shared-read", madvise, PT | OT, s_shared, op_read_fault),
	OP("fault-file-read", madvise, PT | OT, s_file_map, op_read_fault),
	END
};
