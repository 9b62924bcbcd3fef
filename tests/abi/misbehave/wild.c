/*
 * Wild values in every argument of every system call number from 0 to 460. Each number has a child of its own, with an alarm;
 * what comes back is not compared here (wild-core does that): the kernel has to live, and a child may end only by the alarm,
 * by itself, or by a signal. A number that Linux gives ENOSYS and that a kernel answers otherwise would show in wild-core.
 */
#include "t.h"

#include <sys/msg.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/time.h>

static const uint64_t wild[] = {
	0, 1, 16, 0xfff, 0x1000, (uint64_t)-1, (uint64_t)-4096, 0x7fffffffffff, 0x7ffffffff000, 0x800000000000, 0xdead000000000000,
	0xffff800000000000, 0xffffffff81000000, 0x7fffffffffffffff, 0x8000000000000000, 0xffffffffff600000, 0x80000000, 0xffffffff,
};
#define WILD (sizeof wild / sizeof *wild)

/* Calls that would end or stop the test itself, or the machine, whatever their arguments. */
static int excluded(long number)
{
	static const int list[] = {
		SYS_exit, SYS_exit_group, SYS_pause, SYS_reboot, SYS_rt_sigreturn, SYS_fork, SYS_vfork, SYS_clone, SYS_clone3, SYS_kill,
		SYS_tkill, SYS_tgkill, SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo, SYS_rt_sigsuspend, SYS_vhangup, SYS_shutdown,
		SYS_kexec_load, SYS_kexec_file_load, SYS_init_module, SYS_finit_module, SYS_delete_module, SYS_acct, SYS_swapoff,
		SYS_swapon, SYS_settimeofday, SYS_clock_settime, SYS_adjtimex, SYS_clock_adjtime, SYS_setrlimit, SYS_prlimit64,
		SYS_sethostname, SYS_setdomainname, SYS_umount2, SYS_pivot_root, SYS_unshare, SYS_setns, SYS_sync, SYS_syslog,
		SYS_io_uring_setup, SYS_bpf, SYS_userfaultfd, SYS_perf_event_open, SYS_ptrace, SYS_chroot, SYS_ioperm, SYS_iopl,
		SYS_pidfd_send_signal, SYS_alarm, SYS_setitimer, SYS_munmap, SYS_mprotect, SYS_pkey_mprotect,
		SYS_setsid, SYS_mremap, SYS_shmat, SYS_sched_setscheduler, SYS_sched_setparam, SYS_sched_setattr, SYS_process_madvise,
		SYS_write, SYS_pwrite64, SYS_writev, SYS_mlockall, SYS_close_range, SYS_close, SYS_dup2, SYS_dup3,
	};
	for (size_t i = 0; i < sizeof list / sizeof *list; i++)
		if (list[i] == number)
			return 1;
	return 0;
}

/* The calls that were left out because of this process's own state are tried in a child without any hope for it. */
static const int brutal[] = {
	SYS_munmap, SYS_mprotect, SYS_pkey_mprotect, SYS_mremap, SYS_write, SYS_pwrite64, SYS_writev, SYS_close_range, SYS_close,
	SYS_dup2, SYS_dup3, SYS_setitimer, SYS_rt_sigreturn, SYS_setsid, SYS_shmat, SYS_mlockall,
};

static void quiet_streams(void)
{
	int null = open("/dev/null", O_RDWR);
	dup2(null, 0), dup2(null, 1), dup2(null, 2);
	for (int fd = 3; fd < 20; fd++)
		close(fd);
	struct rlimit limit = { 256 << 20, 256 << 20 };
	setrlimit(RLIMIT_AS, &limit);
	limit = (struct rlimit){ 1 << 20, 1 << 20 };
	setrlimit(RLIMIT_FSIZE, &limit);
	signal(SIGXFSZ, SIG_IGN);
	setpgid(0, 0);
	setitimer(ITIMER_REAL, &(struct itimerval){ .it_value = { 0, 300000 } }, 0);
}

static uint64_t seed = 88172645463325252ull;
static uint64_t random_word(void)
{
	seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
	return seed;
}

static void torment(long number)
{
	quiet_streams();
	/* The same wild value everywhere, then one wild argument among harmless ones, then mixtures. */
	for (size_t i = 0; i < WILD; i++)
		syscall(number, wild[i], wild[i], wild[i], wild[i], wild[i], wild[i]);
	for (int position = 0; position < 6; position++)
		for (size_t i = 0; i < WILD; i++) {
			uint64_t argument[6] = { 0 };
			argument[position] = wild[i];
			syscall(number, argument[0], argument[1], argument[2], argument[3], argument[4], argument[5]);
		}
	for (int round = 0; round < 100; round++) {
		uint64_t argument[6];
		for (int i = 0; i < 6; i++)
			argument[i] = wild[random_word() % WILD];
		syscall(number, argument[0], argument[1], argument[2], argument[3], argument[4], argument[5]);
	}
	_exit(0);
}

/* What System V's calls made outlasts its makers: sets of thousands of semaphores among it. */
static void remove_ipc(void)
{
	struct shmid_ds segment;
	struct msqid_ds queue;
	struct seminfo sets;
	struct semid_ds set;
	for (int i = shmctl(0, SHM_INFO, &segment); i >= 0; i--)
		shmctl(shmctl(i, SHM_STAT, &segment), IPC_RMID, 0);
	for (int i = msgctl(0, MSG_INFO, &queue); i >= 0; i--)
		msgctl(msgctl(i, MSG_STAT, &queue), IPC_RMID, 0);
	for (int i = semctl(0, 0, SEM_INFO, &sets); i >= 0; i--)
		semctl(semctl(i, 0, SEM_STAT, &set), 0, IPC_RMID);
}

int main(void)
{
	mkdir("here", 0755);
	chdir("here");
	int tried = 0;
	for (long first = 0; first <= 460; first += 20) {
		pid_t children[20];
		int count = 0;
		for (long number = first; number < first + 20 && number <= 460; number++) {
			if (excluded(number))
				continue;
			pid_t pid = must_fork();
			if (pid == 0)
				torment(number);
			children[count++] = pid;
		}
		for (int i = 0; i < count; i++) {
			wait_for(children[i]);
			tried++;
		}
	}
	for (size_t i = 0; i < sizeof brutal / sizeof *brutal; i++) {
		pid_t pid = must_fork();
		if (pid == 0)
			torment(brutal[i]);
		wait_for(pid);
		tried++;
	}
	remove_ipc();
	say("%d numbers tried, the kernel is here", tried);
	/* And it still works: a child, a pipe, a file, memory. */
	int ends[2];
	CHECK(pipe(ends) == 0 && write(ends[1], "x", 1) == 1);
	CHECK(mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
	chdir("/tmp");
	write_file("wild-check", "fine");
	char *text = read_file("wild-check");
	say("%s", text ? text : "?");
	unlink("wild-check");
	return 0;
}
