//! A stream against a plain model: a queue of pieces, some with a mark, for each direction.

use super::*;
use crate::errno::EAGAIN;
use crate::fs::file::poll::{IN, OUT};
use crate::testing::{check, in_process};
use proptest::prelude::*;
use std::collections::VecDeque;

#[derive(Clone, Debug)]
enum Op {
    /// So many bytes, with a file or not.
    Send(usize, bool),
    Receive(usize),
    Peek(usize),
    /// SO_PEEK_OFF.
    PeekFrom(i32),
}

fn ops() -> impl Strategy<Value = Vec<(bool, Op)>> {
    let len = || prop_oneof![4 => 1usize..100, 2 => 1usize..5000, 1 => 1usize..120_000];
    let op = prop_oneof![
        5 => (len(), prop::bool::weighted(0.3)).prop_map(|(len, mark)| Op::Send(len, mark)),
        4 => len().prop_map(Op::Receive),
        3 => len().prop_map(Op::Peek),
        1 => (-1i32..200).prop_map(Op::PeekFrom),
    ];
    prop::collection::vec((any::<bool>(), op), 1..60)
}

struct Piece {
    bytes: Vec<u8>,
    /// How many were there at first.
    len: usize,
    mark: bool,
}

/// One direction.
struct Model {
    pieces: VecDeque<Piece>,
    /// The receiver's SO_PEEK_OFF.
    peek: i32,
}

impl Model {
    fn counted(&self) -> usize {
        self.pieces.iter().map(|piece| message::stream_size(piece.len)).sum()
    }

    /// How many bytes a send that does not wait takes.
    fn send(&mut self, bytes: &[u8], mut mark: bool, buffer: usize) -> Result<usize> {
        let mut done = 0;
        while done < bytes.len() && self.counted() < buffer {
            let len = (bytes.len() - done).min(message::PIECE_MAX).min(buffer / 2 - 64);
            self.pieces.push_back(Piece { bytes: bytes[done..][..len].to_vec(), len, mark });
            mark = false;
            done += len;
        }
        if done > 0 { Ok(done) } else { Err(EAGAIN) }
    }

    fn receive(&mut self, len: usize) -> Result<(Vec<u8>, usize)> {
        let (mut got, mut marked) = (Vec::new(), false);
        while let Some(first) = self.pieces.front_mut() {
            let n = first.bytes.len().min(len - got.len());
            got.extend(first.bytes.drain(..n));
            let mark = core::mem::take(&mut first.mark);
            marked |= mark;
            let ends = first.bytes.is_empty();
            if ends {
                self.pieces.pop_front();
            }
            if !ends || mark || got.len() == len {
                break;
            }
        }
        if got.is_empty() {
            return Err(EAGAIN);
        }
        if self.peek >= 0 {
            self.peek = (self.peek - got.len() as i32).max(0);
        }
        Ok((got, usize::from(marked)))
    }

    fn peek(&mut self, len: usize) -> Result<(Vec<u8>, usize)> {
        let (mut got, mut marked, mut skip) = (Vec::new(), false, self.peek.max(0) as usize);
        for piece in &self.pieces {
            if skip >= piece.bytes.len() {
                skip -= piece.bytes.len();
                continue;
            }
            let n = (piece.bytes.len() - skip).min(len - got.len());
            got.extend(&piece.bytes[skip..][..n]);
            skip = 0;
            marked |= piece.mark;
            if piece.mark || got.len() == len {
                break;
            }
        }
        if got.is_empty() {
            return Err(EAGAIN);
        }
        if self.peek >= 0 {
            self.peek += got.len() as i32;
        }
        Ok((got, usize::from(marked)))
    }
}

#[test]
fn a_stream_is_two_queues_of_bytes_and_marks() {
    in_process(|| {
        let file = End::new(Kind::Datagram).file;
        check(200, &ops(), |ops| {
            let (one, other) = ends(Kind::Stream);
            let mut models = [const { Model { pieces: VecDeque::new(), peek: -1 } }; 2];
            let mut next = 0u8;
            for (back, op) in ops {
                // Who sends and who receives; the model of that direction.
                let (from, to) = if back { (&other, &one) } else { (&one, &other) };
                let model = &mut models[usize::from(back)];
                match op {
                    Op::Send(len, mark) => {
                        let bytes: Vec<u8> = (0..len).map(|n| next.wrapping_add(n as u8)).collect();
                        next = next.wrapping_add(len as u8);
                        let files: &[_] = if mark { &[&file] } else { &[] };
                        let expected = model.send(&bytes, mark, from.socket.options.send_buffer());
                        assert_eq!(from.send_with(&bytes, files), expected);
                    }
                    Op::Receive(len) => assert_eq!(to.receive(len), model.receive(len)),
                    Op::Peek(len) => assert_eq!(to.peek(len), model.peek(len)),
                    Op::PeekFrom(at) => {
                        to.socket.options.set_peek_offset(at);
                        model.peek = at;
                    }
                }
                assert_eq!(from.socket.sent.load(SeqCst), model.counted());
                assert_eq!(to.events() & IN != 0, !model.pieces.is_empty());
                let has_room = (model.counted() + 1) * 4 <= from.socket.options.send_buffer();
                assert_eq!(from.events() & OUT != 0, has_room);
                let bytes: usize = model.pieces.iter().map(|piece| piece.bytes.len()).sum();
                assert_eq!(to.socket.queue.receive().bytes(Kind::Stream), Ok(bytes));
                assert_eq!(to.socket.queue.count(), model.pieces.len());
            }
            // What was not received is credited, and its files are closed.
            let sender = one.socket.clone();
            other.close();
            assert_eq!(sender.sent.load(SeqCst), 0);
            one.close();
            assert_eq!(file.openings(), 1, "those in messages are closed");
        });
    });
}

#[test]
fn a_reader_that_takes_while_the_sender_goes_on_gets_all_in_order() {
    in_process(|| {
        const LEN: usize = 3_000_000;
        let (one, other) = ends(Kind::Stream);
        let sender = crate::testing::thread(move || {
            let bytes: Vec<u8> = (0..LEN).map(|n| (n / 7) as u8).collect();
            let sent = one.send_and_wait(&bytes);
            one.close();
            sent
        });
        let mut at = 0;
        loop {
            let bytes = other.receive_and_wait(50_000).unwrap();
            assert!(bytes.iter().enumerate().all(|(n, byte)| *byte == ((at + n) / 7) as u8));
            at += bytes.len();
            if bytes.is_empty() {
                break;
            }
        }
        assert_eq!((at, sender.join()), (LEN, Ok(LEN)));
        other.close();
    });
}
