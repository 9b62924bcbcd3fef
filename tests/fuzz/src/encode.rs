//! Programs as the executor reads them (guest/program.c), and where their data lies.
//!
//! A batch is a row of programs: u32 bytes that follow; u32 number, u16 time limit in milliseconds, u8 is it uid 1000, u8 flags, u8 tasks;
//! then for each task u8 kind, u32 bytes, operations. All little endian.
#![forbid(unsafe_code)]

use std::collections::{HashMap, HashSet};

use crate::compare::masks;
use crate::program::{Call, Data, Part, Place, Program, TaskKind, Value};

/// As in guest/executor.h.
const DATA_BYTES: usize = 0x10000;
/// Small data lies below this, where the digest of a compared program sees it.
const DIGEST_BYTES: usize = 0x2000;
/// Below this lies only what is put there by `Place::At`.
pub const FIXED_BYTES: usize = 0x200;
const SLOTS_PER_CALL: usize = 4;
const SHARED_DATA: u8 = 1;
const SAY_RESULTS: u8 = 2;

/// The bytes of a batch; programs are numbered from 1.
pub fn batch(programs: &[Program], limit: u16, say_results: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (number, program) in (1u32..).zip(programs) {
        let one = encode(program, number, limit, say_results);
        bytes.extend_from_slice(&u32::try_from(one.len()).unwrap_or(u32::MAX).to_le_bytes());
        bytes.extend_from_slice(&one);
    }
    bytes
}

fn encode(program: &Program, number: u32, limit: u16, say_results: bool) -> Vec<u8> {
    let mut out = number.to_le_bytes().to_vec();
    out.extend_from_slice(&limit.to_le_bytes());
    out.push(u8::from(program.uid != 0));
    out.push(if program.shared { SHARED_DATA } else { 0 } | if say_results { SAY_RESULTS } else { 0 });
    out.push(u8::try_from(program.tasks.len()).unwrap_or(u8::MAX));
    let mut writer = Writer {
        out,
        slots: slots(program),
        small: FIXED_BYTES,
        large: DIGEST_BYTES,
        masks: say_results,
        differing: masks::differing(program),
    };
    for task in &program.tasks {
        writer.out.push(match task.kind {
            TaskKind::Process => 0,
            TaskKind::Thread => 1,
            TaskKind::SharedMemory => 2,
            TaskKind::SharedFiles => 3,
        });
        let length_at = writer.out.len();
        writer.out.extend_from_slice(&[0; 4]);
        task.calls.iter().for_each(|call| writer.call(call));
        let length = u32::try_from(writer.out.len() - length_at - 4).unwrap_or(0);
        if let Some(place) = writer.out.get_mut(length_at..length_at + 4) {
            place.copy_from_slice(&length.to_le_bytes());
        }
    }
    writer.out
}

/// The first slot of each call, by its id.
pub fn slots(program: &Program) -> HashMap<u32, usize> {
    program.calls().enumerate().map(|(index, call)| (call.id, index * SLOTS_PER_CALL)).collect()
}

struct Writer {
    out: Vec<u8>,
    slots: HashMap<u32, usize>,
    small: usize,
    large: usize,
    /// What calls write that two kernels cannot agree on is cleared after them.
    masks: bool,
    /// The calls whose results are not compared.
    differing: HashSet<u32>,
}

impl Writer {
    fn call(&mut self, call: &Call) {
        let places: Vec<Option<usize>> =
            call.arguments.iter().map(|argument| self.data_of(argument)).collect();
        let slot = self.slots.get(&call.id).copied().unwrap_or(0);
        self.out.push(3);
        self.u16(call.number);
        self.u16(slot);
        self.out.push(u8::try_from(call.arguments.len()).unwrap_or(0));
        for (argument, place) in call.arguments.iter().zip(&places) {
            self.value(argument, *place);
        }
        for (index, peek) in call.peeks.iter().enumerate().take(SLOTS_PER_CALL - 1) {
            if let Some(Some(place)) = places.get(peek.argument) {
                self.out.push(4);
                self.u16(slot + 1 + index);
                self.u32(place + peek.offset);
                self.out.push(u8::try_from(peek.size).unwrap_or(8));
            }
        }
        if self.masks && masks::clears(call, &self.differing) {
            self.clear_rooms(call, &places);
        }
    }

    fn clear_rooms(&mut self, call: &Call, places: &[Option<usize>]) {
        for (argument, place) in call.arguments.iter().zip(places) {
            if let (Value::Data(data), Some(place)) = (argument, place) {
                let size = data.size().min(0x8000);
                self.out.push(2);
                self.u32(*place);
                self.u16(size);
                self.out.resize(self.out.len() + size, 0);
            }
        }
    }

    /// Where the data that a value points to lies; writes the operations that fill it.
    fn data_of(&mut self, value: &Value) -> Option<usize> {
        let Value::Data(data) = value else { return None };
        let inner: Vec<Option<usize>> = data
            .parts
            .iter()
            .map(|part| match part {
                Part::Value(_, value) => self.data_of(value),
                Part::Bytes(_) | Part::Room(_) => None,
            })
            .collect();
        let place = self.place(data);
        let mut at = place;
        for (part, inner) in data.parts.iter().zip(inner) {
            match part {
                Part::Bytes(bytes) => {
                    for (index, piece) in bytes.chunks(0x8000).enumerate() {
                        self.out.push(2);
                        self.u32(at + index * 0x8000);
                        self.u16(piece.len());
                        self.out.extend_from_slice(piece);
                    }
                }
                Part::Room(_) => {}
                Part::Value(size, value) => {
                    self.out.push(1);
                    self.u32(at);
                    self.out.push(u8::try_from(*size).unwrap_or(8));
                    self.value(value, inner);
                }
            }
            at += part.size();
        }
        Some(place)
    }

    fn place(&mut self, data: &Data) -> usize {
        let size = data.size();
        let take = |next: &mut usize, first: usize, end: usize| {
            if *next + size > end {
                *next = first;
            }
            let place = *next;
            *next = (place + size + 15) & !15;
            place
        };
        match data.place {
            Place::At(offset) => offset,
            Place::Edge => DATA_BYTES.saturating_sub(size),
            Place::Anywhere if size <= 0x400 => take(&mut self.small, FIXED_BYTES, DIGEST_BYTES),
            Place::Anywhere => take(&mut self.large, DIGEST_BYTES, DATA_BYTES),
        }
    }

    fn value(&mut self, value: &Value, place: Option<usize>) {
        let number = |number: u64| {
            let mut bytes = vec![0];
            bytes.extend_from_slice(&number.to_le_bytes());
            bytes
        };
        let bytes = match value {
            Value::Number(word) => number(*word),
            Value::Result { id, part, instead } => match self.slots.get(id) {
                Some(slot) => {
                    let mut bytes = vec![1];
                    bytes.extend_from_slice(&word16(slot + usize::from(*part)));
                    bytes.extend_from_slice(&instead.to_le_bytes());
                    bytes
                }
                // The call was taken out of the program.
                None => number(*instead),
            },
            Value::Data(_) => {
                let mut bytes = vec![2];
                bytes.extend_from_slice(&u32::try_from(place.unwrap_or(0)).unwrap_or(0).to_le_bytes());
                bytes
            }
            Value::Code(which) => vec![3, *which],
            Value::Pid(which) => vec![4, *which],
        };
        self.out.extend_from_slice(&bytes);
    }

    fn u16(&mut self, word: usize) {
        self.out.extend_from_slice(&word16(word));
    }

    fn u32(&mut self, word: usize) {
        self.out.extend_from_slice(&u32::try_from(word).unwrap_or(0).to_le_bytes());
    }
}

fn word16(word: usize) -> [u8; 2] {
    u16::try_from(word).unwrap_or(0).to_le_bytes()
}
