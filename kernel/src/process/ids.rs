//! Process and thread numbers.
//!
//! Numbers come in blocks of 64. A CPU takes a block of its own and hands its numbers out one after another, so two
//! CPUs that fork write no common line. A block whose last number has been given back goes to the end of its CPU's queue of retired
//! blocks. Its numbers are used again when `QUARANTINE` blocks have retired after it, so a number stays unused for a while after its
//! process was reaped. Fresh blocks are taken `RUN` at a time, so a CPU rarely touches the cursor that all CPUs share.
//!
//! An [`Id`] is one use of a number. A process, its leading thread, its group and its session may all use the same
//! number; it becomes free when the last of them is gone.
//!
//! The table from number to process or thread has three levels: root, directories, blocks. Directories and blocks are never freed;
//! there are as many as the most processes at one time needed, plus the quarantine. Entries are found under RCU: a lookup takes no
//! lock, and writes only the count of what it finds; a look (`look_at`) not even that.
//!
//! Lock order: `OVERFLOW` is a leaf, nothing is taken under it.
#![forbid(unsafe_code)]

use super::session::Group;
use super::{Process, Thread};
use crate::errno::{EAGAIN, ENOMEM, Result};
use crate::lock_order as level;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU8, AtomicU32, Ordering::*};
use once_cell::race::OnceBox;
use sync::SpinLock;
use sync::percpu::Padded;
use sync::rcu::{Met, RcuArc, RcuRead};
use sync::{Count, LocalCell, per_cpu, slab_box};

pub type Pid = u32;

/// Numbers are below this, as on Linux (64-bit default of kernel.pid_max on a large machine).
pub const PID_MAX: Pid = 4_194_304;
const BLOCK: u32 = 64;
const BLOCKS: u32 = PID_MAX / BLOCK;
const FANOUT: usize = 256;
/// Blocks that retire after a block before it is used again on the same CPU.
const QUARANTINE: u32 = 16;
/// Fresh blocks that a CPU takes at once: enough for the quarantine, the current block and those with numbers of long-lived
/// processes. Their entries in a directory fill whole cache lines.
const RUN: u32 = 32;
const NONE: u32 = u32::MAX;

sync::lock_class! {
    static IDS_OVERFLOW: LockClass = ("process id overflow", level::ProcessIds);
}

struct Block {
    /// Numbers in use, plus one while the block is some CPU's current one.
    live: AtomicU32,
    /// Next block in a queue of retired blocks.
    next: AtomicU32,
    uses: [AtomicU8; BLOCK as usize],
    /// What a number leads to. A leading thread is found through its process.
    processes: [RcuArc<Process>; BLOCK as usize],
    threads: [RcuArc<Thread>; BLOCK as usize],
    groups: [RcuArc<Group>; BLOCK as usize],
}

struct Directory([OnceBox<Block>; FANOUT]);

vm::slab_type!(Block, "id-block", Box);
vm::slab_type!(Directory, "id-directory", Box);

static ROOT: [OnceBox<Directory>; FANOUT] = [const { OnceBox::new() }; FANOUT];
/// The next block never used before. On a line of its own: every CPU takes from it, if seldom.
static FRESH: Padded<AtomicU32> = Padded(AtomicU32::new(0));
static OVERFLOW: SpinLock<Queue, level::ProcessIds> = SpinLock::new(Queue::new(), &IDS_OVERFLOW);

/// A queue of retired blocks, linked through the blocks.
struct Queue {
    head: u32,
    tail: u32,
    len: u32,
}

impl Queue {
    const fn new() -> Queue {
        Queue { head: NONE, tail: NONE, len: 0 }
    }

    #[expect(clippy::arithmetic_side_effects, reason = "counts of numbers, of which there are 2^22")]
    fn push(&mut self, index: u32) {
        let Some(block) = block(index) else { return };
        block.next.store(NONE, Relaxed);
        match self::block(self.tail) {
            Some(tail) => tail.next.store(index, Relaxed),
            None => self.head = index,
        }
        self.tail = index;
        self.len += 1;
    }

    #[expect(clippy::arithmetic_side_effects, reason = "counts of numbers, of which there are 2^22")]
    fn pop(&mut self) -> Option<u32> {
        let index = self.head;
        let block = block(index)?;
        self.head = block.next.load(Relaxed);
        if self.head == NONE {
            self.tail = NONE;
        }
        self.len -= 1;
        Some(index)
    }
}

struct Local {
    block: u32,
    next: u32,
    /// Blocks never used before that are this CPU's.
    fresh: core::ops::Range<u32>,
    retired: Queue,
    /// `LIVE` of this CPU may come this far before it looks at the others' again.
    allowed: i64,
}

per_cpu! {
    /// Numbers taken here less numbers given back here: their sum is how many are in use.
    static LIVE: Count = Count::new();
    static LOCAL: LocalCell<Local> = LocalCell::new(Local { block: NONE, next: BLOCK, fresh: 0..0, retired: Queue::new(), allowed: 0 });
}

/// How many numbers are in use: threads, and groups and sessions whose first process is gone.
pub fn live() -> u64 {
    LIVE.sum()
}

fn block(index: u32) -> Option<&'static Block> {
    if index >= BLOCKS {
        return None;
    }
    ROOT.get(index as usize / FANOUT)?.get()?.0.get(index as usize % FANOUT)?.get()
}

/// The block, made if it does not exist yet.
fn make_block(index: u32) -> Result<&'static Block> {
    let slot = ROOT.get(index as usize / FANOUT).ok_or(EAGAIN)?;
    if slot.get().is_none() {
        let directory = Directory([const { OnceBox::new() }; FANOUT]);
        // Another CPU may be first; then ours is dropped.
        let _ = slot.set(slab_box(directory)?);
    }
    let slot = slot.get().and_then(|directory| directory.0.get(index as usize % FANOUT)).ok_or(ENOMEM)?;
    if slot.get().is_none() {
        let fresh = Block {
            live: AtomicU32::new(0),
            next: AtomicU32::new(NONE),
            uses: [const { AtomicU8::new(0) }; BLOCK as usize],
            processes: [const { RcuArc::empty() }; BLOCK as usize],
            threads: [const { RcuArc::empty() }; BLOCK as usize],
            groups: [const { RcuArc::empty() }; BLOCK as usize],
        };
        let _ = slot.set(slab_box(fresh)?);
    }
    slot.get().ok_or(ENOMEM)
}

impl Local {
    /// Makes a block of unused numbers this CPU's current one. EAGAIN if the machine has as many threads as it may have.
    #[expect(clippy::arithmetic_side_effects, reason = "there is a CPU")]
    fn take_block(&mut self) -> Result<()> {
        let own = LIVE.this().get() as i64;
        if own >= self.allowed {
            let live = LIVE.sum();
            // As Linux bounds them: an eighth of memory for kernel stacks of 16 KiB (kernel.threads-max).
            let most = (vm::frame::total_frames() / 32).max(512);
            if live >= most && live < u64::from(PID_MAX) {
                return Err(EAGAIN);
            }
            // What is left is this CPU's and the others' in equal parts, so that looking is seldom and the bound holds.
            let part = most.saturating_sub(live) / u64::from(sync::machine::cpus());
            self.allowed = own.saturating_add(part as i64);
        }
        let recycled = match self.retired.len {
            n if n >= QUARANTINE => self.retired.pop(),
            _ => None,
        };
        let index = match recycled {
            Some(index) => index,
            None => match self.fresh_block() {
                Some(index) => index,
                None => OVERFLOW.lock().pop().or_else(|| self.retired.pop()).ok_or(EAGAIN)?,
            },
        };
        let block = match make_block(index) {
            Ok(block) => block,
            Err(error) => {
                // The number of a fresh block is lost for this boot only if memory is short for its very first use.
                if block(index).is_some() {
                    self.retired.push(index);
                }
                return Err(error);
            }
        };
        block.live.fetch_add(1, AcqRel);
        self.block = index;
        // Number 0 is nobody's: the idle tasks' on Linux.
        self.next = if index == 0 { 1 } else { 0 };
        Ok(())
    }

    #[expect(clippy::arithmetic_side_effects, reason = "counts of numbers, of which there are 2^22")]
    fn fresh_block(&mut self) -> Option<u32> {
        if self.fresh.is_empty() && FRESH.0.load(Relaxed) < BLOCKS {
            let first = FRESH.0.fetch_add(RUN, Relaxed).min(BLOCKS);
            self.fresh = first..(first + RUN).min(BLOCKS);
        }
        self.fresh.next()
    }

    fn retire(&mut self, index: u32) {
        self.retired.push(index);
        // A CPU that mostly reaps gives blocks to those that mostly fork.
        if self.retired.len > 4 * QUARANTINE {
            let mut overflow = OVERFLOW.lock();
            while self.retired.len > 2 * QUARANTINE {
                match self.retired.pop() {
                    Some(index) => overflow.push(index),
                    None => break,
                }
            }
        }
    }
}

fn give_back(index: u32) {
    let Some(block) = block(index) else { return };
    if block.live.fetch_sub(1, AcqRel) == 1 {
        LOCAL.this().with(|local| local.retire(index));
    }
}

/// One use of a number; dropping it gives the use back.
pub struct Id(Pid);

impl Id {
    /// A number that nobody uses. EAGAIN when there is none, ENOMEM when the table cannot grow.
    #[expect(clippy::arithmetic_side_effects, reason = "counts of numbers, of which there are 2^22")]
    pub fn try_new() -> Result<Id> {
        // Nobody is in the cell: nothing in here sleeps or comes back.
        LOCAL
            .this()
            .with(|local| {
                loop {
                    if local.next >= BLOCK {
                        let old = core::mem::replace(&mut local.block, NONE);
                        if block(old).is_some_and(|block| block.live.fetch_sub(1, AcqRel) == 1) {
                            local.retire(old);
                        }
                        local.take_block()?;
                    }
                    let offset = local.next;
                    local.next += 1;
                    let block = block(local.block).ok_or(EAGAIN)?;
                    let Some(uses) = block.uses.get(offset as usize) else { continue };
                    if uses.compare_exchange(0, 1, AcqRel, Relaxed).is_ok() {
                        block.live.fetch_add(1, AcqRel);
                        LIVE.this().add(1);
                        return Ok(Id(local.block * BLOCK + offset));
                    }
                }
            })
            .unwrap_or(Err(EAGAIN))
    }

    pub fn number(&self) -> Pid {
        self.0
    }

    /// Another use of the same number.
    pub fn share(&self) -> Id {
        if let Some(uses) = block(self.0 / BLOCK).and_then(|b| b.uses.get((self.0 % BLOCK) as usize)) {
            uses.fetch_add(1, Relaxed);
        }
        Id(self.0)
    }

    /// From now on a lookup of the number finds `process`.
    pub fn publish_process(&self, process: Arc<Process>) {
        if let Some(slot) = find(self.0, |block| &block.processes) {
            slot.swap(Some(process));
        }
    }

    /// From now on a lookup of the number finds `thread`.
    pub fn publish_thread(&self, thread: Arc<Thread>) {
        if let Some(slot) = find(self.0, |block| &block.threads) {
            slot.swap(Some(thread));
        }
    }

    /// From now on a lookup of the number finds `group`, unless there is another.
    pub fn publish_group(&self, group: Arc<Group>) {
        if let Some(slot) = find(self.0, |block| &block.groups) {
            let _ = slot.put_if_empty(group);
        }
    }

    /// From now on a lookup of the number finds no group.
    pub fn withdraw_group(&self) {
        if let Some(slot) = find(self.0, |block| &block.groups) {
            drop(slot.take());
        }
    }

    /// From now on a lookup of the number finds no process.
    pub fn withdraw_process(&self) {
        if let Some(slot) = find(self.0, |block| &block.processes) {
            drop(slot.take());
        }
    }

    /// From now on a lookup of the number finds no thread that is not the leader of a process.
    pub fn withdraw_thread(&self) {
        if let Some(slot) = find(self.0, |block| &block.threads) {
            drop(slot.take());
        }
    }
}

impl Drop for Id {
    fn drop(&mut self) {
        let Some(block) = block(self.0 / BLOCK) else { return };
        let Some(uses) = block.uses.get((self.0 % BLOCK) as usize) else { return };
        if uses.fetch_sub(1, AcqRel) == 1 {
            LIVE.this().sub(1);
            give_back(self.0 / BLOCK);
        }
    }
}

/// The place of `number` in one of a block's arrays.
fn find<T>(
    number: Pid,
    array: impl Fn(&'static Block) -> &'static [T; BLOCK as usize],
) -> Option<&'static T> {
    array(block(number / BLOCK)?).get((number % BLOCK) as usize)
}

/// Does anything have this number: a process, a thread, a group or a session?
pub fn is_used(number: Pid) -> bool {
    find(number, |block| &block.uses).is_some_and(|uses| uses.load(Relaxed) != 0)
}

/// The process with this number, alive or a zombie.
pub fn find_process(pid: Pid) -> Option<Arc<Process>> {
    find(pid, |block| &block.processes)?.get(&sync::rcu::read())
}

/// What `f` says of the process with this number, which is not counted for it. `f` does not sleep.
#[inline]
pub fn look_at<R>(pid: Pid, f: impl FnOnce(&Process) -> R) -> Option<R> {
    let read = sync::rcu::read();
    find(pid, |block| &block.processes)?.load(&read).map(f)
}

/// The process group with this number, which may have no members any more.
pub fn find_group(number: Pid) -> Option<Arc<Group>> {
    find(number, |block| &block.groups)?.get(&sync::rcu::read())
}

/// What `f` says of that group, which is not counted for it. `f` does not sleep.
#[inline]
pub fn look_at_group<R>(number: Pid, f: impl FnOnce(&Group) -> R) -> Option<R> {
    let read = sync::rcu::read();
    find(number, |block| &block.groups)?.load(&read).map(f)
}

/// The thread with this number.
pub fn find_thread(tid: Pid) -> Option<Arc<Thread>> {
    let read = sync::rcu::read();
    let thread = find(tid, |block| &block.threads)?.get(&read);
    thread.or_else(|| leader(tid, &read).map(|leader| leader.count()))
}

/// What `f` says of that thread, which is not counted for it. `f` does not sleep.
#[inline]
pub fn look_at_thread<R>(tid: Pid, f: impl FnOnce(&Thread) -> R) -> Option<R> {
    let read = sync::rcu::read();
    match find(tid, |block| &block.threads)?.load(&read) {
        Some(thread) => Some(f(thread)),
        None => leader(tid, &read).map(|leader| f(&leader)),
    }
}

/// The leading thread of process `pid`, which comes first among its threads.
#[inline]
fn leader(pid: Pid, read: &RcuRead) -> Option<Met<'_, Thread>> {
    let process = find(pid, |block| &block.processes)?.load(read)?;
    process.threads.first(read).filter(|first| first.tid() == pid)
}

/// The first block at or after block `index` that has numbers in use. There may be many that have none: as many as there ever were processes at one time.
#[expect(clippy::arithmetic_side_effects, reason = "counts of numbers, of which there are 2^22")]
fn next_in_use(index: u32) -> Option<(u32, &'static Block)> {
    let (mut index, end) = (index as usize, FRESH.0.load(Relaxed).min(BLOCKS) as usize);
    while index < end {
        let first = index % FANOUT;
        let blocks =
            ROOT.get(index / FANOUT).and_then(OnceBox::get).map_or(&[][..], |directory| &directory.0);
        for (n, block) in blocks.iter().enumerate().skip(first) {
            if let Some(block) = block.get()
                && block.live.load(Relaxed) != 0
            {
                return Some(((index - first + n) as u32, block));
            }
        }
        index += FANOUT - first;
    }
    None
}

/// The process with the lowest number that is not below `from`. For a walk over all processes that holds no lock between its steps.
#[expect(clippy::arithmetic_side_effects, reason = "counts of numbers, of which there are 2^22")]
pub fn next_process(from: Pid) -> Option<Arc<Process>> {
    let mut from = from;
    while let Some((index, block)) = next_in_use(from / BLOCK) {
        from = from.max(index * BLOCK);
        let read = sync::rcu::read();
        let mut rest = block.processes.iter().skip((from % BLOCK) as usize);
        if let Some(process) = rest.find_map(|slot| slot.get(&read)) {
            return Some(process);
        }
        from = (index + 1) * BLOCK;
    }
    None
}

/// Calls `f` for every process, without counting it, and gives way at times. `f` does not sleep. If it answers false, it is called once more, with `true`:
/// the process is counted then, and `f` may sleep. Processes that come or go meanwhile may be missed.
#[expect(clippy::arithmetic_side_effects, reason = "counts of numbers, of which there are 2^22")]
pub fn look_at_processes(mut f: impl FnMut(&Process, bool) -> bool) {
    let mut next = 0;
    while let Some((index, block)) = next_in_use(next) {
        next = index + 1;
        let mut from = 0;
        while from < BLOCK {
            let mut refused = None;
            {
                let read = sync::rcu::read();
                while let Some(slot) = block.processes.get(from as usize) {
                    from += 1;
                    if let Some(process) = slot.load(&read)
                        && !f(process, false)
                    {
                        refused = slot.get(&read);
                        break;
                    }
                }
            }
            if let Some(process) = refused {
                f(&process, true);
            }
            let _ = crate::sched::give_way();
        }
    }
}

/// Calls `f` for every process until it answers false. Processes that come or go meanwhile may be missed. Gives way after each, and `f` may sleep: no spinning
/// lock is held and no RCU section open. A fatal signal does not end it, as on Linux.
pub fn walk_processes(f: impl FnMut(&Arc<Process>) -> bool) {
    walk_processes_from(1, f);
}

/// Those from a number on, in the order of their numbers.
#[expect(clippy::arithmetic_side_effects, reason = "counts of numbers, of which there are 2^22")]
pub fn walk_processes_from(mut from: Pid, mut f: impl FnMut(&Arc<Process>) -> bool) {
    while let Some(process) = next_process(from) {
        from = process.pid() + 1;
        let goes_on = f(&process);
        let _ = crate::sched::give_way();
        if !goes_on {
            return;
        }
    }
}

#[cfg(test)]
mod tests;
