//! A page is replaced by its copy while other threads of the space read, write, protect, move and unmap it.

use crate::explore::in_turn;
use crate::model;
use crate::protocol::busy;
use crate::protocol::mask::{Loaded, SpaceCpus};
use crate::world::{Format, Frames, Leaf, Locked, OLD, Tlb, page, walk};
use loom::sync::atomic::Ordering;
use loom::thread;
use std::sync::Arc;
use vm::{Entry, Machine, Prot};

/// A page in frame 1, which another leaf has too, so that a write copies it. The threads run on CPUs 0 and 1, and CPU 2 may still have the translation.
struct World {
    cpus: SpaceCpus<1>,
    /// Its lock guards what the mapping allows.
    leaf: Leaf<Prot>,
    frames: Frames,
    tlbs: [Tlb; 3],
}

impl World {
    fn new(loaded: &[u32]) -> Arc<Self> {
        let old = page(1, false);
        let world = Self {
            cpus: SpaceCpus::new(),
            leaf: Leaf::new(1, &[old, Entry::ABSENT], Prot::READ | Prot::WRITE),
            frames: Frames::new([2, 1, 1, 1]),
            tlbs: [Entry::ABSENT, Entry::ABSENT, old].map(Tlb::new),
        };
        loaded.iter().for_each(|cpu| world.cpus.come(*cpu, &Loaded::new(), 1, |_| ()));
        Arc::new(world)
    }

    fn lock(&self) -> Locked<'_, Prot> {
        Locked::new(&self.leaf, self.leaf.lock())
    }

    fn flush(&self) {
        let cpus = self.cpus.to_flush([0])[0];
        for (cpu, tlb) in self.tlbs.iter().enumerate().filter(|(cpu, _)| cpus & 1 << cpu != 0) {
            let _ = cpu;
            tlb.flush();
        }
    }

    /// One attempt of `cpu` to give the page a copy in frame `spare`.
    fn copy_page(&self, cpu: u32, spare: u64) {
        let locked = self.lock();
        let old = locked.entry(0);
        if old.is_absent() || old.is_busy() || Format::is_writable(old) {
            return;
        }
        // Pinned.
        self.frames.refs(old).get();
        drop(locked);
        let new = page(spare, true);
        self.frames.copy(old, new);
        let mut locked = self.lock();
        let unchanged =
            locked.state.contains(Prot::WRITE) && busy::is_unchanged::<Format>(locked.entry(0), old);
        let others = self.cpus.to_flush([0])[0] & !(1 << cpu) != 0;
        if !unchanged {
            self.frames.put(new);
        } else if busy::at_once(others) {
            locked.exchange(0, new);
            drop(locked);
            self.flush();
            self.frames.put(old);
        } else {
            let mark = busy::mark(cpu, || locked.entry(0));
            let old = locked.exchange(0, mark);
            drop(locked);
            self.flush();
            let mut locked = self.lock();
            let own = busy::is_own(locked.entry(0), cpu);
            if own && locked.state.contains(Prot::WRITE) {
                locked.exchange(0, new);
                drop(locked);
                self.frames.put(old);
            } else if own {
                let back = busy::back::<Format>(old, *locked.state);
                locked.exchange(0, back);
                drop(locked);
                self.frames.put(new);
            } else {
                drop(locked);
                self.frames.put(new);
                self.frames.put(old);
            }
        }
        self.frames.put(old);
    }

    /// `cpu` moves the page to frame `spare`, though programs may write it.
    fn move_page(&self, cpu: u32, spare: u64) {
        let new = page(spare, true);
        let mut locked = self.lock();
        if locked.entry(0).is_absent() {
            drop(locked);
            return self.frames.put(new);
        }
        let mark = busy::mark(cpu, || locked.entry(0));
        let old = locked.exchange(0, mark);
        drop(locked);
        busy::copy_unwritten(|| self.flush(), || self.frames.copy(old, new));
        let mut locked = self.lock();
        if busy::is_own(locked.entry(0), cpu) {
            locked.exchange(0, new);
            drop(locked);
        } else {
            drop(locked);
            self.frames.put(new);
        }
        self.frames.put(old);
    }

    /// A program writes a word on `cpu`, if it may; says whether it did.
    fn write(&self, cpu: usize, word: usize, value: u64) -> bool {
        let store = |entry| self.frames.word(entry, word).store(value, Ordering::Relaxed);
        self.tlbs[cpu].write(|| walk(&self.leaf.cells[0]), store)
    }

    fn unmap(&self) {
        let mut locked = self.lock();
        let old = locked.exchange(0, Entry::ABSENT);
        drop(locked);
        self.flush();
        if old.owns_frame() {
            self.frames.put(old);
        }
    }

    fn protect(&self) {
        let mut locked = self.lock();
        *locked.state = Prot::empty();
        let old = locked.entry(0);
        if !old.is_busy() {
            locked.exchange(0, old.with_prot::<Format>(Prot::empty()));
        }
        drop(locked);
        self.flush();
    }

    /// Moves the page to the second entry.
    fn remap(&self) {
        loop {
            let mut locked = self.lock();
            let entry = locked.entry(0);
            let again = busy::must_wait(entry);
            if entry.is_private() {
                locked.exchange(0, Entry::ABSENT);
                drop(locked);
                self.flush();
                self.lock().exchange(1, entry.with_prot::<Format>(Prot::READ));
            }
            if !again {
                return;
            }
            thread::yield_now();
        }
    }

    /// The other leaf has frame 1; this one what its entry says.
    fn assert_counted(&self) {
        let entry = walk(&self.leaf.cells[0]);
        assert_eq!(
            self.frames.refs(page(1, false)).count(),
            if entry == page(1, false) { 2 } else { 1 },
            "references are lost"
        );
        for spare in [2, 3] {
            let shown =
                !entry.is_absent() && entry.address::<Format>() == page(spare, true).address::<Format>();
            assert!(!shown || !self.frames.is_free(page(spare, true)), "a free frame is mapped");
        }
    }
}

/// CPU 0 replaces the page. A write by CPU 1 to the new one is seen by CPU 2.
fn read_after_write() {
    let world = World::new(&[0, 1, 2]);
    let other = world.clone();
    let program = thread::spawn(move || {
        if other.write(1, 0, 7) {
            let entry = other.tlbs[2].access(|| walk(&other.leaf.cells[0]));
            assert!(
                entry.is_absent() || other.frames.read(entry, 0) == 7,
                "a CPU reads what was written over"
            );
        }
    });
    world.copy_page(0, 2);
    program.join().unwrap();
    world.assert_counted();
    assert!(world.frames.is_free(page(3, true)) || world.frames.refs(page(3, true)).count() == 1);
}

model! { read_after_write (5)
    breaks if_the_copy_is_put_in_before_the_flush: "busy.others"
    breaks if_the_entry_is_not_busy: "busy.mark"
}

/// Two threads of the space write words of the page, with no other CPU about.
fn both_write() {
    let world = World::new(&[]);
    in_turn(&world, |world| world.copy_and_write(0, 2), |world| world.copy_and_write(1, 3));
    let entry = walk(&world.leaf.cells[0]);
    assert_eq!([0, 1].map(|word| world.frames.read(entry, word)), [10, 11], "a write is lost");
    world.assert_counted();
}

impl World {
    fn copy_and_write(&self, cpu: u32, spare: u64) {
        while !self.write(cpu as usize, cpu as usize, 10 + u64::from(cpu)) {
            self.copy_page(cpu, spare);
        }
    }
}

model! { both_write (5) breaks if_the_entry_is_not_compared: "busy.unchanged" }

/// One thread replaces the page while another unmaps it.
fn unmapped() {
    let world = World::new(&[0, 1, 2]);
    in_turn(&world, |world| world.copy_page(0, 2), World::unmap);
    let entry = walk(&world.leaf.cells[0]);
    assert!(entry.is_absent(), "a page is mapped where nothing is");
    assert!(world.frames.read(page(1, false), 0) == OLD);
    world.assert_counted();
}

model! { unmapped (5) breaks if_the_entry_is_not_its_own_any_more: "busy.own" }

/// One thread replaces the page while another makes it inaccessible.
fn protected() {
    let world = World::new(&[0, 1, 2]);
    in_turn(&world, |world| world.copy_page(0, 2), World::protect);
    let entry = walk(&world.leaf.cells[0]);
    assert!(
        !entry.is_absent() && entry.0 & Format::PRESENT == 0,
        "a page is accessible again after mprotect"
    );
    assert_eq!(world.frames.read(entry, 0), OLD);
}

model! { protected (5) breaks if_the_page_goes_back_with_its_old_rights: "busy.rights" }

/// One thread replaces the page while another moves it.
fn moved() {
    let world = World::new(&[0, 1, 2]);
    in_turn(&world, |world| world.copy_page(0, 2), World::remap);
    let [left, entry] = [0, 1].map(|n| walk(&world.leaf.cells[n]));
    assert!(left.is_absent() && !entry.is_absent(), "a page is lost on its way");
    assert_eq!(world.frames.read(entry, 0), OLD);
    assert!(!world.frames.is_free(entry), "a free frame is mapped");
}

model! { moved (5) breaks if_a_busy_entry_is_passed_over: "busy.wait" }

/// One thread moves the page to other memory while another writes it, whose CPU may have it in its TLB.
fn written_while_it_moves() {
    let world = World::new(&[0, 1]);
    // Nobody else has it.
    world.lock().exchange(0, page(1, true));
    let other = world.clone();
    let program = thread::spawn(move || other.write(1, 0, 7) && other.write(1, 1, 8));
    world.move_page(0, 2);
    let wrote = program.join().unwrap();
    let entry = walk(&world.leaf.cells[0]);
    assert_eq!(entry, page(2, true), "the page stays");
    assert!(!wrote || [0, 1].map(|word| world.frames.read(entry, word)) == [7, 8], "a write is lost");
}

model! { written_while_it_moves (5)
    breaks if_it_is_copied_before_the_flush: "busy.quiet"
    breaks if_its_entry_is_not_busy_on_its_way: "busy.mark"
}

/// One thread moves the page while another unmaps it.
fn unmapped_while_it_moves() {
    let world = World::new(&[0, 1, 2]);
    in_turn(&world, |world| world.move_page(0, 2), World::unmap);
    let entry = walk(&world.leaf.cells[0]);
    assert!(entry.is_absent(), "a page is mapped where nothing is");
}

model! { unmapped_while_it_moves (5) breaks if_a_page_on_its_way_is_put_in_again: "busy.own" }
