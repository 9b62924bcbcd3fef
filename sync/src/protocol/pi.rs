//! The word of a futex that lends priority, between a program and the kernel (futex(2), `FUTEX_LOCK_PI`), and the end of who owns one.
//!
//! The word is 0, or the owner's number with two bits. Without waiters a program locks by an exchange of 0 for its number, and unlocks by the reverse
//! exchange; neither enters the kernel. The kernel keeps a *state* for a futex that somebody waits for: an owner and the waiters.
//!
//! ```text
//!   word                          state            who changes it
//!   0                             none             program: 0 → owner
//!   owner                         none             program: owner → 0;  kernel: sets WAITERS (`claim`)
//!   owner | WAITERS               owner, waiters   kernel: hands over (`hand_over`)
//!   next | WAITERS                next, not held   next goes on and holds it; or another takes it first (`take`)
//!   OWNER_DIED [| WAITERS]        nobody           kernel: the first waiter takes it (`take`); without a state whoever comes (`claim`)
//! ```
//!
//! - A waiter sets WAITERS before it is attached to the owner (`pi.waiters`), and the program's exchange fails once that is set. So an owner that has
//!   a waiter unlocks through the kernel.
//! - Where there is a state, its owner is who the word names (`agrees`), or the word says that the owner died. Both are changed under the state's lock.
//!   Who takes what was meant for another puts itself into the word first (`pi.name`).
//! - A task that ends first says so ([`Ended`]) and then looks whether it has a record, by which waiters are attached to it; who attaches makes the record
//!   first and then looks whether the task has ended. So one of the two sees the other: the waiter is told that nobody has the futex, or the
//!   end finds its state and passes it on.
#![forbid(unsafe_code)]

use crate::atomic::{AtomicBool, Ordering, const_new, fence_after_rmw, fence_at, step};

/// Somebody waits: the owner unlocks through the kernel.
pub const WAITERS: u32 = 1 << 31;
/// The last owner ended without unlocking it.
pub const OWNER_DIED: u32 = 1 << 30;
/// The owner's number.
pub const OWNER: u32 = OWNER_DIED - 1;

/// Attempts at an exchange that a program's own stores make fail, before the caller lets others run.
const ATTEMPTS: u32 = 64;

/// The page has to be brought in first, or others are to run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault;

/// A word of a program's memory.
pub trait Word {
    fn load(&self) -> Result<u32, Fault>;
    /// Puts `new` in the place of `old`; what was there.
    fn exchange(&self, old: u32, new: u32) -> Result<u32, Fault>;
}

/// What came of a claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Claim {
    /// The futex is the claimant's.
    Taken,
    /// This one has it, and unlocks it through the kernel.
    Owned(u32),
    /// The word has changed.
    Again,
}

/// Takes a futex, whose word was `value`, for `tid`, or has its owner unlock it through the kernel. `waits`: others are to wait for `tid` at once. There
/// is no state, and none comes meanwhile.
pub fn claim(word: &impl Word, value: u32, tid: u32, waits: bool) -> Result<Claim, Fault> {
    let owner = value & OWNER;
    let new = match owner {
        0 => value & OWNER_DIED | tid | if waits { WAITERS } else { 0 },
        _ if step("pi.waiters") => value | WAITERS,
        _ => value,
    };
    Ok(match word.exchange(value, new)? {
        seen if seen != value => Claim::Again,
        _ if owner == 0 => Claim::Taken,
        _ => Claim::Owned(owner),
    })
}

/// Does the word of a futex fit its state, whose owner is `owner`? If not, the program has written it.
pub fn agrees(value: u32, owner: Option<u32>) -> bool {
    let named = value & OWNER;
    let has_died = value & OWNER_DIED != 0;
    named == 0 && has_died || named != 0 && owner == Some(named)
}

/// Puts `tid` into the word of a futex that nobody holds, in the place of whom it was meant for. `died`: of an owner that ended.
pub fn take(word: &impl Word, tid: u32, died: bool) -> Result<(), Fault> {
    if !step("pi.name") {
        return Ok(());
    }
    let mut value = word.load()?;
    for _ in 0..ATTEMPTS {
        let new = value & OWNER_DIED | tid | WAITERS | if died { OWNER_DIED } else { 0 };
        match word.exchange(value, new)? {
            seen if seen == value => return Ok(()),
            seen => value = seen,
        }
    }
    Err(Fault)
}

/// What came of handing a futex over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HandedOver {
    Yes,
    /// A waiter has just come.
    Again,
    /// The program has written the word.
    No,
}

/// The owner, which found `value` in the word, gives the futex to the waiter `to`.
pub fn hand_over(word: &impl Word, value: u32, to: u32) -> Result<HandedOver, Fault> {
    Ok(match word.exchange(value, WAITERS | to)? {
        seen if seen == value => HandedOver::Yes,
        seen if seen & OWNER == value => HandedOver::Again,
        _ => HandedOver::No,
    })
}

/// Leaves a futex for which nobody waits, whose word was `value`. False: it has changed.
pub fn release(word: &impl Word, value: u32) -> Result<bool, Fault> {
    Ok(word.exchange(value, 0)? == value)
}

/// `tid` ends: if it owns the futex, the word says so. What was in the word before; None: it was another's.
pub fn die(word: &impl Word, tid: u32) -> Result<Option<u32>, Fault> {
    let mut value = word.load()?;
    while value & OWNER == tid {
        match word.exchange(value, value & WAITERS | OWNER_DIED)? {
            seen if seen == value => return Ok(Some(value)),
            seen => value = seen,
        }
    }
    Ok(None)
}

/// Whether a task has ended, as far as its futexes are concerned.
#[derive(Debug)]
pub struct Ended(AtomicBool);

impl Default for Ended {
    fn default() -> Self {
        Self::new()
    }
}

impl Ended {
    const_new! {
        pub fn new() -> Self {
            Ended(AtomicBool::new(false))
        }
    }

    /// The task ends. It looks for its record behind this.
    #[inline]
    pub fn end(&self) {
        self.0.swap(true, Ordering::Relaxed);
        fence_after_rmw("pi.end");
    }

    /// Has it ended? Asked behind the making of its record, whoever made it.
    #[inline]
    pub fn has_ended(&self) -> bool {
        fence_at("pi.record");
        self.0.load(Ordering::Relaxed)
    }
}
