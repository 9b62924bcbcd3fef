//! The ring that keeps the log's records: the newest push out the oldest.
//!
//! Records have numbers, which count up from 0 and are never used again. Their texts follow each other in a ring of bytes, and what is known of each
//! stands at its number modulo `RECORDS`. Records `first..next` are there; their texts lie in the last `BYTES` bytes before `end`.
//!
//! All is in words of a sequence lock (`sync::protocol::sequence`), so that the ring lies in zeroed memory, works before there are locks, and is read without
//! writing anything. Who appends excludes others who do (`kept`).
#![forbid(unsafe_code)]

use sync::protocol::sequence::{Byte, HalfWord, Sequence, Word};

/// The longest text that is kept: Linux's PRINTKRB_RECORD_MAX. What is longer is cut off.
pub const MOST: usize = 1024;

/// What is known of a record besides its text.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Record {
    pub seq: u64,
    /// Microseconds since boot.
    pub time: u64,
    /// As syslog(3) numbers them.
    pub facility: u8,
    pub level: u8,
    /// Bytes of its text.
    pub len: usize,
    /// Lines of its text, at least one.
    pub lines: usize,
}

struct Place {
    /// Where the text begins, counted from the first byte ever written.
    start: Word,
    time: Word,
    /// Length and lines, 16 bits each.
    size: HalfWord,
    facility: Byte,
    level: Byte,
}

#[repr(align(64))]
pub struct Ring<const BYTES: usize, const RECORDS: usize> {
    sequence: Sequence,
    first: Word,
    next: Word,
    /// Bytes ever written.
    end: Word,
    places: [Place; RECORDS],
    text: [Byte; BYTES],
}

#[expect(
    clippy::arithmetic_side_effects,
    reason = "counts of records and bytes that would take centuries to overflow"
)]
#[expect(clippy::indexing_slicing, reason = "modulo the length")]
impl<const BYTES: usize, const RECORDS: usize> Ring<BYTES, RECORDS> {
    pub const fn new() -> Self {
        Ring {
            sequence: Sequence::new(),
            first: Word::new(),
            next: Word::new(),
            end: Word::new(),
            places: [const {
                Place {
                    start: Word::new(),
                    time: Word::new(),
                    size: HalfWord::new(),
                    facility: Byte::new(),
                    level: Byte::new(),
                }
            }; RECORDS],
            text: [const { Byte::new() }; BYTES],
        }
    }

    /// The number of the oldest record that is there; `next` if none is.
    pub fn first(&self) -> u64 {
        self.first.load()
    }

    /// The number that the next record will have.
    pub fn next(&self) -> u64 {
        self.next.load()
    }

    fn place(&self, seq: u64) -> &Place {
        &self.places[(seq % RECORDS as u64) as usize]
    }

    fn byte(&self, at: u64) -> &Byte {
        &self.text[(at % BYTES as u64) as usize]
    }

    /// What `look` gives, which looks at the ring and decides nothing yet. None: a record was appended meanwhile.
    pub fn try_read<T>(&self, look: impl FnOnce() -> T) -> Option<T> {
        self.sequence.read(look)
    }

    /// Keeps a record, and lets as many old ones go as there is no room for. One at a time.
    pub fn append(&self, time: u64, facility: u8, level: u8, text: &[u8]) {
        self.sequence.write(|| self.put(time, facility, level, text));
    }

    fn put(&self, time: u64, facility: u8, level: u8, text: &[u8]) {
        let text = text.get(..MOST.min(BYTES)).unwrap_or(text);
        let (mut first, next, start) = (self.first(), self.next(), self.end.load());
        let end = start + text.len() as u64;
        while first < next
            && (next - first >= RECORDS as u64 || end - self.place(first).start.load() > BYTES as u64)
        {
            first += 1;
        }
        self.first.store(first);
        let mut lines = 1;
        for (at, byte) in (start..).zip(text) {
            self.byte(at).store(*byte);
            lines += u32::from(*byte == b'\n');
        }
        let place = self.place(next);
        place.start.store(start);
        place.time.store(time);
        place.size.store(text.len() as u32 | lines << 16);
        place.facility.store(facility);
        place.level.store(level);
        self.end.store(end);
        self.next.store(next + 1);
    }

    /// Record `seq`, or the oldest after it if that one is gone, with as much of its text as `into` has room for. None: there is none yet.
    pub fn read(&self, seq: u64, into: &mut [u8]) -> Option<Record> {
        let record = self.look(seq)?;
        let start = self.place(record.seq).start.load();
        for (at, to) in (start..).zip(into.iter_mut().take(record.len)) {
            *to = self.byte(at).load();
        }
        Some(record)
    }

    /// As `read`, without the text.
    pub fn look(&self, seq: u64) -> Option<Record> {
        let seq = seq.max(self.first());
        if seq >= self.next() {
            return None;
        }
        let place = self.place(seq);
        let size = place.size.load();
        Some(Record {
            seq,
            time: place.time.load(),
            facility: place.facility.load(),
            level: place.level.load(),
            len: (size & 0xffff) as usize,
            lines: (size >> 16) as usize,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;
    use std::vec::Vec;

    const BYTES: usize = 64;
    const RECORDS: usize = 8;
    type Small = Ring<BYTES, RECORDS>;

    fn read(ring: &Small, seq: u64) -> Option<(u64, Vec<u8>)> {
        let mut text = [0; MOST];
        let record = ring.read(seq, &mut text)?;
        Some((record.seq, text[..record.len].to_vec()))
    }

    #[test]
    fn an_empty_ring_has_nothing_to_read() {
        let ring = Small::new();
        assert_eq!((ring.first(), ring.next(), read(&ring, 0), read(&ring, 7)), (0, 0, None, None));
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let ring = Small::new();
        ring.append(12, 3, 6, b"one\ntwo");
        let mut text = [0; 16];
        let found = ring.read(0, &mut text).unwrap();
        assert_eq!(found, Record { seq: 0, time: 12, facility: 3, level: 6, len: 7, lines: 2 });
        assert_eq!(&text[..7], b"one\ntwo");
        assert_eq!(ring.look(0), Some(found));
    }

    #[test]
    fn who_reads_a_record_that_is_gone_gets_the_oldest_and_sees_its_number() {
        let ring = Small::new();
        (0..20).for_each(|n| ring.append(n, 0, 6, &[b'a' + n as u8]));
        assert_eq!(ring.first(), 12);
        assert_eq!(read(&ring, 3), Some((12, b"m".to_vec())));
    }

    #[test]
    fn a_text_that_is_longer_than_the_ring_is_cut_and_pushes_all_others_out() {
        let ring = Small::new();
        ring.append(0, 0, 6, b"before");
        ring.append(0, 0, 6, &[b'x'; 100]);
        assert_eq!(read(&ring, 0), Some((1, [b'x'; BYTES].to_vec())));
        ring.append(0, 0, 6, b"");
        assert_eq!(ring.first(), 1, "what is empty needs no room");
    }

    proptest! {
        /// Beside a plain list from which the oldest are taken while there are too many or their texts are too long.
        #[test]
        fn it_holds_what_a_list_would(texts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..60)) {
            let ring = Small::new();
            let mut list: VecDeque<(u64, Vec<u8>)> = VecDeque::new();
            for (seq, text) in (0..).zip(&texts) {
                ring.append(seq * 3, seq as u8, seq as u8 & 7, text);
                list.push_back((seq, text.clone()));
                while list.len() > RECORDS || list.iter().map(|(_, text)| text.len()).sum::<usize>() > BYTES {
                    list.pop_front();
                }
                prop_assert_eq!(ring.next(), seq + 1);
                prop_assert_eq!(ring.first(), list.front().map_or(seq + 1, |front| front.0));
                for wanted in 0..seq + 2 {
                    let due = list.iter().find(|(seq, _)| *seq >= wanted).cloned();
                    prop_assert_eq!(read(&ring, wanted), due.clone());
                    let lines = due.map(|(_, text)| 1 + text.iter().filter(|b| **b == b'\n').count());
                    let found = ring.look(wanted);
                    prop_assert_eq!(found.map(|r| r.lines), lines);
                    prop_assert!(found.is_none_or(|r| r.time == r.seq * 3 && u64::from(r.facility) == r.seq));
                }
            }
        }
    }
}
