//! Per-CPU magazines: the fast path of the allocator, no lock and no shared line.
//!
//! Behind the magazine lies the CPU's depot: frames it has given back before, in a chain through their metadata. A program that
//! frees and takes many pages again and again gets its own pages back, which no other CPU has touched meanwhile. Only what
//! the depot does not hold any more goes to the node's lists.
//!
//! Only the owning CPU touches a magazine's contents (kernel code is not preempted and interrupt handlers do not
//! allocate); its counts may be read by anybody. Batches move between a magazine and the colour lists of the nodes.

use super::colour::{self, COLOURS, Chain};
use super::{Frame, MAX_NODES, buddy};
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use sync::machine;
use sync::per_cpu;

/// Frames a magazine holds at most: 512 KiB of pages.
const CAPACITY: usize = 128;
/// Frames moved at a time.
pub(super) const BATCH: usize = 64;
/// Frames in a depot at most: 16 MiB of pages, and never so much that all depots together hold an eighth of memory.
const DEPOT: usize = 4096;
/// Frames of another node that wait before they go home together.
const FAR_BATCH: usize = 32;

#[repr(align(64))]
struct Magazine {
    len: AtomicUsize,
    frames: UnsafeCell<[u32; CAPACITY]>,
    depot: UnsafeCell<Chain>,
    depot_len: AtomicUsize,
    far: UnsafeCell<[Chain; MAX_NODES]>,
    far_len: AtomicUsize,
    refills: AtomicU64,
    refills_far: AtomicU64,
    spills: AtomicU64,
    /// The last call to give back that this CPU has followed.
    followed: AtomicUsize,
}

// SAFETY: the cells are touched by the owning CPU alone (see the head of the file); the rest is atomic.
unsafe impl Sync for Magazine {}

/// How often CPUs were called to give back what their depots hold. Written only when memory or large blocks are out.
static CALLS: AtomicUsize = AtomicUsize::new(0);

per_cpu! {
    static MAGAZINE: Magazine = Magazine {
        len: AtomicUsize::new(0),
        frames: UnsafeCell::new([0; CAPACITY]),
        depot: UnsafeCell::new(Chain::EMPTY),
        depot_len: AtomicUsize::new(0),
        far: UnsafeCell::new([Chain::EMPTY; MAX_NODES]),
        far_len: AtomicUsize::new(0),
        refills: AtomicU64::new(0),
        refills_far: AtomicU64::new(0),
        spills: AtomicU64::new(0),
        followed: AtomicUsize::new(0),
    };
}

/// One CPU's dealings with the node lists, in batches.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuFrameCounts {
    /// Batches taken from the CPU's own node.
    pub refills: u64,
    /// Batches taken from another node.
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
        cached: [&m.len, &m.depot_len, &m.far_len].iter().map(|n| n.load(Ordering::Relaxed) as u64).sum(),
    }
}

pub(super) fn cached_everywhere() -> u64 {
    (0..machine::cpus()).map(|cpu| counts_of(cpu).cached).sum()
}

/// Takes a frame; its contents are unspecified.
#[inline]
pub(super) fn take() -> Option<&'static Frame> {
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
    frame.mark_free();
    let m = MAGAZINE.this();
    if machine::nodes() > 1 && frame.node() != machine::node_of(machine::cpu_id()) as usize {
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
    let cpu = machine::cpu_id() as usize;
    let home = machine::node_of(cpu as u32) as usize % MAX_NODES;
    // SAFETY: this CPU's magazine; nothing below touches it again before the borrow ends.
    let frames = unsafe { &mut *m.frames.get() };
    let own = from_depot(m, &mut frames[..BATCH]);
    if own > 0 {
        m.len.store(own, Ordering::Relaxed);
        return own;
    }
    for n in (0..MAX_NODES).map(|i| (home + i) % MAX_NODES) {
        let mut len = colour::node(n).take(cpu % COLOURS, &mut frames[..BATCH]);
        if len == 0 {
            len = buddy::node(n).take_pages(&mut frames[..BATCH]);
        }
        if len > 0 {
            bump(if n == home { &m.refills } else { &m.refills_far });
            m.len.store(len, Ordering::Relaxed);
            return len;
        }
    }
    // The last frames may be those this CPU holds back for other nodes.
    flush_far(m);
    (0..MAX_NODES)
        .find_map(|n| match colour::node(n).take(cpu % COLOURS, &mut frames[..BATCH]) {
            0 => None,
            len => Some(len),
        })
        .inspect(|len| m.len.store(*len, Ordering::Relaxed))
        .unwrap_or(0)
}

/// Fills `out` from the depot; returns how many frames.
fn from_depot(m: &Magazine, out: &mut [u32]) -> usize {
    // SAFETY: this CPU's depot; nothing below touches it again before the borrow ends.
    let depot = unsafe { &mut *m.depot.get() };
    let mut taken = 0;
    for place in out.iter_mut() {
        let Some(frame) = depot.pop() else { break };
        *place = frame.number();
        taken += 1;
    }
    m.depot_len.store(depot.len(), Ordering::Relaxed);
    taken
}

/// Gives this CPU's depot to the node's lists, and has every other CPU do the same when it next passes [`follow_call`].
#[cold]
pub(super) fn call_back() {
    CALLS.fetch_add(1, Ordering::Relaxed);
    follow_call();
}

/// Was asked for what this CPU keeps since it last gave it back?
#[inline]
pub(super) fn was_called() -> bool {
    MAGAZINE.this().followed.load(Ordering::Relaxed) != CALLS.load(Ordering::Relaxed)
}

/// Gives this CPU's depot to the node's lists, if that was asked for since the last time.
pub(super) fn follow_call() {
    if was_called() {
        let m = MAGAZINE.this();
        m.followed.store(CALLS.load(Ordering::Relaxed), Ordering::Relaxed);
        empty_depot(m);
    }
}

#[cold]
fn empty_depot(m: &Magazine) {
    flush_far(m);
    // SAFETY: this CPU's depot; the borrow ends here.
    let mut depot = core::mem::replace(unsafe { &mut *m.depot.get() }, Chain::EMPTY);
    m.depot_len.store(0, Ordering::Relaxed);
    // Whatever came in here is of this CPU's node: see `give`.
    let home = machine::node_of(machine::cpu_id()) as usize % MAX_NODES;
    let mut chains = [Chain::EMPTY; COLOURS];
    while let Some(frame) = depot.pop() {
        chains[colour::of(frame)].push(frame);
    }
    colour::node(home).give(chains);
    bump(&m.spills);
}

/// How many frames this machine's depots may hold each.
fn depot_limit() -> usize {
    DEPOT.min(super::total_frames() as usize / (8 * machine::cpus() as usize))
}

/// Moves the oldest [`BATCH`] frames of the full magazine to the depot, or to the colour lists if that is full; returns how many are
/// left.
#[cold]
fn spill(m: &Magazine) -> usize {
    // SAFETY: this CPU's magazine; nothing below touches it again before the borrow ends.
    let frames = unsafe { &mut *m.frames.get() };
    if m.depot_len.load(Ordering::Relaxed) + BATCH <= depot_limit() {
        // SAFETY: this CPU's depot; nothing below touches it again before the borrow ends.
        let depot = unsafe { &mut *m.depot.get() };
        for number in &frames[..BATCH] {
            depot.push(Frame::by_number(*number));
        }
        m.depot_len.store(depot.len(), Ordering::Relaxed);
        frames.copy_within(BATCH.., 0);
        m.len.store(CAPACITY - BATCH, Ordering::Relaxed);
        return CAPACITY - BATCH;
    }
    let home = machine::node_of(machine::cpu_id()) as usize % MAX_NODES;
    let mut chains = [Chain::EMPTY; COLOURS];
    for number in &frames[..BATCH] {
        let frame = Frame::by_number(*number);
        chains[colour::of(frame)].push(frame);
    }
    frames.copy_within(BATCH.., 0);
    m.len.store(CAPACITY - BATCH, Ordering::Relaxed);
    colour::node(home).give(chains);
    bump(&m.spills);
    CAPACITY - BATCH
}

#[cold]
fn give_far(m: &Magazine, frame: &'static Frame) {
    let node = frame.node() % MAX_NODES;
    // SAFETY: this CPU's magazine; the borrow ends before anything else touches it.
    let chain = unsafe { &mut (&mut *m.far.get())[node] };
    chain.push(frame);
    m.far_len.store(m.far_len.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    if chain.len() >= FAR_BATCH {
        let chain = core::mem::replace(chain, Chain::EMPTY);
        send_home(m, node, chain);
    }
}

fn flush_far(m: &Magazine) {
    for node in 0..MAX_NODES {
        // SAFETY: as in `give_far`.
        let chain = unsafe { core::mem::replace(&mut (&mut *m.far.get())[node], Chain::EMPTY) };
        if chain.len() > 0 {
            send_home(m, node, chain);
        }
    }
}

fn send_home(m: &Magazine, node: usize, mut chain: Chain) {
    m.far_len.store(m.far_len.load(Ordering::Relaxed) - chain.len(), Ordering::Relaxed);
    let mut chains = [Chain::EMPTY; COLOURS];
    while let Some(frame) = chain.pop() {
        chains[colour::of(frame)].push(frame);
    }
    colour::node(node).give(chains);
    bump(&m.spills);
}

/// Counts on this CPU: only the owner writes, so no locked instruction.
fn bump(count: &AtomicU64) {
    count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}
