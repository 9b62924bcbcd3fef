//! What lies in memory: bytes, strings, names, vectors, structures by their fields.
#![forbid(unsafe_code)]

use darter_table::{Call as Row, Field, Kind, Struct};

use super::Generator;
use super::numbers::{LENGTHS, WILD};
use crate::encode::FIXED_BYTES;
use crate::paths::{HERE, MACHINE, NEW};
use crate::program::{Call, Data, Part, Place, Value};

impl Generator {
    pub(super) fn bytes(&mut self, size: usize) -> Value {
        let byte = self.rng.pick(&[0, b'a', 0xff]);
        let bytes = match self.rng.below(4) {
            0 => (0..size).map(|_| self.rng.word() as u8).collect(),
            1 => {
                let mut bytes = 1u64.to_le_bytes().to_vec();
                bytes.resize(size, byte);
                bytes
            }
            _ => vec![byte; size],
        };
        self.pointer(vec![Part::Bytes(bytes)])
    }

    pub(super) fn pointer(&mut self, parts: Vec<Part>) -> Value {
        let size: usize = parts.iter().map(Part::size).sum();
        let place = match self.rng.below(20) {
            0 => Place::Edge,
            1..=4 if size <= 64 => Place::At(self.rng.below(FIXED_BYTES / 64) * 64),
            _ => Place::Anywhere,
        };
        Value::Data(Data { place, parts })
    }

    pub(super) fn string(&mut self, text: String) -> Value {
        let mut bytes = text.into_bytes();
        bytes.push(0);
        self.pointer(vec![Part::Bytes(bytes)])
    }

    pub(super) fn path(&mut self) -> Value {
        let text = match self.rng.below(20) {
            0..=8 => self.rng.pick(HERE).to_owned(),
            9..=13 => self.rng.pick(NEW).to_owned(),
            14..=17 => self.rng.pick(if self.alone { HERE } else { MACHINE }).to_owned(),
            18 => "a".repeat(self.rng.pick(&[254, 255, 256, 4094, 4095, 4096])),
            _ => "d/".repeat(self.rng.pick(&[2, 100, 2047, 2048])),
        };
        self.string(text)
    }

    pub(super) fn texts(&mut self) -> Value {
        let mut parts: Vec<Part> = [&b"@exit\0"[..], b"A=b\0", b"\0"]
            .iter()
            .take(1 + self.rng.below(3))
            .map(|text| Part::Value(8, Value::Data(Data::bytes(*text))))
            .collect();
        if self.rng.chance(5) {
            let word = self.wild();
            parts.push(Part::Value(8, word));
        }
        if self.rng.chance(95) {
            parts.push(Part::Bytes(vec![0; 8]));
        }
        if self.rng.chance(10) { Value::Number(0) } else { self.pointer(parts) }
    }

    pub(super) fn vector(&mut self, filled: bool) -> Value {
        let count = self.rng.pick(&[0, 1, 1, 2, 3, 4, 8]);
        let mut parts = Vec::new();
        for _ in 0..count {
            let size = self.buffer_size().min(0x1000);
            let buffer = match self.rng.below(20) {
                0 => self.wild(),
                1 => self.address(),
                _ if filled => self.bytes(size),
                _ => self.pointer(vec![Part::Room(size)]),
            };
            let length = if self.rng.chance(92) { size as u64 } else { self.near(LENGTHS) };
            parts.push(Part::Value(8, buffer));
            parts.push(Part::Value(8, Value::Number(length)));
        }
        self.pointer(parts)
    }

    /// The length or count of the buffer that names this argument.
    pub(super) fn size_for(&mut self, row: &Row, index: usize, arguments: &[Value]) -> Value {
        let buffer = row.arguments.iter().zip(arguments).find_map(|(argument, value)| {
            let each = match argument.kind {
                Kind::InBytes(n) | Kind::OutBytes(n) if n == index => 1,
                Kind::InVector(n) | Kind::OutVector(n) if n == index => 16,
                Kind::InMany(shape, n) | Kind::OutMany(shape, n) | Kind::InOutMany(shape, n)
                    if n == index =>
                {
                    shape.size.max(1)
                }
                _ => return None,
            };
            match value {
                Value::Data(data) => Some(data.size() / each),
                _ => None,
            }
        });
        let Some(size) = buffer else { return Value::Number(self.rng.pick(&[0, 1, 8, 64, 4096])) };
        let size = size as u64;
        Value::Number(match self.rng.below(25) {
            0 => size + 1,
            1 => size.wrapping_sub(1),
            2 => 0,
            3 if !self.alone => self.near(LENGTHS),
            4 if !self.alone => self.rng.pick(WILD),
            _ => size,
        })
    }

    pub(super) fn structure(&mut self, shape: &'static Struct, count: usize, calls: &mut Vec<Call>) -> Value {
        match self.rng.below(40) {
            0..=2 => return Value::Number(0),
            3 if !self.alone => return self.address(),
            4 if !self.alone => return self.bytes(shape.size * count),
            _ => {}
        }
        self.depth += 1;
        let mut parts = Vec::new();
        for _ in 0..count {
            let mut at = 0;
            let mut fields: Vec<_> = shape.fields.iter().collect();
            fields.sort_by_key(|field| field.offset);
            for field in fields {
                if field.offset < at {
                    continue;
                }
                if field.offset > at {
                    parts.push(Part::Bytes(vec![0; field.offset - at]));
                }
                let value = self.field(shape, field, calls);
                parts.push(Part::Value(field.size, value));
                at = field.offset + field.size;
            }
            if at < shape.size {
                parts.push(Part::Bytes(vec![0; shape.size - at]));
            }
        }
        self.depth -= 1;
        self.pointer(parts)
    }

    pub(super) fn field(&mut self, shape: &Struct, field: &'static Field, calls: &mut Vec<Call>) -> Value {
        let name = field.name;
        if name.contains("handler") {
            return if self.rng.chance(60) {
                Value::Code(1 + self.rng.below(3) as u8)
            } else {
                Value::Number(self.rng.below(3) as u64)
            };
        }
        if name.contains("restorer") {
            return if self.rng.chance(95) { Value::Code(0) } else { self.wild() };
        }
        if shape.name.contains("sigaction") && name.contains("flags") {
            // SA_RESTORER, or there is no way back.
            return match self.value(&field.kind, calls) {
                Value::Number(flags) if self.rng.chance(95) => Value::Number(flags | 0x0400_0000),
                other => other,
            };
        }
        // Structures that lead to structures do so to a depth.
        if self.depth > 2 {
            return Value::Number(0);
        }
        if matches!(field.kind, Kind::Size) {
            return Value::Number(self.rng.pick(&[0, 8, 64, 4096]));
        }
        self.value(&field.kind, calls)
    }
}
