//! Looks along the children of one process by many threads at once, while children go. A part has few children here (`children::PART`).

use super::children::{Among, PART};
use super::search::Search;
use crate::process::list::Look;
use crate::process::{Pid, current_process};
use crate::sched::{self, Sleep, WaitQueue};
use crate::testing::{Child, fork, in_process, thread};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::vec::Vec;

const SEARCHERS: usize = 12;
const CHILDREN: usize = 12 * PART;

/// A child, and what lets it go.
struct Held {
    child: Child,
    free: Arc<(AtomicBool, WaitQueue)>,
}

fn hold() -> Held {
    let free = Arc::new((AtomicBool::new(false), WaitQueue::new()));
    let told = free.clone();
    let is_free = move || {
        let _ = told.1.wait_until(Sleep::Killable, None, || told.0.load(SeqCst).then_some(()));
    };
    Held { child: fork(is_free), free }
}

impl Held {
    fn let_go(self) {
        self.free.0.store(true, SeqCst);
        self.free.1.wake_all();
        self.child.wait();
    }
}

/// Looks along all children of the process, and calls `between` with the last one that was passed in each rest. Gives who was seen, and how many parts ended
/// without a rest.
fn look_along(mut between: impl FnMut(Pid)) -> (Vec<Pid>, usize) {
    let process = current_process();
    let mut search = Search::new(&process, Among::All);
    let (mut seen, mut parts, mut rests) = (Vec::new(), 0, 0);
    let mut children = process.family.children();
    let note = |seen: &mut Vec<Pid>, pid| {
        seen.push(pid);
        false
    };
    while let Look::Passed(_) = search.look(&mut children, |child| note(&mut seen, child.pid())) {
        parts += 1;
        let last = seen.last().copied();
        children = search.rest(children, || {
            rests += 1;
            last.into_iter().for_each(&mut between);
        });
    }
    (seen, parts - rests)
}

#[test]
fn however_many_look_along_the_children_each_rests_after_each_part_and_misses_nobody_who_stays() {
    in_process(|| {
        let all: Vec<Held> = (0..CHILDREN).map(|_| hold()).collect();
        let (mut stay, mut go) = (Vec::new(), BTreeMap::new());
        for (n, held) in all.into_iter().enumerate() {
            if n % 3 == 0 {
                stay.push(held);
            } else {
                go.insert(held.child.pid, held);
            }
        }
        let staying: Arc<Vec<Pid>> = Arc::new(stay.iter().map(|held| held.child.pid).collect());
        let go = Arc::new(Mutex::new(go));
        let searchers: Vec<_> = (0..SEARCHERS)
            .map(|_| {
                let (staying, go) = (staying.clone(), go.clone());
                thread(move || {
                    let (seen, unrested) = look_along(|passed| {
                        // The very one goes whose place is kept, if it may, and the one before it.
                        let mut going = go.lock().unwrap();
                        let these: Vec<Pid> =
                            going.range(..=passed).rev().take(2).map(|(pid, _)| *pid).collect();
                        let these: Vec<Held> = these.iter().filter_map(|pid| going.remove(pid)).collect();
                        drop(going);
                        these.into_iter().for_each(Held::let_go);
                        let _ = sched::sleep_until(crate::arch::time::now() + 300_000, Sleep::Killable);
                    });
                    assert_eq!(unrested, 0, "parts of a look that were not followed by a rest");
                    let missed: Vec<_> = staying.iter().filter(|pid| !seen.contains(pid)).collect();
                    assert!(missed.is_empty(), "missed {missed:?}");
                })
            })
            .collect();
        searchers.into_iter().for_each(|searcher| searcher.join());
        assert!(go.lock().unwrap().len() < CHILDREN / 3, "few children went meanwhile");
        let left = core::mem::take(&mut *go.lock().unwrap());
        left.into_values().chain(stay).for_each(Held::let_go);
    });
}
