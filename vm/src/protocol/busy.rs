//! A page is replaced by its copy, for a write or because it moves to other memory, while other threads use it.
//!
//! | the entry       | CPUs may read       | CPUs may write | faults on it |
//! |-----------------|---------------------|----------------|--------------|
//! | shows the page  | the page            | nothing        | copy         |
//! | busy, CPU n's   | the page, until they flush | nothing | wait         |
//! | shows the copy  | the copy            | the copy       | -            |
//!
//! ```text
//! lock, pin, unlock    copy the bytes    lock, unchanged?, mark, unlock    flush    lock, own?, put in, unlock    let the page go
//! ```
//!
//! Where a page moves to other memory, and may be written up to then, the bytes are copied while the entry is busy:
//!
//! ```text
//! lock, mark, unlock    flush    copy the bytes    lock, own?, put in, unlock    let the page go
//! ```
//!
//! BusyWhileFlushed: no CPU may read the old page once another can write the new one.
//!
//! - The bytes are copied with the leaf unlocked. If the entry says something else then (`busy.unchanged`), another thread was first, and may have written.
//! - Where other CPUs may hold the translation the entry is busy while they flush (`busy.others`, `busy.mark`): the hardware finds no page there. Where
//!   none does, no other CPU can see the difference.
//! - Whoever clears the entry meanwhile, or puts a busy one of its own there after that, ends the replacing (`busy.own`). Nobody else changes a busy entry.
//! - A page that moves is copied when all CPUs have flushed (`busy.quiet`): what is written before that is in the copy, and nothing is written after it.
//! - A page that may not be written any more goes back with what its mapping allows by then (`busy.rights`), not with what it allowed before.
//! - Who wants the page itself waits (`busy.wait`): the old page is the replacing CPU's, and the new one is not there yet.
//!
//! Who meets a busy entry: a fault waits, and so does mremap, which moves the page; unmapping, the end of a leaf and a visit for private copies clear it,
//! and it owns nothing; mprotect leaves it, for the page comes with the rights of its mapping; the visit for an object's pages leaves it; a leaf with one is
//! not copied.
//!
//! A page that goes to swap goes out the same way, but that the page itself goes into the area's cache when all CPUs have flushed (`busy.quiet`), and the entry says where (swap.rs).

use crate::atomic::step;
use crate::machine::{Entry, Machine};
use crate::request::Prot;

/// Does the entry, locked again, still say what `old` said, but for what the hardware notes in it?
#[inline]
pub fn is_unchanged<M: Machine>(now: Entry, old: Entry) -> bool {
    let page = |e: Entry| !e.is_absent() && !e.is_away();
    let same = || {
        page(now)
            && page(old)
            && now.address::<M>() == old.address::<M>()
            && now.is_private() == old.is_private()
            && now.is_pooled() == old.is_pooled()
            && M::is_writable(now) == M::is_writable(old)
    };
    now == old || same() || !step("busy.unchanged")
}

/// May the copy be put in at once? `others`: CPUs other than this one may hold the translation.
#[inline]
pub fn at_once(others: bool) -> bool {
    !others || !step("busy.others")
}

/// What takes the entry's place while all CPUs flush. `old`: what it says.
#[inline]
pub fn mark(cpu: u32, old: impl FnOnce() -> Entry) -> Entry {
    if step("busy.mark") { Entry::busy(cpu) } else { old() }
}

/// Copies a page that programs may write, once its entry is busy: only when no CPU can write it any more. Gives what `flush` gives.
#[inline]
pub fn copy_unwritten<P>(flush: impl FnOnce() -> P, copy: impl FnOnce()) -> P {
    if step("busy.quiet") {
        let proof = flush();
        copy();
        proof
    } else {
        copy();
        flush()
    }
}

/// Is the entry, locked again after the flush, still what `cpu` put there? Then it puts a page there.
#[inline]
pub fn is_own(now: Entry, cpu: u32) -> bool {
    now == Entry::busy(cpu) || !step("busy.own")
}

/// What goes back in place of a busy entry if the page that was taken out, `old`, is not replaced after all. `prot`: what its mapping allows now. A write
/// faults again.
#[inline]
pub fn back<M: Machine>(old: Entry, prot: Prot) -> Entry {
    if step("busy.rights") { old.with_prot::<M>(prot.without_write()) } else { M::read_only(old) }
}

/// Must who wants the page itself come again?
#[inline]
pub fn must_wait(entry: Entry) -> bool {
    entry.is_busy() && step("busy.wait")
}
