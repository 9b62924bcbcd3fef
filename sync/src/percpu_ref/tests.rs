use super::*;
use crate::machine::hosted::as_cpu;
use crate::rcu::drain;
use std::sync::Arc;
use std::thread;
use std::vec::Vec;

/// A value whose drop can be seen.
fn watched() -> (PerCpuOwner<Arc<()>>, Arc<()>) {
    let watch = Arc::new(());
    (PerCpuOwner::try_new(watch.clone()).unwrap(), watch)
}

fn is_dropped(watch: &Arc<()>) -> bool {
    drain();
    Arc::strong_count(watch) == 1
}

/// Lets two CPUs take turns until the count is hot.
fn heat(owner: &PerCpuOwner<Arc<()>>) {
    for turn in 0..200 {
        as_cpu(110 + turn % 2, || drop(owner.share()));
    }
}

#[test]
fn an_object_goes_when_its_owner_and_the_last_reference_are_gone() {
    let (owner, watch) = watched();
    let reference = owner.share();
    drop(owner);
    assert!(!is_dropped(&watch), "a reference is left");
    assert!(PerCpuArc::is_dead(&reference));
    drop(reference);
    assert!(is_dropped(&watch));
}

#[test]
fn an_object_that_nobody_else_refers_to_goes_with_its_owner_at_once() {
    let (owner, watch) = watched();
    drop(owner.share());
    drop(owner);
    assert_eq!(Arc::strong_count(&watch), 1);
    let (owner, watch) = watched();
    heat(&owner);
    drop(owner);
    assert!(
        Arc::strong_count(&watch) == 2 && is_dropped(&watch),
        "counted per CPU, it waits for a grace period"
    );
}

#[test]
fn an_object_stays_while_its_owner_does() {
    let (owner, watch) = watched();
    drop(owner.share());
    assert!(!is_dropped(&watch));
    drop(owner);
    assert!(is_dropped(&watch));
}

#[test]
fn a_count_that_one_cpu_uses_stays_shared_and_one_that_two_use_goes_per_cpu() {
    let (owner, _watch) = watched();
    for _ in 0..1000 {
        drop(owner.share());
    }
    assert!(!owner.is_per_cpu());
    heat(&owner);
    assert!(owner.is_per_cpu());
}

#[test]
fn references_taken_on_one_cpu_and_put_on_another_add_up() {
    let (owner, watch) = watched();
    let early: Vec<_> = (0..3).map(|_| owner.share()).collect();
    heat(&owner);
    let late: Vec<_> = as_cpu(120, || (0..5).map(|_| owner.share()).collect());
    as_cpu(121, || drop(early));
    drop(owner);
    assert!(!is_dropped(&watch));
    as_cpu(122, || drop(late));
    assert!(is_dropped(&watch));
}

#[test]
fn threads_that_take_and_put_while_the_owner_goes_drop_the_object_once() {
    for _ in 0..if cfg!(miri) { 2 } else { 50 } {
        let (owner, watch) = watched();
        heat(&owner);
        let references = [owner.share(), owner.share()];
        thread::scope(|scope| {
            for reference in references {
                scope.spawn(move || {
                    while !PerCpuArc::is_dead(&reference) {
                        drop(reference.clone());
                    }
                    let second = reference.clone();
                    drop(reference);
                    assert!(Arc::strong_count(&second) >= 2);
                });
            }
            thread::yield_now();
            drop(owner);
        });
        assert!(is_dropped(&watch));
    }
}
