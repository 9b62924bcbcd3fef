use super::*;
use crate::machine::hosted::{as_cpu, wait_until};
use alloc::boxed::Box;
use alloc::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// An object whose drop can be seen and that spoils its value when it goes.
struct Object {
    head: RcuHead,
    value: u64,
    watch: Arc<()>,
}

crate::rcu_object!(Object, head);

impl Drop for Object {
    fn drop(&mut self) {
        self.value = 0xdead;
    }
}

fn object(watch: &Arc<()>) -> Object {
    Object { head: RcuHead::new(), value: 7, watch: watch.clone() }
}

fn alive(watch: &Arc<()>) -> bool {
    Arc::strong_count(watch) > 1
}

/// A thread in a read section.
struct Reader {
    leave: Sender<()>,
    thread: JoinHandle<()>,
}

impl Reader {
    fn enter() -> Self {
        let (enter, entered) = channel();
        let (leave, left) = channel();
        let thread = thread::spawn(move || {
            let _read = read();
            enter.send(()).unwrap();
            left.recv().unwrap();
        });
        entered.recv().unwrap();
        Reader { leave, thread }
    }

    fn leave(self) {
        self.leave.send(()).unwrap();
        self.thread.join().unwrap();
    }
}

#[test]
fn a_box_is_dropped_after_readers_have_left_and_not_before() {
    let watch = Arc::new(());
    let reader = Reader::enter();
    defer_box(Box::new(object(&watch)));
    for _ in 0..100 {
        poll();
    }
    assert!(alive(&watch), "dropped under a reader");
    reader.leave();
    drain();
    assert!(!alive(&watch));
}

#[test]
fn an_arc_deferred_by_several_owners_loses_each_reference_once() {
    let watch = Arc::new(());
    let arc = Arc::new(object(&watch));
    for _ in 0..3 {
        defer_arc(arc.clone());
    }
    poll();
    defer_arc(arc.clone());
    drain();
    assert_eq!(Arc::strong_count(&arc), 1);
    defer_arc(arc);
    drain();
    assert!(!alive(&watch));
}

#[test]
fn a_cell_gives_readers_the_old_or_the_new_and_drops_the_old_later() {
    let (first, second) = (Arc::new(()), Arc::new(()));
    let cell = RcuArc::new(Some(Arc::new(object(&first))));
    let section = read();
    let old = cell.load(&section).unwrap();
    cell.swap(Some(Arc::new(object(&second))));
    assert_eq!(Arc::as_ptr(&cell.load(&section).unwrap().watch), Arc::as_ptr(&second));
    assert_eq!(old.value, 7);
    drop(section);
    drain();
    assert!(!alive(&first) && alive(&second));
    let taken = cell.take().unwrap();
    assert!(cell.get(&read()).is_none());
    assert_eq!(taken.value, 7);
    drop(taken);
    drop(cell);
    drain();
    assert!(!alive(&second));
}

#[test]
fn a_full_cell_refuses_a_second_object() {
    let watch = Arc::new(());
    let cell = RcuArc::empty();
    assert!(cell.put_if_empty(Arc::new(object(&watch))).is_ok());
    assert!(cell.put_if_empty(Arc::new(object(&watch))).is_err());
    assert_eq!(Arc::strong_count(&watch), 2);
}

#[test]
fn synchronize_returns_only_after_readers_have_left() {
    static LEFT: AtomicBool = AtomicBool::new(false);
    let (enter, entered) = channel();
    let reader = thread::spawn(move || {
        let _read = read();
        enter.send(()).unwrap();
        thread::sleep(Duration::from_millis(30));
        LEFT.store(true, Ordering::SeqCst);
    });
    entered.recv().unwrap();
    synchronize();
    assert!(LEFT.load(Ordering::SeqCst));
    reader.join().unwrap();
}

#[test]
fn a_poll_is_due_when_something_is_wanted_and_not_when_nothing_waits() {
    hurry();
    assert!(!due());
    let watch = Arc::new(());
    defer_box(Box::new(object(&watch)));
    hurry();
    assert!(comes_due());
    drain();
    assert!(!due() && !alive(&watch));
}

#[test]
fn one_cpu_tries_to_end_a_period_until_it_takes_long() {
    let leader = AtomicU64::new(0);
    assert!(claim(&leader, 7, 3, false));
    assert!(claim(&leader, 7, 3, false) && !claim(&leader, 7, 255, false));
    assert!(claim(&leader, 7, 255, true) && !claim(&leader, 7, 3, false), "taken over");
    assert!(!claim(&leader, 6, 3, false), "an old number claims nothing");
    assert!(claim(&leader, 8, 3, false) && !claim(&leader, 8, 255, false));
}

#[test]
fn callbacks_wait_for_more_to_come_until_somebody_wants_them() {
    let watch = Arc::new(());
    let reader = Reader::enter();
    defer_box(Box::new(object(&watch)));
    poll();
    defer_box(Box::new(object(&watch)));
    assert!(!due(), "two callbacks are worth no period");
    hurry();
    assert!(comes_due());
    // What a return to user mode does. The CPU that reads may be in the same loop and wait for this one.
    let ends = (0..10_000).any(|_| !due() || (poll(), false).1);
    assert!(ends, "a CPU asks without end and never reports");
    assert!(comes_due() && alive(&watch), "somebody waits, and somebody reads");
    reader.leave();
    drain();
    assert!(!due() && !alive(&watch));
    for _ in 0..=enough() {
        defer_box(Box::new(object(&watch)));
    }
    assert!(comes_due(), "many callbacks are");
    drain();
}

/// Whether a poll is due within a second; a try may just have been made.
fn comes_due() -> bool {
    (0..1000).any(|_| due() || (thread::sleep(Duration::from_millis(1)), false).1)
}

#[test]
fn idle_cpus_hold_nobody_up() {
    as_cpu(130, idle_enter);
    let watch = Arc::new(());
    defer_box(Box::new(object(&watch)));
    drain();
    assert!(!alive(&watch));
}

#[test]
fn a_period_that_another_cpu_has_ended_is_not_late_though_none_follows_it() {
    let (period, seats) = (Period::new(), [Seat::new(), Seat::new()]);
    period.wake(&seats[0]);
    assert!(period.begin());
    let number = period.number();
    let try_end = || period.try_end(2, 0, |cpu| &seats[cpu as usize]);
    assert_eq!((try_end(), period.is_under_way(number)), (Err(0), true));
    period.quiescent(&seats[0]);
    assert_eq!((try_end(), period.is_under_way(number)), (Ok(()), false));
    assert_eq!(period.number(), number, "none follows");
}

#[test]
fn a_callback_may_defer_more() {
    struct Chain {
        head: RcuHead,
        next: Option<Box<Object>>,
    }
    crate::rcu_object!(Chain, head);
    impl Drop for Chain {
        fn drop(&mut self) {
            if let Some(next) = self.next.take() {
                defer_box(next);
            }
        }
    }
    let watch = Arc::new(());
    defer_box(Box::new(Chain { head: RcuHead::new(), next: Some(Box::new(object(&watch))) }));
    drain();
    assert!(!alive(&watch));
}

#[test]
fn a_thread_that_ends_leaves_no_callback_behind() {
    let watch = Arc::new(());
    let inside = watch.clone();
    thread::spawn(move || defer_box(Box::new(object(&inside)))).join().unwrap();
    assert!(!alive(&watch));
}

#[test]
#[should_panic(expected = "not a field of the object")]
fn a_head_outside_the_object_is_refused() {
    struct Liar;
    impl RcuObject for Liar {
        fn rcu_head(&self) -> &RcuHead {
            static ELSEWHERE: RcuHead = RcuHead::new();
            &ELSEWHERE
        }
    }
    defer_arc(Arc::new(Liar));
}

#[test]
fn readers_never_see_a_dropped_object() {
    let watch = Arc::new(());
    let cell = RcuArc::new(Some(Arc::new(object(&watch))));
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let section = read();
                    assert_eq!(cell.load(&section).unwrap().value, 7);
                }
            });
        }
        for _ in 0..if cfg!(miri) { 10 } else { 2000 } {
            cell.swap(Some(Arc::new(object(&watch))));
            poll();
        }
        stop.store(true, Ordering::Relaxed);
    });
    drop(cell);
    drain();
    assert!(!alive(&watch));
}

/// An object whose drop takes a while.
struct Slow(RcuHead, Arc<AtomicU64>);

crate::rcu_object!(Slow, 0);

impl Drop for Slow {
    fn drop(&mut self) {
        let began = machine::cycles();
        while machine::cycles().wrapping_sub(began) < machine::cycles_per_ms() / 20 {}
        self.1.fetch_add(1, Ordering::Relaxed);
    }
}

/// Nobody else should run, and a poll ends all the same; whoever waits for the memory gets all of it.
#[test]
fn a_poll_takes_a_part_of_a_millisecond_and_leaves_the_rest_to_the_next() {
    as_cpu(120, || {
        let gone = Arc::new(AtomicU64::new(0));
        const ALL: u64 = 400;
        for _ in 0..ALL {
            defer_box(Box::new(Slow(RcuHead::new(), gone.clone())));
        }
        expedite();
        // The readers of other tests may hold the grace period up.
        wait_until(|| {
            poll();
            gone.load(Ordering::Relaxed) != 0
        });
        let first = gone.load(Ordering::Relaxed);
        assert!((1..=16).contains(&first), "{first} callbacks of 50 us in one poll");
        assert!(any_ripe() && is_pressed() && due());
        run_ripe(|| false);
        assert!(!any_ripe() && !is_pressed());
        assert_eq!(gone.load(Ordering::Relaxed), ALL);
    });
}
