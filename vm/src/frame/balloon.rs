//! Pages that the host has taken back: a balloon (Virtio 1.2, 5.5).
//!
//! They are nobody's until the host gives them back, and are linked through their own metadata: however many there are, it takes no memory to know them.
//!
//! No locks: one thread has the balloon. The count is written by it alone.

use super::chain::Chain;
use super::{FrameKind, OwnedFrame};
use core::sync::atomic::{AtomicU64, Ordering};

/// Pages that programs will not have again as long as the host does not say so.
static GONE: AtomicU64 = AtomicU64::new(0);

/// Pages that the kernel manages: those that it was given but for what a balloon took away from it.
pub fn managed_frames() -> u64 {
    super::total_frames().saturating_sub(GONE.load(Ordering::Relaxed))
}

/// The pages of a balloon, last in, first out.
pub struct Balloon {
    pages: Chain,
    /// The pages do not count as the machine's.
    takes_away: bool,
}

impl Balloon {
    /// `takes_away`: what is in it does not count in [`managed_frames`].
    pub const fn new(takes_away: bool) -> Self {
        Self { pages: Chain::EMPTY, takes_away }
    }

    /// Pages in it.
    pub fn len(&self) -> usize {
        self.pages.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn push(&mut self, page: OwnedFrame) {
        page.set_kind(FrameKind::Balloon);
        self.pages.push(page.into_frame());
        self.count(1);
    }

    pub fn pop(&mut self) -> Option<OwnedFrame> {
        let frame = self.pages.pop()?;
        self.count(-1);
        // SAFETY: `push` gave up its ownership to the chain, which has let go of it now; nobody else had the page.
        Some(unsafe { OwnedFrame::from_frame(frame) })
    }

    fn count(&self, pages: i64) {
        if self.takes_away {
            GONE.fetch_add(pages.cast_unsigned(), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{alloc_dirty, free_frames, total_frames};
    use super::*;

    #[test]
    fn what_goes_into_a_balloon_comes_out_and_counts_meanwhile() {
        sync::machine::hosted::as_cpu(0, || {
            let _one = super::super::tests::arena();
            let before = free_frames();
            let mut balloon = Balloon::new(true);
            for _ in 0..300 {
                balloon.push(alloc_dirty().expect("memory"));
            }
            assert_eq!((balloon.len(), free_frames()), (300, before - 300));
            assert_eq!(managed_frames(), total_frames() - 300);
            while let Some(page) = balloon.pop() {
                assert_eq!(page.frame().kind(), FrameKind::Balloon);
            }
            assert_eq!((balloon.len(), free_frames()), (0, before));
            assert_eq!(managed_frames(), total_frames());
        });
    }
}
