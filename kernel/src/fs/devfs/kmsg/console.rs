//! The kernel's messages on a virtio console (`console=hvc0`): a thread reads the log and writes them there, since whoever says something may hold any lock, and
//! a device's queue is no place for that. So messages come there a little later, and those of a panic only on the serial port.
//!
//! Messages that the log has lost before the device took them are passed over.
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::errno::Result;
use crate::fs::tty;
use crate::log::{self, kept};
use crate::sched;

/// The next record that is shown.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Makes the thread, if /dev/console is a virtio console; the serial port is then left to those who open it. At boot.
///
/// # Errors
/// No memory.
pub fn start() -> Result {
    if tty::message_console().is_none() {
        return Ok(());
    }
    sched::spawn(None, run, 0)?;
    log::leave_serial(crate::arch::command_line());
    Ok(())
}

fn run(_: usize) {
    let Some(console) = tty::message_console() else { return };
    let mut text = [0; log::ring::MOST];
    loop {
        let changes = super::changes();
        let (first, next) = kept::ends();
        let seq = NEXT.load(Relaxed).max(first);
        if seq >= next {
            // No signal comes to a thread of the kernel's.
            let _ = changes.wait(None, || (kept::ends().1 > seq).then_some(()));
            continue;
        }
        NEXT.store(seq.saturating_add(1), Relaxed);
        let Some(record) = kept::read(seq, &mut text) else { continue };
        if record.seq == seq && log::enabled(record.level) {
            let line = text.get(..record.len).unwrap_or(&[]);
            if !console.write_message(line) || !console.write_message(b"\r\n") {
                // It has failed: the serial port has them again.
                return log::return_to_serial();
            }
        }
    }
}
