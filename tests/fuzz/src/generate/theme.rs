//! Which rows a program is made of: calls that lie near each other meet more often than any two of four hundred.
#![forbid(unsafe_code)]

use darter_table::{CALLS, Call as Row};

use super::Generator;

impl Generator {
    /// Rows that share kinds of descriptors, memory, signals, names; or any.
    pub(super) fn theme(&mut self) -> Vec<&'static Row> {
        let there: Vec<&Row> = CALLS.iter().filter(|row| row.there).collect();
        if self.rng.chance(40) {
            return there;
        }
        let words: &[&[&str]] = &[
            &[
                "map", "mprotect", "madvise", "brk", "fork", "mlock", "msync", "mincore", "clone", "exec",
                "exit",
            ],
            &[
                "signal", "sig", "kill", "timer", "wait", "fork", "clone", "pause", "alarm", "sleep", "exit",
                "sid",
            ],
            &[
                "futex",
                "clone",
                "sched",
                "exit",
                "robust",
                "membarrier",
                "rseq",
                "kill",
                "tid",
                "yield",
                "mprotect",
                "mmap",
            ],
            &[
                "poll", "select", "pipe", "eventfd", "dup", "close", "read", "write", "fcntl", "signalfd",
                "timerfd",
            ],
            &[
                "open", "link", "rename", "mkdir", "rmdir", "mount", "chdir", "root", "getdents", "stat",
                "mknod", "chmod", "close", "xattr", "inotify",
            ],
            &[
                "splice",
                "tee",
                "pipe",
                "sendfile",
                "copy",
                "read",
                "write",
                "memfd",
                "truncate",
                "fallocate",
                "seek",
                "mmap",
            ],
            &[
                "wait", "fork", "clone", "exit", "kill", "pgid", "sid", "prctl", "exec", "rlimit", "uid",
                "gid", "cap",
            ],
            &["ioctl", "open", "vhangup", "setsid", "read", "write", "poll", "close", "dup", "kill"],
            &["flock", "fcntl", "open", "close", "dup", "fork", "memfd", "truncate"],
        ];
        let chosen = words.get(self.rng.below(words.len())).copied().unwrap_or_default();
        there.into_iter().filter(|row| chosen.iter().any(|word| row.name.contains(word))).collect()
    }
}
