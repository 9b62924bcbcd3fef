//! Free page reporting (5.5.6.7): once a second, while there is free memory that ages or of which the host was not told, the idle part of it is.
#![forbid(unsafe_code)]

use vm::frame::idle::{MOST, Out, Ticker};

use super::{Balloon, Memory};
use crate::arch::time;
use crate::sched;

const TICK_NS: u64 = if cfg!(test) { 10_000_000 } else { 1_000_000_000 };

pub(super) struct Reporter {
    ticker: Ticker,
    /// The next tick; `None`: who frees memory wakes the thread.
    next: Option<u64>,
    has_begun: bool,
}

impl Reporter {
    pub(super) const fn new() -> Self {
        Self { ticker: Ticker::new(), next: None, has_begun: false }
    }

    pub(super) fn next(&self) -> Option<u64> {
        self.next
    }

    pub(super) fn end(&mut self) {
        self.next = None;
    }

    pub(super) fn turn(&mut self, balloon: &'static Balloon, has_freed: bool) {
        let Some(line) = balloon.reporting_line() else { return };
        let now = time::now();
        let later = Some(now.saturating_add(TICK_NS));
        if has_freed && self.next.is_none() || !self.has_begun {
            // At first there is all that the boot has left.
            self.has_begun = true;
            self.next = later;
        }
        if self.next.is_none_or(|next| now < next) {
            return;
        }
        let goes_on = self.ticker.tick(|| {
            let _ = sched::give_way();
            true
        });
        let most = MOST.min(usize::from(balloon.device.most_parts()));
        loop {
            let out = Out::take(most);
            if out.is_empty() {
                break;
            }
            if !tell(balloon, line, out) {
                break;
            }
            // What the host or somebody without memory wants comes first; the rest is told of at the next tick.
            if sched::give_way() || balloon.is_wanted() {
                break;
            }
        }
        self.next = if goes_on || !self.ticker.sleep() { later } else { None };
    }
}

/// Tells the device of idle memory, which is nobody's until it is done. False: it was not told.
fn tell(balloon: &'static Balloon, line: usize, out: Out) -> bool {
    let Ok(memory) = Memory::of_idle(out) else { return false };
    match balloon.ask(line, memory) {
        Ok(memory) => {
            memory.into_idle().into_iter().for_each(Out::told);
            true
        }
        Err(_) => false,
    }
}
