//! Statistics (5.5.6.3): the device keeps a buffer with them until it wants new ones.
#![forbid(unsafe_code)]

use vm::{PAGE_SIZE, frame};

use super::{Balloon, Device, Memory, event};
use crate::arch::time;

/// What the kernel knows of those that there are (5.5.6.4). Bytes.
const FREE: u16 = 4;
const TOTAL: u16 = 5;
/// What programs can have without swapping: as MemAvailable of /proc/meminfo.
const AVAILABLE: u16 = 6;

/// The device gets them no more often than so.
const PAUSE_NS: u64 = 100_000_000;

pub(super) struct Stats {
    /// It wants new ones, and gets them then.
    due: Option<u64>,
    /// When it got the last.
    last: u64,
}

impl Stats {
    pub(super) const fn new() -> Self {
        Self { due: None, last: 0 }
    }

    pub(super) fn next(&self) -> Option<u64> {
        self.due
    }

    pub(super) fn end(&mut self) {
        self.due = None;
    }

    pub(super) fn turn(&mut self, balloon: &'static Balloon, is_wanted: bool) {
        let Some(line) = balloon.stats_line() else { return };
        let now = time::now();
        if is_wanted && self.due.is_none() {
            let at = if self.last == 0 { now } else { self.last.saturating_add(PAUSE_NS) };
            self.due = Some(at);
        }
        if self.due.is_none_or(|due| now < due) {
            return;
        }
        self.last = now.max(1);
        // Without memory for the buffer later.
        let put = buffer().is_ok_and(|buffer| balloon.device.put(line, buffer, wanted).is_ok());
        self.due = (!put).then(|| now.saturating_add(PAUSE_NS));
    }
}

/// The device wants new ones.
fn wanted(device: &'static Device, _: usize, _: Memory, _: u32) {
    if let Some(balloon) = super::of(device) {
        balloon.leave(event::STATS);
    }
}

fn buffer() -> Result<Memory, sync::AllocError> {
    let page = PAGE_SIZE as u64;
    let free = frame::free_frames().saturating_mul(page);
    let total = frame::managed_frames().saturating_mul(page);
    let mut memory = Memory::try_new(1)?;
    let mut len = 0_usize;
    let bytes = memory.page(0);
    for (tag, value) in [(FREE, free), (TOTAL, total), (AVAILABLE, free)] {
        for byte in tag.to_le_bytes().into_iter().chain(value.to_le_bytes()) {
            if let Some(place) = bytes.get_mut(len) {
                *place = byte;
                len = len.saturating_add(1);
            }
        }
    }
    memory.add(0, 0..len, false)?;
    Ok(memory)
}
