//! Advisory locks on files: flock, whole and by open file description, and record locks (fcntl(2)), by range and process or open
//! file description; and leases.
//!
//! The lists are made at the first lock and stay, so an inode that is never locked carries one pointer, and who locks counts nothing. Their lock is a sleeping one: a program may
//! hold any number of record locks, and whoever changes many gives way.
//! Who waits looks again whenever a lock of the file went or became weaker.
//! Each lock and lease, and who waits, stands in the list for /proc/locks (`listed`).
//! Lock order: `held` → `waits` → wait queue; `held` → list of locks.
#![forbid(unsafe_code)]

mod lease;
mod listed;
mod records;
mod shown;
mod tell;
mod tree;
mod waits;

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering::SeqCst};

use crate::lock_order as level;
use once_cell::race::OnceBox;
use sync::protocol::readers::Claim;
use sync::{Mutex, TryVec, lock_class, try_arc, try_box};

use self::lease::Leases;
pub use self::lease::{Holder, Wanted};
use self::listed::{Blocked, Listed, Place, Spot};
pub use self::records::{Owner, Record};
use self::records::{Payer, Records};
use self::shown::Shown;
pub use self::tell::{Cursor, tell_locks};
use self::waits::Waiting;
use crate::errno::{EAGAIN, ENOLCK, ERESTARTSYS, Result};
use crate::fs::caller;
use crate::sched::{Sleep, WaitQueue};

lock_class! { static FILE_LOCKS: LockClass = ("file locks", level::FileLocks); }

struct Whole {
    holder: Owner,
    /// Who asked for it, for /proc/PID/fdinfo.
    process: u32,
    exclusive: bool,
    listed: Listed,
}

struct Held {
    whole: Vec<Whole>,
    records: Records,
    leases: Leases,
    /// Whose turn has come last, of those who wait.
    turns: u64,
}

impl Held {
    /// Lists one who is about to wait for what stands at `spot`. `turn`: what he had when he waited before; 0: he has not.
    ///
    /// # Errors
    /// ENOMEM.
    fn begin_wait(&mut self, spot: Option<Spot>, turn: &mut u64, shown: Shown) -> Result<Option<Blocked>> {
        let Some(spot) = spot else { return Ok(None) };
        if *turn == 0 {
            self.turns = self.turns.saturating_add(1);
            *turn = self.turns;
        }
        Blocked::begin(spot, *turn, shown).map(Some)
    }

    /// Gives the lock of the whole file up. True: there was one.
    fn remove_whole(&mut self, holder: Owner) -> bool {
        let Some(at) = self.whole.iter().position(|w| w.holder == holder) else { return false };
        // In their order: the first that is in the way is waited for.
        self.whole.remove(at).listed.leave();
        true
    }
}

struct Lists {
    inode: Place,
    held: Mutex<Held, level::FileLocks>,
    /// Somebody has a lease, or is about to. Changes under `held`.
    claim: Claim,
    /// How often a lock went or became weaker.
    changes: AtomicU64,
    freed: WaitQueue,
}

impl Lists {
    /// Sleeps, open to signals, until a lock has gone since `changes` was `seen`.
    fn wait(&self, seen: u64) -> Result {
        let changed = || (self.changes.load(SeqCst) != seen).then_some(());
        self.freed.wait_shared(Sleep::Interruptible, None, changed).map_err(|_| ERESTARTSYS)
    }

    /// A lock went or became weaker. Said while `held` is locked, so that nobody waits for what has gone.
    fn changed(&self) {
        self.changes.fetch_add(1, SeqCst);
        self.freed.wake_all();
    }
}

pub struct FileLocks {
    /// Counted by who waits, so that others can ask what for.
    lists: OnceBox<Arc<Lists>>,
}

impl FileLocks {
    pub const fn new() -> Self {
        FileLocks { lists: OnceBox::new() }
    }

    fn lists(&self) -> Option<&Arc<Lists>> {
        self.lists.get()
    }

    /// Those of the inode with this device and number, whose locks these are.
    fn make(&self, inode: Place) -> Result<&Arc<Lists>> {
        if let Some(lists) = self.lists() {
            return Ok(lists);
        }
        let held = Held { whole: Vec::new(), records: Records::new(inode), leases: Leases::new(), turns: 0 };
        let held = Mutex::new(held, &FILE_LOCKS);
        let (claim, changes) = (Claim::new(), AtomicU64::new(0));
        let new = try_arc(Lists { inode, held, claim, changes, freed: WaitQueue::new() })?;
        // Another may have been the first.
        let _ = self.lists.set(try_box(new)?);
        self.lists().ok_or(EAGAIN)
    }

    /// Was anything of the file ever locked?
    pub fn is_used(&self) -> bool {
        self.lists().is_some()
    }

    /// flock(2). `exclusive`: `None` unlocks. `inode`: as for `make`.
    pub fn flock(&self, inode: Place, me: Owner, exclusive: Option<bool>, wait: bool) -> Result {
        let Some(exclusive) = exclusive else {
            self.release_whole(me);
            return Ok(());
        };
        let lists = self.make(inode)?;
        let mut turn = 0;
        loop {
            let (seen, blocked) = {
                let mut held = lists.held.lock();
                if held.whole.iter().any(|w| w.holder == me && w.exclusive == exclusive) {
                    return Ok(());
                }
                let other = held
                    .whole
                    .iter()
                    .find(|w| w.holder != me && (w.exclusive || exclusive))
                    .map(|w| w.listed.spot());
                let new = if other.is_none() { Some(Listed::try_new()?) } else { None };
                // A conversion gives up the old lock first, as Linux does, even if it fails then.
                if held.remove_whole(me) {
                    lists.changed();
                }
                let process = caller::pid();
                let shown = Shown::of_whole(me, process, exclusive);
                if let Some(listed) = new {
                    held.whole.try_push(Whole { holder: me, process, exclusive, listed })?;
                    held.whole.last_mut().into_iter().for_each(|w| w.listed.enter(lists.inode, shown));
                    return Ok(());
                }
                if !wait {
                    return Err(EAGAIN);
                }
                (lists.changes.load(SeqCst), held.begin_wait(other.flatten(), &mut turn, shown)?)
            };
            let result = lists.wait(seen);
            drop(blocked);
            result?;
        }
    }

    /// Nobody refers to the open file description any more.
    #[inline(always)]
    pub fn release_file(&self, holder: Owner) {
        if self.is_used() {
            self.release_whole(holder);
            self.release_records(holder);
            self.release_lease(holder);
        }
    }

    /// Gives the lock of the whole file up.
    fn release_whole(&self, holder: Owner) {
        let Some(lists) = self.lists() else { return };
        let mut held = lists.held.lock();
        if held.remove_whole(holder) {
            lists.changed();
        }
    }

    /// A process closed some descriptor of the file, or its last one, or an open file is closed.
    pub fn release_records(&self, owner: Owner) {
        let Some(lists) = self.lists() else { return };
        let mut held = lists.held.lock();
        if held.records.release(owner) {
            lists.changed();
        }
    }

    /// F_GETLK: a lock that is in the way of `want`, the one that begins first.
    pub fn conflict(&self, want: &Record) -> Option<Record> {
        self.lists()?.held.lock().records.conflict(want)
    }

    /// The first of the owner's own locks in the range.
    pub fn own_record(&self, range: &Record) -> Option<Record> {
        self.lists()?.held.lock().records.own(range)
    }

    /// F_SETLK and F_SETLKW with F_RDLCK or F_WRLCK, by `thread`. `inode`: as for `make`.
    ///
    /// # Errors
    /// EAGAIN; of who waits, EDEADLK or a signal. ENOLCK: the user has as many as may be, or there is no memory.
    pub fn lock_record(&self, inode: Place, want: Record, wait: Option<u32>) -> Result {
        let lists = self.make(inode).map_err(|_| ENOLCK)?;
        let mut turn = 0;
        loop {
            let (seen, waiting, blocked) = {
                let mut held = lists.held.lock();
                let held = &mut *held;
                let Some(other) = held.records.conflict(&want) else {
                    if held.records.change(&want, true, Payer::caller())? {
                        lists.changed();
                    }
                    return Ok(());
                };
                let Some(thread) = wait else { return Err(EAGAIN) };
                let seen = lists.changes.load(SeqCst);
                let begin = || Waiting::begin(want.owner, thread, other.owner, lists, seen);
                let waiting = if want.owner.is_open_file() { None } else { Some(begin()?) };
                let spot = held.records.spot(&other);
                let blocked =
                    held.begin_wait(spot, &mut turn, Shown::of_record(&want)).map_err(|_| ENOLCK)?;
                (seen, waiting, blocked)
            };
            let result = lists.wait(seen);
            drop(waiting);
            drop(blocked);
            result?;
        }
    }

    /// F_UNLCK.
    ///
    /// # Errors
    /// ENOLCK, as `lock_record`: it would cut a lock in two. The lock stays as it is.
    pub fn unlock_record(&self, range: Record) -> Result {
        let Some(lists) = self.lists() else { return Ok(()) };
        let mut held = lists.held.lock();
        if held.records.change(&range, false, Payer::caller())? {
            lists.changed();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
