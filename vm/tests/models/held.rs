//! Held pages (node/holder.rs): HeldByList, FreeAfterFlush.

use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread;

/// The references that a list has: page 0 is freed with it.
struct HeldList {
    holds: [bool; 2],
    page: Arc<AtomicUsize>,
}

impl Drop for HeldList {
    fn drop(&mut self) {
        if self.holds[0] {
            self.page.store(0, Ordering::Relaxed);
        }
    }
}

/// What a leaf's lock guards: which entries are held, which others show a page that the leaf counts, and the list.
struct HeldLeaf {
    held: [bool; 2],
    counted: [bool; 2],
    list: Option<Arc<HeldList>>,
}

impl HeldLeaf {
    /// Page 0 is held, page 1 is counted.
    fn new(page: &Arc<AtomicUsize>) -> Arc<Mutex<Self>> {
        let list = Arc::new(HeldList { holds: [true, false], page: page.clone() });
        Arc::new(Mutex::new(Self { held: [true, false], counted: [false, true], list: Some(list) }))
    }

    fn assert_held_by_list(&self) {
        let holds = self.list.as_ref().map_or([false; 2], |list| list.holds);
        for (held, holds) in self.held.iter().zip(holds) {
            assert!(!held || holds, "a held entry is on no list of its leaf");
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum LetGo {
    AfterGracePeriod,
    AtOnce,
}

/// A fault that copies a held page, against a thread that gives the page up, and then lets the list go: another takes its place if
/// the leaf lives on, none if it ends.
fn held_page_is_copied(let_go: LetGo, leaf_ends: bool) {
    loom::model(move || {
        const BYTES: usize = 7;
        let page = Arc::new(AtomicUsize::new(BYTES));
        let leaf = HeldLeaf::new(&page);
        let reading = Arc::new(AtomicBool::new(false));
        let fault = {
            let (page, leaf, reading) = (page.clone(), leaf.clone(), reading.clone());
            thread::spawn(move || {
                reading.store(true, Ordering::Relaxed);
                let held = leaf.lock().unwrap().held[0];
                if held {
                    assert_eq!(page.load(Ordering::Relaxed), BYTES, "a page that is free was copied");
                }
                reading.store(false, Ordering::Release);
            })
        };
        leaf.lock().unwrap().held[0] = false;
        // The flush lies here.
        let mut locked = leaf.lock().unwrap();
        let new = (!leaf_ends).then(|| Arc::new(HeldList { holds: [false; 2], page: page.clone() }));
        let old = std::mem::replace(&mut locked.list, new);
        drop(locked);
        // A read section that begins later finds the entry cleared.
        if let_go == LetGo::AtOnce || !reading.load(Ordering::Acquire) {
            drop(old);
            fault.join().unwrap();
        } else {
            fault.join().unwrap();
            drop(old);
        }
        assert_eq!(page.load(Ordering::Relaxed), 0, "a page that nobody has is not freed");
    });
}

#[test]
fn a_held_page_that_was_given_up_is_there_while_it_is_copied() {
    held_page_is_copied(LetGo::AfterGracePeriod, false);
    held_page_is_copied(LetGo::AfterGracePeriod, true);
}

#[test]
#[should_panic(expected = "that is free was copied")]
fn a_replaced_list_that_is_let_go_at_once_frees_a_page_under_its_copy() {
    held_page_is_copied(LetGo::AtOnce, false);
}

#[test]
#[should_panic(expected = "that is free was copied")]
fn a_list_that_is_let_go_with_the_last_sharer_frees_a_page_under_its_copy() {
    held_page_is_copied(LetGo::AtOnce, true);
}

/// What a copier makes with the leaf unlocked.
#[derive(Clone, Copy, PartialEq)]
enum Made {
    /// A new list, which takes over what is counted.
    List,
    /// A count of the list that the leaf had.
    Count,
}

/// Copies a shared leaf; returns the copy.
fn copy_held(leaf: &Mutex<HeldLeaf>, made: Made, page: &Arc<AtomicUsize>, look_again: bool) -> HeldLeaf {
    let wanted = leaf.lock().unwrap().list.clone();
    // Memory for a holder is taken here.
    let mut locked = leaf.lock().unwrap();
    let fits = match (&wanted, &locked.list) {
        (Some(then), Some(now)) => Arc::ptr_eq(then, now),
        _ => false,
    };
    if fits || !look_again {
        locked.list = match made {
            Made::Count => wanted,
            Made::List => {
                let taken = locked.counted;
                for (held, taken) in locked.held.iter_mut().zip(taken) {
                    *held |= taken;
                }
                locked.counted = [false; 2];
                Some(Arc::new(HeldList { holds: locked.held, page: page.clone() }))
            }
        };
    }
    HeldLeaf { held: locked.held, counted: locked.counted, list: locked.list.clone() }
}

/// Two sharers copy one leaf at the same time.
fn two_copiers_of_held_pages(other: Made, look_again: bool) {
    loom::model(move || {
        let page = Arc::new(AtomicUsize::new(1));
        let leaf = HeldLeaf::new(&page);
        let second = {
            let (page, leaf) = (page.clone(), leaf.clone());
            thread::spawn(move || copy_held(&leaf, other, &page, look_again).assert_held_by_list())
        };
        let copy = copy_held(&leaf, Made::List, &page, look_again);
        second.join().unwrap();
        copy.assert_held_by_list();
        leaf.lock().unwrap().assert_held_by_list();
    });
}

#[test]
fn held_entries_are_on_the_list_of_their_leaf_whoever_copies_it() {
    two_copiers_of_held_pages(Made::Count, true);
    two_copiers_of_held_pages(Made::List, true);
}

#[test]
#[should_panic(expected = "on no list of its leaf")]
fn a_holder_that_does_not_fit_the_leaf_any_more_loses_references() {
    two_copiers_of_held_pages(Made::Count, false);
}
