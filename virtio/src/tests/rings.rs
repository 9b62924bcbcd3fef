//! A queue with a device that keeps to the rules, and with devices that do not.

use std::collections::VecDeque;
use std::vec::Vec;

use proptest::prelude::*;

use super::device::Tables;
use crate::queue::{Broken, NotPushed};
use crate::{Buffer, Queue};

fn queue(size: u16) -> (Tables, Queue<Tables, u32>) {
    let tables = Tables::new();
    (tables.clone(), Queue::try_new(tables, size).unwrap())
}

fn read(len: u32) -> Buffer {
    Buffer { address: 0xabc0, len, writable: false }
}

fn write(len: u32) -> Buffer {
    Buffer { address: 0xdef0, len, writable: true }
}

#[test]
fn what_is_put_in_is_seen_by_the_device_and_comes_out() {
    let (tables, mut queue) = queue(8);
    assert!(queue.push(&[read(16), write(512), write(1)], 7).unwrap());
    assert_eq!(tables.index(), 1);
    let head = tables.head(0, 8);
    assert_eq!(tables.chain(head), [read(16), write(512), write(1)]);
    assert_eq!(queue.pop().unwrap(), None);
    tables.put_used(0, 8, head.into(), 513);
    tables.show_used(1, 0);
    assert!(queue.is_ready());
    assert_eq!(queue.pop().unwrap(), Some((7, 513)));
    assert_eq!(queue.pop().unwrap(), None);
    assert_eq!(queue.in_flight(), 0);
}

#[test]
fn the_device_says_whether_it_wants_to_be_told() {
    let (tables, mut queue) = queue(8);
    tables.show_used(0, 1);
    assert!(!queue.push(&[read(1)], 0).unwrap());
    tables.show_used(0, 0);
    assert!(queue.push(&[read(1)], 1).unwrap());
}

#[test]
fn a_queue_that_is_full_takes_more_when_something_comes_out() {
    let (tables, mut queue) = queue(4);
    queue.push(&[read(1), read(1), read(1)], 0).unwrap();
    assert!(matches!(queue.push(&[read(1), read(1)], 1), Err(NotPushed::Full(1))));
    queue.push(&[read(1)], 2).unwrap();
    tables.put_used(0, 4, tables.head(1, 4).into(), 0);
    tables.show_used(1, 0);
    assert_eq!(queue.pop().unwrap(), Some((2, 0)));
    queue.push(&[write(9)], 3).unwrap();
    assert!(matches!(queue.push(&[read(1)], 4), Err(NotPushed::Full(4))));
}

#[test]
fn what_never_fits_is_told_from_what_does_not_fit_now() {
    let (_, mut queue) = queue(4);
    for unfit in [&[][..], &[read(0)], &[write(1), read(1)], &[read(1); 5], &[write(u32::MAX), write(1)]] {
        assert!(matches!(queue.push(unfit, 1), Err(NotPushed::Unfit(1))), "{unfit:?}");
    }
    assert!(Queue::<_, u32>::try_new(Tables::new(), 3).is_err());
    assert!(Queue::<_, u32>::try_new(Tables::new(), 0).is_err());
    assert!(Queue::<_, u32>::try_new(Tables::new(), 512).is_err());
}

/// One lie, with two requests in flight of which the second chain begins at descriptor 2.
fn lie(tell: impl FnOnce(&Tables, u32, u32)) -> Broken {
    let (tables, mut queue) = queue(8);
    queue.push(&[read(16), write(100)], 0).unwrap();
    queue.push(&[read(16), write(100)], 1).unwrap();
    tell(&tables, tables.head(0, 8).into(), tables.head(1, 8).into());
    let broken = loop {
        match queue.pop() {
            Ok(Some(_)) => {}
            Ok(None) => panic!("the lie was not seen"),
            Err(broken) => break broken,
        }
    };
    // Broken for good; what was in flight and has not come out is there once.
    assert_eq!(queue.pop(), Err(Broken::Before));
    assert!(matches!(queue.push(&[read(1)], 9), Err(NotPushed::Broken(9))));
    assert!(!queue.is_ready());
    assert!(queue.take_all().count() <= 2);
    assert_eq!(queue.take_all().count(), 0);
    broken
}

#[test]
fn an_index_that_jumps_is_no_completion() {
    for index in [3, 4, 0x8000, 0xffff] {
        assert_eq!(lie(|tables, _, _| tables.show_used(index, 0)), Broken::UsedIndex);
    }
}

#[test]
fn a_chain_that_is_not_in_flight_is_no_completion() {
    // The middle of a chain, a free descriptor, one that does not exist, and one that does not fit 16 bits.
    for id in [1, 3, 5, 8, 255, 256, 0xffff, 0x10000, 0x10002, u32::MAX] {
        let told = lie(|tables, _, _| {
            tables.put_used(0, 8, id, 0);
            tables.show_used(1, 0);
        });
        assert_eq!(told, Broken::Chain(id));
    }
}

#[test]
fn a_chain_comes_out_once() {
    let told = lie(|tables, first, _| {
        tables.put_used(0, 8, first, 0);
        tables.put_used(1, 8, first, 0);
        tables.show_used(2, 0);
    });
    assert_eq!(told, Broken::Chain(0));
}

#[test]
fn no_more_is_written_than_there_was_room_for() {
    for len in [101, 0x8000_0000, u32::MAX] {
        let told = lie(|tables, first, _| {
            tables.put_used(0, 8, first, len);
            tables.show_used(1, 0);
        });
        assert_eq!(told, Broken::Length(len));
    }
}

#[test]
fn a_device_that_overwrites_descriptors_changes_nothing_here() {
    use crate::QueueMemory;
    use std::sync::atomic::Ordering;
    let (tables, mut queue) = queue(4);
    for round in 0..20 {
        queue.push(&[read(1), read(2), write(3)], round).unwrap();
        let head = tables.head(round as u16, 4);
        for word in tables.descriptors() {
            word.store(u64::MAX, Ordering::Relaxed);
        }
        for word in tables.available().iter().skip(2) {
            word.store(u16::MAX, Ordering::Relaxed);
        }
        tables.put_used(round as u16, 4, head.into(), 3);
        tables.show_used(round as u16 + 1, 0);
        assert_eq!(queue.pop().unwrap(), Some((round, 3)));
    }
}

#[derive(Clone, Debug)]
enum Step {
    Push(Vec<u32>),
    /// The device completes what waits as number `.0` (modulo), says `.1` as its length (modulo).
    Complete(usize, u32),
    Pop,
    /// The device writes these words.
    Used(u16, u32, u32),
    Index(u16),
}

fn honest() -> impl Strategy<Value = Step> {
    prop_oneof![
        prop::collection::vec(1..1000u32, 1..5).prop_map(Step::Push),
        (any::<usize>(), any::<u32>()).prop_map(|(n, len)| Step::Complete(n, len)),
        Just(Step::Pop),
    ]
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => honest(),
        1 => (any::<u16>(), prop_oneof![0..20u32, any::<u32>()], prop_oneof![0..2000u32, any::<u32>()])
            .prop_map(|(n, id, len)| Step::Used(n, id, len)),
        1 => prop_oneof![0..40u16, any::<u16>()].prop_map(Step::Index),
    ]
}

/// Runs the steps against a model. `honest`: then nothing may break, and all that the device completes comes out in its order.
fn run(steps: Vec<Step>, honest: bool) {
    const SIZE: u16 = 8;
    let (tables, mut queue) = queue(SIZE);
    let mut waiting: Vec<(u32, u16, u32)> = Vec::new(); // token, head, room
    let mut completed: VecDeque<(u32, u32)> = VecDeque::new();
    let (mut tokens, mut used) = (0u32, 0u16);
    let mut out = std::collections::HashSet::new();
    for step in steps {
        match step {
            Step::Push(lens) => {
                let buffers: Vec<_> = lens.iter().map(|&len| write(len)).collect();
                let index = tables.index();
                if queue.push(&buffers, tokens).is_ok() {
                    let head = tables.head(index, SIZE);
                    if honest {
                        assert_eq!(tables.chain(head), buffers);
                    }
                    waiting.push((tokens, head, lens.iter().sum()));
                }
                tokens += 1;
            }
            Step::Complete(n, len) if !waiting.is_empty() => {
                let (token, head, room) = waiting.remove(n % waiting.len());
                let len = len % (room + 1);
                tables.put_used(used, SIZE, head.into(), len);
                used = used.wrapping_add(1);
                tables.show_used(used, 0);
                completed.push_back((token, len));
            }
            Step::Pop => match queue.pop() {
                Ok(Some((token, len))) => {
                    assert!(out.insert(token), "token {token} came out twice");
                    assert!(token < tokens);
                    if honest {
                        assert_eq!(completed.pop_front(), Some((token, len)));
                    }
                }
                Ok(None) => assert!(!honest || completed.is_empty()),
                Err(broken) => assert!(!honest, "{broken:?}"),
            },
            Step::Used(n, id, len) => tables.put_used(n, SIZE, id, len),
            Step::Index(index) => tables.show_used(index, 0),
            Step::Complete(..) => {}
        }
        assert!(queue.in_flight() <= SIZE);
    }
    for token in queue.take_all() {
        assert!(out.insert(token), "token {token} came out twice");
    }
}

proptest! {
    #[test]
    fn an_honest_device_breaks_nothing(steps in prop::collection::vec(honest(), 0..200)) {
        run(steps, true);
    }

    #[test]
    fn a_device_that_writes_anything_gets_each_request_back_once_at_the_most(
        steps in prop::collection::vec(any_step(), 0..200),
    ) {
        run(steps, false);
    }
}
