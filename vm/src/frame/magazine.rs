//! Per-CPU magazines: the fast path of the allocator, no lock and no shared line.
//!
//! Only the owning CPU touches a magazine's contents (kernel code is not preempted and interrupt handlers do not
//! allocate); its counts may be read by anybody. Batches move between a magazine and the CPU's depot, and where that is empty or full,
//! the lists of the NUMA nodes.

use super::chain::Chain;
use super::colour::{self, COLOURS};
use super::{BATCH, Frame, MAX_NUMA_NODES, buddy, depot};
use crate::policy::Choice;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use sync::machine;
use sync::per_cpu;

/// Frames a magazine holds at most: 512 KiB of pages.
const CAPACITY: usize = 128;
/// Frames of another NUMA node that wait before they go home together.
const FAR_BATCH: usize = 32;
/// Frames of one NUMA node that are taken beforehand where a policy asks for them.
pub(super) const AHEAD: usize = FAR_BATCH / 2;

#[repr(align(64))]
struct Magazine {
    len: AtomicUsize,
    frames: UnsafeCell<[u32; CAPACITY]>,
    far: UnsafeCell<[Chain; MAX_NUMA_NODES]>,
    far_len: AtomicUsize,
    refills: AtomicU64,
    refills_far: AtomicU64,
    spills: AtomicU64,
    /// Frames that came from each NUMA node's lists.
    taken: [AtomicU64; MAX_NUMA_NODES],
    placed: [Placed; MAX_NUMA_NODES],
    /// The last call to give back that this CPU has followed.
    followed: AtomicUsize,
}

/// Frames that a policy chose the NUMA node of.
struct Placed {
    /// It was the one that was wanted.
    hits: AtomicU64,
    /// Another one was wanted.
    misses: AtomicU64,
    /// It was wanted, and another one taken.
    lacks: AtomicU64,
    /// Of the hits those by interleaving.
    interleaved: AtomicU64,
}

impl Placed {
    const fn new() -> Self {
        Self {
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            lacks: AtomicU64::new(0),
            interleaved: AtomicU64::new(0),
        }
    }
}

/// Frames of a NUMA node that one CPU took by policies.
#[derive(Clone, Copy, Default)]
pub(super) struct PlacedCounts {
    pub hits: u64,
    pub misses: u64,
    pub lacks: u64,
    pub interleaved: u64,
}

// SAFETY: the cells are touched by the owning CPU alone (see the head of the file); the rest is atomic.
unsafe impl Sync for Magazine {}

/// How often CPUs were called to put away what they keep. Written only when memory or large blocks are out.
static CALLS: AtomicUsize = AtomicUsize::new(0);

per_cpu! {
    static MAGAZINE: Magazine = Magazine {
        len: AtomicUsize::new(0),
        frames: UnsafeCell::new([0; CAPACITY]),
        far: UnsafeCell::new([Chain::EMPTY; MAX_NUMA_NODES]),
        far_len: AtomicUsize::new(0),
        refills: AtomicU64::new(0),
        refills_far: AtomicU64::new(0),
        spills: AtomicU64::new(0),
        taken: [const { AtomicU64::new(0) }; MAX_NUMA_NODES],
        placed: [const { Placed::new() }; MAX_NUMA_NODES],
        followed: AtomicUsize::new(0),
    };
}

/// One CPU's dealings with the NUMA node lists, in batches.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuFrameCounts {
    /// Batches taken from the CPU's own NUMA node.
    pub refills: u64,
    /// Batches taken from another NUMA node.
    pub refills_far: u64,
    /// Batches given back.
    pub spills: u64,
    /// Frames lying in the magazine and the depot now.
    pub cached: u64,
}

/// Counts of `cpu`.
pub fn counts_of(cpu: machine::CpuId) -> CpuFrameCounts {
    let m = MAGAZINE.of(cpu);
    CpuFrameCounts {
        refills: m.refills.load(Ordering::Relaxed),
        refills_far: m.refills_far.load(Ordering::Relaxed),
        spills: m.spills.load(Ordering::Relaxed),
        cached: (m.len.load(Ordering::Relaxed) + m.far_len.load(Ordering::Relaxed) + depot::of(cpu).len())
            as u64,
    }
}

/// Frames that `cpu` has taken from the lists of NUMA node `n`.
pub(super) fn taken_from(cpu: machine::CpuId, n: usize) -> u64 {
    MAGAZINE.of(cpu).taken.get(n).map_or(0, |taken| taken.load(Ordering::Relaxed))
}

/// What `cpu` took of NUMA node `n` because policies said so.
pub(super) fn placed_from(cpu: machine::CpuId, n: usize) -> PlacedCounts {
    let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
    MAGAZINE.of(cpu).placed.get(n).map_or_else(PlacedCounts::default, |placed| PlacedCounts {
        hits: load(&placed.hits),
        misses: load(&placed.misses),
        lacks: load(&placed.lacks),
        interleaved: load(&placed.interleaved),
    })
}

/// Counts a frame of NUMA node `node` that was taken by `choice`.
pub(super) fn count_placed(node: usize, choice: &Choice) {
    let placed = &MAGAZINE.this().placed;
    let (node, wanted) = (node % MAX_NUMA_NODES, choice.wanted());
    if node == wanted {
        bump(&placed[node].hits);
        if choice.interleaves {
            bump(&placed[node].interleaved);
        }
    } else {
        bump(&placed[node].misses);
        bump(&placed[wanted].lacks);
    }
}

/// Takes a frame of NUMA node `node` that waits on this CPU for its way home, or was taken beforehand; its contents are unspecified.
pub(super) fn take_far(node: usize) -> Option<&'static Frame> {
    let m = MAGAZINE.this();
    // SAFETY: this CPU's magazine; the borrow ends before anything else touches it.
    let frame = unsafe { (&mut *m.far.get())[node % MAX_NUMA_NODES].pop() }?;
    m.far_len.store(m.far_len.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
    frame.mark_taken();
    Some(frame)
}

/// Keeps a free frame for [`take_far`].
pub(super) fn put_far(frame: &'static Frame) {
    give_far(MAGAZINE.this(), frame);
}

pub(super) fn cached_everywhere() -> u64 {
    (0..machine::cpus()).map(|cpu| counts_of(cpu).cached).sum()
}

/// Takes a frame; its contents are unspecified.
#[inline(always)]
pub(super) fn take() -> Option<&'static Frame> {
    crate::order::assert_no_node_locked();
    let m = MAGAZINE.this();
    let mut len = m.len.load(Ordering::Relaxed);
    if len == 0 {
        len = refill(m);
        if len == 0 {
            return None;
        }
    }
    m.len.store(len - 1, Ordering::Relaxed);
    // SAFETY: this CPU's magazine; no other reference to the cell exists while this one does.
    let number = unsafe { (&*m.frames.get())[(len - 1) % CAPACITY] };
    let frame = Frame::by_number(number);
    frame.mark_taken();
    Some(frame)
}

/// Gives a frame back.
#[inline]
pub(super) fn give(frame: &'static Frame) {
    crate::order::assert_no_node_locked();
    frame.mark_free();
    if super::poison::ON {
        frame.poison();
    }
    let m = MAGAZINE.this();
    if machine::nodes() > 1 && frame.numa_node() != machine::node_of(machine::cpu_id()) as usize {
        return give_far(m, frame);
    }
    let mut len = m.len.load(Ordering::Relaxed);
    if len == CAPACITY {
        len = spill(m);
    }
    // SAFETY: this CPU's magazine; no other reference to the cell exists while this one does.
    unsafe { (&mut *m.frames.get())[len % CAPACITY] = frame.number() };
    m.len.store(len + 1, Ordering::Relaxed);
}

/// Fills up to [`BATCH`] frames into the empty magazine; returns how many it has now.
#[cold]
fn refill(m: &Magazine) -> usize {
    // SAFETY: this CPU's magazine; nothing below touches it again before the borrow ends.
    let frames = unsafe { &mut (&mut *m.frames.get())[..BATCH] };
    let mut len = depot::this().take(frames);
    if len == 0 {
        len = from_numa_nodes(m, frames);
    }
    if len == 0 {
        // The last frames may be those this CPU holds back for other NUMA nodes.
        flush_far(m);
        len = from_numa_nodes(m, frames);
    }
    if len == 0 {
        len = depot::take_elsewhere(frames);
    }
    m.len.store(len, Ordering::Relaxed);
    len
}

/// Fills `out` from the lists of the NUMA nodes, this CPU's own first; returns how many frames.
fn from_numa_nodes(m: &Magazine, out: &mut [u32]) -> usize {
    let cpu = machine::cpu_id();
    let home = machine::node_of(cpu) as usize % MAX_NUMA_NODES;
    for n in (0..MAX_NUMA_NODES).map(|i| (home + i) % MAX_NUMA_NODES) {
        let mut len = colour::of_numa_node(n).take(cpu as usize % COLOURS, out);
        if len == 0 {
            len = buddy::of_numa_node(n).take_pages(out);
        }
        if len > 0 {
            bump(if n == home { &m.refills } else { &m.refills_far });
            // This CPU's counter alone.
            m.taken[n].store(m.taken[n].load(Ordering::Relaxed) + len as u64, Ordering::Relaxed);
            return len;
        }
    }
    0
}

/// Puts what this CPU keeps for itself alone where others can take it, and has every other CPU do the same when it next passes
/// [`follow_call`].
#[cold]
pub(super) fn call_back() {
    CALLS.fetch_add(1, Ordering::Relaxed);
    follow_call();
}

/// Was asked for what this CPU keeps since it last put it away?
#[inline]
pub(super) fn was_called() -> bool {
    !has_followed(machine::cpu_id())
}

/// Has `cpu` put away what it kept since the last call?
pub(super) fn has_followed(cpu: machine::CpuId) -> bool {
    MAGAZINE.of(cpu).followed.load(Ordering::Relaxed) == CALLS.load(Ordering::Relaxed)
}

/// Puts away what this CPU keeps, if that was asked for since the last time: the magazine's frames into the depot, those of other NUMA nodes
/// home.
pub(super) fn follow_call() {
    if was_called() {
        let m = MAGAZINE.this();
        let call = CALLS.load(Ordering::Relaxed);
        flush_far(m);
        // SAFETY: this CPU's magazine; the borrow ends here.
        depot::this().put(unsafe { &(&*m.frames.get())[..m.len.load(Ordering::Relaxed).min(CAPACITY)] });
        m.len.store(0, Ordering::Relaxed);
        m.followed.store(call, Ordering::Relaxed);
    }
}

/// Moves the oldest [`BATCH`] frames of the full magazine to the depot, or to the colour lists if that is full; returns how many are
/// left.
#[cold]
fn spill(m: &Magazine) -> usize {
    // SAFETY: this CPU's magazine; nothing below touches it again before the borrow ends.
    let frames = unsafe { &mut *m.frames.get() };
    let depot = depot::this();
    if depot.has_capacity(BATCH) {
        depot.put(&frames[..BATCH]);
    } else {
        let home = machine::node_of(machine::cpu_id()) as usize % MAX_NUMA_NODES;
        let mut chains = [Chain::EMPTY; COLOURS];
        for number in &frames[..BATCH] {
            let frame = Frame::by_number(*number);
            chains[colour::of(frame)].push(frame);
        }
        colour::of_numa_node(home).give(chains);
        bump(&m.spills);
    }
    frames.copy_within(BATCH.., 0);
    m.len.store(CAPACITY - BATCH, Ordering::Relaxed);
    CAPACITY - BATCH
}

#[cold]
fn give_far(m: &Magazine, frame: &'static Frame) {
    let numa_node = frame.numa_node() % MAX_NUMA_NODES;
    // SAFETY: this CPU's magazine; the borrow ends before anything else touches it.
    let chain = unsafe { &mut (&mut *m.far.get())[numa_node] };
    chain.push(frame);
    m.far_len.store(m.far_len.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    if chain.len() >= FAR_BATCH {
        let chain = core::mem::replace(chain, Chain::EMPTY);
        send_home(m, numa_node, chain);
    }
}

fn flush_far(m: &Magazine) {
    for numa_node in 0..MAX_NUMA_NODES {
        // SAFETY: as in `give_far`.
        let chain = unsafe { core::mem::replace(&mut (&mut *m.far.get())[numa_node], Chain::EMPTY) };
        if chain.len() > 0 {
            send_home(m, numa_node, chain);
        }
    }
}

fn send_home(m: &Magazine, numa_node: usize, mut chain: Chain) {
    m.far_len.store(m.far_len.load(Ordering::Relaxed) - chain.len(), Ordering::Relaxed);
    let mut chains = [Chain::EMPTY; COLOURS];
    while let Some(frame) = chain.pop() {
        chains[colour::of(frame)].push(frame);
    }
    colour::of_numa_node(numa_node).give(chains);
    bump(&m.spills);
}

/// Counts on this CPU: only the owner writes, so no locked instruction.
fn bump(count: &AtomicU64) {
    count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}
