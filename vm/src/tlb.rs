//! Which CPUs may hold translations of a space, and how they are made to forget them.
//!
//! Invariants: MaskBeforeRoot (protocol/mask.rs, with the reason why no flush is lost). A CPU that went on to another space stays in the
//! mask and keeps its address-space id: the next switch back finds its translations, unless they were to be flushed meanwhile. A CPU that is elsewhere, or runs no
//! program, is not interrupted: it is marked, and flushes when it comes back.
//!
//! Lock order: none taken. The per-CPU state is touched by its CPU with interrupts disabled.
//!
//! A low room: it loads roots.

use crate::addr::PhysAddr;
use crate::machine::{Asid, CpuSet, FlushCause, FlushRange, Machine};
use crate::protocol::mask::{Kept, Loaded, SpaceCpus};
use alloc::sync::Arc;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use sync::rcu::RcuHead;
use sync::{AllocError, Count, machine, per_cpu, try_arc};

/// Address-space ids that one CPU keeps apart at most.
pub const MAX_ASIDS: usize = 7;

/// This CPU's view of address spaces.
#[repr(align(64))]
struct CpuTlb {
    /// The space whose root is loaded; others read it when they flush.
    loaded: Loaded,
    /// Space whose translations are cached under address-space id `i + 1`; 0: none.
    owners: [AtomicU64; MAX_ASIDS],
    /// Next address-space id to give away.
    next: AtomicUsize,
    /// The slot that was asked for last.
    last: AtomicUsize,
}

impl CpuTlb {
    const fn new() -> Self {
        Self {
            loaded: Loaded::new(),
            owners: [const { AtomicU64::new(0) }; MAX_ASIDS],
            next: AtomicUsize::new(0),
            last: AtomicUsize::new(0),
        }
    }

    /// The address-space id of `space` on this CPU.
    fn find<M: Machine>(&self, space: u64) -> Option<Asid> {
        let owners = self.owners.get(..M::ASIDS).unwrap_or(&self.owners);
        let is_owner = |owner: &AtomicU64| owner.load(Ordering::Relaxed) == space;
        let mut slot = self.last.load(Ordering::Relaxed);
        if !owners.get(slot).is_some_and(is_owner) {
            slot = owners.iter().position(is_owner)?;
            self.last.store(slot, Ordering::Relaxed);
        }
        Some(Asid { number: slot as u16 + 1, flush: M::ASIDS == 1 })
    }

    /// The address-space id of `space`, taken from another space where need be.
    fn find_or_take<M: Machine>(&self, space: u64) -> Asid {
        if let Some(asid) = self.find::<M>(space) {
            return asid;
        }
        let slot = self.next.load(Ordering::Relaxed) % M::ASIDS.clamp(1, MAX_ASIDS);
        self.next.store(slot + 1, Ordering::Relaxed);
        self.owners[slot % MAX_ASIDS].store(space, Ordering::Relaxed);
        self.last.store(slot, Ordering::Relaxed);
        Asid { number: slot as u16 + 1, flush: true }
    }

    fn forget(&self, space: u64) {
        for owner in &self.owners {
            if owner.load(Ordering::Relaxed) == space {
                owner.store(0, Ordering::Relaxed);
            }
        }
    }
}

/// Flushes of one cause that one CPU began.
pub struct CauseCounts {
    /// Those that interrupted others, and how many CPUs they asked.
    pub sent: Count,
    pub asked: Count,
    /// CPUs that had not to be asked, as they flush when they come back.
    pub spared: Count,
}

impl CauseCounts {
    const fn new() -> Self {
        Self { sent: Count::new(), asked: Count::new(), spared: Count::new() }
    }
}

/// TLB traffic of one CPU.
pub struct TlbCounts {
    /// Flushes of all of this CPU's own translations, and pages of its other flushes.
    pub local_all: Count,
    pub local_pages: Count,
    /// By [`FlushCause`].
    pub causes: [CauseCounts; FlushCause::ALL.len()],
    /// Requests answered.
    pub received: Count,
}

impl TlbCounts {
    #[inline]
    fn count_local<M: Machine>(&self, range: &FlushRange) {
        match range.pages() {
            pages if pages <= M::SINGLE_FLUSHES => self.local_pages.add(pages as u64),
            _ => self.local_all.add(1),
        }
    }

    fn of(&self, cause: FlushCause) -> &CauseCounts {
        &self.causes[cause as usize]
    }
}

per_cpu! {
    static TLB: CpuTlb = CpuTlb::new();
}
per_cpu! {
    /// TLB traffic, for /proc.
    pub static TLB_COUNTS: TlbCounts = TlbCounts {
        local_all: Count::new(),
        local_pages: Count::new(),
        causes: [const { CauseCounts::new() }; FlushCause::ALL.len()],
        received: Count::new(),
    };
}
per_cpu! {
    static NEXT_ID: Count = Count::new();
}

/// What other CPUs need to know of a space. It outlives the space by a grace period (node::Sharer).
pub struct SpaceTlb {
    id: u64,
    cpus: SpaceCpus<{ CpuSet::WORDS }>,
    rcu: RcuHead,
}

sync::rcu_object!(SpaceTlb);

/// A space's own. Dropped, it waits for a grace period: who visits a leaf may have found the space there.
pub struct OwnTlb(ManuallyDrop<Arc<SpaceTlb>>);

impl OwnTlb {
    pub(crate) fn try_new() -> Result<Self, AllocError> {
        Ok(Self(ManuallyDrop::new(try_arc(SpaceTlb::new())?)))
    }
}

impl Deref for OwnTlb {
    type Target = SpaceTlb;
    #[inline]
    fn deref(&self) -> &SpaceTlb {
        &self.0
    }
}

impl Drop for OwnTlb {
    fn drop(&mut self) {
        // SAFETY: taken out once, here.
        sync::rcu::defer_arc(unsafe { ManuallyDrop::take(&mut self.0) });
    }
}

/// A flush on its way to other CPUs.
pub struct FlushRequest<'a> {
    space: &'a SpaceTlb,
    pub range: FlushRange,
    /// The space is dying: whoever has its root loaded takes the kernel's instead.
    leave: bool,
}

impl FlushRequest<'_> {
    /// No CPU must do more than drop translations of [`Self::range`]: whoever does that for it spares it the answer.
    pub fn only_drops(&self) -> bool {
        !self.leave
    }

    /// Does what is asked, on a CPU that was asked. Called from the interrupt handler, interrupts disabled.
    pub fn answer<M: Machine>(&self) {
        TLB_COUNTS.this().received.add(1);
        self.space.handle_flush::<M>(self, machine::cpu_id());
    }

    /// [`Self::answer`] on behalf of `cpu`: hosted CPUs are threads, which take no interrupts. `M` acts as that CPU meanwhile, in
    /// `sync::machine::hosted::interrupt`, so that the CPU's own loading of roots is excluded.
    #[cfg(not(target_os = "none"))]
    pub fn answer_as<M: Machine>(&self, cpu: sync::CpuId) {
        self.space.handle_flush::<M>(self, cpu);
    }
}

impl SpaceTlb {
    /// A new identity; ids are never used twice (64 bits, from per-CPU sequences).
    fn new() -> Self {
        let counter = NEXT_ID.this();
        counter.add(1);
        Self {
            id: counter.get() * sync::MAX_CPUS as u64 + u64::from(machine::cpu_id()),
            cpus: SpaceCpus::new(),
            rcu: RcuHead::new(),
        }
    }

    pub fn id(&self) -> u64 {
        self.id
    }

    /// CPUs that may have the space loaded, by its root or a view.
    pub fn cpus(&self) -> CpuSet {
        CpuSet(self.cpus.all())
    }

    /// Does `cpu` translate through a view of its own?
    #[inline]
    pub(crate) fn has_view(&self, cpu: sync::CpuId) -> bool {
        self.cpus.has_view(cpu)
    }

    /// Is the space loaded on this CPU?
    pub(crate) fn is_loaded(&self) -> bool {
        TLB.this().loaded.runs(self.id)
    }

    /// Loads `root`.
    ///
    /// # Safety
    /// It is this CPU's view of the space if it has one, else the space's own root. These tables stay until a [`Self::leave_everywhere`] that begins
    /// after this has returned.
    pub(crate) unsafe fn switch_in<M: Machine>(&self, root: PhysAddr) {
        let irq = machine::irq_save();
        let tlb = TLB.this();
        if !tlb.loaded.runs(self.id) {
            self.cpus.come(machine::cpu_id(), &tlb.loaded, self.id, |kept| {
                if kept != Kept::Root {
                    let mut asid = tlb.find_or_take::<M>(self.id);
                    asid.flush |= kept == Kept::Stale;
                    // SAFETY: the tables stay until all CPUs have left, as the caller says.
                    unsafe { M::load_root(root, asid) };
                }
            });
        }
        machine::irq_restore(irq);
    }

    /// From now on this CPU, on which the space is loaded, translates through the view at `root`, which leads nowhere yet. Nothing happens if
    /// the space is not loaded here.
    ///
    /// # Safety
    /// It is a view of the space, and stays until a [`Self::leave_everywhere`] has returned that makes the CPU leave.
    pub(crate) unsafe fn enter_view<M: Machine>(&self, root: PhysAddr) {
        let irq = machine::irq_save();
        let (tlb, cpu) = (TLB.this(), machine::cpu_id());
        if tlb.loaded.runs(self.id) && !self.cpus.has_view(cpu) {
            self.cpus.enter_view(cpu, || {
                // What was cached through the space's root must not be used any more: as if the id were new here.
                tlb.forget(self.id);
                let asid = tlb.find_or_take::<M>(self.id);
                // SAFETY: as above.
                unsafe { M::load_root(root, asid) };
            });
        }
        machine::irq_restore(irq);
    }

    /// Might a CPU other than this one hold translations through a leaf that `viewers` link to? To be asked after the entries were
    /// changed.
    #[inline]
    pub(crate) fn others(&self, viewers: &CpuSet) -> bool {
        let mut cpus = CpuSet(self.cpus.to_flush(viewers.0));
        cpus.remove(machine::cpu_id());
        !cpus.is_empty()
    }

    /// Is another CPU likely to be interrupted by a flush of leaves that `viewers` link to?
    #[inline]
    pub(crate) fn is_used_elsewhere(&self, viewers: &CpuSet) -> bool {
        let mut cpus = CpuSet(self.cpus.may_translate(viewers.0));
        cpus.remove(machine::cpu_id());
        !cpus.is_empty()
    }

    /// Returns when no CPU uses a translation of `range`, which lies in leaves that `viewers` link to, that was made before the
    /// call. `tables`: nor a pointer to a table that was taken out there. No leaf is locked.
    pub(crate) fn flush<M: Machine>(
        &self,
        range: FlushRange,
        viewers: &CpuSet,
        tables: bool,
        cause: FlushCause,
    ) {
        let cpus = CpuSet(self.cpus.to_flush(viewers.0));
        self.send::<M>(&FlushRequest { space: self, range, leave: false }, cpus, tables, cause);
    }

    /// Drops this CPU's translations of `range`.
    #[cold]
    pub(crate) fn flush_here<M: Machine>(&self, range: FlushRange) {
        let irq = machine::irq_save();
        TLB_COUNTS.this().count_local::<M>(&range);
        self.handle_flush::<M>(&FlushRequest { space: self, range, leave: false }, machine::cpu_id());
        machine::irq_restore(irq);
    }

    /// As `flush`, of all leaves.
    pub(crate) fn flush_all<M: Machine>(&self, range: FlushRange, cause: FlushCause) {
        let cpus = CpuSet(self.cpus.all_to_flush());
        self.send::<M>(&FlushRequest { space: self, range, leave: false }, cpus, false, cause);
    }

    /// Returns when no CPU has the root or a view loaded. The space is not switched to any more, so that translations under its
    /// address-space ids are dead: an id is flushed before another space uses it.
    pub(crate) fn leave_everywhere<M: Machine>(&self) {
        let cpus = CpuSet(self.cpus.all_to_flush());
        let request = FlushRequest { space: self, range: FlushRange::ALL, leave: true };
        self.send::<M>(&request, cpus, true, FlushCause::Exit);
    }

    fn send<M: Machine>(&self, request: &FlushRequest, mut cpus: CpuSet, tables: bool, cause: FlushCause) {
        let irq = machine::irq_save();
        let cpu = machine::cpu_id();
        if cpus.contains(cpu) {
            TLB_COUNTS.this().count_local::<M>(&request.range);
            self.handle_flush::<M>(request, cpu);
        }
        machine::irq_restore(irq);
        cpus.remove(cpu);
        if !cpus.is_empty() {
            self.ask_others::<M>(request, cpus, tables, cause);
        }
    }

    #[cold]
    fn ask_others<M: Machine>(
        &self,
        request: &FlushRequest,
        mut cpus: CpuSet,
        tables: bool,
        cause: FlushCause,
    ) {
        let counts = TLB_COUNTS.this().of(cause);
        for cpu in { cpus }.iter() {
            let loaded = &TLB.of(cpu).loaded;
            let asked = if request.leave {
                self.cpus.must_leave(loaded, self.id)
            } else {
                self.cpus.must_ask(cpu, loaded, self.id, tables)
            };
            if !asked {
                cpus.remove(cpu);
                counts.spared.add(1);
            }
        }
        if !cpus.is_empty() {
            counts.sent.add(1);
            counts.asked.add(cpus.iter().count() as u64);
            M::flush_remote(&cpus, request);
        }
    }

    fn handle_flush<M: Machine>(&self, request: &FlushRequest, cpu: sync::CpuId) {
        let tlb = if cfg!(target_os = "none") { TLB.this() } else { TLB.of(cpu) };
        if tlb.loaded.runs(self.id) && !request.leave {
            if let Some(asid) = tlb.find::<M>(self.id) {
                M::flush_local(asid, &request.range);
            }
            return;
        }
        if tlb.loaded.has(self.id) {
            M::load_kernel_root();
            tlb.loaded.leave();
        }
        tlb.forget(self.id);
        self.cpus.go(cpu);
    }
}

/// This CPU runs no program until the next [`crate::Space::switch_in`]: it uses no address of one, and who flushes need not interrupt it. Interrupts are disabled.
#[inline]
pub fn rest() {
    TLB.this().loaded.rest();
}
