//! The structures that arguments point to, as x86-64 has them. A field that is not named is a plain number or unused.
#![forbid(unsafe_code)]

use crate::sets::*;
#[allow(clippy::enum_glob_use, reason = "the tables are read by people")]
use crate::{Field, Kind::*, Sort::*, Struct};

macro_rules! structs {
    ($($(#[$doc:meta])* $name:ident $text:literal $size:literal { $($field:ident $offset:literal $width:literal $kind:expr),* $(,)? })*) => {$(
        $(#[$doc])*
        pub static $name: Struct = Struct {
            name: $text,
            size: $size,
            fields: &[$(Field { name: stringify!($field), offset: $offset, size: $width, kind: $kind }),*],
        };
    )*};
}

structs! {
    WORD "int" 4 { value 0 4 Int(&ANY) }
    MNT_NS_INFO "mnt_ns_info" 16 { }
    SECCOMP_NOTIF "seccomp_notif" 80 { }
    SECCOMP_ANSWER "seccomp_notif_resp" 24 { }
    SECCOMP_ADDFD "seccomp_notif_addfd" 24 { }
    LONG "long" 8 { value 0 8 Int(&ANY) }
    TWO_FDS "int [2]" 8 { }
    TIMESPEC "timespec" 16 { seconds 0 8 Int(&SECONDS), nanoseconds 8 8 Int(&NANOSECONDS) }
    TIMESPECS "timespec [2]" 32 {
        accessed_seconds 0 8 Int(&SECONDS), accessed_nanoseconds 8 8 Int(&FILE_NANOSECONDS),
        modified_seconds 16 8 Int(&SECONDS), modified_nanoseconds 24 8 Int(&FILE_NANOSECONDS),
    }
    TIMEVAL "timeval" 16 { seconds 0 8 Int(&SECONDS), microseconds 8 8 Int(&MICROSECONDS) }
    TIMEVALS "timeval [2]" 32 {
        accessed_seconds 0 8 Int(&SECONDS), accessed_microseconds 8 8 Int(&MICROSECONDS),
        modified_seconds 16 8 Int(&SECONDS), modified_microseconds 24 8 Int(&MICROSECONDS),
    }
    UTIMBUF "utimbuf" 16 { accessed 0 8 Int(&SECONDS), modified 8 8 Int(&SECONDS) }
    TIMEZONE "timezone" 8 { minutes_west 0 4 Int(&ANY), summer 4 4 Int(&ANY) }
    TIMEX "timex" 208 {
        modes 0 4 Options(&ADJUST), offset 8 8 Int(&ANY), frequency 16 8 Int(&ANY), max_error 24 8 Int(&ANY), estimated_error 32 8 Int(&ANY),
        status 40 4 Int(&ANY), constant 48 8 Int(&ANY), seconds 72 8 Int(&SECONDS), part 80 8 Int(&NANOSECONDS), tick 88 8 Int(&ANY),
    }
    ITIMERVAL "itimerval" 32 {
        interval_seconds 0 8 Int(&SECONDS), interval_microseconds 8 8 Int(&MICROSECONDS),
        value_seconds 16 8 Int(&SECONDS), value_microseconds 24 8 Int(&MICROSECONDS),
    }
    ITIMERSPEC "itimerspec" 32 {
        interval_seconds 0 8 Int(&SECONDS), interval_nanoseconds 8 8 Int(&NANOSECONDS),
        value_seconds 16 8 Int(&SECONDS), value_nanoseconds 24 8 Int(&NANOSECONDS),
    }
    TMS "tms" 32 { }
    STAT "stat" 144 { }
    STATX "statx" 256 { }
    FILE_HANDLE "file_handle" 136 { length 0 4 Int(&HANDLE_SIZES), kind 4 4 Int(&HANDLE_KINDS) }
    MNT_ID_REQ "mnt_id_req" 32 {
        size 0 4 Int(&MOUNT_REQUESTS), mount 8 8 Int(&MOUNTS), parameter 16 8 Options(&STATMOUNT), namespace 24 8 Int(&SMALL),
    }
    MOUNT_ATTR "mount_attr" 32 {
        set 0 8 Options(&MOUNT_ALLOWS), clear 8 8 Options(&MOUNT_ALLOWED), propagation 16 8 Options(&PROPAGATION), space 24 8 Fd(Any),
    }
    STATFS "statfs" 120 { }
    USTAT "ustat" 32 { }
    CACHESTAT "cachestat" 40 { }
    CACHESTAT_RANGE "cachestat_range" 16 { offset 0 8 Offset, len 8 8 Len }
    UTSNAME "utsname" 390 { }
    SYSINFO "sysinfo" 112 { }
    RLIMIT "rlimit" 16 { soft 0 8 Int(&LIMITS), hard 8 8 Int(&LIMITS) }
    RUSAGE "rusage" 144 { }
    POLLFD "pollfd" 8 { fd 0 4 Fd(Any), events 4 2 Options(&POLL) }
    FD_SET "fd_set" 128 { bits 0 8 Int(&ANY) }
    EPOLL_EVENT "epoll_event" 12 { events 0 4 Options(&EPOLL), data 4 8 Int(&ANY) }
    SIGSET "sigset" 8 { bits 0 8 Int(&SIGNAL_SETS) }
    /// The last argument of pselect6.
    MASK_AND_SIZE "mask and size" 16 { mask 0 8 Addr, size 8 8 Int(&EIGHT) }
    SIGACTION "sigaction" 32 { handler 0 8 Int(&HANDLERS), flags 8 8 Options(&SA), restorer 16 8 Addr, mask 24 8 Int(&SIGNAL_SETS) }
    SIGINFO "siginfo" 128 { signal 0 4 Signal, error 4 4 Int(&ANY), code 8 4 Int(&SIGINFO_CODES), pid 16 4 Pid, uid 20 4 Uid, value 24 8 Int(&ANY) }
    PEEKSIGINFO "ptrace_peeksiginfo_args" 16 { from 0 8 Int(&SMALL), flags 8 4 Options(&PEEKSIGINFO_FLAGS), count 12 4 Int(&SMALL) }
    USER_REGS "user_regs_struct" 216 {
        result 80 8 Int(&ANY), call 120 8 Int(&ANY), place 128 8 Addr, code 136 8 Int(&ANY), flags 144 8 Int(&ANY), stack 152 8 Addr,
        fs_base 168 8 Addr, gs_base 176 8 Addr, ds 184 8 Int(&ANY), gs 208 8 Int(&ANY),
    }
    FPREGS "user_fpregs_struct" 512 { mxcsr 24 4 Int(&ANY) }
    REGSET "place and length of registers" 16 { base 0 8 Addr, len 8 8 Len }
    SYSCALL_INFO "ptrace_syscall_info" 88 { }
    STACK "stack_t" 24 { sp 0 8 Addr, flags 8 4 Options(&SS), size 16 8 Len }
    SIGEVENT "sigevent" 64 { value 0 8 Int(&ANY), signal 8 4 Signal, notify 12 4 Options(&SIGEV), thread 16 4 Pid }
    FLOCK "flock" 32 { kind 0 2 Options(&LOCK_KIND), whence 2 2 Options(&LOCK_FROM), start 8 8 Offset, len 16 8 Offset, pid 24 4 Pid }
    F_OWNER "f_owner_ex" 8 { kind 0 4 Int(&SMALL), pid 4 4 Pid }
    SCHED_PARAM "sched_param" 4 { priority 0 4 Int(&PRIORITIES) }
    SCHED_ATTR "sched_attr" 56 {
        size 0 4 Int(&SCHED_ATTR_SIZES), policy 4 4 Options(&SCHED_CLASS), flags 8 8 Options(&SCHED_ATTR_FLAGS), nice 16 4 Int(&NICE),
        priority 20 4 Int(&PRIORITIES), runtime 24 8 Int(&RUN_TIMES), deadline 32 8 Int(&PERIODS), period 40 8 Int(&PERIODS),
        least 48 4 Int(&ANY), most 52 4 Int(&ANY),
    }
    CLONE_ARGS "clone_args" 88 {
        flags 0 8 Options(&CLONE3), pidfd 8 8 Addr, child_tid 16 8 Addr, parent_tid 24 8 Addr, exit_signal 32 8 Signal,
        stack 40 8 Addr, stack_size 48 8 Len, tls 56 8 Addr, set_tid 64 8 Addr, set_tid_size 72 8 Int(&SMALL), cgroup 80 8 Int(&ANY),
    }
    SOCK_FPROG "sock_fprog" 16 { len 0 2 Int(&SMALL), code 8 8 Addr }
    KCMP_EPOLL_SLOT "kcmp_epoll_slot" 12 { epoll 0 4 Fd(EpollFile), watched 4 4 Int(&FDS), before 8 4 Int(&SMALL) }
    FUTEX_WAITV "futex_waitv" 24 { value 0 8 Int(&ANY), word 8 8 Addr, flags 16 4 Options(&FUTEX2), reserved 20 4 Int(&ANY) }
    FUTEX_WAITVS "futex_waitv [2]" 48 {
        value 0 8 Int(&ANY), from 8 8 Addr, flags 16 4 Options(&FUTEX2), reserved 20 4 Int(&ANY),
        other_value 24 8 Int(&ANY), to 32 8 Addr, other_flags 40 4 Options(&FUTEX2), other_reserved 44 4 Int(&ANY),
    }
    ROBUST_LIST "robust_list_head" 24 { first 0 8 Addr, futex_offset 8 8 Int(&ANY), pending 16 8 Addr }
    RSEQ "rseq" 32 { cpu_start 0 4 Int(&ANY), cpu 4 4 Int(&ANY), sequence 8 8 Addr, flags 16 4 Int(&ANY), node 20 4 Int(&ANY), mm_cpu 24 4 Int(&ANY) }
    CAP_HEADER "cap_user_header" 8 { version 0 4 Int(&CAP_VERSIONS), pid 4 4 Pid }
    CAP_DATA "cap_user_data [2]" 24 {
        effective 0 4 Int(&CAP_SETS), permitted 4 4 Int(&CAP_SETS), inheritable 8 4 Int(&CAP_SETS),
        effective_high 12 4 Int(&CAP_SETS), permitted_high 16 4 Int(&CAP_SETS), inheritable_high 20 4 Int(&CAP_SETS),
    }
    TERMIOS "termios" 36 { input 0 4 Int(&ANY), output 4 4 Int(&ANY), control 8 4 Int(&ANY), local 12 4 Int(&ANY) }
    SOCKADDR "sockaddr_un" 110 { family 0 2 Int(&FAMILIES), name 2 8 Int(&SOCKET_NAMES) }
    SOCKADDR_LEN "socklen_t" 4 { value 0 4 Int(&SOCKADDR_SIZES) }
    MSGHDR "msghdr" 56 {
        name 0 8 Addr, name_len 8 4 Int(&SOCKADDR_SIZES), segments 16 8 InVector(0), count 24 8 Int(&SMALL), control 32 8 In(&CMSGHDR),
        control_len 40 8 Int(&CONTROL_SIZES), flags 48 4 Int(&ANY),
    }
    MMSGHDR "mmsghdr" 64 {
        name 0 8 Addr, name_len 8 4 Int(&SOCKADDR_SIZES), segments 16 8 Addr, count 24 8 Int(&SMALL), control 32 8 In(&CMSGHDR),
        control_len 40 8 Int(&CONTROL_SIZES), flags 48 4 Int(&ANY),
    }
    CMSGHDR "cmsghdr" 28 { len 0 8 Int(&CONTROL_SIZES), level 8 4 Int(&SMALL), kind 12 4 Int(&CONTROL_TYPES), first 16 4 Fd(Any), second 20 4 Int(&ANY), third 24 4 Int(&ANY) }
    WINSIZE "winsize" 8 { rows 0 2 Int(&ANY), columns 2 2 Int(&ANY) }
    SHMID_DS "shmid_ds" 112 { uid 4 4 Uid, gid 8 4 Gid, mode 20 4 Mode }
    SHMINFO "shminfo" 72 { }
    SHM_INFO_OUT "shm_info" 48 { }
    SEMID_DS "semid_ds" 104 { uid 4 4 Uid, gid 8 4 Gid, mode 20 4 Mode }
    SEMINFO "seminfo" 40 { }
    SEMBUF "sembuf" 6 { number 0 2 Int(&SMALL), change 2 2 Int(&SEM_CHANGES), flags 4 2 Options(&SEM_FLAGS) }
    SEM_VALUES "unsigned short [32]" 64 { first 0 2 Int(&SMALL), second 2 2 Int(&SMALL), third 4 2 Int(&SMALL) }
    MSQID_DS "msqid_ds" 120 { uid 4 4 Uid, gid 8 4 Gid, mode 20 4 Mode, most 88 8 Len }
    MSGINFO "msginfo" 32 { }
    MSGBUF "msgbuf" 72 { kind 0 8 Int(&SMALL), text 8 8 Int(&ANY) }
}
