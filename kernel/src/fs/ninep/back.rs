//! Write-back: which files of a mount may have pages that the server has not got, and who sends them.
//!
//! ```text
//!  open to write ──> listed, with the fid to write by ── closed, clean, not mapped ──> not listed
//!                       │ write(2), or a first write through a mapping: dirty
//!                       │ fsync, msync, sync, the last close, too much is dirty, AGE: pages are sent (`Node::write_back`)
//!                       └ clean
//! ```
//!
//! A file is listed, and its inode and a fid to write by stay, while somebody has it open to write, a page is dirty, or it is mapped after it was so: then the inode stays until nobody refers to
//! the object, and the fid until no page is mapped.
//!
//! One thread for all mounts sends what is older than [`AGE`], and what nobody has open any more at once. It sleeps without a timer while nothing is dirty.
//!
//! How many pages of a mount are dirty is counted on each CPU (`sync::quota`). Who would make more than an eighth of memory sends some first.
//!
//! Lock order: mounts, or a shard of files; innermost but for fids. Neither is held while the server is asked.
#![forbid(unsafe_code)]

use alloc::boxed::Box;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use sync::percpu::Padded;
use sync::quota::{Quota, UNLIMITED};
use sync::{SpinLock, TryVec, lock_class, try_arc};
use vm::VmError;

use super::client::Fid;
use super::inode::{Node, node_of};
use crate::errno::{EINTR, EIO, Result};
use crate::fs::vfs::cache::inodes::InodeTable;
use crate::fs::vfs::clock;
use crate::fs::vfs::inode::Inode;
use crate::fs::vfs::numbers;
use crate::lock_order as level;
use crate::sched::{Sleep, WaitQueue, give_way, spawn};

lock_class! { static FILES: LockClass = ("files that are written back", level::RemoteWrittenBack); }
lock_class! { static MOUNTS_CLASS: LockClass = ("mounts that are written back", level::RemoteWrittenBack); }

/// For how long what was written stays with the guest alone, nanoseconds, and how often the thread looks.
const AGE: u64 = 5_000_000_000;
const LOOK: u64 = 1_000_000_000;
/// Pages that who makes too many dirty sends of one file.
const PART: u64 = 1024;
/// One in so many frames may be dirty.
const SHARE: u64 = 8;
/// How often who makes too many dirty sends some before he goes on all the same.
const TRIES: u32 = 8;
/// Each on lines of its own, with the files of some numbers.
const SHARDS: usize = 64;

/// In the order of their inodes' numbers. Of one number are more than one where an inode was forgotten that has dirty pages.
type Shard = SpinLock<Vec<Arc<Listed>>, level::RemoteWrittenBack>;

/// Of one mount.
pub struct Back {
    inodes: Arc<InodeTable>,
    files: Box<[Padded<Shard>]>,
    dirty: Quota<1>,
    /// Dirty pages.
    most: AtomicU64,
    /// All that is dirty is to be sent: memory is scarce.
    hurries: AtomicBool,
    /// The mount is gone: a file goes when it is clean.
    ended: AtomicBool,
}

/// A file that may have dirty pages.
struct Listed {
    inode: Arc<Inode>,
    /// By which it is written; gone while nobody writes it.
    fid: SpinLock<Option<Arc<Fid>>, level::RemoteFids>,
}

lock_class! { static FID: LockClass = ("fid to write back by", level::RemoteFids); }

static MOUNTS: SpinLock<Vec<Weak<Back>>, level::RemoteWrittenBack> = SpinLock::new(Vec::new(), &MOUNTS_CLASS);
static CALLED: WaitQueue = WaitQueue::new();
static IS_CALLED: AtomicBool = AtomicBool::new(false);

/// Has the thread look.
pub fn call() {
    IS_CALLED.store(true, SeqCst);
    CALLED.wake_one();
}

/// The thread.
///
/// # Errors
/// ENOMEM.
pub fn start() -> Result {
    static IS_STARTED: AtomicBool = AtomicBool::new(false);
    if IS_STARTED.swap(true, SeqCst) {
        return Ok(());
    }
    spawn(None, run, 0).map(drop).inspect_err(|_| IS_STARTED.store(false, SeqCst))
}

fn run(_: usize) {
    let mut is_dirty = false;
    loop {
        let deadline = is_dirty.then(|| clock::since_boot().saturating_add(LOOK).into());
        // No signal comes to a thread of the kernel's.
        let _ = CALLED.wait_until(Sleep::Killable, deadline, || IS_CALLED.swap(false, SeqCst).then_some(()));
        is_dirty = look();
    }
}

/// Sends what is due of all mounts; says whether anything is dirty yet.
fn look() -> bool {
    let mut is_dirty = false;
    for back in mounts() {
        is_dirty |= back.look(clock::since_boot());
    }
    is_dirty
}

fn mounts() -> Vec<Arc<Back>> {
    let mut all = Vec::new();
    let mut mounts = MOUNTS.lock();
    mounts.retain(|back| back.strong_count() > 0);
    for back in &*mounts {
        if let Some(back) = back.upgrade() {
            // Without memory it is looked at the next time.
            let _ = all.try_push(back);
        }
    }
    all
}

/// Pages of all mounts that the servers have not got.
pub fn dirty_pages() -> u64 {
    mounts().iter().map(|back| back.dirty()).fold(0, u64::saturating_add)
}

impl Back {
    pub fn try_new(inodes: &Arc<InodeTable>) -> Result<Arc<Back>> {
        let mut files = sync::try_vec(SHARDS)?;
        files.resize_with(SHARDS, || Padded(SpinLock::new(Vec::new(), &FILES)));
        let back = try_arc(Back {
            inodes: inodes.clone(),
            files: files.into_boxed_slice(),
            dirty: Quota::try_new()?,
            most: AtomicU64::new((vm::frame::total_frames() / SHARE).max(PART)),
            hurries: AtomicBool::new(false),
            ended: AtomicBool::new(false),
        })?;
        MOUNTS.lock().try_push(Arc::downgrade(&back))?;
        Ok(back)
    }

    /// A file is open to write, by `fid`.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn list(&self, inode: &Arc<Inode>, fid: Arc<Fid>) -> Result {
        let new = try_arc(Listed { inode: inode.clone(), fid: SpinLock::new(Some(fid.clone()), &FID) })?;
        let mut files = self.shard(inode.number)?.lock();
        let known = of_number(&files, inode.number)
            .find(|listed| Arc::ptr_eq(&listed.inode, inode))
            .map(|listed| listed.fid.lock().replace(fid.clone()));
        let old = match known {
            Some(old) => old,
            None => {
                let at = files.partition_point(|listed| listed.inode.number < inode.number);
                files.try_insert(at, new.clone())?;
                None
            }
        };
        drop(files);
        drop((old, new));
        Ok(())
    }

    fn shard(&self, number: u64) -> Result<&Shard> {
        let shard = self.files.get(numbers::spread(number) as usize % SHARDS).ok_or(EIO)?;
        Ok(&shard.0)
    }

    /// Pages of the file of that number, and with these `remote` data, are to be dirty, and none was. May sleep.
    ///
    /// # Errors
    /// Its inode is gone; those of the server, where nobody has it open to write.
    pub fn begin_dirty(&self, path: u64, is_it: impl Fn(&Node) -> bool) -> Result {
        let shard = self.shard(path)?;
        let find = || {
            let files = shard.lock();
            let listed = of_number(&files, path).find(|listed| node_of(&listed.inode).is_some_and(&is_it))?;
            Some((listed.inode.clone(), listed.fid.lock().is_some()))
        };
        let inode = match find() {
            Some((inode, _)) => inode,
            None => self.inodes.find(path).ok_or(EIO)?,
        };
        let node = node_of(&inode).filter(|node| is_it(node)).ok_or(EIO)?;
        node.remote.unwritten.begin();
        // Who takes the fid looks whether anything is dirty, under the list's lock.
        if !find().is_some_and(|(_, is_ready)| is_ready) {
            self.list(&inode, node.remote.writable()?)?;
        }
        call();
        Ok(())
    }

    /// Counts `n` pages that are to be dirty; if there are too many, some are sent first. May sleep.
    ///
    /// # Errors
    /// `Interrupted`: a fatal signal.
    pub fn count(&self, n: u64) -> core::result::Result<(), VmError> {
        for _ in 0..TRIES {
            if self.dirty.charge(0, n, self.most.load(SeqCst)).is_ok() {
                return Ok(());
            }
            let mut sent = 0u64;
            let said = self.each(|listed| {
                match node_of(&listed.inode).map_or(Ok(0), |node| node.write_back(PART)) {
                    Ok(pages) => sent = sent.saturating_add(pages),
                    Err(EINTR) => return Err(EINTR),
                    // Lost, and so clean.
                    Err(_) => sent = sent.saturating_add(1),
                }
                Ok(sent < n)
            });
            match said {
                Ok(()) => {}
                Err(EINTR) => return Err(VmError::Interrupted),
                Err(_) => return Err(VmError::NoMemory),
            }
            if sent == 0 {
                // Others send them.
                break;
            }
        }
        self.dirty.charge(0, n, UNLIMITED).map_err(|_| VmError::NoMemory)
    }

    pub fn give_back(&self, n: u64) {
        self.dirty.give_back(0, n);
    }

    pub fn dirty(&self) -> u64 {
        self.dirty.used(0)
    }

    #[cfg(test)]
    pub fn set_most(&self, pages: u64) {
        self.most.store(pages, SeqCst);
    }

    #[cfg(test)]
    pub fn listed(&self) -> usize {
        self.files.iter().map(|shard| shard.0.lock().len()).sum()
    }

    /// Calls `f` for each file that was listed when its shard's turn came, with no lock held, as long as it says so. Gives way.
    ///
    /// # Errors
    /// ENOMEM, and those of `f`, which end it.
    fn each(&self, mut f: impl FnMut(&Arc<Listed>) -> Result<bool>) -> Result {
        for shard in &self.files {
            let mut all = Vec::new();
            for listed in &*shard.0.lock() {
                all.try_push(listed.clone())?;
            }
            for listed in &all {
                if !f(listed)? {
                    return Ok(());
                }
                let _ = give_way();
            }
        }
        Ok(())
    }

    /// Memory is scarce: dirty pages are sent soon.
    pub fn hurry(&self) {
        if !self.hurries.swap(true, SeqCst) {
            call();
        }
    }

    /// The mount is gone: what is dirty is sent yet, by the thread. Does not sleep.
    pub fn end(&self) {
        self.ended.store(true, SeqCst);
        call();
    }

    /// Sends what is due; says whether anything is dirty yet.
    pub fn look(&self, now: u64) -> bool {
        let hurries = self.hurries.swap(false, SeqCst) || self.ended.load(SeqCst);
        let mut is_dirty = false;
        let said = self.each(|listed| {
            let Some(node) = node_of(&listed.inode) else { return Ok(true) };
            let unwritten = &node.remote.unwritten;
            if unwritten.is_dirty()
                && (hurries || !listed.is_used() || unwritten.since().saturating_add(AGE) <= now)
            {
                // What goes wrong is told to those who have it open.
                let _ = node.write_back(u64::MAX);
            }
            is_dirty |= unwritten.is_dirty();
            self.retire(listed);
            Ok(true)
        });
        // Without memory they are looked at the next time.
        is_dirty || said.is_err()
    }

    /// Sends all that is dirty; says which files there are now. May sleep.
    ///
    /// # Errors
    /// The first that came. EINTR ends it.
    pub fn send_all(&self, mut sent: impl FnMut(&Node) -> Result) -> Result {
        let mut failed = Ok(());
        self.each(|listed| {
            let Some(node) = node_of(&listed.inode) else { return Ok(true) };
            let said =
                node.write_back(u64::MAX).and_then(|pages| if pages > 0 { sent(node) } else { Ok(()) });
            if said == Err(EINTR) {
                return Err(EINTR);
            }
            failed = failed.and(said);
            self.retire(listed);
            Ok(true)
        })?;
        failed
    }

    /// The file leaves the list, or its fid goes, if nobody needs it there.
    fn retire(&self, listed: &Arc<Listed>) {
        let Some(node) = node_of(&listed.inode) else { return };
        // Not looked for under the list's lock.
        let is_mapped = node.is_mapped();
        let mut gone = (None, None);
        let number = listed.inode.number;
        let Ok(shard) = self.shard(number) else { return };
        let mut files = shard.lock();
        if node.remote.unwritten.is_any() || listed.is_used() {
            return;
        }
        if !is_mapped || self.ended.load(SeqCst) {
            gone.0 = listed.fid.lock().take();
            if (node.is_referred_to_by_nobody() || self.ended.load(SeqCst))
                && let Some(at) = place_of(&files, listed)
            {
                gone.1 = Some(files.remove(at));
            }
        }
        drop(files);
        drop(gone);
    }
}

/// Those of `files`, which are in order, whose inode has that number.
fn of_number(files: &[Arc<Listed>], number: u64) -> impl Iterator<Item = &Arc<Listed>> {
    let first = files.partition_point(|listed| listed.inode.number < number);
    files.iter().skip(first).take_while(move |listed| listed.inode.number == number)
}

fn place_of(files: &[Arc<Listed>], wanted: &Arc<Listed>) -> Option<usize> {
    let number = wanted.inode.number;
    let at = of_number(files, number).position(|listed| Arc::ptr_eq(listed, wanted))?;
    files.partition_point(|listed| listed.inode.number < number).checked_add(at)
}

impl Listed {
    /// Has anybody the file open to write?
    fn is_used(&self) -> bool {
        self.fid.lock().as_ref().is_some_and(|fid| Arc::strong_count(fid) > 1)
    }
}
