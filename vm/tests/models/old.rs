//! Sharing and eviction in small: not yet the kernel's own steps.

use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread;

// --- Leaf sharing: fork, copy, take over (fork.rs, walk.rs, cow.rs). One page, two sharers that both write. ---

#[derive(Clone, Copy)]
struct Pte {
    frame: usize,
    writable: bool,
}

struct Leaf {
    entry: Pte,
    sharers: usize,
}

struct Memory {
    refs: [AtomicUsize; 3],
    words: [AtomicUsize; 3],
}

#[derive(Clone, Copy, PartialEq)]
enum Broken {
    Nothing,
    /// The copier leaves the list of sharers before it has taken its references.
    LeaveLate,
}

/// One process: writes `value` through its own or the shared leaf; returns the frame that it then sees.
fn write_shared(
    memory: &Memory,
    leaf: &Mutex<Leaf>,
    new_frame: usize,
    value: usize,
    broken: Broken,
) -> usize {
    if broken == Broken::LeaveLate {
        let mut l = leaf.lock().unwrap();
        if l.sharers > 1 {
            l.sharers -= 1;
            drop(l);
            thread::yield_now();
            let old = leaf.lock().unwrap().entry;
            return copy_page(memory, old.frame, new_frame, value);
        }
        drop(l);
    }
    let mut l = leaf.lock().unwrap();
    if l.sharers > 1 {
        // Copy the leaf: both leaves hold the frame, neither may write it.
        memory.refs[l.entry.frame].fetch_add(1, Ordering::AcqRel);
        l.entry.writable = false;
        let mine = Pte { frame: l.entry.frame, writable: false };
        drop(l);
        // The flush lies here. Then the write: the frame is held by two leaves, so it is copied.
        let frame = write_own(memory, mine, new_frame, value);
        leaf.lock().unwrap().sharers -= 1;
        return frame;
    }
    // The last sharer takes the leaf over as it is.
    let entry = l.entry;
    let frame = write_own(memory, entry, new_frame, value);
    l.entry = Pte { frame, writable: true };
    frame
}

fn write_own(memory: &Memory, entry: Pte, new_frame: usize, value: usize) -> usize {
    if entry.writable || memory.refs[entry.frame].load(Ordering::Acquire) == 1 {
        memory.words[entry.frame].store(value, Ordering::Relaxed);
        return entry.frame;
    }
    copy_page(memory, entry.frame, new_frame, value)
}

fn copy_page(memory: &Memory, old: usize, new: usize, value: usize) -> usize {
    let word = memory.words[old].load(Ordering::Relaxed);
    assert_eq!(word, 100, "the copy has what the other process wrote");
    memory.words[new].store(value, Ordering::Relaxed);
    memory.refs[new].store(1, Ordering::Relaxed);
    memory.refs[old].fetch_sub(1, Ordering::AcqRel);
    new
}

fn sharing(broken: Broken) {
    loom::model(move || {
        let memory = Arc::new(Memory {
            refs: [AtomicUsize::new(1), AtomicUsize::new(0), AtomicUsize::new(0)],
            words: [AtomicUsize::new(100), AtomicUsize::new(0), AtomicUsize::new(0)],
        });
        // After fork: writable below, not writable above.
        let leaf = Arc::new(Mutex::new(Leaf { entry: Pte { frame: 0, writable: true }, sharers: 2 }));
        let child = {
            let (memory, leaf) = (memory.clone(), leaf.clone());
            thread::spawn(move || write_shared(&memory, &leaf, 1, 1, broken))
        };
        let parent_sees = write_shared(&memory, &leaf, 2, 2, broken);
        let child_sees = child.join().unwrap();
        assert_eq!(memory.words[child_sees].load(Ordering::Relaxed), 1, "the child lost its write");
        assert_eq!(memory.words[parent_sees].load(Ordering::Relaxed), 2, "the parent lost its write");
    });
}

#[test]
fn sharers_that_both_write_keep_their_writes() {
    sharing(Broken::Nothing);
}

/// One sharer copies the leaf for the sake of another page; this page it goes on sharing, and reads later.
fn copied_leaf_keeps_its_view(protect_old: bool) {
    loom::model(move || {
        let memory = Arc::new(Memory {
            refs: [AtomicUsize::new(1), AtomicUsize::new(0), AtomicUsize::new(0)],
            words: [AtomicUsize::new(100), AtomicUsize::new(0), AtomicUsize::new(0)],
        });
        let leaf = Arc::new(Mutex::new(Leaf { entry: Pte { frame: 0, writable: true }, sharers: 2 }));
        let child = {
            let (memory, leaf) = (memory.clone(), leaf.clone());
            thread::spawn(move || {
                let mut l = leaf.lock().unwrap();
                if l.sharers < 2 {
                    return;
                }
                memory.refs[0].fetch_add(1, Ordering::AcqRel);
                if protect_old {
                    l.entry.writable = false;
                }
                l.sharers -= 1;
                drop(l);
                let seen = memory.words[0].load(Ordering::Relaxed);
                assert_eq!(seen, 100, "a page that two leaves hold was written");
            })
        };
        write_shared(&memory, &leaf, 2, 2, Broken::Nothing);
        child.join().unwrap();
    });
}

#[test]
fn a_page_held_by_two_leaves_is_not_written() {
    copied_leaf_keeps_its_view(true);
}

#[test]
#[should_panic(expected = "two leaves hold")]
fn an_entry_left_writable_in_the_old_leaf_mixes_the_sharers() {
    copied_leaf_keeps_its_view(false);
}

#[test]
#[should_panic]
fn a_sharer_that_leaves_before_it_has_copied_mixes_the_sharers() {
    sharing(Broken::LeaveLate);
}

// --- Slot eviction against a fault (object/truncate.rs, fault.rs): ReadSlotUnderLeaf, RegisterBeforeMap, MatchBeforeClear. ---

fn eviction_against_fault(slot_under_leaf: bool, register_first: bool) {
    loom::model(move || {
        const FRAME: usize = 1;
        const TAGGED: usize = 3;
        let slot = Arc::new(AtomicUsize::new(FRAME));
        let listed = Arc::new(Mutex::new(false));
        let leaf = Arc::new(Mutex::new(0usize));
        let freed = Arc::new(AtomicBool::new(false));
        let fault = {
            let (slot, listed, leaf) = (slot.clone(), listed.clone(), leaf.clone());
            thread::spawn(move || {
                if register_first {
                    *listed.lock().unwrap() = true;
                }
                let early = slot.load(Ordering::Acquire);
                let mut entry = leaf.lock().unwrap();
                let seen = if slot_under_leaf { slot.load(Ordering::Acquire) } else { early };
                if seen == FRAME {
                    *entry = FRAME;
                }
                drop(entry);
                if !register_first {
                    *listed.lock().unwrap() = true;
                }
            })
        };
        slot.store(TAGGED, Ordering::SeqCst);
        if *listed.lock().unwrap() {
            let mut entry = leaf.lock().unwrap();
            if *entry == FRAME {
                *entry = 0;
            }
        }
        freed.store(true, Ordering::Release);
        fault.join().unwrap();
        assert!(*leaf.lock().unwrap() != FRAME, "a freed frame is mapped");
    });
}

#[test]
fn an_evicted_frame_is_mapped_nowhere() {
    eviction_against_fault(true, true);
}

#[test]
#[should_panic(expected = "a freed frame is mapped")]
fn a_slot_read_before_the_leaf_is_locked_maps_a_freed_frame() {
    eviction_against_fault(false, true);
}

#[test]
#[should_panic(expected = "a freed frame is mapped")]
fn a_leaf_registered_after_its_first_entry_is_missed() {
    eviction_against_fault(true, false);
}
