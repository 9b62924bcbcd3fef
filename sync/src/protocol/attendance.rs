//! Whether anybody uses a thing still, where users come and go on all CPUs and none writes what another CPU writes.
//!
//! ```text
//!   who uses it                              who looks
//!   comes: counts so on its CPU              takes back that it was asked
//!   leaves: counts so on its CPU             adds up who has left, CPU by CPU
//!   asks for a look, unless somebody has     adds up who came, CPU by CPU: as many?
//! ```
//!
//! - Only who has come and not left lets another come, so once nobody is there it stays so.
//! - Of whoever was seen to leave (`attendance.leave`, `attendance.look`) the coming is seen too, and the coming of all whom it has let come. So were as many seen to
//!   come as to leave, nobody is there: whoever was would have been let come by one who was not seen to leave, and that one by another, and so on to the first, who
//!   is seen to have come.
//! - Who leaves last and does not ask, as somebody has, did so before the look that takes that back (`attendance.ask`, `attendance.take`): it is seen to have left.
#![forbid(unsafe_code)]

use crate::atomic::{AtomicBool, AtomicU64, Ordering, const_new, fence_at, site};

/// A CPU's part: how many came there and left there.
#[derive(Debug)]
pub struct Seat {
    came: AtomicU64,
    left: AtomicU64,
}

impl Default for Seat {
    fn default() -> Self {
        Self::new()
    }
}

impl Seat {
    const_new! {
        pub fn new() -> Self {
            Seat { came: AtomicU64::new(0), left: AtomicU64::new(0) }
        }
    }

    /// One more comes, whom one lets come that is there; or the first.
    #[inline]
    pub fn come(&self) {
        self.came.fetch_add(1, Ordering::Relaxed);
    }

    /// One leaves. It asks for a look then.
    #[inline]
    pub fn leave(&self) {
        self.left.fetch_add(1, site("attendance.leave", Ordering::Release));
    }
}

/// Has everybody left who came? The first has come. `seats` gives each CPU's, and each time the same.
pub fn is_over<'a, I: Iterator<Item = &'a Seat>>(seats: impl Fn() -> I) -> bool {
    let sum = |all: u64, count: u64| all.wrapping_add(count);
    let left = seats().map(|seat| seat.left.load(site("attendance.look", Ordering::Acquire))).fold(0, sum);
    let came = seats().map(|seat| seat.came.load(Ordering::Relaxed)).fold(0, sum);
    came == left
}

/// That somebody is to look.
#[derive(Debug)]
pub struct Asked(AtomicBool);

impl Default for Asked {
    fn default() -> Self {
        Self::new()
    }
}

impl Asked {
    const_new! {
        pub fn new() -> Self {
            Asked(AtomicBool::new(false))
        }
    }

    /// Asks for a look. True: nobody had, and who looks is to be told.
    #[inline]
    pub fn ask(&self) -> bool {
        fence_at("attendance.ask");
        !self.0.load(Ordering::Relaxed) && !self.0.swap(true, Ordering::Relaxed)
    }

    /// Takes back that it was asked for. True: it was, and the look follows.
    #[inline]
    pub fn take(&self) -> bool {
        let asked = self.0.swap(false, Ordering::Relaxed);
        fence_at("attendance.take");
        asked
    }
}
