//! Which calls do the same on two kernels.
#![forbid(unsafe_code)]

/// Does the call do the same each time, whatever the time, the number of the process and what else runs?
pub(super) fn comparable(name: &str) -> bool {
    const NOT: &[&str] = &[
        "fork",
        "vfork",
        "clone",
        "clone3",
        "exit",
        "exit_group",
        "pause",
        "getrandom",
        "times",
        "time",
        "clock_gettime",
        "gettimeofday",
        "getrusage",
        "sysinfo",
        "uname",
        "syslog",
        "getcpu",
        "sched_yield",
        "rt_sigreturn",
        "rt_sigsuspend",
        "vhangup",
        "execve",
        "execveat",
        "reboot",
        "restart_syscall",
        "sync",
        "kill",
        "tkill",
        "tgkill",
    ];
    !NOT.contains(&name)
}
