//! One argument, by its kind.
#![forbid(unsafe_code)]

use darter_table::{Kind, Set, Sort};

use super::numbers::{OFFSETS, WILD};
use super::{Generator, Made, PAGE, WINDOW};
use crate::paths::TEXTS;
use crate::program::{Call, Part, Value};
use crate::table::Resource;

const DATA: u64 = 0x1000_0000;

impl Generator {
    pub(super) fn value(&mut self, kind: &Kind, calls: &mut Vec<Call>) -> Value {
        if !self.alone && self.rng.chance(2) {
            return self.wild();
        }
        match kind {
            Kind::Fd(sort) => self.file(*sort, calls),
            Kind::DirFd => {
                if self.rng.chance(75) {
                    Value::Number(-100i64 as u64)
                } else {
                    self.file(Sort::Directory, calls)
                }
            }
            Kind::Path => self.path(),
            Kind::Text => {
                let text = self.rng.pick(TEXTS).to_owned();
                self.string(text)
            }
            Kind::Texts => self.texts(),
            Kind::InBytes(_) => {
                let size = self.buffer_size();
                self.bytes(size)
            }
            Kind::OutBytes(_) => {
                let size = self.buffer_size();
                self.pointer(vec![Part::Room(size)])
            }
            Kind::InVector(_) => self.vector(true),
            Kind::OutVector(_) => self.vector(false),
            Kind::In(shape) | Kind::InOut(shape) => self.structure(shape, 1, calls),
            Kind::Out(shape) => {
                if self.rng.chance(15) {
                    Value::Number(0)
                } else {
                    self.pointer(vec![Part::Room(shape.size)])
                }
            }
            Kind::InMany(shape, _) | Kind::InOutMany(shape, _) => {
                let count = self.rng.below(5);
                self.structure(shape, count, calls)
            }
            Kind::OutMany(shape, _) => {
                let count = self.rng.pick(&[0, 1, 1, 2, 8, 64]);
                self.pointer(vec![Part::Room(shape.size * count)])
            }
            Kind::Size | Kind::Len => Value::Number(self.length()),
            Kind::Offset => Value::Number(self.near(OFFSETS)),
            Kind::Addr => self.address(),
            Kind::Options(set) => self.options(set),
            Kind::Extra(which) => {
                let kind = self.chosen.last().and_then(|option| option.takes.get(*which));
                match kind {
                    Some(kind) => self.value(kind, calls),
                    None if self.rng.chance(70) => Value::Number(0),
                    None => self.wild(),
                }
            }
            Kind::Mode => Value::Number(self.rng.pick(&[
                0o644,
                0o755,
                0o777,
                0o700,
                0,
                0o111,
                0o444,
                0o4755,
                0o2755,
                0o1777,
                0o7777,
                u64::MAX,
            ])),
            Kind::Device => Value::Number(self.rng.pick(&[
                0x103,
                0x105,
                0x107,
                0x109,
                0x500,
                0x502,
                0x8800,
                0,
                0xffff_ffff,
            ])),
            Kind::Pid => self.process(),
            Kind::Uid | Kind::Gid => Value::Number(self.rng.pick(&[
                0,
                1000,
                1000,
                1001,
                65534,
                u64::MAX,
                0xffff_ffff,
                0x7fff_ffff,
            ])),
            Kind::Signal => Value::Number(self.rng.pick(&[
                0,
                1,
                2,
                3,
                6,
                10,
                12,
                13,
                14,
                15,
                17,
                17,
                18,
                19,
                20,
                21,
                22,
                23,
                28,
                32,
                33,
                34,
                40,
                63,
                64,
                65,
                9,
                11,
                7,
                u64::MAX,
            ])),
            Kind::Timer => match self.result_of(Resource::Timer) {
                Some(value) if self.rng.chance(85) => value,
                _ => Value::Number(self.rng.pick(&[0, 1, 2, u64::MAX])),
            },
            Kind::Int(list) => Value::Number(self.number(list)),
            Kind::Unused => Value::Number(0),
        }
    }

    pub(super) fn address(&mut self) -> Value {
        match self.rng.below(20) {
            0..=9 => Value::Number(WINDOW + PAGE * self.rng.below(64) as u64),
            10 => Value::Number(WINDOW + self.rng.below(0x10_0000) as u64),
            11 => Value::Number(DATA + PAGE * self.rng.below(16) as u64),
            12..=14 => self.result_of(Resource::Memory).unwrap_or(Value::Number(0)),
            15 | 16 => Value::Number(0),
            17 => Value::Number(WINDOW + 0x20_0000 * self.rng.below(8) as u64),
            18 => Value::Number((1 << 30) * (4 + self.rng.below(600) as u64)),
            _ => self.wild(),
        }
    }

    pub(super) fn options(&mut self, set: &'static Set) -> Value {
        let mut word = 0;
        if !set.choices.is_empty()
            && let Some(choice) = set.choices.get(self.rng.below(set.choices.len()))
        {
            word = choice.value;
            self.chosen.push(choice);
        }
        if !set.flags.is_empty() {
            let most = self.rng.pick(&[0, 1, 1, 2, 2, 3, 5]);
            for _ in 0..most {
                if let Some(flag) = set.flags.get(self.rng.below(set.flags.len())) {
                    word |= flag.value;
                }
            }
        }
        match self.rng.below(40) {
            0 => word ^= 1 << self.rng.below(32),
            1 if !self.alone => word = self.rng.pick(WILD),
            2 => word ^= 1 << self.rng.below(64),
            _ => {}
        }
        // Memory that is used has to be there to be used.
        if set.name.contains("map") && self.rng.chance(80) {
            word |= 0x20;
        }
        Value::Number(word)
    }

    pub(super) fn process(&mut self) -> Value {
        match self.rng.below(20) {
            0..=5 => Value::Pid(self.rng.below(2) as u8),
            6..=9 if !self.alone => Value::Pid(2 + self.rng.below(4) as u8),
            10..=14 => self.result_of(Resource::Process).unwrap_or(Value::Pid(0)),
            15 => Value::Number(1),
            16 => Value::Number(u64::MAX),
            17 => Value::Number(self.rng.pick(&[0x7fff_ffff, 0x40_0000, 0x8000_0000, 99_999_999])),
            _ => Value::Number(0),
        }
    }

    pub(super) fn result_of(&mut self, resource: Resource) -> Option<Value> {
        let fitting: Vec<Made> = self
            .made
            .iter()
            .copied()
            .filter(|made| match (made.resource, resource) {
                (Resource::File(_), Resource::File(Sort::Any)) => true,
                // What a call may have made of any sort is worth a try where nothing fits better.
                (Resource::File(Sort::Any), Resource::File(_)) => self.next_id.is_multiple_of(3),
                (have, want) => have == want,
            })
            .collect();
        let made = fitting.get(self.rng.below(fitting.len()))?;
        Some(Value::Result {
            id: made.id,
            part: made.part,
            instead: self.rng.pick(&[0, 1, 3, 4, 5, u64::MAX]),
        })
    }
}
