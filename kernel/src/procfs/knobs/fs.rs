//! /proc/sys/fs: bounds of what is open and watched, and whom files are protected from (proc_sys_fs(5)).
#![forbid(unsafe_code)]

use alloc::vec::Vec;
use core::fmt::Write;

use sync::heap::Text;

use crate::account::limits;
use crate::errno::{EINVAL, ENOMEM, Result};
use crate::fs::anon::pipe;
use crate::fs::file::count;
use crate::fs::vfs::cache;
use crate::fs::vfs::notify::signals;
use crate::process::access;
use crate::procfs::entry::{Entry, Setting, What};
use crate::procfs::knobs::kernel::{
    integer, line, positive, set_at_least, setting, shown, signed_line, unsigned, within,
};

pub static FS: &[Entry] = &[
    // There is no asynchronous I/O.
    shown!("aio-max-nr", 0),
    shown!("aio-nr", 0),
    setting("dentry-state", &Setting { read: dentry_state, write: None }),
    setting(
        "dir-notify-enable",
        &Setting {
            read: |out| signed_line(out, signals::ENABLED.get() as i32),
            write: Some(|data| integer(data).map(|n| signals::ENABLED.set(n as u64))),
        },
    ),
    setting(
        "file-max",
        &Setting {
            read: |out| line(out, limits::files()),
            write: Some(|data| match positive(data)? {
                n if i64::try_from(n).is_err() => Err(EINVAL),
                n => {
                    limits::set_files(n);
                    Ok(())
                }
            }),
        },
    ),
    setting("file-nr", &Setting { read: file_nr, write: None }),
    setting("inode-nr", &Setting { read: |out| inodes(out, "\t0\n"), write: None }),
    setting("inode-state", &Setting { read: |out| inodes(out, "\t0\t0\t0\t0\t0\t0\n"), write: None }),
    setting("lease-break-time", &LEASE_BREAK_TIME),
    setting("leases-enable", &LEASES_ENABLE),
    setting(
        "mount-max",
        &Setting {
            read: |out| line(out, limits::MOUNTS.get()),
            write: Some(|data| match unsigned(data)? {
                n if n == 0 || i32::try_from(n).is_err() => Err(EINVAL),
                n => {
                    limits::MOUNTS.set(n);
                    Ok(())
                }
            }),
        },
    ),
    setting(
        "nr_open",
        &Setting {
            read: |out| line(out, limits::NR_OPEN.get()),
            write: Some(|data| match positive(data)? {
                n if !limits::NR_OPEN_RANGE.contains(&n) => Err(EINVAL),
                n => {
                    limits::NR_OPEN.set(n);
                    Ok(())
                }
            }),
        },
    ),
    shown!("overflowgid", 65_534),
    shown!("overflowuid", 65_534),
    Entry { name: "epoll", what: What::Dir(EPOLL) },
    Entry { name: "inotify", what: What::Dir(INOTIFY) },
    setting(
        "pipe-max-size",
        &Setting { read: |out| line(out, limits::PIPE_SIZE.get()), write: Some(set_pipe_size) },
    ),
    setting(
        "pipe-user-pages-hard",
        &Setting {
            read: |out| line(out, limits::PIPE_PAGES_HARD.get()),
            write: Some(|data| unsigned(data).map(|n| limits::PIPE_PAGES_HARD.set(n))),
        },
    ),
    setting(
        "pipe-user-pages-soft",
        &Setting {
            read: |out| line(out, limits::PIPE_PAGES_SOFT.get()),
            write: Some(|data| unsigned(data).map(|n| limits::PIPE_PAGES_SOFT.set(n))),
        },
    ),
    within!("protected_fifos", limits::PROTECTED_FIFOS, 0..=2),
    within!("protected_hardlinks", limits::PROTECTED_HARDLINKS, 0..=1),
    within!("protected_regular", limits::PROTECTED_REGULAR, 0..=2),
    within!("protected_symlinks", limits::PROTECTED_SYMLINKS, 0..=1),
    within!("suid_dumpable", access::SUID_DUMPABLE, 0..=2),
];

static LEASE_BREAK_TIME: Setting = Setting {
    read: |out| signed_line(out, limits::LEASE_BREAK_TIME.get()),
    write: Some(|data| integer(data).map(|n| limits::LEASE_BREAK_TIME.set(n))),
};

static LEASES_ENABLE: Setting = Setting {
    read: |out| signed_line(out, limits::LEASES_ENABLE.get()),
    write: Some(|data| integer(data).map(|n| limits::LEASES_ENABLE.set(n))),
};

static EPOLL: &[Entry] = &[setting(
    "max_user_watches",
    &Setting {
        read: |out| line(out, limits::watches()),
        write: Some(|data| match unsigned(data)? {
            n if i64::try_from(n).is_err() => Err(EINVAL),
            n => {
                limits::set_watches(n);
                Ok(())
            }
        }),
    },
)];

static INOTIFY: &[Entry] = &[
    setting(
        "max_queued_events",
        &Setting {
            read: |out| line(out, limits::INOTIFY_EVENTS.get()),
            write: Some(|data| set_at_least(&limits::INOTIFY_EVENTS, data, 0)),
        },
    ),
    setting(
        "max_user_instances",
        &Setting {
            read: |out| line(out, limits::INOTIFY_INSTANCES.get()),
            write: Some(|data| set_at_least(&limits::INOTIFY_INSTANCES, data, 0)),
        },
    ),
    setting("max_user_watches", &INOTIFY_WATCHES),
];

/// Also of /proc/sys/user.
pub static INOTIFY_WATCHES: Setting = Setting {
    read: |out| line(out, limits::inotify_watches()),
    write: Some(|data| {
        let n = u64::try_from(integer(data)?).map_err(|_| EINVAL)?;
        limits::set_inotify_watches(n);
        Ok(())
    }),
};

/// Rounded as F_SETPIPE_SZ rounds.
fn set_pipe_size(data: &[u8]) -> Result {
    let size = usize::try_from(unsigned(data)?).ok().and_then(pipe::rounded).ok_or(EINVAL)?;
    limits::PIPE_SIZE.set(size as u64);
    Ok(())
}

/// Files that are open, free ones that are kept (none, as on Linux), and the limit.
fn file_nr(out: &mut Vec<u8>) -> Result {
    writeln!(Text(out), "{}\t0\t{}", count::open_files(), limits::files()).map_err(|_| ENOMEM)
}

/// How many objects there are that lie in the slab cache of this name.
fn count_in(name: &str) -> u64 {
    let mut count = 0_u64;
    vm::slab::for_each_cache(&mut |cache| {
        if cache.name == name {
            count = count.saturating_add(cache.used as u64);
        }
    });
    count
}

/// Names in memory; those of them that are cached and may go; an age and a number of pages that mean nothing; and cached names that are of no file, which are not
/// counted apart.
fn dentry_state(out: &mut Vec<u8>) -> Result {
    let (all, cached) = (count_in("dentry"), cache::shrink::names() as u64);
    writeln!(Text(out), "{all}\t{}\t45\t0\t0\t0", cached.min(all)).map_err(|_| ENOMEM)
}

/// Inodes in memory, and `rest`.
fn inodes(out: &mut Vec<u8>, rest: &str) -> Result {
    write!(Text(out), "{}{rest}", count_in("inode")).map_err(|_| ENOMEM)
}
