//! Packet mode of a pseudo-terminal (ioctl_tty(2), TIOCPKT): what the master reads begins with a byte that is zero before data, or says what has happened to the terminal.
//!
//! What has happened since the master read is one byte of bits, changed without a lock; a master that does not ask for packets is told nothing.
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicBool, AtomicU8, Ordering::SeqCst};

/// Input that nobody had read was dropped.
pub const FLUSH_READ: u8 = 1;
/// Output was dropped.
pub const FLUSH_WRITE: u8 = 2;
/// Output has stopped.
pub const STOP: u8 = 4;
/// Output goes on.
pub const START: u8 = 8;
/// ^S and ^Q do not stop and start output any more.
const NO_STOP: u8 = 16;
/// ^S and ^Q stop and start output.
const DO_STOP: u8 = 32;
/// The settings have changed, of a terminal whose line is edited elsewhere (EXTPROC).
const SETTINGS: u8 = 64;

pub struct Packets {
    on: AtomicBool,
    happened: AtomicU8,
}

impl Packets {
    pub const fn new() -> Packets {
        Packets { on: AtomicBool::new(false), happened: AtomicU8::new(0) }
    }

    pub fn is_on(&self) -> bool {
        self.on.load(SeqCst)
    }

    /// Switches them on or off. What had happened before is not told.
    pub fn switch(&self, on: bool) {
        if on && !self.is_on() {
            self.happened.store(0, SeqCst);
        }
        self.on.store(on, SeqCst);
    }

    /// `set` has happened, which undoes `cleared`. True: the master is to look.
    pub fn tell(&self, set: u8, cleared: u8) -> bool {
        if !self.is_on() || (set | cleared) == 0 {
            return false;
        }
        let _ = self.happened.fetch_update(SeqCst, SeqCst, |bits| Some(bits & !cleared | set));
        true
    }

    /// The settings have changed. `flow`: ^S and ^Q mean something now, or nothing. `whole`: say that they have changed.
    pub fn tell_settings(&self, flow: Option<bool>, whole: bool) -> bool {
        let whole = if whole { SETTINGS } else { 0 };
        match flow {
            Some(true) => self.tell(DO_STOP | whole, NO_STOP),
            Some(false) => self.tell(NO_STOP | whole, DO_STOP),
            None => self.tell(whole, 0),
        }
    }

    /// Is there something to tell?
    pub fn has_news(&self) -> bool {
        self.is_on() && self.happened.load(SeqCst) != 0
    }

    /// Takes what there is to tell.
    pub fn take(&self) -> Option<u8> {
        if !self.is_on() {
            return None;
        }
        Some(self.happened.swap(0, SeqCst)).filter(|bits| *bits != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_does_not_ask_is_told_nothing() {
        let packets = Packets::new();
        assert!(!packets.tell(STOP, START));
        packets.switch(true);
        assert_eq!(packets.take(), None);
        assert!(packets.tell(STOP, START));
        assert!(packets.tell(START, STOP));
        assert!(packets.has_news());
        assert_eq!((packets.take(), packets.take()), (Some(START), None));
        packets.tell(STOP, 0);
        packets.switch(false);
        packets.switch(true);
        assert!(!packets.has_news());
    }
}
