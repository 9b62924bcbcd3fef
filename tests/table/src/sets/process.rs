//! Options of calls on processes, their scheduling and limits.
#![forbid(unsafe_code)]

use super::{ANY, EIGHT, SMALL, State};
use crate::structs::{
    FPREGS, KCMP_EPOLL_SLOT, LONG, PEEKSIGINFO, REGSET, SIGINFO, SIGSET, SOCK_FPROG, SYSCALL_INFO, TIMESPEC,
    USER_REGS, WORD,
};
#[allow(clippy::enum_glob_use, reason = "the tables are read by people")]
use crate::{Kind::*, Opt, Set, Sort::*};
use linux_raw_sys::general;

sets! {
    /// The low byte is the signal that tells the parent of the end.
    CLONE "clone flags" choose { }
    flags {
        CLONE_VM, CLONE_FS, CLONE_FILES, CLONE_SIGHAND, CLONE_PIDFD, CLONE_PTRACE, CLONE_VFORK, CLONE_PARENT,
        CLONE_THREAD, CLONE_NEWNS, CLONE_SYSVSEM, CLONE_SETTLS, CLONE_PARENT_SETTID, CLONE_CHILD_CLEARTID,
        CLONE_DETACHED hint, CLONE_UNTRACED, CLONE_CHILD_SETTID, CLONE_NEWCGROUP refused "EINVAL", CLONE_NEWUTS refused "EINVAL",
        CLONE_NEWIPC refused "EINVAL", CLONE_NEWUSER refused "EINVAL", CLONE_NEWPID refused "EINVAL", CLONE_NEWNET refused "EINVAL",
        CLONE_IO hint, SIGCHLD = 17
    }
    CLONE3 "clone3 flags" choose { }
    flags {
        CLONE_VM, CLONE_FS, CLONE_FILES, CLONE_SIGHAND, CLONE_PIDFD, CLONE_PTRACE, CLONE_VFORK, CLONE_PARENT,
        CLONE_THREAD, CLONE_NEWNS, CLONE_SYSVSEM, CLONE_SETTLS, CLONE_PARENT_SETTID, CLONE_CHILD_CLEARTID,
        CLONE_UNTRACED, CLONE_CHILD_SETTID, CLONE_NEWCGROUP refused "EINVAL", CLONE_NEWUTS refused "EINVAL",
        CLONE_NEWIPC refused "EINVAL", CLONE_NEWUSER refused "EINVAL", CLONE_NEWPID refused "EINVAL", CLONE_NEWNET refused "EINVAL",
        CLONE_IO hint, CLONE_CLEAR_SIGHAND = 0x1_0000_0000, CLONE_INTO_CGROUP = 0x2_0000_0000 refused "EINVAL"
    }
    UNSHARE "unshare flags" choose { }
    flags {
        CLONE_VM, CLONE_FS, CLONE_FILES, CLONE_SIGHAND, CLONE_THREAD, CLONE_SYSVSEM, CLONE_NEWNS,
        CLONE_NEWCGROUP refused "EINVAL", CLONE_NEWUTS refused "EINVAL", CLONE_NEWIPC refused "EINVAL", CLONE_NEWUSER refused "EINVAL",
        CLONE_NEWPID refused "EINVAL", CLONE_NEWNET refused "EINVAL", CLONE_NEWTIME = 0x80 refused "EINVAL"
    }
    SETNS "setns flags" choose { }
    flags {
        CLONE_NEWNS, CLONE_NEWCGROUP refused "EINVAL", CLONE_NEWUTS refused "EINVAL", CLONE_NEWIPC refused "EINVAL",
        CLONE_NEWUSER refused "EINVAL", CLONE_NEWPID refused "EINVAL", CLONE_NEWNET refused "EINVAL", CLONE_NEWTIME = 0x80 refused "EINVAL"
    }
    WAIT "wait4 options" choose { } flags { WNOHANG, WUNTRACED, WCONTINUED, __WNOTHREAD, __WALL, __WCLONE }
    WAITID "waitid options" choose { }
    flags { WNOHANG, WSTOPPED, WEXITED, WCONTINUED, WNOWAIT, __WNOTHREAD, __WALL, __WCLONE }
    WAITID_KIND "whom waitid waits for" choose { P_ALL, P_PID, P_PGID, P_PIDFD } flags { }
    PIDFD_OPEN "process descriptor" choose { } flags { PIDFD_NONBLOCK = 0x800, PIDFD_THREAD = 0x80 }
    PIDFD_SIGNAL "whom a signal through a process descriptor is for" choose { }
    flags { PIDFD_SIGNAL_THREAD = 1, PIDFD_SIGNAL_THREAD_GROUP = 2, PIDFD_SIGNAL_PROCESS_GROUP = 4 }
    KCMP "what is compared" choose {
        KCMP_FILE = 0 (Fd(Any), Fd(Any)), KCMP_VM = 1, KCMP_FILES = 2, KCMP_FS = 3, KCMP_SIGHAND = 4, KCMP_IO = 5, KCMP_SYSVSEM = 6,
        KCMP_EPOLL_TFD = 7 (Fd(Any), In(&KCMP_EPOLL_SLOT))
    } flags { }
    SECCOMP "seccomp operation" choose {
        SECCOMP_SET_MODE_STRICT = 0, SECCOMP_SET_MODE_FILTER = 1 (In(&SOCK_FPROG)), SECCOMP_GET_ACTION_AVAIL = 2 (In(&WORD)),
        SECCOMP_GET_NOTIF_SIZES = 3 (Out(&WORD)) refused "EINVAL"
    } flags { }
    SECCOMP_FLAGS "seccomp flags" choose { }
    flags {
        SECCOMP_FILTER_FLAG_TSYNC = 1, SECCOMP_FILTER_FLAG_LOG = 2, SECCOMP_FILTER_FLAG_SPEC_ALLOW = 4 hint,
        SECCOMP_FILTER_FLAG_NEW_LISTENER = 8 refused "EINVAL", SECCOMP_FILTER_FLAG_TSYNC_ESRCH = 16,
        SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV = 32 refused "EINVAL"
    }
    PTRACE "ptrace request" choose {
        PTRACE_TRACEME = 0, PTRACE_PEEKTEXT = 1 (Addr, Out(&LONG)), PTRACE_PEEKDATA = 2 (Addr, Out(&LONG)), PTRACE_PEEKUSR = 3 (Int(&ANY), Out(&LONG)),
        PTRACE_POKETEXT = 4 (Addr, Int(&ANY)), PTRACE_POKEDATA = 5 (Addr, Int(&ANY)), PTRACE_POKEUSR = 6 (Int(&ANY), Int(&ANY)),
        PTRACE_CONT = 7 (Unused, Signal), PTRACE_KILL = 8, PTRACE_SINGLESTEP = 9 (Unused, Signal), PTRACE_GETREGS = 12 (Unused, Out(&USER_REGS)),
        PTRACE_SETREGS = 13 (Unused, In(&USER_REGS)), PTRACE_GETFPREGS = 14 (Unused, Out(&FPREGS)), PTRACE_SETFPREGS = 15 (Unused, In(&FPREGS)),
        PTRACE_ATTACH = 16, PTRACE_DETACH = 17 (Unused, Signal), PTRACE_OLDSETOPTIONS = 21 (Unused, Int(&ANY)),
        PTRACE_SYSCALL = 24 (Unused, Signal), PTRACE_ARCH_PRCTL = 30 (Addr, Int(&ANY)) refused "EIO", PTRACE_SYSEMU = 31 (Unused, Signal) refused "EIO",
        PTRACE_SYSEMU_SINGLESTEP = 32 (Unused, Signal) refused "EIO", PTRACE_SINGLEBLOCK = 33 (Unused, Signal) refused "EIO",
        PTRACE_SETOPTIONS = 0x4200 (Unused, Options(&PTRACE_OPTIONS)), PTRACE_GETEVENTMSG = 0x4201 (Unused, Out(&LONG)),
        PTRACE_GETSIGINFO = 0x4202 (Unused, Out(&SIGINFO)), PTRACE_SETSIGINFO = 0x4203 (Unused, In(&SIGINFO)),
        PTRACE_GETREGSET = 0x4204 (Options(&REGSETS), InOut(&REGSET)), PTRACE_SETREGSET = 0x4205 (Options(&REGSETS), InOut(&REGSET)),
        PTRACE_SEIZE = 0x4206 (Int(&SMALL), Options(&PTRACE_OPTIONS)), PTRACE_INTERRUPT = 0x4207, PTRACE_LISTEN = 0x4208,
        PTRACE_PEEKSIGINFO = 0x4209 (In(&PEEKSIGINFO), Out(&SIGINFO)), PTRACE_GETSIGMASK = 0x420a (Int(&EIGHT), Out(&SIGSET)), PTRACE_SETSIGMASK = 0x420b (Int(&EIGHT), In(&SIGSET)),
        PTRACE_SECCOMP_GET_FILTER = 0x420c (Int(&SMALL), Addr) refused "EIO", PTRACE_GET_SYSCALL_INFO = 0x420e (Int(&SMALL), Out(&SYSCALL_INFO)),
        PTRACE_GET_RSEQ_CONFIGURATION = 0x420f (Int(&SMALL), Out(&SYSCALL_INFO))
    } flags { }
    PEEKSIGINFO_FLAGS "flags of PTRACE_PEEKSIGINFO" choose { } flags { PTRACE_PEEKSIGINFO_SHARED = 1 }
    PTRACE_OPTIONS "ptrace options" choose { }
    flags {
        PTRACE_O_TRACESYSGOOD = 1, PTRACE_O_TRACEFORK = 2, PTRACE_O_TRACEVFORK = 4, PTRACE_O_TRACECLONE = 8,
        PTRACE_O_TRACEEXEC = 16, PTRACE_O_TRACEVFORKDONE = 32, PTRACE_O_TRACEEXIT = 64,
        PTRACE_O_TRACESECCOMP = 128, PTRACE_O_EXITKILL = 0x100000
    }
    REGSETS "set of registers" choose { NT_PRSTATUS = 1, NT_PRFPREG = 2, NT_X86_XSTATE = 0x202 } flags { }
    RUSAGE_WHO "whose usage" choose { RUSAGE_SELF = 0, RUSAGE_CHILDREN = -1, RUSAGE_THREAD = 1 } flags { }
    RLIMITS "limit" choose {
        RLIMIT_CPU, RLIMIT_FSIZE, RLIMIT_DATA, RLIMIT_STACK, RLIMIT_CORE, RLIMIT_RSS, RLIMIT_NPROC, RLIMIT_NOFILE, RLIMIT_MEMLOCK, RLIMIT_AS,
        RLIMIT_LOCKS, RLIMIT_SIGPENDING, RLIMIT_MSGQUEUE, RLIMIT_NICE, RLIMIT_RTPRIO, RLIMIT_RTTIME
    } flags { }
    PRIO "whose priority" choose { PRIO_PROCESS, PRIO_PGRP, PRIO_USER } flags { }
    SCHED_CLASS "scheduling policy" choose {
        SCHED_NORMAL, SCHED_FIFO, SCHED_RR, SCHED_BATCH, SCHED_IDLE, SCHED_DEADLINE
    } flags { }
    PRIORITY_CLASS "scheduling policy" choose { SCHED_NORMAL, SCHED_FIFO, SCHED_RR, SCHED_BATCH, SCHED_IDLE, SCHED_DEADLINE } flags { }
    SCHED_POLICY "scheduling policy" choose { SCHED_NORMAL, SCHED_FIFO, SCHED_RR, SCHED_BATCH, SCHED_IDLE }
    flags { SCHED_RESET_ON_FORK }
    SCHED_ATTR_FLAGS "sched_attr flags" choose { }
    flags {
        SCHED_FLAG_RESET_ON_FORK = 1, SCHED_FLAG_RECLAIM = 2, SCHED_FLAG_DL_OVERRUN = 4, SCHED_FLAG_KEEP_POLICY = 8,
        SCHED_FLAG_KEEP_PARAMS = 16, SCHED_FLAG_UTIL_CLAMP_MIN = 32 refused "EOPNOTSUPP", SCHED_FLAG_UTIL_CLAMP_MAX = 64 refused "EOPNOTSUPP"
    }
    PERSONALITY "personality" choose { PER_LINUX = 0, QUERY = 0xffff_ffff }
    flags {
        ADDR_NO_RANDOMIZE = 0x4_0000, MMAP_PAGE_ZERO = 0x10_0000, ADDR_COMPAT_LAYOUT = 0x20_0000, READ_IMPLIES_EXEC = 0x40_0000,
        ADDR_LIMIT_3GB = 0x800_0000, UNAME26 = 0x2_0000
    }
    /// The private bit and the clock are flags of the command.
    FUTEX "futex command" choose {
        FUTEX_WAIT(In(&TIMESPEC)), FUTEX_WAKE, FUTEX_FD refused "ENOSYS", FUTEX_REQUEUE(Int(&ANY), InOut(&WORD)),
        FUTEX_CMP_REQUEUE(Int(&ANY), InOut(&WORD), Int(&ANY)), FUTEX_WAKE_OP(Int(&ANY), InOut(&WORD), Int(&ANY)),
        FUTEX_LOCK_PI(In(&TIMESPEC)), FUTEX_UNLOCK_PI, FUTEX_TRYLOCK_PI,
        FUTEX_WAIT_BITSET(In(&TIMESPEC), Unused, Int(&ANY)), FUTEX_WAKE_BITSET(Unused, Unused, Int(&ANY)),
        FUTEX_WAIT_REQUEUE_PI(In(&TIMESPEC), InOut(&WORD)),
        FUTEX_CMP_REQUEUE_PI(Int(&ANY), InOut(&WORD), Int(&ANY)), FUTEX_LOCK_PI2(In(&TIMESPEC))
    } flags { FUTEX_PRIVATE_FLAG, FUTEX_CLOCK_REALTIME }
    /// The size of the word, and where its waiters are.
    FUTEX2 "futex flags" choose {
        FUTEX2_SIZE_U8 = 0 refused "EINVAL", FUTEX2_SIZE_U16 = 1 refused "EINVAL", FUTEX2_SIZE_U32 = 2, FUTEX2_SIZE_U64 = 3 refused "EINVAL"
    } flags { FUTEX2_NUMA = 4 refused "EINVAL", FUTEX2_PRIVATE = 128 }
    FUTEX_CLOCKS "clock" choose { CLOCK_REALTIME, CLOCK_MONOTONIC } flags { }
    MEMBARRIER "membarrier command" choose {
        MEMBARRIER_CMD_QUERY = 0, MEMBARRIER_CMD_GLOBAL = 1, MEMBARRIER_CMD_GLOBAL_EXPEDITED = 2,
        MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED = 4, MEMBARRIER_CMD_PRIVATE_EXPEDITED = 8,
        MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED = 16, MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE = 32,
        MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE = 64, MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ = 128,
        MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ = 256, MEMBARRIER_CMD_GET_REGISTRATIONS = 512
    } flags { }
    MEMBARRIER_HOW "membarrier flags" choose { } flags { MEMBARRIER_CMD_FLAG_CPU = 1 }
    RSEQ_HOW "rseq flags" choose { } flags { RSEQ_FLAG_UNREGISTER = 1 }
    REBOOT "reboot command" choose { CAD_OFF = 0, CAD_ON = 0x89ab_cdef, HALT = 0xcdef_0123, POWER_OFF = 0x4321_fedc, RESTART = 0x0123_4567, RESTART2 = 0xa1b2_c3d4 refused "EINVAL", SW_SUSPEND = 0xd000_fce2 refused "EINVAL", KEXEC = 0x4558_4543 refused "EINVAL" } flags { }
    SYSLOG "syslog command" choose {
        SYSLOG_ACTION_CLOSE = 0, SYSLOG_ACTION_OPEN = 1, SYSLOG_ACTION_READ = 2, SYSLOG_ACTION_READ_ALL = 3,
        SYSLOG_ACTION_READ_CLEAR = 4, SYSLOG_ACTION_CLEAR = 5, SYSLOG_ACTION_CONSOLE_OFF = 6, SYSLOG_ACTION_CONSOLE_ON = 7,
        SYSLOG_ACTION_CONSOLE_LEVEL = 8, SYSLOG_ACTION_SIZE_UNREAD = 9, SYSLOG_ACTION_SIZE_BUFFER = 10
    } flags { }
}
