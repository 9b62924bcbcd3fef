/* Core dumps: what the file holds. (When one is written, and where: coredump.c) */
#include "dumped.h"

#include <elf.h>
#include <pthread.h>
#include <sys/procfs.h>

enum { MB = 1 << 20, PAGE = 4096 };

static char *core;
static size_t core_size;

static void load(void)
{
	free(core);
	core = 0, core_size = 0;
	struct stat s;
	int fd = open("core", O_RDONLY);
	if (fd < 0 || fstat(fd, &s) != 0)
		return;
	core_size = (size_t)s.st_size < 64u * MB ? (size_t)s.st_size : 64u * MB;
	core = malloc(core_size + 8);
	if (read(fd, core, core_size) != (ssize_t)core_size)
		say("cannot read the core");
	close(fd);
}

#define HEADER ((Elf64_Ehdr *)core)
#define PROGRAM ((Elf64_Phdr *)(core + sizeof(Elf64_Ehdr)))

static const Elf64_Phdr *segment_of(uintptr_t address)
{
	for (int n = 0; n < HEADER->e_phnum; n++)
		if (PROGRAM[n].p_type == PT_LOAD && address - PROGRAM[n].p_vaddr < PROGRAM[n].p_memsz)
			return &PROGRAM[n];
	return 0;
}

/* What the core has at an address; null: nothing. */
static const void *at(const volatile void *address)
{
	const Elf64_Phdr *s = segment_of((uintptr_t)address);
	if (!s || (uintptr_t)address - s->p_vaddr >= s->p_filesz)
		return 0;
	size_t offset = s->p_offset + ((uintptr_t)address - s->p_vaddr);
	return offset + 8 <= core_size ? core + offset : 0;
}

static void show_segment(const char *what, const volatile void *address)
{
	const Elf64_Phdr *s = segment_of((uintptr_t)address);
	if (!s)
		say("%s: no segment", what);
	else
		say("%s: flags %u, %s of it", what, s->p_flags, s->p_filesz == 0 ? "nothing" : s->p_filesz == s->p_memsz ? "all" : s->p_filesz == PAGE ? "a page" : "a part");
}

static const char *note_name(unsigned type)
{
	switch (type) {
	case NT_PRSTATUS: return "PRSTATUS";
	case NT_PRFPREG: return "PRFPREG";
	case NT_PRPSINFO: return "PRPSINFO";
	case NT_AUXV: return "AUXV";
	case 0x46494c45: return "FILE";
	case 0x53494749: return "SIGINFO";
	case 0x202: return "XSTATE";
	case 0x205: return "XSAVE_LAYOUT";
	default: return "another";
	}
}

static void show_notes(pid_t pid)
{
	const Elf64_Phdr *p = PROGRAM;
	say("notes: type %u, flags %u, align %lu, behind the headers: %d", p->p_type, p->p_flags, (unsigned long)p->p_align,
	    p->p_offset == sizeof(Elf64_Ehdr) + HEADER->e_phnum * sizeof(Elf64_Phdr));
	for (size_t o = p->p_offset; o < p->p_offset + p->p_filesz;) {
		const Elf64_Nhdr *n = (void *)(core + o);
		const char *name = core + o + sizeof *n, *d = name + ((n->n_namesz + 3) & ~3u);
		unsigned fixed = n->n_type == NT_AUXV || n->n_type == 0x46494c45 || n->n_type == 0x202 || n->n_type == 0x205;
		say(" %s %s, %u bytes", name, note_name(n->n_type), fixed ? 0 : n->n_descsz);
		if (n->n_type == NT_PRSTATUS) {
			const struct elf_prstatus *s = (void *)d;
			say("  signal %d code %d errno %d cursig %d, process %d parent %d group %d session %d fp %d", s->pr_info.si_signo, s->pr_info.si_code,
			    s->pr_info.si_errno, s->pr_cursig, s->pr_pid == pid, s->pr_ppid == getpid(), s->pr_pgrp == getpgrp(), s->pr_sid == getsid(0), s->pr_fpvalid);
			const uint64_t *r = (const uint64_t *)s->pr_reg;
			say("  held %#lx pending %#lx, code segment %#lx, stack %#lx, flags with IF %d", (unsigned long)s->pr_sighold, (unsigned long)s->pr_sigpend, r[17], r[20], (int)(r[18] >> 9 & 1));
			say("  in the program's code: %d, stack there: %d, thread pointer: %d", segment_of(r[16]) && segment_of(r[16])->p_flags & 1, at((void *)r[19]) != 0, r[21] != 0);
		} else if (n->n_type == NT_PRPSINFO) {
			const struct elf_prpsinfo *s = (void *)d;
			say("  state %d %c zombie %d nice %d, %u %u, process %d parent %d, %.16s", s->pr_state, s->pr_sname, s->pr_zomb, s->pr_nice, s->pr_uid, s->pr_gid,
			    s->pr_pid == pid, s->pr_ppid == getpid(), s->pr_fname);
			const char *base = strrchr(s->pr_psargs, '/');
			say("  arguments end in %s", base ? base : s->pr_psargs);
		} else if (n->n_type == 0x53494749) {
			const siginfo_t *s = (void *)d;
			say("  signal %d code %d errno %d", s->si_signo, s->si_code, s->si_errno);
		} else if (n->n_type == NT_AUXV) {
			for (const uint64_t *a = (void *)d; (const char *)a < d + n->n_descsz; a += 2)
				if (a[0] == AT_PAGESZ || a[0] == AT_NULL || a[0] == AT_UID)
					say("  %lu: %lu", a[0], a[1]);
		} else if (n->n_type == 0x46494c45) {
			const uint64_t *f = (void *)d;
			const char *names = (const char *)(f + 2 + 3 * f[0]), *end = names;
			int ok = 1;
			for (uint64_t i = 0; i < f[0]; i++) {
				const Elf64_Phdr *s = segment_of(f[2 + 3 * i]);
				const char *b = strrchr(end, '/');
				ok &= s && s->p_vaddr == f[2 + 3 * i] && s->p_memsz == f[3 + 3 * i] - f[2 + 3 * i] && b && (strcmp(b, "/corefile") == 0 || strcmp(b, "/data") == 0 || strcmp(b, "/zero (deleted)") == 0);
				end += strlen(end) + 1;
			}
			say("  %d files, page %lu, each a segment and of a file that is mapped: %d", f[0] > 0, f[1], ok);
		} else if (n->n_type == 0x202) {
			say("  a multiple of 8: %d, more than FXSAVE: %d, x87 and SSE: %d", n->n_descsz % 8 == 0, n->n_descsz > 512, (int)(*(uint64_t *)(d + 464) & 3));
		}
		else if (n->n_type == 0x205)
			/* Which there are is the kernel's choice. */
			for (const uint32_t *part = (const void *)d; (const char *)part < d + n->n_descsz; part += 4)
				if (part[0] == 2)
					say("  component %u: %u bytes at %u, flags %#x", part[0], part[1], part[2], part[3]);
		o = (size_t)(d - core) + ((n->n_descsz + 3) & ~3u);
	}
}

static volatile int marker = 1;
static volatile char *touched, *untouched, *hidden, *shown_again, *none, *shared, *file_shared, *file_private, *file_written;

static void map_all(void)
{
	int rw = PROT_READ | PROT_WRITE, anon = MAP_PRIVATE | MAP_ANONYMOUS;
	int fd = open("data", O_RDWR | O_CREAT, 0600);
	ftruncate(fd, 4 * PAGE);
	pwrite(fd, "file", 4, 0);
	/* At fixed places with holes between them, so that nothing is joined. */
	char *base = mmap(0, 64 * PAGE, PROT_NONE, anon, -1, 0);
	munmap(base, 64 * PAGE);
#define PLACE(n, prot, flags, fd) mmap(base + (n) * 4 * PAGE, 3 * PAGE, prot, (flags) | MAP_FIXED, fd, 0)
	touched = PLACE(0, rw, anon, -1);
	untouched = PLACE(1, rw, anon, -1);
	hidden = PLACE(2, rw, anon, -1);
	shown_again = PLACE(3, rw, anon, -1);
	none = PLACE(4, rw, anon, -1);
	shared = PLACE(5, rw, MAP_SHARED | MAP_ANONYMOUS, -1);
	file_shared = PLACE(6, rw, MAP_SHARED, fd);
	file_private = PLACE(7, PROT_READ, MAP_PRIVATE, fd);
	file_written = PLACE(8, rw, MAP_PRIVATE, fd);
	strcpy((char *)touched + PAGE, "touched");
	strcpy((char *)hidden, "hidden");
	strcpy((char *)shown_again, "shown");
	strcpy((char *)none, "none");
	strcpy((char *)shared, "shared");
	strcpy((char *)file_written, "written");
	mprotect((void *)none, 3 * PAGE, PROT_NONE);
	SHOW(madvise((void *)hidden, 3 * PAGE, MADV_DONTDUMP));
	SHOW(madvise((void *)shown_again, 3 * PAGE, MADV_DONTDUMP));
	SHOW(madvise((void *)shown_again, 3 * PAGE, MADV_DODUMP));
	SHOW(madvise((void *)(base + 60 * PAGE), PAGE, MADV_DONTDUMP));
	close(fd);
}

static void with_mappings(void)
{
	marker = 77;
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	sigprocmask(SIG_BLOCK, &set, 0);
	raise(SIGUSR2);
	kill(getpid(), SIGABRT);
}

static void by_address(void)
{
	*(volatile int *)(touched + 3 * PAGE) = 1;
}

static const char *text_at(const volatile char *address)
{
	const char *text = at(address);
	return text ? *text ? text : "zeros" : "nothing";
}

static void show_contents(void)
{
	show_segment("touched", touched);
	show_segment("untouched", untouched);
	show_segment("hidden", hidden);
	show_segment("shown again", shown_again);
	show_segment("without rights", none);
	show_segment("shared memory", shared);
	show_segment("a shared file", file_shared);
	show_segment("a private file", file_private);
	show_segment("a private file, written", file_written);
	say("%s %s %s %s %s %s %s %s", text_at(touched), text_at(touched + PAGE), text_at(hidden), text_at(shown_again), text_at(none), text_at(shared),
	    text_at(file_shared), text_at(file_written));
}

static void contents(void)
{
	section("what");
	map_all();
	pid_t pid = dumped("with mappings", with_mappings);
	load();
	if (!core || core_size < sizeof *HEADER) {
		say("no core");
		return;
	}
	say("ident %d %d %d %d, type %u machine %u version %u, entry %lu, phoff %lu, shoff %lu, flags %u, %u %u, sections %u %u %u",
	    memcmp(HEADER->e_ident, ELFMAG, 4), HEADER->e_ident[4], HEADER->e_ident[5], HEADER->e_ident[6], HEADER->e_type, HEADER->e_machine, HEADER->e_version,
	    (unsigned long)HEADER->e_entry, (unsigned long)HEADER->e_phoff, (unsigned long)HEADER->e_shoff, HEADER->e_flags, HEADER->e_ehsize, HEADER->e_phentsize,
	    HEADER->e_shentsize, HEADER->e_shnum, HEADER->e_shstrndx);
	show_notes(pid);
	uint64_t offset = 0, address = 0;
	int in_order = 1, aligned = 1;
	for (int n = 1; n < HEADER->e_phnum; n++) {
		const Elf64_Phdr *p = &PROGRAM[n];
		in_order &= p->p_type == PT_LOAD && p->p_offset >= offset && p->p_vaddr >= address && p->p_filesz <= p->p_memsz && p->p_paddr == 0;
		aligned &= p->p_align == PAGE && p->p_offset % PAGE == 0;
		offset = p->p_offset + p->p_filesz;
		address = p->p_vaddr + p->p_memsz;
	}
	struct stat s;
	stat("core", &s);
	say("segments in order %d, aligned %d, the file ends with the last: %d", in_order, aligned, (uint64_t)s.st_size == offset);
	const int *m = at(&marker);
	say("marker %d", m ? *m : -1);
	show_contents();
	show_segment("code", (void *)map_all);
	char *filter = read_file("/proc/self/coredump_filter");
	say("coredump_filter %s", filter);
	const char *const filters[] = { "0", "0x1", "2", "4", "0x18", "0xffffffff", "x" };
	for (unsigned n = 0; n < sizeof filters / sizeof *filters; n++) {
		int fd = open("/proc/self/coredump_filter", O_WRONLY);
		SHOW(write(fd, filters[n], strlen(filters[n])));
		close(fd);
		say("filter %s: %s", filters[n], read_file("/proc/self/coredump_filter"));
		dumped("filtered", with_mappings);
		load();
		if (core)
			show_contents();
	}
	write_file("/proc/self/coredump_filter", "0x33");
	pid = dumped("by an address", by_address);
	load();
	if (core)
		show_notes(pid);
}

static int ready[2];
static void *waiting(void *unused)
{
	(void)unused;
	write(ready[1], "r", 1);
	nap(100000);
	return 0;
}
static void *spinning(void *unused)
{
	(void)unused;
	write(ready[1], "r", 1);
	for (volatile int on = 1; on;)
		;
	return 0;
}
static void with_threads(void)
{
	pthread_t t;
	char c;
	pipe(ready);
	for (int n = 0; n < 4; n++) {
		pthread_create(&t, 0, n < 2 ? waiting : spinning, 0);
		read(ready[0], &c, 1);
	}
	nap(20);
	abort();
}
static void *dies(void *unused)
{
	(void)unused;
	nap(20);
	abort();
}
static void in_a_thread(void)
{
	pthread_t t;
	pthread_create(&t, 0, dies, 0);
	nap(100000);
}
static void *also_dies(void *unused)
{
	(void)unused;
	*(volatile int *)8 = 1;
	return 0;
}
static void at_once(void)
{
	pthread_t t;
	for (int n = 0; n < 8; n++)
		pthread_create(&t, 0, also_dies, 0);
	nap(100000);
}

static void count_threads(pid_t pid)
{
	int threads = 0, first = 0, registers = 0;
	const Elf64_Phdr *p = PROGRAM;
	for (size_t o = p->p_offset; o < p->p_offset + p->p_filesz;) {
		const Elf64_Nhdr *n = (void *)(core + o);
		const char *d = core + o + sizeof *n + ((n->n_namesz + 3) & ~3u);
		if (n->n_type == NT_PRSTATUS) {
			const struct elf_prstatus *s = (void *)d;
			const uint64_t *r = (const uint64_t *)s->pr_reg;
			if (threads++ == 0)
				first = s->pr_pid == pid;
			registers += segment_of(r[16]) && at((void *)r[19]);
		}
		o = (size_t)(d - core) + ((n->n_descsz + 3) & ~3u);
	}
	say("%d threads, %d with registers; the leader comes first: %d", threads, registers, first);
}

static void threads(void)
{
	section("threads");
	pid_t pid = dumped("five threads", with_threads);
	load();
	if (core)
		count_threads(pid);
	unlink("core");
	pid = dumped("a thread dies", in_a_thread);
	load();
	if (core)
		count_threads(pid);
	unlink("core");
	for (int n = 0; n < 5; n++) {
		dumped("many die at once", at_once);
		show_file("core");
		unlink("core");
	}
}

static void huge_and_sparse(void)
{
	size_t size = (size_t)1 << 30;
	char *p = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	for (size_t n = 0; n < 16; n++)
		p[n * (size / 16)] = 'x';
	abort();
}

static char *big;
static void fill_and_die(void)
{
	big = mmap(0, 32 * MB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (size_t n = 0; n < 32u * MB; n += PAGE)
		big[n] = 1;
	write(ready[1], "r", 1);
	abort();
}

static void large(void)
{
	section("large");
	dumped("a huge sparse process", huge_and_sparse);
	struct stat s;
	if (stat("core", &s) == 0)
		say("size over 1 GiB: %d, but little in it: %d", s.st_size > (off_t)1 << 30, s.st_blocks < 4096);
	unlink("core");
	/* Only SIGKILL ends the writing. */
	pipe(ready);
	char c;
	for (int kills = 0; kills < 2; kills++) {
		pid_t pid = must_fork();
		if (pid == 0) {
			struct rlimit r = { RLIM_INFINITY, RLIM_INFINITY };
			setrlimit(RLIMIT_CORE, &r);
			fill_and_die();
		}
		read(ready[0], &c, 1);
		nap(2);
		kill(pid, SIGTERM);
		if (kills)
			kill(pid, SIGKILL);
		int status = wait_for(pid);
		if (kills)
			say("killed while it writes, or just before or after: %d", WIFSIGNALED(status));
		else
			say("other signals: %s, core %d", WTERMSIG(status) == SIGTERM ? "signal SIGABRT" : status_text(status), WCOREDUMP(status) != 0 || WTERMSIG(status) == SIGTERM);
		unlink("core");
	}
}

int main(void)
{
	write_here();
	contents();
	threads();
	large();
	return 0;
}
