//! The slots of an area: which are taken, and how many count each.
//!
//! They lie in clusters of 64. Each CPU takes slots from a cluster of its own, in order, so pages that go out together lie beside each other, and CPUs that write pages out
//! write no line in common but when one has used its cluster up. Slots are freed by whoever has the last count.
//!
//! Invariants: SlotCounted (protocol/swap.rs); CountLocal, but where a CPU takes another cluster. No locks.
#![forbid(unsafe_code)]

use crate::protocol::refs::Refs;
use crate::protocol::swap::Taken;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::{
    AtomicBool, AtomicU32,
    Ordering::{AcqRel, Relaxed, Release},
};
use sync::heap::{TryVec, try_box_slice, try_vec};
use sync::percpu::Padded;
use sync::{AllocError, machine};

/// Slots of a cluster.
const CLUSTER: u32 = 64;
/// Clusters that lie in one block of memory.
const CHUNK: u32 = 32;

#[repr(align(64))]
struct Cluster {
    taken: Taken,
    /// A CPU has it for its own.
    is_owned: AtomicBool,
    counts: [Refs; CLUSTER as usize],
}

impl Cluster {
    fn new(taken: u64) -> Self {
        Self {
            taken: Taken::new(taken),
            is_owned: AtomicBool::new(false),
            counts: [const { Refs::new(0) }; CLUSTER as usize],
        }
    }
}

pub(super) struct SlotMap {
    chunks: Vec<Box<[Cluster]>>,
    clusters: u32,
    slots: u32,
    /// The cluster that each CPU takes from, plus one; 0: none yet.
    current: Box<[Padded<AtomicU32>]>,
    /// From where on a cluster is looked for next.
    hand: AtomicU32,
    /// A guess: nobody has freed a slot since somebody found none.
    is_full: AtomicBool,
}

impl SlotMap {
    /// Of slots 0 to `slots`; number 0 is never given out, since a device may say there what it is.
    pub fn try_new(slots: u32) -> Result<Self, AllocError> {
        let clusters = slots.div_ceil(CLUSTER);
        let mut chunks = try_vec(clusters.div_ceil(CHUNK) as usize)?;
        let end = u64::from(slots);
        for first in (0..clusters).step_by(CHUNK as usize) {
            let len = CHUNK.min(clusters.saturating_sub(first)) as usize;
            let chunk = try_box_slice(len, |n| {
                let base = u64::from(first).saturating_add(n as u64).saturating_mul(CLUSTER.into());
                let is_there = |bit: &u64| (1..end).contains(&base.saturating_add(*bit));
                Cluster::new(
                    (0..u64::from(CLUSTER)).filter(|bit| !is_there(bit)).fold(0, |all, bit| all | 1 << bit),
                )
            })?;
            chunks.push_reserved(chunk).map_err(|_| AllocError)?;
        }
        let current = try_box_slice(machine::cpus() as usize, |_| Padded(AtomicU32::new(0)))?;
        let (hand, is_full) = (AtomicU32::new(0), AtomicBool::new(false));
        Ok(Self { chunks, clusters, slots, current, hand, is_full })
    }

    /// With number 0, which is never given out.
    pub fn len(&self) -> u32 {
        self.slots
    }

    fn cluster(&self, number: u32) -> Option<&Cluster> {
        self.chunks.get((number / CHUNK) as usize)?.get((number % CHUNK) as usize)
    }

    fn bits(&self, number: u32) -> u64 {
        self.cluster(number).map_or(u64::MAX, |cluster| cluster.taken.bits())
    }

    /// The count of a slot.
    pub fn count(&self, slot: u32) -> Option<&Refs> {
        self.cluster(slot / CLUSTER)?.counts.get((slot % CLUSTER) as usize)
    }

    /// Is the slot one that somebody has taken?
    pub fn is_taken(&self, slot: u32) -> bool {
        (1..self.slots).contains(&slot) && self.bits(slot / CLUSTER) >> (slot % CLUSTER) & 1 != 0
    }

    /// How many are taken.
    pub fn taken(&self) -> u32 {
        let all = (0..self.clusters).map(|number| self.bits(number).count_ones()).sum::<u32>();
        // Number 0, and what lies beyond the end.
        all.saturating_sub(self.clusters.saturating_mul(CLUSTER).saturating_sub(self.slots)).saturating_sub(1)
    }

    /// Takes a slot, with a count of one. None: there is none.
    pub fn take(&self) -> Option<u32> {
        if self.is_full.load(Relaxed) {
            return None;
        }
        let current = self.current.get(machine::cpu_id() as usize % self.current.len().max(1))?;
        loop {
            let own = current.load(Relaxed).checked_sub(1);
            if let Some(slot) = own.and_then(|own| self.take_in(own)) {
                return Some(slot);
            }
            match self.claim() {
                Some(next) => {
                    current.store(next.saturating_add(1), Relaxed);
                    if let Some(left) = own.and_then(|own| self.cluster(own)) {
                        left.is_owned.store(false, Release);
                    }
                }
                None => break,
            }
        }
        // What is left is in clusters of other CPUs.
        let slot = (0..self.clusters).find_map(|number| self.take_in(number));
        if slot.is_none() {
            self.is_full.store(true, Relaxed);
        }
        slot
    }

    fn take_in(&self, number: u32) -> Option<u32> {
        let cluster = self.cluster(number)?;
        let slot = cluster.taken.take()?;
        cluster.counts.get(slot as usize)?.begin();
        Some(number.wrapping_mul(CLUSTER).wrapping_add(slot))
    }

    /// A cluster with free slots that no CPU has for its own: one that is all free, if there is such a one. It is the caller's now.
    fn claim(&self) -> Option<u32> {
        let from = self.hand.load(Relaxed);
        let claim = |wanted: fn(u64) -> bool| {
            let numbers = (from..self.clusters).chain(0..from.min(self.clusters));
            numbers.into_iter().find(|number| {
                wanted(self.bits(*number))
                    && self.cluster(*number).is_some_and(|cluster| !cluster.is_owned.swap(true, AcqRel))
            })
        };
        let found = claim(|taken| taken == 0).or_else(|| claim(|taken| taken != u64::MAX))?;
        self.hand.store(found.saturating_add(1), Relaxed);
        Some(found)
    }

    /// Nobody counts the slot any more.
    pub fn free(&self, slot: u32) {
        if let Some(cluster) = self.cluster(slot / CLUSTER) {
            cluster.taken.free(slot % CLUSTER);
        }
        if self.is_full.load(Relaxed) {
            self.is_full.store(false, Relaxed);
        }
    }

    /// Counts of all slots that are taken, added up. What changes meanwhile may be missed.
    pub fn counted(&self) -> u64 {
        let slots = (1..self.slots).filter(|slot| self.is_taken(*slot));
        slots.filter_map(|slot| self.count(slot)).map(|count| u64::from(count.count())).sum()
    }
}
