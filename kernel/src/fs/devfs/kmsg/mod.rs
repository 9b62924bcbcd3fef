//! The kernel's log for programs: who may look at it, who waits for it, and the settings of /proc/sys/kernel that are about it.
//!
//! * `console` a thread that shows the log on a virtio console
//! * `device` /dev/kmsg: a record a read, and records that programs write
//! * `reader` syslog(2) and /proc/kmsg: text, read once by all together
//!
//! Lock order: how far has been read (`LogReader`) → the log's lock. Nothing is held while a program's memory is copied or a message waited for.
#![forbid(unsafe_code)]

mod console;
mod device;
pub mod reader;

use core::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};

pub use console::start as start_console;
pub use device::open;

use crate::errno::{EINVAL, EPERM, Result};
use crate::fs::caller::{self, Capability};
use crate::fs::file::poll::PollQueue;
use crate::log::kept;

/// Who waits for messages.
static CHANGED: PollQueue = PollQueue::new();

/// There are messages: the handler of `Pending::Log`.
pub fn tell() {
    CHANGED.wake();
}

/// The queue that is woken when there are messages. Whoever looks whether there are any after this call misses none.
pub fn changes() -> &'static PollQueue {
    kept::watch();
    &CHANGED
}

/// kernel.dmesg_restrict, on as in Debian: looking at the log takes CAP_SYSLOG.
static RESTRICTED: AtomicBool = AtomicBool::new(true);

pub fn is_restricted() -> bool {
    RESTRICTED.load(Relaxed)
}

/// # Errors
/// EPERM: without CAP_SYS_ADMIN nobody changes it.
pub fn set_restricted(to: bool) -> Result {
    if !caller::capable(Capability::SYS_ADMIN) {
        return Err(EPERM);
    }
    RESTRICTED.store(to, Relaxed);
    Ok(())
}

/// May the caller do it? `looks`: it only looks at the log, and takes nothing away.
///
/// # Errors
/// EPERM.
pub fn check(looks: bool) -> Result {
    if (looks && !is_restricted()) || caller::capable(Capability::SYSLOG) { Ok(()) } else { Err(EPERM) }
}

/// What becomes of messages that programs write (kernel.printk_devkmsg).
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    All,
    None,
    /// So many in so much time, of each open file.
    Some,
}

const TAKEN: [(&str, Taken); 3] = [("on", Taken::All), ("off", Taken::None), ("ratelimit", Taken::Some)];

/// Which of `TAKEN`.
static TAKES: AtomicU8 = AtomicU8::new(2);

fn takes() -> (&'static str, Taken) {
    TAKEN.get(usize::from(TAKES.load(Relaxed))).copied().unwrap_or(("off", Taken::None))
}

/// The setting's word.
pub fn taken() -> &'static str {
    takes().0
}

/// Sets it to a word with a newline, as Linux wants it.
///
/// # Errors
/// EINVAL.
pub fn set_taken(data: &[u8]) -> Result {
    let word = data.strip_suffix(b"\n").ok_or(EINVAL)?;
    let at = TAKEN.iter().position(|(name, _)| name.as_bytes() == word).ok_or(EINVAL)?;
    TAKES.store(at as u8, Relaxed);
    Ok(())
}
