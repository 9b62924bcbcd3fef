//! The limits that /proc/sys/fs sets, with Linux's defaults.
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicI32, AtomicU64, Ordering::Relaxed};

const PAGE: u64 = 4096;

/// A number that the administrator sets.
pub struct Setting(AtomicU64);

/// Not set: the default, which depends on memory.
const DEFAULT: u64 = u64::MAX;

impl Setting {
    pub const fn new(to: u64) -> Self {
        Self(AtomicU64::new(to))
    }

    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    pub fn set(&self, to: u64) {
        self.0.store(to, Relaxed);
    }

    /// As a limit, where 0 means that there is none.
    pub fn limit(&self) -> u64 {
        match self.get() {
            0 => sync::quota::UNLIMITED,
            n => n,
        }
    }
}

/// A number that the administrator sets, and that may be below 0.
pub struct SignedSetting(AtomicI32);

impl SignedSetting {
    pub fn get(&self) -> i32 {
        self.0.load(Relaxed)
    }

    pub fn set(&self, to: i32) {
        self.0.store(to, Relaxed);
    }
}

/// fs.protected_fifos, protected_regular: in a sticky directory that others write, open(2) with O_CREAT does not open who else's fifos, files; 2: nor in one that a
/// group writes. 0: it does.
pub static PROTECTED_FIFOS: Setting = Setting(AtomicU64::new(0));
pub static PROTECTED_REGULAR: Setting = Setting(AtomicU64::new(0));
/// fs.protected_hardlinks: nobody gives another name to who else's file that he may not read and write. As distributions have it.
pub static PROTECTED_HARDLINKS: Setting = Setting(AtomicU64::new(1));
/// fs.protected_symlinks: in a sticky directory that all write, a link is followed by its owner alone, or if it is the directory's. As distributions have it.
pub static PROTECTED_SYMLINKS: Setting = Setting(AtomicU64::new(1));

/// fs.lease-break-time: after so many seconds a lease is taken from who has been asked to give it up; 0 or less: never (fcntl(2)).
pub static LEASE_BREAK_TIME: SignedSetting = SignedSetting(AtomicI32::new(45));
/// fs.leases-enable: 0: nobody gets a new lease.
pub static LEASES_ENABLE: SignedSetting = SignedSetting(AtomicI32::new(1));

/// fs.pipe-user-pages-soft: an ordinary user's further pipes are small.
pub static PIPE_PAGES_SOFT: Setting = Setting(AtomicU64::new(16_384));
/// fs.pipe-user-pages-hard: there are no further ones.
pub static PIPE_PAGES_HARD: Setting = Setting(AtomicU64::new(0));
/// fs.pipe-max-size, in bytes: how large an ordinary user makes a pipe.
pub static PIPE_SIZE: Setting = Setting(AtomicU64::new(1 << 20));

/// net.unix.max_dgram_qlen: a new socket's queue takes so many datagrams before the last.
pub static MAX_DGRAM_QLEN: Setting = Setting(AtomicU64::new(10));
/// net.core.somaxconn: so many connections wait to be accepted at the most.
pub static SOMAXCONN: Setting = Setting(AtomicU64::new(4096));
/// net.core.wmem_default, rmem_default, wmem_max and rmem_max: bytes of a socket's buffers, at first and at the most.
pub static SEND_DEFAULT: Setting = Setting(AtomicU64::new(212_992));
pub static RECEIVE_DEFAULT: Setting = Setting(AtomicU64::new(212_992));
pub static SEND_MOST: Setting = Setting(AtomicU64::new(212_992));
pub static RECEIVE_MOST: Setting = Setting(AtomicU64::new(212_992));

static WATCHES: Setting = Setting(AtomicU64::new(DEFAULT));

/// fs.epoll.max_user_watches. By default, as on Linux, as many as 4 % of memory hold, where one takes two objects of 192 bytes together.
pub fn watches() -> u64 {
    match WATCHES.get() {
        DEFAULT => share(192),
        n => n,
    }
}

/// fs.inotify.max_user_instances: so many inotify instances a user has at the most.
pub static INOTIFY_INSTANCES: Setting = Setting(AtomicU64::new(128));
/// fs.inotify.max_queued_events: so many events an instance made from now on keeps.
pub static INOTIFY_EVENTS: Setting = Setting(AtomicU64::new(16_384));

static INOTIFY_WATCHES: Setting = Setting(AtomicU64::new(DEFAULT));

/// fs.inotify.max_user_watches. By default, as on Linux, as many as 1 % of memory hold, where one takes 1,280 bytes with the inode that it keeps; between 8,192 and
/// 1,048,576.
pub fn inotify_watches() -> u64 {
    match INOTIFY_WATCHES.get() {
        DEFAULT => {
            let bytes = (vm::frame::total_frames() / 100).saturating_mul(PAGE);
            (bytes / 1280).clamp(8192, 1 << 20)
        }
        n => n,
    }
}

pub fn set_inotify_watches(to: u64) {
    INOTIFY_WATCHES.set(to);
}

/// KiB of filters of system calls of a user. Linux has no bound.
pub fn filters() -> u64 {
    share(1024)
}

/// How many things of `size` bytes, not 0, fill 4 % of memory.
fn share(size: u64) -> u64 {
    (vm::frame::total_frames() / 25).saturating_mul(PAGE).checked_div(size).unwrap_or(0)
}

/// Record locks of a user. Linux has no bound; one lock takes two objects of 256 bytes together.
pub fn record_locks() -> u64 {
    share(256)
}

pub fn set_watches(to: u64) {
    WATCHES.set(to.min(i64::MAX as u64));
}

static FILES: Setting = Setting(AtomicU64::new(DEFAULT));

/// What Linux allows at least (NR_FILE).
const FILES_LEAST: u64 = 8192;

/// fs.file-max: open files of the whole machine. By default, as on Linux, one for each 10 KiB of memory.
#[inline]
pub fn files() -> u64 {
    match FILES.get() {
        DEFAULT => default_files(),
        n => n,
    }
}

#[cold]
fn default_files() -> u64 {
    set_files((vm::frame::total_frames().saturating_mul(PAGE / 1024) / 10).max(FILES_LEAST));
    FILES.get()
}

pub fn set_files(to: u64) {
    FILES.set(to.min(i64::MAX as u64));
}

/// fs.nr_open: no process may allow itself more descriptors (RLIMIT_NOFILE), or has one above.
pub static NR_OPEN: Setting = Setting(AtomicU64::new(1 << 20));
/// fs.mount-max: so many mounts there may be.
pub static MOUNTS: Setting = Setting(AtomicU64::new(100_000));
/// What NR_OPEN may be, on Linux: a word of bits, and what an array of pointers is that an `int` counts.
pub const NR_OPEN_RANGE: core::ops::RangeInclusive<u64> = 64..=0x7fff_ffc0;

/// RLIMIT_SIGPENDING of the first process. Linux allows half as many as there may be threads, and those to fill an eighth of memory with stacks
/// of 16 KiB.
pub fn signals() -> u64 {
    vm::frame::total_frames() / 64
}
