//! Who waits for locks: what each CPU has lost waiting, and while it is switched on how much by lock class and caller.
//!
//! Everything here is written after a wait, by the CPU that waited, with interrupts disabled: a handler that waits for a lock of its own does not come
//! between. A lock that is free never comes here, so nothing is paid where nobody waits. Readers take no lock and write nothing.
//!
//! What is counted by caller lies in a table of [`PLACES`] places for each CPU, which the first switching-on makes and nobody frees. A wait that finds no
//! place is counted as lost.

use super::class::Class;
use crate::AllocError;
use crate::heap::TryVec;
use crate::machine::{self, CpuId};
use crate::per_cpu;
use crate::percpu::Count;
use crate::protocol::sequence::{Sequence, Word};
use alloc::vec::Vec;
use core::panic::Location;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering::Relaxed};

/// Pairs of class and caller that one CPU keeps apart: more than the kernel has that two CPUs ever met at.
const PLACES: usize = 256;
/// Places that a pair may lie in.
const PROBES: usize = 16;

/// One CPU's waits for locks of all classes.
#[repr(align(64))]
struct CpuWaits {
    spins: Count,
    spun: Count,
    sleeps: Count,
    slept: Count,
    /// The last wait: class, caller, holder plus one, which are read together.
    sequence: Sequence,
    last: [Word; 3],
    /// [`PLACES`] places, for good; null: it was never switched on.
    table: AtomicPtr<Place>,
    lost: Count,
}

per_cpu! {
    static WAITS: CpuWaits = CpuWaits {
        spins: Count::new(),
        spun: Count::new(),
        sleeps: Count::new(),
        slept: Count::new(),
        sequence: Sequence::new(),
        last: [const { Word::new() }; 3],
        table: AtomicPtr::new(ptr::null_mut()),
        lost: Count::new(),
    };
}

/// Are waits counted by caller?
static COUNTED: AtomicBool = AtomicBool::new(false);

/// Waits of one CPU for locks of one class that one caller wanted.
#[derive(Default)]
struct Place {
    class: AtomicPtr<Class>,
    caller: AtomicPtr<Location<'static>>,
    spins: Count,
    spun: Count,
    sleeps: Count,
    slept: Count,
    longest_spin: Count,
    longest_sleep: Count,
    /// Who held the lock when the longest of those waits began that know it, plus one; 0: none does.
    holder: AtomicU32,
}

/// A wait that is over.
pub(super) struct Wait {
    pub class: &'static Class,
    pub caller: &'static Location<'static>,
    pub cycles: u64,
    pub slept: bool,
    /// A CPU's number plus one, or 0.
    pub holder: u32,
}

/// Counts a wait on this CPU.
pub(super) fn note(wait: &Wait) {
    let irq = machine::irq_save();
    let waits = WAITS.this();
    let (times, cycles) =
        if wait.slept { (&waits.sleeps, &waits.slept) } else { (&waits.spins, &waits.spun) };
    times.add(1);
    cycles.add(wait.cycles);
    waits.sequence.write(|| {
        let words = [ptr::from_ref(wait.class) as u64, ptr::from_ref(wait.caller) as u64, wait.holder.into()];
        waits.last.iter().zip(words).for_each(|(to, word)| to.store(word));
    });
    if COUNTED.load(Relaxed) {
        count(waits, wait);
    }
    machine::irq_restore(irq);
}

fn count(waits: &CpuWaits, wait: &Wait) {
    match places(waits).and_then(|places| find(places, wait)) {
        Some(place) => place.add(wait),
        None => waits.lost.add(1),
    }
}

fn places(waits: &CpuWaits) -> Option<&'static [Place]> {
    let first = waits.table.load(core::sync::atomic::Ordering::Acquire);
    // SAFETY: null, or the first of the places that `make_table` leaked.
    (!first.is_null()).then(|| unsafe { core::slice::from_raw_parts(first, PLACES) })
}

/// The place of the pair, a new one if it has none yet. None: all that it may have are taken.
fn find<'a>(places: &'a [Place], wait: &Wait) -> Option<&'a Place> {
    let (class, caller) = (ptr::from_ref(wait.class), ptr::from_ref(wait.caller));
    // Both lie aligned in the kernel's image: the low bits say little.
    let start = (class.addr() >> 6).wrapping_mul(31).wrapping_add(caller.addr() >> 3);
    (0..PROBES).find_map(|probe| {
        let place = places.get(start.wrapping_add(probe) % PLACES)?;
        if place.class.load(Relaxed).is_null() {
            place.caller.store(caller.cast_mut(), Relaxed);
            place.class.store(class.cast_mut(), Relaxed);
        }
        let is_its = ptr::eq(place.class.load(Relaxed), class) && ptr::eq(place.caller.load(Relaxed), caller);
        is_its.then_some(place)
    })
}

impl Place {
    fn add(&self, wait: &Wait) {
        let (times, cycles, longest) = if wait.slept {
            (&self.sleeps, &self.slept, &self.longest_sleep)
        } else {
            (&self.spins, &self.spun, &self.longest_spin)
        };
        times.add(1);
        cycles.add(wait.cycles);
        if longest.max(wait.cycles) && wait.holder != 0 {
            self.holder.store(wait.holder, Relaxed);
        }
    }

    fn reset(&self) {
        let times = [&self.spins, &self.spun, &self.longest_spin];
        for count in times.into_iter().chain([&self.sleeps, &self.slept, &self.longest_sleep]) {
            count.set(0);
        }
        self.holder.store(0, Relaxed);
    }
}

/// Counts waits by class and caller from now on, and from zero. A wait that ends at this moment may be counted or not. May be called by several at once.
///
/// # Errors
/// [`AllocError`]: there is no memory for the tables; nothing has changed.
pub fn switch_on() -> Result<(), AllocError> {
    for waits in WAITS.iter() {
        if waits.table.load(Relaxed).is_null() {
            make_table(waits)?;
        }
    }
    for waits in WAITS.iter() {
        places(waits).into_iter().flatten().for_each(Place::reset);
        waits.lost.set(0);
    }
    COUNTED.store(true, Relaxed);
    Ok(())
}

fn make_table(waits: &CpuWaits) -> Result<(), AllocError> {
    let mut table = Vec::new();
    table.try_reserve_exact(PLACES).map_err(|_| AllocError)?;
    for _ in 0..PLACES {
        table.try_push(Place::default())?;
    }
    let mut table = core::mem::ManuallyDrop::new(table);
    let (first, capacity) = (table.as_mut_ptr(), table.capacity());
    let order = core::sync::atomic::Ordering::AcqRel;
    if waits.table.compare_exchange(ptr::null_mut(), first, order, Relaxed).is_err() {
        // SAFETY: the vector's own parts, which nobody else has: another caller's table stands there.
        drop(unsafe { Vec::from_raw_parts(first, PLACES, capacity) });
    }
    Ok(())
}

/// Counts no more. What was counted stays, to be read.
pub fn switch_off() {
    COUNTED.store(false, Relaxed);
}

/// Are waits counted by caller?
pub fn is_on() -> bool {
    COUNTED.load(Relaxed)
}

/// Waits that found no place.
pub fn lost() -> u64 {
    WAITS.iter().map(|waits| waits.lost.get()).sum()
}

/// What one CPU has lost waiting for locks since boot. Times are cycles.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lost {
    pub spins: u64,
    pub spun: u64,
    pub sleeps: u64,
    pub slept: u64,
    pub last: Option<Last>,
}

/// The last lock that a CPU waited for.
#[derive(Clone, Copy, Debug)]
pub struct Last {
    pub class: &'static str,
    pub caller: &'static Location<'static>,
    /// Who held it when the wait began, where the lock knows.
    pub holder: Option<CpuId>,
}

/// What `cpu` has lost.
pub fn lost_by(cpu: CpuId) -> Lost {
    let waits = WAITS.of(cpu);
    let words = waits.sequence.read(|| [0, 1, 2].map(|n| waits.last[n].load()));
    let last = words.and_then(|[class, caller, holder]| {
        let class = ptr::with_exposed_provenance::<Class>(class as usize);
        let caller = ptr::with_exposed_provenance::<Location<'static>>(caller as usize);
        // SAFETY: zero, or written by `note` from `&'static` references, whole by the sequence.
        let (class, caller) = unsafe { (class.as_ref()?, caller.as_ref()?) };
        Some(Last { class: class.name, caller, holder: (holder as u32).checked_sub(1) })
    });
    Lost {
        spins: waits.spins.get(),
        spun: waits.spun.get(),
        sleeps: waits.sleeps.get(),
        slept: waits.slept.get(),
        last,
    }
}

/// What one CPU has lost waiting for locks of one class where one caller wanted them. Times are cycles.
#[derive(Clone, Copy, Debug)]
pub struct ByCaller {
    pub class: &'static str,
    pub caller: &'static Location<'static>,
    pub spins: u64,
    pub spun: u64,
    pub sleeps: u64,
    pub slept: u64,
    pub longest_spin: u64,
    pub longest_sleep: u64,
    /// Who held the lock when the longest wait began, where the lock knows.
    pub holder: Option<CpuId>,
}

/// Calls `f` with what `cpu` has counted since it was switched on.
pub fn by_caller(cpu: CpuId, mut f: impl FnMut(ByCaller)) {
    for place in places(WAITS.of(cpu)).into_iter().flatten() {
        // SAFETY: null, or from `&'static` references by `find`; a place keeps its pair for good.
        let pair = unsafe { place.class.load(Relaxed).as_ref().zip(place.caller.load(Relaxed).as_ref()) };
        let Some((class, caller)) = pair else { continue };
        let found = ByCaller {
            class: class.name,
            caller,
            spins: place.spins.get(),
            spun: place.spun.get(),
            sleeps: place.sleeps.get(),
            slept: place.slept.get(),
            longest_spin: place.longest_spin.get(),
            longest_sleep: place.longest_sleep.get(),
            holder: place.holder.load(Relaxed).checked_sub(1),
        };
        if found.spins | found.sleeps != 0 {
            f(found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::tests::Inner;
    use crate::lock_class;
    use crate::machine::hosted::as_cpu;
    use alloc::boxed::Box;

    lock_class! {
        static MET: LockClass = ("met", Inner);
        static CROWD: LockClass = ("crowd", Inner);
    }

    fn wait(class: &'static Class, caller: &'static Location<'static>, cycles: u64, slept: bool) -> Wait {
        Wait { class, caller, cycles, slept, holder: 8 }
    }

    /// All that concerns the switch is one test: it is everybody's.
    #[test]
    fn waits_are_counted_by_caller_while_it_is_switched_on() {
        let here = Location::caller();
        let there = std::panic::Location::caller();
        let count_of = |caller: &Location<'_>| {
            let mut sum = [0; 6];
            by_caller(110, |found| {
                if found.class == "met" && ptr::eq(found.caller, caller) {
                    assert_eq!(found.holder, Some(7));
                    sum = [
                        found.spins,
                        found.spun,
                        found.longest_spin,
                        found.sleeps,
                        found.slept,
                        found.longest_sleep,
                    ];
                }
            });
            sum
        };
        let met = || MET.class();
        as_cpu(110, || {
            note(&wait(met(), here, 5, false));
            assert_eq!(count_of(here), [0; 6], "it is off");
            let before = lost_by(110);
            assert!(before.spins >= 1 && before.spun >= 5);
            assert_eq!(before.last.unwrap().class, "met");
            switch_on().unwrap();
            note(&wait(met(), here, 10, false));
            note(&wait(met(), here, 30, true));
            note(&wait(met(), there, 7, false));
        });
        assert!(is_on());
        assert_eq!(count_of(here), [1, 10, 10, 1, 30, 30]);
        assert_eq!(count_of(there), [1, 7, 7, 0, 0, 0]);
        switch_off();
        as_cpu(110, || note(&wait(met(), here, 10, false)));
        assert_eq!(count_of(here), [1, 10, 10, 1, 30, 30], "what was counted stays");
        // More pairs than there are places are counted as lost, and no pair takes another's place.
        let mut callers = Vec::new();
        for _ in 0..4 * PLACES {
            callers.push(&*Box::leak(Box::new(*here)));
        }
        as_cpu(111, || {
            switch_on().unwrap();
            callers.iter().for_each(|caller| note(&wait(CROWD.class(), caller, 1, false)));
        });
        let mut kept = 0;
        by_caller(111, |found| {
            assert_eq!((found.spins, found.class), (1, "crowd"));
            kept += 1;
        });
        assert!(kept <= PLACES && kept > PLACES / 2, "{kept}");
        assert_eq!(lost() as usize + kept, callers.len());
        switch_off();
    }
}
