//! The log as it is kept: all that was said since boot, or the newest of it, for syslog(2), /dev/kmsg and /proc/kmsg (`fs::devfs::kmsg`).
//!
//! Nothing is written by who says nothing. Lock order: `LOG` is the last of all, for interrupt handlers too, and is held while one record is appended; readers take none. Who may
//! have interrupted its holder in spite of that (a non-maskable interrupt, a panic) only tries it, a number of times, and leaves the message out
//! where that fails; how many were left out is said with the next one. The boot CPU takes no lock before per-CPU data is there: it is alone.
//!
//! Readers are told by `Pending::Log`, from a place where nothing is held: a message may be said under any lock, a run queue's too.
#![forbid(unsafe_code)]

use super::ring::{Record, Ring};
use super::{Line, WARN};
use crate::arch;
use crate::lock_order as level;
use crate::sched::{Pending, pending};
use core::fmt::Write;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use sync::{IrqSpinLock, lock_class};

lock_class! { static LOG: LockClass = ("kernel log", level::KernelLog); }

/// Bytes of text that are kept: Debian's CONFIG_LOG_BUF_SHIFT.
pub const SIZE: usize = 128 << 10;
const RECORDS: usize = 2048;
/// Tries of the lock by who may not wait for it.
const PATIENCE: u32 = 10_000;

/// Looks without the lock.
const LOOKS: u32 = 16;

static LOCK: IrqSpinLock<(), level::KernelLog> = IrqSpinLock::new((), &LOG);
static RING: Ring<SIZE, RECORDS> = Ring::new();
/// Messages that were left out.
static LEFT_OUT: AtomicU32 = AtomicU32::new(0);
/// Somebody waits for messages, or did.
static WATCHED: AtomicBool = AtomicBool::new(false);
/// The first record that SYSLOG_ACTION_CLEAR has left.
static CLEARED: AtomicU64 = AtomicU64::new(0);

/// A line that comes in pieces (`piece`), as far as it has come.
static PIECES: [AtomicU8; 192] = [const { AtomicU8::new(0) }; 192];
static PIECES_LEN: AtomicUsize = AtomicUsize::new(0);

/// Looks at the ring. Whoever only does that writes nothing; but where messages come without end he takes the lock.
fn seen<R>(look: impl Fn() -> R) -> R {
    (0..LOOKS).find_map(|_| RING.try_read(&look)).unwrap_or_else(|| alone(look))
}

fn alone<R>(f: impl FnOnce() -> R) -> R {
    let _locked = arch::percpu_ready().then(|| LOCK.lock());
    f()
}

fn alone_if_free(f: impl FnOnce()) {
    if !arch::percpu_ready() {
        return f();
    }
    for _ in 0..PATIENCE {
        if let Some(_locked) = LOCK.try_lock() {
            return f();
        }
        core::hint::spin_loop();
    }
    LEFT_OUT.fetch_add(1, Relaxed);
}

/// The lock is held, interrupts are off.
fn append(facility: u8, level: u8, text: &[u8]) {
    // Not the clock that may be corrected: a non-maskable interrupt may come while it is.
    let time = if arch::time::is_measured() { arch::time::raw() / 1000 } else { 0 };
    let left_out = LEFT_OUT.swap(0, Relaxed);
    if left_out > 0 {
        let mut line = Line::<48>::new();
        let _ = write!(line, "** {left_out} printk messages dropped **");
        RING.append(time, 0, WARN, line.as_bytes());
    }
    RING.append(time, facility, level, text);
    if WATCHED.load(Relaxed) {
        pending::raise(Pending::Log);
    }
}

/// Keeps a message. Sleeps not, under any lock.
pub fn keep(facility: u8, level: u8, text: &[u8]) {
    if super::is_panicking() {
        return alone_if_free(|| append(facility, level, text));
    }
    alone(|| append(facility, level, text));
}

/// Keeps pieces of lines, which the kernel says from anywhere, with level `level`. A line is kept when its end comes.
pub fn piece(level: u8, text: &[u8]) {
    // In a panic the lock may be this CPU's for good, and nobody is there to read the log after it.
    if super::is_panicking() {
        return;
    }
    alone_if_free(|| {
        for &byte in text {
            let len = PIECES_LEN.load(Relaxed);
            if byte == b'\n' {
                let mut line = [0; 192];
                for (to, from) in line.iter_mut().zip(&PIECES) {
                    *to = from.load(Relaxed);
                }
                PIECES_LEN.store(0, Relaxed);
                if let Some(line) = line.get(..len).filter(|line| !line.is_empty()) {
                    append(0, level, line);
                }
            } else if let Some(place) = PIECES.get(len) {
                place.store(byte, Relaxed);
                PIECES_LEN.store(len.saturating_add(1), Relaxed);
            }
        }
    });
}

/// From now on `Pending::Log` is raised with each message. Before it is looked whether there is one.
pub fn watch() {
    if !WATCHED.load(Relaxed) {
        WATCHED.store(true, Relaxed);
    }
}

/// As `Ring::read`.
pub fn read(seq: u64, into: &mut [u8]) -> Option<Record> {
    let room = into;
    if let Some(found) = (0..LOOKS).find_map(|_| RING.try_read(|| RING.read(seq, room))) {
        return found;
    }
    alone(|| RING.read(seq, room))
}

/// As `Ring::look`.
pub fn look(seq: u64) -> Option<Record> {
    seen(|| RING.look(seq))
}

/// The numbers of the oldest record, and of the one that comes next.
pub fn ends() -> (u64, u64) {
    seen(|| (RING.first(), RING.next()))
}

/// The first record that was not cleared, which may be gone or not be there yet.
pub fn cleared() -> u64 {
    CLEARED.load(Relaxed)
}

/// Records before `seq` are cleared: SYSLOG_ACTION_READ_ALL passes them over.
pub fn clear(seq: u64) {
    CLEARED.store(seq, Relaxed);
}
