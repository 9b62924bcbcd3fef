//! Pipes against a queue of bytes, and what tasks at both ends see of each other.

use super::*;
use crate::errno::{EBUSY, EINTR, ERESTARTSYS};
use crate::process;
use crate::testing::{BAD_ADDRESS, Memory, check, fork, in_process, is_asleep, syscall, thread, until};
use linux_raw_sys::general as abi;
use proptest::prelude::*;
use std::collections::VecDeque;
use std::vec;
use std::vec::Vec;

/// The default of fs.pipe-max-size, which does not hold for the superuser.
const LARGEST: usize = 1 << 20;

pub(super) fn nonblocking() -> (Arc<File>, Arc<File>) {
    pair(OpenFlags::NONBLOCK).unwrap()
}

/// As if a descriptor referred to each: who sleeps keeps its end open.
fn waiting() -> (Arc<File>, Arc<File>) {
    let (reader, writer) = pair(OpenFlags::empty()).unwrap();
    reader.add_open();
    writer.add_open();
    (reader, writer)
}

pub(super) fn write(file: &File, bytes: &[u8]) -> Result<usize> {
    file.write(&mut Input::kernel(bytes))
}

pub(super) fn read(file: &File, len: usize) -> Result<Vec<u8>> {
    let mut buffer = vec![0; len];
    let n = file.read(&mut Output::kernel(&mut buffer))?;
    buffer.truncate(n);
    Ok(buffer)
}

fn end(file: &File) -> &End {
    file.downcast::<End>().unwrap()
}

#[derive(Clone, Debug)]
enum Op {
    Write(usize),
    Read(usize),
    Resize(usize),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let len = || prop_oneof![2 => 0usize..100, 2 => 1usize..3 * PIPE_BUF, 1 => Just(PIPE_BUF), 1 => Just(20 * PAGE)];
    let size = prop_oneof![Just(0usize), 1usize..10 * PAGE, Just(LARGEST), Just(LARGEST + 1)];
    let op = prop_oneof![4 => len().prop_map(Op::Write), 3 => len().prop_map(Op::Read), 1 => size.prop_map(Op::Resize)];
    prop::collection::vec(op, 1..40)
}

/// What a write that does not wait takes: all, or of what is longer than PIPE_BUF as much as there is room for.
fn taken(len: usize, room: usize) -> Result<usize> {
    match len {
        0 => Ok(0),
        1..=PIPE_BUF if len > room => Err(EAGAIN),
        _ if room == 0 => Err(EAGAIN),
        _ => Ok(len.min(room)),
    }
}

#[test]
fn a_pipe_is_a_queue_of_bytes_with_a_bound() {
    in_process(|| {
        check(150, &ops(), |ops| {
            let (reader, writer) = nonblocking();
            let (mut model, mut capacity, mut next) = (VecDeque::<u8>::new(), PAGES * PAGE, 0u8);
            for op in ops {
                match op {
                    Op::Write(len) => {
                        let bytes: Vec<u8> = (0..len).map(|n| next.wrapping_add(n as u8)).collect();
                        let result = write(&writer, &bytes);
                        assert_eq!(result, taken(len, capacity - model.len()));
                        let n = result.unwrap_or(0);
                        model.extend(&bytes[..n]);
                        next = next.wrapping_add(n as u8);
                    }
                    Op::Read(0) => assert_eq!(read(&reader, 0), Ok(Vec::new())),
                    Op::Read(_) if model.is_empty() => assert_eq!(read(&reader, 1), Err(EAGAIN)),
                    Op::Read(len) => {
                        let expected: Vec<u8> = model.drain(..len.min(model.len())).collect();
                        assert_eq!(read(&reader, len), Ok(expected));
                    }
                    Op::Resize(size) => {
                        let rounded = size.max(PAGE).next_power_of_two();
                        let expected = match rounded {
                            _ if model.len() > rounded => Err(EBUSY),
                            _ => Ok(rounded),
                        };
                        assert_eq!(end(&writer).set_capacity(size), expected);
                        capacity = expected.unwrap_or(capacity);
                    }
                }
                assert_eq!(end(&reader).capacity(), capacity);
                let events = reader.poll(&mut Poller::Nobody) | writer.poll(&mut Poller::Nobody);
                assert_eq!(events & poll::IN != 0, !model.is_empty());
                assert_eq!(events & poll::OUT != 0, capacity - model.len() >= PIPE_BUF);
            }
        });
    });
}

#[test]
fn a_reader_sleeps_until_there_is_a_byte_and_ends_with_the_last_writer() {
    in_process(|| {
        let (reader, writer) = waiting();
        let other = thread(move || (read(&reader, 10), read(&reader, 10)));
        let tid = other.tid;
        until(|| is_asleep(tid));
        assert_eq!(write(&writer, b"abc"), Ok(3));
        until(|| is_asleep(tid));
        end(&writer).leave(&mut Pace::resting());
        assert_eq!(other.join(), (Ok(b"abc".to_vec()), Ok(Vec::new())));
    });
}

#[test]
fn a_writer_sleeps_until_there_is_room_for_all_of_a_short_write() {
    in_process(|| {
        let (reader, writer) = waiting();
        assert_eq!(write(&writer, &[1; PAGES * PAGE - 10]), Ok(PAGES * PAGE - 10));
        let other = thread(move || write(&writer, &[2; 100]));
        let tid = other.tid;
        until(|| is_asleep(tid));
        // Room for a part: not mixed with others', so nothing of it comes yet.
        assert_eq!(read(&reader, 50), Ok(vec![1; 50]));
        until(|| is_asleep(tid));
        assert_eq!(end(&reader).pipe.len(), PAGES * PAGE - 60);
        assert_eq!(read(&reader, 40), Ok(vec![1; 40]));
        assert_eq!(other.join(), Ok(100));
    });
}

#[test]
fn short_writes_of_several_writers_are_not_mixed() {
    in_process(|| {
        const ROUNDS: usize = 60;
        let (reader, writer) = waiting();
        let writers: Vec<_> = (1..=3u8)
            .map(|n| {
                let writer = writer.clone();
                thread(move || {
                    for round in 0..ROUNDS {
                        let bytes = vec![n; PIPE_BUF - round];
                        assert_eq!(write(&writer, &bytes), Ok(bytes.len()));
                    }
                })
            })
            .collect();
        let mut rounds = [0; 3];
        let mut left: usize = (0..ROUNDS).map(|round| 3 * (PIPE_BUF - round)).sum();
        let mut all = Vec::new();
        while left > 0 {
            let bytes = read(&reader, 10_000).unwrap();
            left -= bytes.len();
            all.extend(bytes);
        }
        let mut rest = &all[..];
        while let Some(&n) = rest.first() {
            let round = &mut rounds[usize::from(n) - 1];
            let (message, later) = rest.split_at(PIPE_BUF - *round);
            assert!(message.iter().all(|byte| *byte == n), "writer {n}, round {round}");
            *round += 1;
            rest = later;
        }
        writers.into_iter().for_each(|writer| writer.join());
    });
}

#[test]
fn a_pipe_that_nobody_reads_is_broken_and_sends_sigpipe() {
    in_process(|| {
        let child = fork(|| {
            let (reader, writer) = waiting();
            end(&reader).leave(&mut Pace::resting());
            assert_eq!(write(&writer, b"x"), Err(EPIPE));
            assert_eq!(writer.poll(&mut Poller::Nobody) & poll::ERR, poll::ERR);
            assert!(process::signal_pending());
            // On its way back to the program the signal ends it.
            let _ = syscall(abi::__NR_getpid, &[]);
        });
        assert_eq!(child.wait(), abi::SIGPIPE as i32);
    });
}

#[test]
fn a_reader_that_goes_lets_a_writer_end_with_what_it_wrote() {
    in_process(|| {
        let (reader, writer) = waiting();
        let other = thread(move || write(&writer, &[0; PAGES * PAGE + 1]));
        let tid = other.tid;
        until(|| is_asleep(tid));
        // SIGPIPE comes all the same; it is not the test's end.
        assert!(process::current().process.signals.set_action(abi::SIGPIPE, ignore()).is_ok());
        end(&reader).leave(&mut Pace::resting());
        assert_eq!(other.join(), Ok(PAGES * PAGE));
    });
}

fn ignore() -> process::signal::Action {
    process::signal::Action { handler: 1, ..Default::default() }
}

#[test]
fn a_signal_ends_a_sleep_in_a_pipe() {
    in_process(|| {
        let child = fork(|| {
            let (reader, _writer) = waiting();
            let result = read(&reader, 1);
            assert!(result == Err(ERESTARTSYS) || result == Err(EINTR), "{result:?}");
        });
        until(|| is_asleep(child.pid));
        process::signal::send::kill(child.pid as i32, abi::SIGUSR1).unwrap();
        assert_eq!(child.wait(), 0);
    });
}

#[test]
fn a_bad_address_takes_nothing_from_a_pipe() {
    in_process(|| {
        use crate::fs::file::buffer::Segment;
        let (reader, writer) = nonblocking();
        assert_eq!(write(&writer, b"abcdef"), Ok(6));
        let bad = [Segment { addr: BAD_ADDRESS, len: 6 }];
        assert_eq!(reader.read(&mut Output::user(&bad)), Err(EFAULT));
        assert_eq!(writer.write(&mut Input::user(&bad)), Err(EFAULT));
        let memory = Memory::new(1);
        let part = [Segment { addr: memory.address, len: 2 }, Segment { addr: memory.address + 10, len: 2 }];
        assert_eq!(reader.read(&mut Output::user(&part)), Ok(4));
        assert_eq!(memory.bytes(12), b"ab\0\0\0\0\0\0\0\0cd");
        assert_eq!(read(&reader, 9), Ok(b"ef".to_vec()));
    });
}

#[test]
fn the_wrong_end_is_refused() {
    in_process(|| {
        let (reader, writer) = nonblocking();
        assert_eq!(write(&reader, b"x"), Err(EBADF));
        assert_eq!(read(&writer, 1), Err(EBADF));
    });
}
