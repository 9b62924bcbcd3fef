//! Reading a terminal: by lines, or by count and time (VMIN, VTIME), and what poll says of it. termios(3).
//!
//! Lock order: `settings` and `input`, one at a time; nothing is held while it waits.
#![forbid(unsafe_code)]

use super::open::Open;
use super::termios::{ICANON, VMIN, VTIME};
use super::{Line, Tty, job};
use crate::errno::{EAGAIN, ETIMEDOUT, Result};
use crate::fs::file::File;
use crate::fs::file::buffer::Output;
use crate::fs::file::poll::{self, Poller};

impl Tty {
    /// Reads, as the mode has it.
    #[expect(clippy::arithmetic_side_effects, reason = "tenths come from a byte")]
    pub(super) fn read(&self, file: &File, open: &Open, out: &mut Output<'_>) -> Result<usize> {
        if out.left() == 0 {
            return Ok(0);
        }
        let mut kept = None;
        loop {
            if open.is_hung_up() {
                return Ok(0);
            }
            job::check_read(self)?;
            let settings = self.settings();
            let canonical = settings.local(ICANON);
            let (least, tenths) = match canonical {
                true => (1, 0),
                false => (usize::from(settings.char(VMIN)), u64::from(settings.char(VTIME))),
            };
            let ready = || {
                let input = self.input.lock();
                let enough = match canonical {
                    true => input.has_line(),
                    // With a timer between bytes, the first is waited for without one.
                    false if tenths > 0 => input.available(false) >= 1,
                    false => input.available(false) >= least.min(out.left()).max(1),
                };
                (enough || open.is_hung_up()).then_some(())
            };
            if ready().is_none() {
                if !canonical && least == 0 && tenths == 0 {
                    return self.take(out, false);
                }
                if file.nonblocking() {
                    // What is there is less than VMIN, but it is there.
                    let some = !canonical && self.input.lock().available(false) > 0;
                    return if some { self.take(out, false) } else { Err(EAGAIN) };
                }
                if kept.is_none() {
                    // Closed meanwhile it keeps its terminal.
                    kept = Some(file.keep_open()?);
                }
                let deadline = (least == 0).then(|| (crate::arch::time::now() + tenths * 100_000_000).into());
                match self.readable.wait(deadline, ready) {
                    Ok(()) => {}
                    Err(ETIMEDOUT) => return Ok(0),
                    Err(e) => return Err(e),
                }
                // The settings may have changed meanwhile, or the job been moved to the background.
                continue;
            }
            if !canonical && tenths > 0 && least > 1 && !file.nonblocking() {
                let _kept = file.keep_open()?;
                self.gather(least.min(out.left()), tenths)?;
            }
            return self.take(out, canonical);
        }
    }

    /// Waits for `least` bytes, as long as no more than `tenths` pass between two of them.
    #[expect(clippy::arithmetic_side_effects, reason = "tenths come from a byte")]
    fn gather(&self, least: usize, tenths: u64) -> Result {
        loop {
            let now = self.input.lock().available(false);
            if now >= least {
                return Ok(());
            }
            let deadline = crate::arch::time::now() + tenths * 100_000_000;
            let more = || (self.input.lock().available(false) > now).then_some(());
            match self.readable.wait(Some(deadline.into()), more) {
                Ok(()) => {}
                Err(ETIMEDOUT) => return Ok(()),
                Err(e) => return Err(e),
            }
        }
    }

    fn take(&self, out: &mut Output<'_>, canonical: bool) -> Result<usize> {
        let mut buffer = [0; 256];
        loop {
            let want = out.left().min(buffer.len());
            let Some(part) = buffer.get_mut(..want) else { break };
            let (n, more) = {
                let mut input = self.input.lock();
                let before = input.available(canonical);
                let n = input.take(part, canonical);
                (n, before > n)
            };
            if let Line::Pseudo(pty) = &self.line {
                pty.input_taken();
            }
            if n == 0 || out.put(part.get(..n).unwrap_or(&[])) < n || !more || out.left() == 0 {
                break;
            }
        }
        out.result()
    }

    pub(super) fn poll<'a>(&'a self, open: &Open, poller: &mut Poller<'_, 'a>) -> u32 {
        poller.add(&self.readable);
        poller.add(&self.writable);
        if open.is_hung_up() {
            // Nothing waits any more.
            return poll::IN | poll::OUT | poll::ERR | poll::HUP | poll::RDNORM | poll::WRNORM;
        }
        let settings = self.settings();
        let input = self.input.lock();
        let readable = match settings.local(ICANON) {
            true => input.has_line(),
            false => {
                let least =
                    if settings.char(VTIME) == 0 { usize::from(settings.char(VMIN)).max(1) } else { 1 };
                input.available(false) >= least
            }
        };
        let mut events = 0;
        if readable {
            events |= poll::IN | poll::RDNORM;
        }
        if !self.is_blocked() {
            events |= poll::OUT | poll::WRNORM;
        }
        events
    }
}
