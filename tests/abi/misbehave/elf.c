/*
 * Corrupt programs. Each is this program, cut short or with some bytes of its headers changed by a generator with a fixed
 * seed. The kernel may refuse it or start it and end it by a signal; what it does must be what Linux does. A changed program
 * that really runs does nothing, because it is told to.
 */
#include "t.h"

#include <elf.h>

static unsigned char *image;
static size_t size;

static void try(const char *name, const unsigned char *bytes, size_t length)
{
	int fd = open("corrupt", O_CREAT | O_TRUNC | O_WRONLY, 0755);
	for (size_t at = 0; at < length;) {
		ssize_t done = write(fd, bytes + at, length - at);
		if (done <= 0)
			break;
		at += (size_t)done;
	}
	close(fd);
	pid_t pid = must_fork();
	if (pid == 0) {
		alarm(3);
		execve("corrupt", (char *[]){ "quiet", 0 }, (char *[]){ 0 });
		_exit(errno == 0 ? 99 : 100 + errno % 100);
	}
	int status = wait_for(pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) >= 100)
		say("%s: %s", name, error_name(WEXITSTATUS(status) - 100));
	else
		say("%s: %s", name, status_text(status));
	unlink("corrupt");
}

static uint64_t seed = 0x2545f4914f6cdd1d;
static uint64_t random_word(void)
{
	seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
	return seed;
}

int main(int argc, char **argv)
{
	(void)argc;
	if (strcmp(argv[0], "quiet") == 0)
		return 7;
	int fd = open("/proc/self/exe", O_RDONLY);
	struct stat st;
	fstat(fd, &st);
	size = (size_t)st.st_size;
	image = malloc(size);
	if (!image || read(fd, image, size) != (ssize_t)size)
		return 1;
	unsigned char *copy = malloc(size);
	Elf64_Ehdr *header = (Elf64_Ehdr *)copy;
	char name[128];
	try("whole", image, size);
	static const size_t cuts[] = { 0, 1, 3, 4, 5, 15, 16, 32, 63, 64, 65, 100, 120, 127, 128, 200, 400, 1000, 4095, 4096, 4097 };
	for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
		snprintf(name, sizeof name, "cut to %zu", cuts[i]);
		if (cuts[i] <= 400)
			try(name, image, cuts[i]);
	}
#define CHANGE(text, statement) do { memcpy(copy, image, size); statement; try(text, copy, size); } while (0)
	CHANGE("magic", copy[1] = 'X');
	CHANGE("class 32", header->e_ident[EI_CLASS] = ELFCLASS32);
	CHANGE("big endian", header->e_ident[EI_DATA] = ELFDATA2MSB);
	CHANGE("version", header->e_version = 77);
	CHANGE("type relocatable", header->e_type = ET_REL);
	CHANGE("type core", header->e_type = ET_CORE);
	CHANGE("type nothing", header->e_type = 0);
	CHANGE("machine ARM", header->e_machine = EM_ARM);
	CHANGE("machine aarch64", header->e_machine = EM_AARCH64);
	CHANGE("phentsize 0", header->e_phentsize = 0);
	CHANGE("phentsize 55", header->e_phentsize = 55);
	CHANGE("phentsize 57", header->e_phentsize = 57);
	CHANGE("phnum 0", header->e_phnum = 0);
	CHANGE("phnum 0xffff", header->e_phnum = 0xffff);
	CHANGE("phnum 2000", header->e_phnum = 2000);
	CHANGE("phoff 0", header->e_phoff = 0);
	CHANGE("phoff past the end", header->e_phoff = size + 4096);
	CHANGE("phoff huge", header->e_phoff = (uint64_t)-64);
	CHANGE("phoff odd", header->e_phoff = 65);
	CHANGE("shoff huge", header->e_shoff = (uint64_t)-1);
	CHANGE("entry null", header->e_entry = 0);
	CHANGE("entry kernel", header->e_entry = 0xffffffff80000000);
	CHANGE("entry non-canonical", header->e_entry = 0x8000000000000000);
	CHANGE("ehsize", header->e_ehsize = 1);
	int loads = 0;
	for (int i = 0; i < ((Elf64_Ehdr *)image)->e_phnum && loads < 2; i++) {
		Elf64_Phdr *segment = (Elf64_Phdr *)(copy + ((Elf64_Ehdr *)image)->e_phoff) + i;
		Elf64_Phdr *original = (Elf64_Phdr *)(image + ((Elf64_Ehdr *)image)->e_phoff) + i;
		if (original->p_type != PT_LOAD)
			continue;
		loads++;
#define SEGMENT(text, statement) do { snprintf(name, sizeof name, "segment %d: %s", loads, text); CHANGE(name, statement); } while (0)
		SEGMENT("vaddr 0", segment->p_vaddr = 0);
		SEGMENT("vaddr kernel", segment->p_vaddr = 0xffff800000000000);
		SEGMENT("vaddr unaligned to offset", segment->p_vaddr += 1);
		SEGMENT("memsz huge", segment->p_memsz = 0x7fffffffffff);
		SEGMENT("memsz wraps", segment->p_memsz = (uint64_t)-1);
		SEGMENT("memsz below filesz", segment->p_memsz = segment->p_filesz - 1);
		SEGMENT("memsz 0", segment->p_memsz = 0);
		SEGMENT("filesz wraps", segment->p_filesz = (uint64_t)-1);
		SEGMENT("offset wraps", segment->p_offset = (uint64_t)-4096);
		SEGMENT("no permissions", segment->p_flags = 0);
		SEGMENT("not executable", segment->p_flags = PF_R);
		SEGMENT("align 3", segment->p_align = 3);
		SEGMENT("align huge", segment->p_align = 1ul << 60);
		SEGMENT("becomes an interpreter", segment->p_type = PT_INTERP);
		SEGMENT("becomes nothing", segment->p_type = PT_NULL);
	}
	for (int i = 0; i < ((Elf64_Ehdr *)image)->e_phnum; i++) {
		Elf64_Phdr *segment = (Elf64_Phdr *)(copy + ((Elf64_Ehdr *)image)->e_phoff) + i;
		if (((Elf64_Phdr *)(image + ((Elf64_Ehdr *)image)->e_phoff) + i)->p_type == PT_LOAD)
			continue;
		char *interpreter = (char *)copy + 0x200;
#define INTERP(text, path, length) do { snprintf(name, sizeof name, "interpreter %s", text); \
	CHANGE(name, segment->p_type = PT_INTERP; segment->p_offset = 0x200; segment->p_filesz = length; memcpy(interpreter, path, sizeof path)); } while (0)
		INTERP("missing", "/no/such/thing", 15);
		INTERP("a directory", "/tmp", 5);
		INTERP("/dev/null", "/dev/null", 10);
		INTERP("unterminated", "/dev/null", 5);
		INTERP("empty", "", 1);
		INTERP("of length 0", "x", 0);
		INTERP("of length 5000", "/x", 5000);
		INTERP("itself", "corrupt", 8);
		CHANGE("interpreter past the end", segment->p_type = PT_INTERP; segment->p_offset = size + 4096; segment->p_filesz = 9);
		CHANGE("interpreter nowhere", segment->p_type = PT_INTERP; segment->p_offset = (uint64_t)-1; segment->p_filesz = 9);
		break;
	}
	/* Random changes in the headers. Those in sizes and addresses of code are left out: what runs then is anything. */
	size_t headers = ((Elf64_Ehdr *)image)->e_phoff + ((Elf64_Ehdr *)image)->e_phnum * sizeof(Elf64_Phdr);
	int refused = 0, started = 0;
	for (int round = 0; round < 100; round++) {
		memcpy(copy, image, size);
		int changes = 1 + (int)(random_word() % 4);
		while (changes-- > 0)
			copy[random_word() % headers] = (unsigned char)random_word();
		int out = open("random", O_CREAT | O_TRUNC | O_WRONLY, 0755);
		write(out, copy, size);
		close(out);
		pid_t pid = must_fork();
		if (pid == 0) {
			int null = open("/dev/null", O_RDWR);
			dup2(null, 1), dup2(null, 2);
			alarm(3);
			execve("random", (char *[]){ "quiet", 0 }, (char *[]){ 0 });
			_exit(200);
		}
		int status = wait_for(pid);
		if (WIFEXITED(status) && WEXITSTATUS(status) == 200)
			refused++;
		else
			started++;
	}
	/* How many of each depends on the kernel's care; that it went through all of them does not. */
	CHECK(refused + started == 100);
	CHECK(refused > 10);
	try("whole again", image, size);
	return 0;
}
