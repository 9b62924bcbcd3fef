//! The system calls of x86-64: one row for each, which the kernel makes its dispatch of and tools of the host their lists. There is no
//! other list.
//!
//! A row is
//!
//! ```text
//! number name(argument: Kind, …) -> Sort lacks "what" = handler;
//! ```
//!
//! * the kinds are those of tests/table/src/lib.rs (`Kind`), where each is described; the sets of flags and commands that they
//!   name are in tests/table/src/sets, the structures in tests/table/src/structs.rs. The kernel does not look at them.
//! * `-> Sort` is there where the call returns a new descriptor: what it refers to.
//! * `lacks` names in a few words what is missing of the call that is no flag and no command; an error alone: all of it.
//! * `= handler` is the function that does it; `=> regs handler` one that needs all registers. A row without either is a call
//!   that is not there: ENOSYS, and once per number a line in the log.
//!
//! Whoever reads the rows defines a macro `calls!` that takes them all and says `mod rows;` behind it (with `#[path]` from elsewhere):
//!
//! ```text
//! macro_rules! calls {
//!     ($(
//!         $number:literal $name:ident $(($($argument:ident: $kind:expr),*))? $(-> $makes:ident)? $(lacks $lacks:literal)?
//!         $(= $handler:path)? $(=> regs $special:path)?;
//!     )*) => { … };
//! }
//! ```
//!
//! `kernel/src/syscall/table.rs` does it to dispatch. For programs of the host tests/table did it once for all: a crate that depends on
//! `darter-table` finds there `CALLS`, a list of `Call { number, name, there, arguments, makes, lacks }`, each argument with its `Kind`
//! as a value, with the names and values of flags and commands, and sizes and fields of structures. `there` of a call says
//! whether the kernel has it, `state` of an option what it makes of a flag or command, `parts` of a set takes a value apart.
#![forbid(unsafe_code)]

calls! {
    0 read(fd: Fd(Any), buffer: OutBytes(2), count: Size) = file::sys_read;
    1 write(fd: Fd(Any), buffer: InBytes(2), count: Size) = file::sys_write;
    2 open(path: Path, flags: Options(&OPEN), mode: Mode) -> Any = path::sys_open;
    3 close(fd: Fd(Any)) = file::sys_close;
    4 stat(path: Path, to: Out(&STAT)) = path::sys_stat;
    5 fstat(fd: Fd(Any), to: Out(&STAT)) = path::sys_fstat;
    6 lstat(path: Path, to: Out(&STAT)) = path::sys_lstat;
    7 poll(fds: InOutMany(&POLLFD, 1), count: Size, timeout: Int(&WAITS)) = poll::sys_poll;
    8 lseek(fd: Fd(Any), offset: Offset, whence: Options(&SEEK)) = file::sys_lseek;
        9 mmap(address: Addr, len: Len, prot: Options(&PROT), flags: Options(&MAP), fd: Fd(Regular), offset: Offset) -> Memory =
        memory::sys_mmap;
    10 mprotect(address: Addr, len: Len, prot: Options(&MPROTECT)) = memory::sys_mprotect;
    11 munmap(address: Addr, len: Len) = memory::sys_munmap;
    12 brk(end: Addr) = memory::sys_brk;
    13 rt_sigaction(signal: Signal, new: In(&SIGACTION), old: Out(&SIGACTION), size: Int(&EIGHT)) = signal::sys_rt_sigaction;
    14 rt_sigprocmask(how: Options(&SIG_HOW), new: In(&SIGSET), old: Out(&SIGSET), size: Int(&EIGHT)) = signal::sys_rt_sigprocmask;
    15 rt_sigreturn() => regs signal::sys_rt_sigreturn;
    16 ioctl(fd: Fd(Any), command: Options(&IOCTL), argument: Extra(0)) = tty::sys_ioctl;
    17 pread64(fd: Fd(Any), buffer: OutBytes(2), count: Size, at: Offset) = file::sys_pread64;
    18 pwrite64(fd: Fd(Any), buffer: InBytes(2), count: Size, at: Offset) = file::sys_pwrite64;
    19 readv(fd: Fd(Any), segments: OutVector(2), count: Size) = file::sys_readv;
    20 writev(fd: Fd(Any), segments: InVector(2), count: Size) = file::sys_writev;
    21 access(path: Path, mode: Options(&ACCESS)) = path::sys_access;
    22 pipe(to: Out(&TWO_FDS)) = file::sys_pipe;
        23 select(count: Int(&FDS), read: InOut(&FD_SET), write: InOut(&FD_SET), except: InOut(&FD_SET), timeout: InOut(&TIMEVAL)) =
        poll::sys_select;
    24 sched_yield() = scheduling::sys_sched_yield;
    25 mremap(address: Addr, old_len: Len, new_len: Len, flags: Options(&MREMAP), to: Addr) -> Memory = memory::sys_mremap;
    26 msync(address: Addr, len: Len, flags: Options(&MS)) = memory::sys_msync;
    27 mincore(address: Addr, len: Len, to: OutBytes(1)) = memory::sys_mincore;
    28 madvise(address: Addr, len: Len, advice: Options(&MADV)) = memory::sys_madvise;
    29 shmget(key: Int(&IPC_KEYS), size: Len, flags: Options(&SHMGET)) = ipc::sys_shmget;
    30 shmat(id: Int(&IPC_IDS), address: Addr, flags: Options(&SHMAT)) -> Memory = ipc::sys_shmat;
    31 shmctl(id: Int(&IPC_IDS), command: Options(&SHMCTL), buffer: Extra(0)) = ipc::sys_shmctl;
    32 dup(fd: Fd(Any)) -> Any = file::sys_dup;
    33 dup2(old: Fd(Any), new: Int(&FDS)) -> Any = file::sys_dup2;
    34 pause() = signal::sys_pause;
    35 nanosleep(time: In(&TIMESPEC), left: Out(&TIMESPEC)) = time::sys_nanosleep;
    36 getitimer(which: Options(&ITIMER), to: Out(&ITIMERVAL)) = timer::sys_getitimer;
    37 alarm(seconds: Int(&WAITS)) = timer::sys_alarm;
    38 setitimer(which: Options(&ITIMER), new: In(&ITIMERVAL), old: Out(&ITIMERVAL)) = timer::sys_setitimer;
    39 getpid() = process::sys_getpid;
    40 sendfile(out: Fd(Any), from: Fd(Regular), offset: InOut(&LONG), count: Size) = file::sys_sendfile;
    41 socket(domain: Options(&SOCKET_FAMILY), kind: Options(&SOCKET_KIND), protocol: Int(&SOCKET_PROTOCOLS)) -> Socket = socket::sys_socket;
    42 connect(fd: Fd(Socket), address: In(&SOCKADDR), len: Int(&SOCKADDR_SIZES)) = socket::sys_connect;
    43 accept(fd: Fd(Socket), address: Out(&SOCKADDR), len: InOut(&SOCKADDR_LEN)) -> Socket = socket::sys_accept;
        44 sendto(fd: Fd(Socket), buffer: InBytes(2), len: Size, flags: Options(&SEND), address: In(&SOCKADDR), address_len:
        Int(&SOCKADDR_SIZES)) = socket::sys_sendto;
        45 recvfrom(fd: Fd(Socket), buffer: OutBytes(2), len: Size, flags: Options(&RECEIVE), address: Out(&SOCKADDR), address_len:
        InOut(&SOCKADDR_LEN)) = socket::sys_recvfrom;
    46 sendmsg(fd: Fd(Socket), message: InOut(&MSGHDR), flags: Options(&SEND)) = socket::sys_sendmsg;
    47 recvmsg(fd: Fd(Socket), message: InOut(&MSGHDR), flags: Options(&RECEIVE)) = socket::sys_recvmsg;
    48 shutdown(fd: Fd(Socket), how: Options(&SHUTDOWN)) = socket::sys_shutdown;
    49 bind(fd: Fd(Socket), address: In(&SOCKADDR), len: Int(&SOCKADDR_SIZES)) = socket::sys_bind;
    50 listen(fd: Fd(Socket), backlog: Int(&SMALL)) = socket::sys_listen;
    51 getsockname(fd: Fd(Socket), address: Out(&SOCKADDR), len: InOut(&SOCKADDR_LEN)) = socket::sys_getsockname;
    52 getpeername(fd: Fd(Socket), address: Out(&SOCKADDR), len: InOut(&SOCKADDR_LEN)) = socket::sys_getpeername;
        53 socketpair(domain: Options(&SOCKET_FAMILY), kind: Options(&SOCKET_KIND), protocol: Int(&SOCKET_PROTOCOLS), to: Out(&TWO_FDS)) =
        socket::sys_socketpair;
        54 setsockopt(fd: Fd(Socket), level: Options(&SOCKET_LEVEL), option: Options(&SOCKET_OPTION), value: InBytes(4), len: Size) =
        socket::sys_setsockopt;
        55 getsockopt(fd: Fd(Socket), level: Options(&SOCKET_LEVEL), option: Options(&SOCKET_ASKED), value: Out(&SOCKADDR), len:
        InOut(&SOCKADDR_LEN)) = socket::sys_getsockopt;
    56 clone(flags: Options(&CLONE), stack: Addr, parent_tid: Out(&WORD), child_tid: Out(&WORD), tls: Addr) => regs process::sys_clone;
    57 fork() => regs process::sys_fork;
    58 vfork() => regs process::sys_vfork;
    59 execve(path: Path, arguments: Texts, environment: Texts) => regs process::sys_execve;
    60 exit(status: Int(&ANY)) => regs process::sys_exit;
    61 wait4(pid: Pid, status: Out(&WORD), options: Options(&WAIT), usage: Out(&RUSAGE)) = process::sys_wait4;
    62 kill(pid: Pid, signal: Signal) = signal::sys_kill;
    63 uname(to: Out(&UTSNAME)) = system::sys_uname;
    64 semget(key: Int(&IPC_KEYS), count: Int(&SMALL), flags: Options(&SEMGET)) = ipc::sys_semget;
    65 semop(id: Int(&IPC_IDS), operations: InMany(&SEMBUF, 2), count: Size) = ipc::sys_semop;
    66 semctl(id: Int(&IPC_IDS), number: Int(&SMALL), command: Options(&SEMCTL), argument: Extra(0)) = ipc::sys_semctl;
    67 shmdt(address: Addr) = ipc::sys_shmdt;
    68 msgget(key: Int(&IPC_KEYS), flags: Options(&MSGGET)) = ipc::sys_msgget;
    69 msgsnd(id: Int(&IPC_IDS), message: In(&MSGBUF), size: Int(&SMALL), flags: Options(&MSGSND)) = ipc::sys_msgsnd;
    70 msgrcv(id: Int(&IPC_IDS), message: Out(&MSGBUF), size: Int(&SMALL), kind: Int(&SMALL), flags: Options(&MSGRCV)) = ipc::sys_msgrcv;
    71 msgctl(id: Int(&IPC_IDS), command: Options(&MSGCTL), buffer: Extra(0)) = ipc::sys_msgctl;
    72 fcntl(fd: Fd(Any), command: Options(&FCNTL), argument: Extra(0)) = file::sys_fcntl;
    73 flock(fd: Fd(Any), operation: Options(&FLOCK_HOW)) = file::sys_flock;
    74 fsync(fd: Fd(Any)) = file::sys_fsync;
    75 fdatasync(fd: Fd(Any)) = file::sys_fdatasync;
    76 truncate(path: Path, size: Offset) = path::sys_truncate;
    77 ftruncate(fd: Fd(Any), size: Offset) = file::sys_ftruncate;
    78 getdents(fd: Fd(Directory), buffer: OutBytes(2), count: Size) = file::sys_getdents;
    79 getcwd(buffer: OutBytes(1), size: Size) = path::sys_getcwd;
    80 chdir(path: Path) = path::sys_chdir;
    81 fchdir(fd: Fd(Directory)) = path::sys_fchdir;
    82 rename(old: Path, new: Path) = path::sys_rename;
    83 mkdir(path: Path, mode: Mode) = path::sys_mkdir;
    84 rmdir(path: Path) = path::sys_rmdir;
    85 creat(path: Path, mode: Mode) -> Regular = path::sys_creat;
    86 link(old: Path, new: Path) = path::sys_link;
    87 unlink(path: Path) = path::sys_unlink;
    88 symlink(target: Text, path: Path) = path::sys_symlink;
    89 readlink(path: Path, buffer: OutBytes(2), size: Size) = path::sys_readlink;
    90 chmod(path: Path, mode: Mode) = path::sys_chmod;
    91 fchmod(fd: Fd(Any), mode: Mode) = path::sys_fchmod;
    92 chown(path: Path, owner: Uid, group: Gid) = path::sys_chown;
    93 fchown(fd: Fd(Any), owner: Uid, group: Gid) = path::sys_fchown;
    94 lchown(path: Path, owner: Uid, group: Gid) = path::sys_lchown;
    95 umask(mask: Mode) = path::sys_umask;
    96 gettimeofday(to: Out(&TIMEVAL), zone: Out(&TIMEZONE)) = time::sys_gettimeofday;
    97 getrlimit(resource: Options(&RLIMITS), to: Out(&RLIMIT)) = system::sys_getrlimit;
    98 getrusage(who: Options(&RUSAGE_WHO), to: Out(&RUSAGE)) = scheduling::sys_getrusage;
    99 sysinfo(to: Out(&SYSINFO)) = system::sys_sysinfo;
    100 times(to: Out(&TMS)) = scheduling::sys_times;
    101 ptrace(request: Options(&PTRACE), pid: Pid, address: Extra(0), data: Extra(1)) = process::sys_ptrace;
    102 getuid() = identity::sys_getuid;
    103 syslog(command: Options(&SYSLOG), buffer: OutBytes(2), len: Size) = system::sys_syslog;
    104 getgid() = identity::sys_getgid;
    105 setuid(id: Uid) = identity::sys_setuid;
    106 setgid(id: Gid) = identity::sys_setgid;
    107 geteuid() = identity::sys_geteuid;
    108 getegid() = identity::sys_getegid;
    109 setpgid(pid: Pid, group: Pid) = process::sys_setpgid;
    110 getppid() = process::sys_getppid;
    111 getpgrp() = process::sys_getpgrp;
    112 setsid() = process::sys_setsid;
    113 setreuid(real: Uid, effective: Uid) = identity::sys_setreuid;
    114 setregid(real: Gid, effective: Gid) = identity::sys_setregid;
    115 getgroups(count: Size, to: OutMany(&WORD, 0)) = identity::sys_getgroups;
    116 setgroups(count: Size, from: InMany(&WORD, 0)) = identity::sys_setgroups;
    117 setresuid(real: Uid, effective: Uid, saved: Uid) = identity::sys_setresuid;
    118 getresuid(real: Out(&WORD), effective: Out(&WORD), saved: Out(&WORD)) = identity::sys_getresuid;
    119 setresgid(real: Gid, effective: Gid, saved: Gid) = identity::sys_setresgid;
    120 getresgid(real: Out(&WORD), effective: Out(&WORD), saved: Out(&WORD)) = identity::sys_getresgid;
    121 getpgid(pid: Pid) = process::sys_getpgid;
    122 setfsuid(id: Uid) = identity::sys_setfsuid;
    123 setfsgid(id: Gid) = identity::sys_setfsgid;
    124 getsid(pid: Pid) = process::sys_getsid;
    125 capget(header: InOut(&CAP_HEADER), data: Out(&CAP_DATA)) = capability::sys_capget;
    126 capset(header: InOut(&CAP_HEADER), data: In(&CAP_DATA)) = capability::sys_capset;
    127 rt_sigpending(to: Out(&SIGSET), size: Int(&EIGHT)) = signal::sys_rt_sigpending;
    128 rt_sigtimedwait(set: In(&SIGSET), info: Out(&SIGINFO), timeout: In(&TIMESPEC), size: Int(&EIGHT)) = signal::sys_rt_sigtimedwait;
    129 rt_sigqueueinfo(pid: Pid, signal: Signal, info: In(&SIGINFO)) = signal::sys_rt_sigqueueinfo;
    130 rt_sigsuspend(set: In(&SIGSET), size: Int(&EIGHT)) = signal::sys_rt_sigsuspend;
    131 sigaltstack(new: In(&STACK), old: Out(&STACK)) => regs signal::sys_sigaltstack;
    132 utime(path: Path, times: In(&UTIMBUF)) = path::sys_utime;
    133 mknod(path: Path, mode: Options(&NODE), device: Device) = path::sys_mknod;
    134 uselib(path: Path);
    135 personality(to: Options(&PERSONALITY)) = system::sys_personality;
    136 ustat(device: Device, to: Out(&USTAT)) = path::sys_ustat;
    137 statfs(path: Path, to: Out(&STATFS)) = path::sys_statfs;
    138 fstatfs(fd: Fd(Any), to: Out(&STATFS)) = path::sys_fstatfs;
    139 sysfs(option: Options(&SYSFS), a: Extra(0), b: Extra(1)) = path::sys_sysfs;
    140 getpriority(which: Options(&PRIO), who: Pid) = scheduling::sys_getpriority;
    141 setpriority(which: Options(&PRIO), who: Pid, nice: Int(&NICE)) = scheduling::sys_setpriority;
    142 sched_setparam(pid: Pid, param: In(&SCHED_PARAM)) = policies::sys_sched_setparam;
    143 sched_getparam(pid: Pid, param: Out(&SCHED_PARAM)) = policies::sys_sched_getparam;
    144 sched_setscheduler(pid: Pid, policy: Options(&SCHED_POLICY), param: In(&SCHED_PARAM)) = policies::sys_sched_setscheduler;
    145 sched_getscheduler(pid: Pid) = policies::sys_sched_getscheduler;
    146 sched_get_priority_max(policy: Options(&PRIORITY_CLASS)) = policies::sys_sched_get_priority_max;
    147 sched_get_priority_min(policy: Options(&PRIORITY_CLASS)) = policies::sys_sched_get_priority_min;
    148 sched_rr_get_interval(pid: Pid, to: Out(&TIMESPEC)) = policies::sys_sched_rr_get_interval;
    149 mlock(address: Addr, len: Len) = memory::sys_mlock;
    150 munlock(address: Addr, len: Len) = memory::sys_munlock;
    151 mlockall(flags: Options(&MCL)) = memory::sys_mlockall;
    152 munlockall() = memory::sys_munlockall;
    153 vhangup() = tty::sys_vhangup;
    154 modify_ldt(function: Int(&ANY), data: OutBytes(2), size: Size);
    155 pivot_root(new: Path, old: Path) = path::sys_pivot_root;
    156 _sysctl(arguments: Addr);
    157 prctl(command: Options(&PRCTL), a: Extra(0), b: Extra(1), c: Extra(2), d: Extra(3)) = prctl::sys_prctl;
    158 arch_prctl(command: Options(&ARCH_PRCTL), argument: Extra(0)) = system::sys_arch_prctl;
    159 adjtimex(to: InOut(&TIMEX)) = time::sys_adjtimex;
    160 setrlimit(resource: Options(&RLIMITS), from: In(&RLIMIT)) = system::sys_setrlimit;
    161 chroot(path: Path) = path::sys_chroot;
    162 sync() = file::sys_sync;
    163 acct(path: Path);
    164 settimeofday(from: In(&TIMEVAL), zone: In(&TIMEZONE)) = time::sys_settimeofday;
    165 mount(source: Path, point: Path, kind: Text, flags: Options(&MOUNT), data: Text) = path::sys_mount;
    166 umount2(point: Path, flags: Options(&UMOUNT)) = path::sys_umount2;
    167 swapon(path: Path, flags: Int(&ANY));
    168 swapoff(path: Path);
    169 reboot(magic: Int(&REBOOT_MAGIC), magic2: Int(&REBOOT_MAGIC), command: Options(&REBOOT), argument: Addr) = system::sys_reboot;
    170 sethostname(name: InBytes(1), len: Size) = system::sys_sethostname;
    171 setdomainname(name: InBytes(1), len: Size) = system::sys_setdomainname;
    172 iopl(level: Int(&ANY));
    173 ioperm(from: Int(&ANY), count: Int(&ANY), on: Int(&ANY));
    174 create_module;
    175 init_module(image: InBytes(1), len: Size, options: Text);
    176 delete_module(name: Text, flags: Int(&ANY));
    177 get_kernel_syms;
    178 query_module;
    179 quotactl(command: Int(&ANY), device: Path, id: Int(&ANY), address: Addr);
    180 nfsservctl;
    181 getpmsg;
    182 putpmsg;
    183 afs_syscall;
    184 tuxcall;
    185 security;
    186 gettid() = process::sys_gettid;
    187 readahead(fd: Fd(Regular), at: Offset, count: Len) = file::sys_readahead;
    188 setxattr(path: Path, name: Text, value: InBytes(3), size: Size, flags: Options(&XATTR)) = path::sys_setxattr;
    189 lsetxattr(path: Path, name: Text, value: InBytes(3), size: Size, flags: Options(&XATTR)) = path::sys_lsetxattr;
    190 fsetxattr(fd: Fd(Any), name: Text, value: InBytes(3), size: Size, flags: Options(&XATTR)) = path::sys_fsetxattr;
    191 getxattr(path: Path, name: Text, value: OutBytes(3), size: Size) = path::sys_getxattr;
    192 lgetxattr(path: Path, name: Text, value: OutBytes(3), size: Size) = path::sys_lgetxattr;
    193 fgetxattr(fd: Fd(Any), name: Text, value: OutBytes(3), size: Size) = path::sys_fgetxattr;
    194 listxattr(path: Path, list: OutBytes(2), size: Size) = path::sys_listxattr;
    195 llistxattr(path: Path, list: OutBytes(2), size: Size) = path::sys_llistxattr;
    196 flistxattr(fd: Fd(Any), list: OutBytes(2), size: Size) = path::sys_flistxattr;
    197 removexattr(path: Path, name: Text) = path::sys_removexattr;
    198 lremovexattr(path: Path, name: Text) = path::sys_lremovexattr;
    199 fremovexattr(fd: Fd(Any), name: Text) = path::sys_fremovexattr;
    200 tkill(tid: Pid, signal: Signal) = signal::sys_tkill;
    201 time(to: Out(&LONG)) = time::sys_time;
        202 futex(word: InOut(&WORD), command: Options(&FUTEX), value: Int(&ANY), timeout: Extra(0), word2: Extra(1), value3: Extra(2)) =
        futex::sys_futex;
    203 sched_setaffinity(pid: Pid, len: Size, mask: InBytes(1)) = scheduling::sys_sched_setaffinity;
    204 sched_getaffinity(pid: Pid, len: Size, mask: OutBytes(1)) = scheduling::sys_sched_getaffinity;
    205 set_thread_area(description: Addr);
    206 io_setup(count: Int(&ANY), context: InOut(&LONG));
    207 io_destroy(context: Addr);
    208 io_getevents(context: Addr, least: Int(&ANY), most: Int(&ANY), events: Addr, timeout: In(&TIMESPEC));
    209 io_submit(context: Addr, count: Size, list: Addr);
    210 io_cancel(context: Addr, request: Addr, result: Addr);
    211 get_thread_area(description: Addr);
    212 lookup_dcookie;
    213 epoll_create(size: Int(&ANY)) -> EpollFile = file::sys_epoll_create;
    214 epoll_ctl_old;
    215 epoll_wait_old;
    216 remap_file_pages(address: Addr, len: Len, prot: Int(&ANY), page: Int(&ANY), flags: Int(&ANY)) = memory::sys_remap_file_pages;
    217 getdents64(fd: Fd(Directory), buffer: OutBytes(2), count: Size) = file::sys_getdents64;
    218 set_tid_address(address: Addr) = process::sys_set_tid_address;
    219 restart_syscall() = signal::sys_restart_syscall;
    220 semtimedop(id: Int(&IPC_IDS), operations: InMany(&SEMBUF, 2), count: Size, timeout: In(&TIMESPEC)) = ipc::sys_semtimedop;
    221 fadvise64(fd: Fd(Regular), at: Offset, len: Offset, advice: Options(&FADVISE)) = file::sys_fadvise64;
    222 timer_create(clock: Options(&TIMER_CLOCKS), event: In(&SIGEVENT), to: Out(&WORD)) = timer::sys_timer_create;
    223 timer_settime(timer: Timer, flags: Options(&TIMER_HOW), new: In(&ITIMERSPEC), old: Out(&ITIMERSPEC)) = timer::sys_timer_settime;
    224 timer_gettime(timer: Timer, to: Out(&ITIMERSPEC)) = timer::sys_timer_gettime;
    225 timer_getoverrun(timer: Timer) = timer::sys_timer_getoverrun;
    226 timer_delete(timer: Timer) = timer::sys_timer_delete;
    227 clock_settime(clock: Options(&SETTABLE_CLOCKS), from: In(&TIMESPEC)) = time::sys_clock_settime;
    228 clock_gettime(clock: Options(&CLOCKS), to: Out(&TIMESPEC)) = time::sys_clock_gettime;
    229 clock_getres(clock: Options(&CLOCKS), to: Out(&TIMESPEC)) = time::sys_clock_getres;
        230 clock_nanosleep(clock: Options(&SLEEP_CLOCKS), flags: Options(&TIMER_HOW), time: In(&TIMESPEC), left: Out(&TIMESPEC)) =
        time::sys_clock_nanosleep;
    231 exit_group(status: Int(&ANY)) => regs process::sys_exit_group;
    232 epoll_wait(epoll: Fd(EpollFile), events: OutMany(&EPOLL_EVENT, 2), most: Size, timeout: Int(&WAITS)) = poll::sys_epoll_wait;
    233 epoll_ctl(epoll: Fd(EpollFile), command: Options(&EPOLL_CTL), fd: Fd(Any), event: In(&EPOLL_EVENT)) = poll::sys_epoll_ctl;
    234 tgkill(group: Pid, tid: Pid, signal: Signal) = signal::sys_tgkill;
    235 utimes(path: Path, times: In(&TIMEVALS)) = path::sys_utimes;
    236 vserver;
    237 mbind(address: Addr, len: Len, mode: Options(&MPOL), mask: In(&LONG), bits: Int(&NODE_BITS), flags: Options(&MPOL_MF)) = memory::sys_mbind;
    238 set_mempolicy(mode: Options(&MPOL), mask: In(&LONG), bits: Int(&NODE_BITS)) = memory::sys_set_mempolicy;
    239 get_mempolicy(mode: Out(&WORD), mask: Out(&LONG), bits: Int(&NODE_BITS), address: Addr, flags: Options(&MPOL_GET)) = memory::sys_get_mempolicy;
    240 mq_open(name: Text, flags: Options(&OPEN), mode: Mode, attributes: Addr);
    241 mq_unlink(name: Text);
    242 mq_timedsend(queue: Fd(Any), message: InBytes(2), len: Size, priority: Int(&ANY), timeout: In(&TIMESPEC)) ;
    243 mq_timedreceive(queue: Fd(Any), message: OutBytes(2), len: Size, priority: Out(&WORD), timeout: In(&TIMESPEC)) ;
    244 mq_notify(queue: Fd(Any), event: In(&SIGEVENT));
    245 mq_getsetattr(queue: Fd(Any), new: Addr, old: Addr);
    246 kexec_load(entry: Addr, count: Size, segments: Addr, flags: Int(&ANY));
        247 waitid(kind: Options(&WAITID_KIND), id: Pid, info: Out(&SIGINFO), options: Options(&WAITID), usage: Out(&RUSAGE)) =
        process::sys_waitid;
    248 add_key(kind: Text, description: Text, payload: InBytes(3), len: Size, keyring: Int(&ANY));
    249 request_key(kind: Text, description: Text, callout: Text, keyring: Int(&ANY));
    250 keyctl(command: Int(&ANY), a: Addr, b: Addr, c: Addr, d: Addr);
    251 ioprio_set(which: Int(&ANY), who: Pid, priority: Int(&ANY)) = scheduling::sys_ioprio_set;
    252 ioprio_get(which: Int(&ANY), who: Pid) = scheduling::sys_ioprio_get;
    253 inotify_init() -> InotifyFile = path::sys_inotify_init;
    254 inotify_add_watch(fd: Fd(InotifyFile), path: Path, mask: Options(&INOTIFY)) = path::sys_inotify_add_watch;
    255 inotify_rm_watch(fd: Fd(InotifyFile), watch: Int(&WATCHES)) = path::sys_inotify_rm_watch;
    256 migrate_pages(pid: Pid, bits: Int(&NODE_BITS), from: In(&LONG), to: In(&LONG)) = memory::sys_migrate_pages;
    257 openat(dir: DirFd, path: Path, flags: Options(&OPEN), mode: Mode) -> Any = path::sys_openat;
    258 mkdirat(dir: DirFd, path: Path, mode: Mode) = path::sys_mkdirat;
    259 mknodat(dir: DirFd, path: Path, mode: Options(&NODE), device: Device) = path::sys_mknodat;
    260 fchownat(dir: DirFd, path: Path, owner: Uid, group: Gid, flags: Options(&AT_PATH)) = path::sys_fchownat;
    261 futimesat(dir: DirFd, path: Path, times: In(&TIMEVALS)) = path::sys_futimesat;
    262 newfstatat(dir: DirFd, path: Path, to: Out(&STAT), flags: Options(&AT_STAT)) = path::sys_newfstatat;
    263 unlinkat(dir: DirFd, path: Path, flags: Options(&AT_UNLINK)) = path::sys_unlinkat;
    264 renameat(old_dir: DirFd, old: Path, new_dir: DirFd, new: Path) = path::sys_renameat;
    265 linkat(old_dir: DirFd, old: Path, new_dir: DirFd, new: Path, flags: Options(&AT_LINK)) = path::sys_linkat;
    266 symlinkat(target: Text, dir: DirFd, path: Path) = path::sys_symlinkat;
    267 readlinkat(dir: DirFd, path: Path, buffer: OutBytes(3), size: Size) = path::sys_readlinkat;
    268 fchmodat(dir: DirFd, path: Path, mode: Mode) = path::sys_fchmodat;
    269 faccessat(dir: DirFd, path: Path, mode: Options(&ACCESS)) = path::sys_faccessat;
        270 pselect6(count: Int(&FDS), read: InOut(&FD_SET), write: InOut(&FD_SET), except: InOut(&FD_SET), timeout: InOut(&TIMESPEC),
        mask: In(&MASK_AND_SIZE)) = poll::sys_pselect6;
    271 ppoll(fds: InOutMany(&POLLFD, 1), count: Size, timeout: InOut(&TIMESPEC), mask: In(&SIGSET), size: Int(&EIGHT)) = poll::sys_ppoll;
    272 unshare(flags: Options(&UNSHARE)) = process::sys_unshare;
    273 set_robust_list(head: In(&ROBUST_LIST), size: Int(&TWENTY_FOUR)) = process::sys_set_robust_list;
    274 get_robust_list(pid: Pid, head: Out(&LONG), size: Out(&LONG)) = process::sys_get_robust_list;
        275 splice(from: Fd(Any), from_at: InOut(&LONG), to: Fd(Any), to_at: InOut(&LONG), len: Len, flags: Options(&SPLICE)) =
        file::sys_splice;
    276 tee(from: Fd(Pipe), to: Fd(Pipe), len: Len, flags: Options(&SPLICE)) = file::sys_tee;
    277 sync_file_range(fd: Fd(Regular), at: Offset, len: Offset, flags: Int(&ANY)) = file::sys_sync_file_range;
    278 vmsplice(fd: Fd(Pipe), segments: InVector(2), count: Size, flags: Options(&SPLICE)) = file::sys_vmsplice;
    279 move_pages(pid: Pid, count: Int(&SMALL), pages: Addr, nodes: Addr, status: Addr, flags: Options(&MOVE_PAGES)) = memory::sys_move_pages;
    280 utimensat(dir: DirFd, path: Path, times: In(&TIMESPECS), flags: Options(&AT_PATH)) = path::sys_utimensat;
        281 epoll_pwait(epoll: Fd(EpollFile), events: OutMany(&EPOLL_EVENT, 2), most: Size, timeout: Int(&WAITS), mask: In(&SIGSET), size:
        Int(&EIGHT)) = poll::sys_epoll_pwait;
    282 signalfd(fd: Fd(SignalFile), set: In(&SIGSET), size: Int(&EIGHT)) -> SignalFile = signal::sys_signalfd;
    283 timerfd_create(clock: Options(&TIMERFD_CLOCKS), flags: Options(&NEW_FILE)) -> TimerFile = timer::sys_timerfd_create;
    284 eventfd(count: Int(&ANY)) -> EventFile = file::sys_eventfd;
    285 fallocate(fd: Fd(Regular), mode: Options(&FALLOC), at: Offset, len: Offset) = file::sys_fallocate;
        286 timerfd_settime(fd: Fd(TimerFile), flags: Options(&TIMERFD_HOW), new: In(&ITIMERSPEC), old: Out(&ITIMERSPEC)) =
        timer::sys_timerfd_settime;
    287 timerfd_gettime(fd: Fd(TimerFile), to: Out(&ITIMERSPEC)) = timer::sys_timerfd_gettime;
    288 accept4(fd: Fd(Socket), address: Out(&SOCKADDR), len: InOut(&SOCKADDR_LEN), flags: Options(&NEW_FILE)) -> Socket = socket::sys_accept4;
        289 signalfd4(fd: Fd(SignalFile), set: In(&SIGSET), size: Int(&EIGHT), flags: Options(&NEW_FILE)) -> SignalFile =
        signal::sys_signalfd4;
    290 eventfd2(count: Int(&ANY), flags: Options(&EVENTFD)) -> EventFile = file::sys_eventfd2;
    291 epoll_create1(flags: Options(&EPOLL_NEW)) -> EpollFile = file::sys_epoll_create1;
    292 dup3(old: Fd(Any), new: Int(&FDS), flags: Options(&DUP3)) -> Any = file::sys_dup3;
    293 pipe2(to: Out(&TWO_FDS), flags: Options(&PIPE2)) = file::sys_pipe2;
    294 inotify_init1(flags: Options(&NEW_FILE)) -> InotifyFile = path::sys_inotify_init1;
    295 preadv(fd: Fd(Any), segments: OutVector(2), count: Size, at: Offset, at_high: Unused) = file::sys_preadv;
    296 pwritev(fd: Fd(Any), segments: InVector(2), count: Size, at: Offset, at_high: Unused) = file::sys_pwritev;
    297 rt_tgsigqueueinfo(group: Pid, tid: Pid, signal: Signal, info: In(&SIGINFO)) = signal::sys_rt_tgsigqueueinfo;
    298 perf_event_open(attributes: Addr, pid: Pid, cpu: Int(&ANY), group: Fd(Any), flags: Int(&ANY)) -> Any;
        299 recvmmsg(fd: Fd(Socket), messages: InOutMany(&MMSGHDR, 2), count: Size, flags: Options(&RECEIVE_MANY), timeout: InOut(&TIMESPEC)) =
        socket::sys_recvmmsg;
    300 fanotify_init(flags: Int(&ANY), file_flags: Options(&OPEN)) -> Any;
    301 fanotify_mark(fd: Fd(Any), flags: Int(&ANY), mask: Int(&ANY), dir: DirFd, path: Path);
    302 prlimit64(pid: Pid, resource: Options(&RLIMITS), new: In(&RLIMIT), old: Out(&RLIMIT)) = system::sys_prlimit64;
        303 name_to_handle_at(dir: DirFd, path: Path, handle: InOut(&FILE_HANDLE), mount: Out(&LONG), flags: Options(&AT_HANDLE)) =
        path::sys_name_to_handle_at;
    304 open_by_handle_at(mount: Fd(Any), handle: In(&FILE_HANDLE), flags: Options(&OPEN)) -> Any = path::sys_open_by_handle_at;
    305 clock_adjtime(clock: Options(&SETTABLE_CLOCKS), to: InOut(&TIMEX)) = time::sys_clock_adjtime;
    306 syncfs(fd: Fd(Any)) = file::sys_syncfs;
    307 sendmmsg(fd: Fd(Socket), messages: InOutMany(&MMSGHDR, 2), count: Size, flags: Options(&SEND)) = socket::sys_sendmmsg;
    308 setns(fd: Fd(PidFile), kind: Options(&SETNS)) = process::sys_setns;
    309 getcpu(cpu: Out(&WORD), node: Out(&WORD), cache: Unused) = scheduling::sys_getcpu;
        310 process_vm_readv(pid: Pid, to: OutVector(2), count: Size, from: InVector(4), from_count: Size, flags: Int(&ANY)) =
        memory::sys_process_vm_readv;
        311 process_vm_writev(pid: Pid, from: InVector(2), count: Size, to: OutVector(4), to_count: Size, flags: Int(&ANY)) =
        memory::sys_process_vm_writev;
    312 kcmp(pid: Pid, other: Pid, kind: Options(&KCMP), a: Extra(0), b: Extra(1)) = process::sys_kcmp;
    313 finit_module(fd: Fd(Regular), options: Text, flags: Int(&ANY));
    314 sched_setattr(pid: Pid, attributes: In(&SCHED_ATTR), flags: Int(&ANY)) = policies::sys_sched_setattr;
    315 sched_getattr(pid: Pid, attributes: OutBytes(2), size: Size, flags: Int(&ANY)) = policies::sys_sched_getattr;
    316 renameat2(old_dir: DirFd, old: Path, new_dir: DirFd, new: Path, flags: Options(&RENAME)) = path::sys_renameat2;
    317 seccomp(command: Options(&SECCOMP), flags: Options(&SECCOMP_FLAGS), argument: Extra(0)) = process::sys_seccomp;
    318 getrandom(buffer: OutBytes(1), len: Size, flags: Options(&GETRANDOM)) = system::sys_getrandom;
    319 memfd_create(name: Text, flags: Options(&MEMFD)) -> MemoryFile = file::sys_memfd_create;
    320 kexec_file_load(kernel: Fd(Regular), initrd: Fd(Regular), len: Size, line: Text, flags: Int(&ANY));
    321 bpf(command: Int(&ANY), attributes: Addr, size: Size);
    322 execveat(dir: DirFd, path: Path, arguments: Texts, environment: Texts, flags: Options(&AT_PATH)) => regs process::sys_execveat;
    323 userfaultfd(flags: Int(&ANY)) -> Any;
    324 membarrier(command: Options(&MEMBARRIER), flags: Options(&MEMBARRIER_HOW), cpu: Int(&CPUS)) = barrier::sys_membarrier;
    325 mlock2(address: Addr, len: Len, flags: Options(&MLOCK2)) = memory::sys_mlock2;
        326 copy_file_range(from: Fd(Regular), from_at: InOut(&LONG), to: Fd(Regular), to_at: InOut(&LONG), len: Len, flags: Int(&ANY)) =
        file::sys_copy_file_range;
    327 preadv2(fd: Fd(Any), segments: OutVector(2), count: Size, at: Offset, at_high: Unused, flags: Options(&RWF)) = file::sys_preadv2;
    328 pwritev2(fd: Fd(Any), segments: InVector(2), count: Size, at: Offset, at_high: Unused, flags: Options(&RWF)) = file::sys_pwritev2;
    329 pkey_mprotect(address: Addr, len: Len, prot: Options(&MPROTECT), key: Int(&KEYS)) lacks "keys" = memory::sys_pkey_mprotect;
    330 pkey_alloc(flags: Int(&ANY), rights: Int(&KEYS)) lacks "ENOSPC" = memory::sys_pkey_alloc;
    331 pkey_free(key: Int(&KEYS)) lacks "EINVAL" = memory::sys_pkey_free;
    332 statx(dir: DirFd, path: Path, flags: Options(&AT_STATX), mask: Options(&STATX_MASK), to: Out(&STATX)) = path::sys_statx;
    333 io_pgetevents(context: Addr, least: Int(&ANY), most: Int(&ANY), events: Addr, timeout: In(&TIMESPEC), mask: In(&MASK_AND_SIZE)) ;
    334 rseq(area: InOut(&RSEQ), len: Int(&THIRTY_TWO), flags: Options(&RSEQ_HOW), signature: Int(&ANY)) = barrier::sys_rseq;
    335 uretprobe;
        424 pidfd_send_signal(fd: Fd(PidFile), signal: Signal, info: In(&SIGINFO), flags: Options(&PIDFD_SIGNAL)) = process::sys_pidfd_send_signal;
    425 io_uring_setup(entries: Int(&ANY), parameters: Addr) -> Any;
    426 io_uring_enter(fd: Fd(Any), submit: Int(&ANY), complete: Int(&ANY), flags: Int(&ANY), argument: Addr, size: Size) ;
    427 io_uring_register(fd: Fd(Any), command: Int(&ANY), argument: Addr, count: Size);
    428 open_tree(dir: DirFd, path: Path, flags: Options(&OPEN_TREE)) -> TreeFile = path::sys_open_tree;
        429 move_mount(from_dir: DirFd, from: Path, to_dir: DirFd, to: Path, flags: Options(&MOVE_MOUNT)) = path::sys_move_mount;
    430 fsopen(kind: Text, flags: Options(&FSOPEN)) -> ContextFile = path::sys_fsopen;
        431 fsconfig(fd: Fd(ContextFile), command: Options(&FSCONFIG), key: Text, value: Addr, extra: Int(&FDS)) = path::sys_fsconfig;
        432 fsmount(fd: Fd(ContextFile), flags: Options(&FSMOUNT), attributes: Options(&FSMOUNT_ATTRIBUTES)) -> TreeFile = path::sys_fsmount;
    433 fspick(dir: DirFd, path: Path, flags: Options(&FSPICK)) -> ContextFile = path::sys_fspick;
    434 pidfd_open(pid: Pid, flags: Options(&PIDFD_OPEN)) -> PidFile = process::sys_pidfd_open;
    435 clone3(arguments: In(&CLONE_ARGS), size: Int(&CLONE_SIZES)) => regs process::sys_clone3;
    436 close_range(first: Int(&FDS), last: Int(&FDS), flags: Options(&CLOSE_RANGE)) = file::sys_close_range;
    437 openat2(dir: DirFd, path: Path, how: Addr, size: Size) -> Any = path::sys_openat2;
    438 pidfd_getfd(fd: Fd(PidFile), number: Int(&FDS), flags: Int(&ANY)) -> Any = process::sys_pidfd_getfd;
    439 faccessat2(dir: DirFd, path: Path, mode: Options(&ACCESS), flags: Options(&AT_ACCESS)) = path::sys_faccessat2;
    440 process_madvise(fd: Fd(PidFile), segments: InVector(2), count: Size, advice: Options(&PROCESS_MADV), flags: Int(&ANY)) =
        memory::sys_process_madvise;
        441 epoll_pwait2(epoll: Fd(EpollFile), events: OutMany(&EPOLL_EVENT, 2), most: Size, timeout: In(&TIMESPEC), mask: In(&SIGSET),
        size: Int(&EIGHT)) = poll::sys_epoll_pwait2;
        442 mount_setattr(dir: DirFd, path: Path, flags: Options(&AT_SETATTR), attributes: In(&MOUNT_ATTR), size: Int(&ATTRIBUTE_SIZES))
        lacks "a mapping counts as a writer of every mount of its file system" = path::sys_mount_setattr;
    443 quotactl_fd(fd: Fd(Any), command: Int(&ANY), id: Int(&ANY), address: Addr);
    444 landlock_create_ruleset(attributes: InBytes(1), size: Size, flags: Int(&ANY)) -> Any;
    445 landlock_add_rule(fd: Fd(Any), kind: Int(&ANY), rule: Addr, flags: Int(&ANY));
    446 landlock_restrict_self(fd: Fd(Any), flags: Int(&ANY));
    447 memfd_secret(flags: Int(&ANY)) -> MemoryFile;
    448 process_mrelease(fd: Fd(PidFile), flags: Int(&ANY)) = process::sys_process_mrelease;
        449 futex_waitv(waiters: InMany(&FUTEX_WAITV, 1), count: Size, flags: Int(&ANY), timeout: In(&TIMESPEC), clock:
        Options(&FUTEX_CLOCKS)) = futex2::sys_futex_waitv;
    450 set_mempolicy_home_node(address: Addr, len: Len, node: Int(&SMALL), flags: Int(&ANY)) = memory::sys_set_mempolicy_home_node;
    451 cachestat(fd: Fd(Regular), range: In(&CACHESTAT_RANGE), to: Out(&CACHESTAT), flags: Int(&ANY)) = file::sys_cachestat;
    452 fchmodat2(dir: DirFd, path: Path, mode: Mode, flags: Options(&AT_PATH)) = path::sys_fchmodat2;
    453 map_shadow_stack(address: Addr, len: Len, flags: Int(&ANY)) -> Memory;
    454 futex_wake(word: InOut(&WORD), mask: Int(&ANY), count: Int(&ANY), flags: Options(&FUTEX2)) = futex2::sys_futex_wake;
        455 futex_wait(word: InOut(&WORD), value: Int(&ANY), mask: Int(&ANY), flags: Options(&FUTEX2), timeout: In(&TIMESPEC), clock:
        Options(&FUTEX_CLOCKS)) = futex2::sys_futex_wait;
    456 futex_requeue(waiters: In(&FUTEX_WAITVS), flags: Int(&ANY), wake: Int(&ANY), move: Int(&ANY)) = futex2::sys_futex_requeue;
    457 statmount(request: In(&MNT_ID_REQ), buffer: OutBytes(2), size: Size, flags: Int(&ANY)) = path::sys_statmount;
    458 listmount(request: In(&MNT_ID_REQ), ids: OutMany(&LONG, 2), count: Size, flags: Options(&LISTMOUNT)) = path::sys_listmount;
    459 lsm_get_self_attr(which: Int(&ANY), buffer: Addr, size: InOut(&WORD), flags: Int(&ANY));
    460 lsm_set_self_attr(which: Int(&ANY), buffer: InBytes(2), size: Size, flags: Int(&ANY));
    461 lsm_list_modules(ids: Addr, size: InOut(&WORD), flags: Int(&ANY));
    462 mseal(address: Addr, len: Len, flags: Int(&ANY)) = memory::sys_mseal;
    463 setxattrat;
    464 getxattrat;
    465 listxattrat;
    466 removexattrat;
    467 open_tree_attr;
    468 file_getattr;
    469 file_setattr;
}
