//! What epoll reports, against the state of pipes; and who is woken.

use super::*;
use crate::arch::time;
use crate::errno::ELOOP;
use crate::errno::{EAGAIN, EINTR};
use crate::fs::anon::pipe;
use crate::fs::file::buffer::{Input, Output};
use crate::testing::{check, fork, in_process, is_asleep, thread, until};
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

const NOW: Option<u64> = Some(0);

fn epoll() -> Arc<File> {
    opened(try_new(OpenFlags::empty()).unwrap())
}

/// As if a descriptor referred to it: an epoll drops files that none does.
fn opened(file: Arc<File>) -> Arc<File> {
    file.add_open();
    file
}

fn of(file: &File) -> &Epoll {
    file.downcast::<Epoll>().unwrap()
}

fn pipe() -> (Arc<File>, Arc<File>) {
    let (reader, writer) = pipe::pair(OpenFlags::NONBLOCK).unwrap();
    (opened(reader), opened(writer))
}

fn put(writer: &File) {
    assert_eq!(writer.write(&mut Input::kernel(b"x")), Ok(1));
}

/// Takes all there is.
fn drain(reader: &File) {
    while reader.read(&mut Output::kernel(&mut [0; 64])).is_ok() {}
    assert_eq!(reader.read(&mut Output::kernel(&mut [0])), Err(EAGAIN));
}

/// Data and events of what is ready now.
fn ready(epoll: &File) -> Vec<(u64, u32)> {
    let mut events = [Event::default(); 8];
    let n = of(epoll).wait(epoll, &mut events, NOW).unwrap();
    events[..n].iter().map(|event| (event.data, event.events)).collect()
}

fn event(events: u32, data: u64) -> Event {
    Event { events, data }
}

#[test]
fn a_level_is_reported_as_long_as_it_holds() {
    in_process(|| {
        let (epoll, (reader, writer)) = (epoll(), pipe());
        of(&epoll).add(3, reader.clone(), event(poll::IN, 7)).unwrap();
        assert_eq!(ready(&epoll), []);
        put(&writer);
        assert_eq!(ready(&epoll), [(7, poll::IN)]);
        assert_eq!(ready(&epoll), [(7, poll::IN)]);
        drain(&reader);
        assert_eq!(ready(&epoll), []);
    });
}

/// Nobody finds the list empty because another is just asking the file.
#[test]
fn a_level_is_there_for_all_who_look_at_once() {
    in_process(|| {
        let (epoll, (reader, writer)) = (epoll(), pipe());
        of(&epoll).add(3, reader.clone(), event(poll::IN, 7)).unwrap();
        put(&writer);
        let looks = |epoll: Arc<File>| (0..3000).filter(|_| ready(&epoll) != [(7, poll::IN)]).count();
        let theirs = epoll.clone();
        let other = thread(move || looks(theirs));
        assert_eq!((looks(epoll.clone()), other.join()), (0, 0));
        drain(&reader);
        assert_eq!(ready(&epoll), []);
    });
}

/// Among many who look, one gets it.
#[test]
fn a_one_shot_is_reported_once_though_two_look_and_it_happens_again() {
    in_process(|| {
        let (epoll, (reader, writer)) = (epoll(), pipe());
        let once = event(poll::IN | ONE_SHOT, 7);
        of(&epoll).add(3, reader.clone(), once).unwrap();
        for _ in 0..500 {
            let (theirs, writes) = (epoll.clone(), writer.clone());
            let other = thread(move || {
                put(&writes);
                ready(&theirs).len()
            });
            put(&writer);
            let mine = ready(&epoll).len();
            assert_eq!(mine + other.join() + ready(&epoll).len(), 1);
            drain(&reader);
            of(&epoll).modify(3, &reader, once).unwrap();
        }
    });
}

#[test]
fn an_edge_is_reported_once_for_each_event() {
    in_process(|| {
        let (epoll, (reader, writer)) = (epoll(), pipe());
        put(&writer);
        of(&epoll).add(3, reader, event(poll::IN | EDGE, 7)).unwrap();
        assert_eq!(ready(&epoll), [(7, poll::IN)], "what is ready when it is added is an edge");
        assert_eq!(ready(&epoll), []);
        put(&writer);
        assert_eq!(ready(&epoll), [(7, poll::IN)]);
        assert_eq!(ready(&epoll), []);
    });
}

#[test]
fn one_shot_is_reported_once_until_it_is_armed_again() {
    in_process(|| {
        let (epoll, (reader, writer)) = (epoll(), pipe());
        of(&epoll).add(3, reader.clone(), event(poll::IN | ONE_SHOT, 7)).unwrap();
        put(&writer);
        assert_eq!(ready(&epoll), [(7, poll::IN)]);
        put(&writer);
        assert_eq!(ready(&epoll), []);
        of(&epoll).modify(3, &reader, event(poll::IN | ONE_SHOT, 8)).unwrap();
        assert_eq!(ready(&epoll), [(8, poll::IN)]);
        assert_eq!(ready(&epoll), []);
    });
}

#[test]
fn errors_and_hang_ups_are_reported_unasked() {
    in_process(|| {
        let (epoll, (reader, writer)) = (epoll(), pipe());
        of(&epoll).add(3, reader, event(poll::IN, 1)).unwrap();
        writer.drop_open();
        assert_eq!(ready(&epoll), [(1, poll::HUP)]);
    });
}

#[test]
fn what_is_removed_or_closed_is_not_reported() {
    in_process(|| {
        let (epoll, (removed, writer), (closed, other)) = (epoll(), pipe(), pipe());
        of(&epoll).add(3, removed.clone(), event(poll::IN, 1)).unwrap();
        of(&epoll).add(4, closed.clone(), event(poll::IN, 2)).unwrap();
        put(&writer);
        put(&other);
        assert_eq!(ready(&epoll).len(), 2);
        of(&epoll).remove(3, &removed).unwrap();
        assert_eq!(of(&epoll).remove(3, &removed), Err(ENOENT));
        assert_eq!(ready(&epoll), [(2, poll::IN)]);
        closed.drop_open();
        assert_eq!(ready(&epoll), []);
    });
}

/// Of a ready watch that is removed, or whose file or epoll is closed, nothing stays: neither in the epoll nor at the file, nor in its user's count.
#[test]
fn a_watch_that_ends_leaves_nothing() {
    in_process(|| {
        crate::testing::syscall(linux_raw_sys::general::__NR_setuid, &[1077]).unwrap();
        let (epoll, other, (reader, writer), (closed, theirs)) = (epoll(), epoll(), pipe(), pipe());
        let before = watches();
        put(&writer);
        put(&theirs);
        for _ in 0..100 {
            of(&epoll).add(3, reader.clone(), event(poll::IN, 1)).unwrap();
            of(&epoll).remove(3, &reader).unwrap();
        }
        assert_eq!(watches(), before, "removed");
        assert!(of(&epoll).core.ready.lock().is_empty());
        of(&epoll).add(4, closed.clone(), event(poll::IN, 2)).unwrap();
        of(&other).add(4, closed.clone(), event(poll::IN, 2)).unwrap();
        of(&other).add(5, reader.clone(), event(poll::IN, 2)).unwrap();
        assert_eq!(watches(), before + 3);
        closed.drop_open();
        assert_eq!(watches(), before + 1, "the file is closed");
        assert!(of(&epoll).core.ready.lock().is_empty());
        assert_eq!(of(&epoll).add(4, closed.clone(), event(poll::IN, 2)), Err(EBADF));
        other.drop_open();
        assert_eq!(watches(), before, "the epoll is closed");
        assert_eq!(of(&other).add(5, reader.clone(), event(poll::IN, 2)), Err(EBADF));
        assert_eq!(watches(), before);
    });
}

/// Watches that are counted for the caller. His pipes keep others from looking whether he is idle.
fn watches() -> u64 {
    crate::account::used(caller::uid(), Kind::Watches)
}

#[test]
fn an_interest_is_a_descriptor_and_a_file() {
    in_process(|| {
        let (epoll, (reader, writer)) = (epoll(), pipe());
        let add = |fd, file: &Arc<File>| of(&epoll).add(fd, file.clone(), event(poll::IN, fd as u64));
        assert_eq!(add(3, &reader), Ok(()));
        assert_eq!(add(3, &reader), Err(EEXIST));
        assert_eq!(add(4, &reader), Ok(()), "a second descriptor of the same file");
        assert_eq!(add(3, &writer), Ok(()), "the number means another file by now");
        assert_eq!(of(&epoll).modify(5, &reader, event(poll::IN, 0)), Err(ENOENT));
        put(&writer);
        let mut found: Vec<_> = ready(&epoll).iter().map(|(data, _)| *data).collect();
        found.sort();
        assert_eq!(found, [3, 4]);
    });
}

#[test]
fn epolls_watch_epolls_but_not_in_a_circle() {
    in_process(|| {
        let (outer, inner, (reader, writer)) = (epoll(), epoll(), pipe());
        of(&inner).add(3, reader.clone(), event(poll::IN, 1)).unwrap();
        of(&outer).add(4, inner.clone(), event(poll::IN, 2)).unwrap();
        assert_eq!(of(&inner).add(5, outer.clone(), event(poll::IN, 3)), Err(ELOOP));
        assert_eq!(of(&inner).add(6, inner.clone(), event(poll::IN, 4)), Err(EINVAL));
        assert_eq!(ready(&outer), []);
        put(&writer);
        assert_eq!(ready(&outer), [(2, poll::IN)]);
        assert_eq!(ready(&inner), [(1, poll::IN)]);
        of(&outer).remove(4, &inner).unwrap();
        assert_eq!(of(&inner).add(5, outer.clone(), event(poll::IN, 3)), Ok(()), "no circle any more");
    });
}

#[test]
fn a_chain_of_epolls_has_a_longest() {
    in_process(|| {
        let chain: Vec<_> = (0..7).map(|_| epoll()).collect();
        let results: Vec<_> =
            (0..6).map(|n| of(&chain[n + 1]).add(3, chain[n].clone(), event(poll::IN, 0))).collect();
        assert_eq!(results, [Ok(()), Ok(()), Ok(()), Ok(()), Err(ELOOP), Ok(())]);
    });
}

#[test]
fn who_waits_is_woken_by_an_event_and_by_its_deadline() {
    in_process(|| {
        let (epoll, (reader, writer)) = (epoll(), pipe());
        of(&epoll).add(3, reader, event(poll::IN, 7)).unwrap();
        let theirs = epoll.clone();
        let waiter = thread(move || {
            let mut events = [Event::default(); 2];
            of(&theirs).wait(&theirs, &mut events, None).map(|n| (n, events[0].data))
        });
        let tid = waiter.tid;
        until(|| is_asleep(tid));
        put(&writer);
        assert_eq!(waiter.join(), Ok((1, 7)));
        let (empty, _writer) = pipe();
        let other = self::epoll();
        of(&other).add(3, empty, event(poll::IN, 1)).unwrap();
        let deadline = time::now() + 5_000_000;
        assert_eq!(of(&other).wait(&other, &mut [Event::default()], Some(deadline)), Ok(0));
        assert!(time::now() >= deadline);
    });
}

#[test]
fn a_signal_ends_the_wait_and_it_is_not_begun_again() {
    in_process(|| {
        let child = fork(|| {
            let epoll = epoll();
            let result = of(&epoll).wait(&epoll, &mut [Event::default()], None);
            assert_eq!(result, Err(EINTR));
        });
        until(|| is_asleep(child.pid));
        crate::process::signal::send::kill(child.pid as i32, linux_raw_sys::general::SIGUSR1).unwrap();
        assert_eq!(child.wait(), 0);
    });
}

#[test]
fn with_little_room_the_ready_take_turns() {
    in_process(|| {
        let epoll = epoll();
        let pipes: Vec<_> = (0..3).map(|_| pipe()).collect();
        for (n, (reader, writer)) in pipes.iter().enumerate() {
            of(&epoll).add(n as i32, reader.clone(), event(poll::IN, n as u64)).unwrap();
            put(writer);
        }
        let mut one = [Event::default()];
        let seen: Vec<u64> = (0..6)
            .map(|_| {
                assert_eq!(of(&epoll).wait(&epoll, &mut one, NOW), Ok(1));
                one[0].data
            })
            .collect();
        assert_eq!(seen, [0, 1, 2, 0, 1, 2]);
    });
}

#[derive(Clone, Debug)]
enum Op {
    Put(usize),
    Drain(usize),
    Arm(usize, u32),
    Remove(usize),
    Wait,
}

/// An interest of the model: its behaviour, whether it is armed, and whether something has happened since it was reported.
#[derive(Clone, Copy)]
struct Watch {
    behaviour: u32,
    armed: bool,
    fresh: bool,
}

#[test]
fn reports_agree_with_the_state_of_the_files() {
    let n = || 0usize..3;
    let behaviour = prop_oneof![Just(0), Just(EDGE), Just(ONE_SHOT), Just(EDGE | ONE_SHOT)];
    let op = prop_oneof![
        4 => n().prop_map(Op::Put),
        3 => n().prop_map(Op::Drain),
        3 => (n(), behaviour).prop_map(|(n, behaviour)| Op::Arm(n, behaviour)),
        1 => n().prop_map(Op::Remove),
        4 => Just(Op::Wait),
    ];
    in_process(move || {
        check(200, &prop::collection::vec(op, 1..50), |ops| {
            let epoll = epoll();
            let pipes: Vec<_> = (0..3).map(|_| pipe()).collect();
            let mut watches: Vec<Option<Watch>> = vec![None; 3];
            let mut full = [false; 3];
            for op in ops {
                match op {
                    Op::Put(n) => {
                        put(&pipes[n].1);
                        full[n] = true;
                        watches[n].iter_mut().for_each(|watch| watch.fresh = true);
                    }
                    Op::Drain(n) => {
                        drain(&pipes[n].0);
                        full[n] = false;
                    }
                    Op::Arm(n, behaviour) => {
                        let wanted = event(poll::IN | behaviour, n as u64);
                        match watches[n] {
                            None => of(&epoll).add(n as i32, pipes[n].0.clone(), wanted).unwrap(),
                            Some(_) => of(&epoll).modify(n as i32, &pipes[n].0, wanted).unwrap(),
                        }
                        watches[n] = Some(Watch { behaviour, armed: true, fresh: true });
                    }
                    Op::Remove(n) => {
                        let expected = watches[n].take().map(drop).ok_or(ENOENT);
                        assert_eq!(of(&epoll).remove(n as i32, &pipes[n].0), expected);
                    }
                    Op::Wait => {
                        let mut expected = Vec::new();
                        for (n, watch) in watches.iter_mut().enumerate() {
                            let Some(watch) = watch else { continue };
                            if full[n] && watch.armed && (watch.behaviour & EDGE == 0 || watch.fresh) {
                                expected.push(n as u64);
                                watch.armed = watch.behaviour & ONE_SHOT == 0;
                            }
                            // A look without a report uses the edge up as well.
                            watch.fresh = false;
                        }
                        let mut found: Vec<u64> = ready(&epoll).iter().map(|(data, _)| *data).collect();
                        found.sort();
                        assert_eq!(found, expected);
                    }
                }
            }
            epoll.drop_open();
        });
    });
}
