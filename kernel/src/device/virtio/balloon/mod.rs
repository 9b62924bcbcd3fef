//! The balloon (Virtio 1.2, 5.5): memory that goes back to the host.
//!
//! * `report` what lies free the host is told of (free page reporting), and may use otherwise
//! * `resize` what the host asks for is taken out of use, and comes back when it asks for less
//! * `stats`  how much memory is free
//!
//! One thread does all of it, and has all state that changes ([`Work`]). Others leave it an event and wake it: a bit of [`Balloon::events`], set before the
//! wake and taken as a whole by the thread, so no event is lost and any number of one kind is one. It sleeps without a timer but while free memory ages,
//! while the host wants more than there is, and where a device wants statistics too often.
//!
//! **Nobody fails for it.** What is out while the device is told is at most an eighth of what is free ([`vm::frame::idle`]). The balloon takes what lies beyond
//! the reserve that files in memory leave, too, and kills nobody. With DEFLATE_ON_OOM it gives pages back before a process is killed ([`relieve`]).
//!
//! **DeviceOwns.** A block that the device is told of lies in its request. Pages of which the host was told that it may have them are the balloon's until
//! the device was told that they are used again, and is done. A device that does not answer for a minute is reset, as one that lies; if it does not
//! reset, what it was told of is lost.
//!
//! What a page holds when it comes back is not built on (VIRTIO_BALLOON_F_PAGE_POISON is not taken).
//!
//! The first balloon is used. No locks of its own.
#![forbid(unsafe_code)]

mod report;
mod resize;
mod stats;
#[cfg(test)]
mod tests;

use core::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

use ::virtio::transport::Error;
use sync::try_box;
use vm::OnceBox;
use vm::frame::idle;

use super::{Device, Event, Failure, Memory};
use crate::arch::time;
use crate::sched::{self, Deadline, Pending, Sleep, WaitQueue, Woken};

/// Features (5.5.3).
mod feature {
    pub const MUST_TELL: u64 = 1 << 0;
    pub const STATS: u64 = 1 << 1;
    pub const DEFLATE_ON_OOM: u64 = 1 << 2;
    pub const FREE_PAGE_HINT: u64 = 1 << 3;
    pub const REPORTING: u64 = 1 << 5;
}

pub const FEATURES: u64 = feature::MUST_TELL | feature::STATS | feature::DEFLATE_ON_OOM | feature::REPORTING;

/// What somebody leaves to the thread.
mod event {
    /// The configuration may have changed.
    pub const CHANGED: u32 = 1 << 0;
    /// The device has taken the statistics, and wants new ones.
    pub const STATS: u32 = 1 << 1;
    /// Much memory was freed.
    pub const FREED: u32 = 1 << 2;
    /// There is no memory.
    pub const SHORT: u32 = 1 << 3;
    /// The device is used no more.
    pub const FAILED: u32 = 1 << 4;
}

/// A device that has not answered for so long does not work.
const PATIENCE_NS: u64 = 60_000_000_000;
/// How long who has no memory waits for the balloon.
const RELIEF_NS: u64 = 1_000_000_000;

struct Balloon {
    device: &'static Device,
    features: u64,
    events: AtomicU32,
    came: WaitQueue,
    /// Pages in it, for others than the thread.
    pages: AtomicU64,
    /// How often it has looked for want of memory, and who waits for that.
    reliefs: AtomicU32,
    relieved: WaitQueue,
}

/// Balloons at most. Tests have several.
const MOST: usize = if cfg!(test) { 32 } else { 1 };

static BALLOONS: [OnceBox<Balloon>; MOST] = [const { OnceBox::new() }; MOST];

/// All balloons.
fn balloons() -> impl Iterator<Item = &'static Balloon> {
    BALLOONS.iter().filter_map(OnceBox::get)
}

/// The balloon of `device`.
fn of(device: &'static Device) -> Option<&'static Balloon> {
    balloons().find(|balloon| core::ptr::eq(balloon.device, device))
}

static WAKER: idle::Waker = idle::Waker(|| sched::pending::raise(Pending::Memory));

/// Which of the device's lines is for what; the first two are to inflate and to deflate.
const INFLATE: usize = 0;
const DEFLATE: usize = 1;

/// The queues, by their numbers. Those of features that a device does not offer are not there, and the later ones move up: so it is in QEMU, Linux and others
/// (the text of 1.2 has fixed numbers, which come to the same where all are offered).
pub(super) fn queues(offered: u64) -> [Option<u16>; 4] {
    let has = |feature| u16::from(offered & feature != 0);
    let stats = has(feature::STATS);
    let reporting = stats.saturating_add(has(feature::FREE_PAGE_HINT)).saturating_add(2);
    [Some(0), Some(1), (stats != 0).then_some(2), (has(feature::REPORTING) != 0).then_some(reporting)]
}

impl Balloon {
    fn has(&self, feature: u64) -> bool {
        self.features & feature != 0
    }

    fn stats_line(&self) -> Option<usize> {
        self.has(feature::STATS).then_some(2)
    }

    fn reporting_line(&self) -> Option<usize> {
        self.has(feature::REPORTING).then(|| self.stats_line().map_or(2, |_| 3))
    }

    fn leave(&self, event: u32) {
        self.events.fetch_or(event, Release);
        self.came.wake_one();
    }

    /// See the function of that name.
    fn relieve(&self) -> bool {
        let before = self.reliefs.load(Acquire);
        if idle::out() == 0 && (!self.has(feature::DEFLATE_ON_OOM) || self.pages.load(Relaxed) == 0) {
            return false;
        }
        self.leave(event::SHORT);
        let deadline = Deadline::from(time::now().saturating_add(RELIEF_NS));
        let looked = || (self.reliefs.load(Acquire) != before).then_some(());
        self.relieved.wait_shared(Sleep::Killable, Some(deadline), looked).is_ok()
    }

    /// Asks the device, and waits until it is done. One that does not answer is reset: that leaves FAILED.
    fn ask(&self, line: usize, memory: Memory) -> Result<Memory, Failure> {
        let deadline = Deadline::from(time::now().saturating_add(PATIENCE_NS));
        // No signal comes to a thread of the kernel's.
        let asked = self.device.ask_by(line, memory, Sleep::Killable, Some(deadline));
        if let Err(Failure::Woken(Woken::Timeout)) = asked {
            self.device.fail(format_args!("no answer"));
        }
        asked.map(|(memory, _)| memory)
    }
}

/// `device` is up, with these features.
pub(super) fn begin(device: &'static Device, features: u64) -> Result<(), Error> {
    let balloon = Balloon {
        device,
        features,
        events: AtomicU32::new(event::CHANGED | event::STATS),
        came: WaitQueue::new(),
        pages: AtomicU64::new(0),
        reliefs: AtomicU32::new(0),
        relieved: WaitQueue::new(),
    };
    let mut balloon = Some(try_box(balloon).map_err(|_| Error::Memory)?);
    for (n, place) in BALLOONS.iter().enumerate() {
        // Tests come here at once.
        let _ = place.get_or_try(|| balloon.take().ok_or(()));
        if balloon.is_none() {
            idle::set_waker(&WAKER);
            return sched::spawn(None, run, n).map(drop).map_err(|_| Error::Memory);
        }
    }
    // One more is not used.
    Ok(())
}

pub(super) fn event(device: &'static Device, what: Event) {
    if let Some(balloon) = of(device) {
        balloon.leave(match what {
            Event::Changed => event::CHANGED,
            Event::Failed => event::FAILED,
        });
    }
}

/// Much memory was freed: the handler of `Pending::Memory`.
pub fn look() {
    balloons().for_each(|balloon| balloon.leave(event::FREED));
}

/// There is no memory: has the balloon give pages back, if it may, and waits for that, and for what the device is being told of. True: memory came back. May sleep,
/// a second at most; no spinning lock is held.
pub fn relieve() -> bool {
    balloons().any(Balloon::relieve)
}

/// What the thread has.
struct Work {
    balloon: &'static Balloon,
    size: resize::Size,
    report: report::Reporter,
    stats: stats::Stats,
}

fn run(n: usize) {
    let Some(balloon) = BALLOONS.get(n).and_then(OnceBox::get) else { return };
    let size = resize::Size::new(!balloon.has(feature::DEFLATE_ON_OOM));
    let mut work = Work { balloon, size, report: report::Reporter::new(), stats: stats::Stats::new() };
    loop {
        let times = [work.size.next(), work.report.next(), work.stats.next()];
        let deadline = times.into_iter().flatten().min().map(Deadline::from);
        let take = || match balloon.events.swap(0, AcqRel) {
            0 => None,
            events => Some(events),
        };
        work.turn(balloon.came.wait_until(Sleep::Killable, deadline, take).unwrap_or(0));
        let _ = sched::give_way();
    }
}

impl Work {
    fn turn(&mut self, events: u32) {
        let balloon = self.balloon;
        if events & event::FAILED != 0 || balloon.device.has_failed() {
            self.size.end(balloon);
            self.report.end();
            self.stats.end();
        } else {
            self.stats.turn(balloon, events & event::STATS != 0);
            if events & event::SHORT != 0 {
                self.size.relieve(balloon);
            }
            self.size.turn(balloon, events & event::CHANGED != 0);
            self.report.turn(balloon, events & event::FREED != 0);
        }
        if events & event::SHORT != 0 {
            balloon.reliefs.fetch_add(1, AcqRel);
            balloon.relieved.wake_all();
        }
    }
}
