//! Numbers: of the table, at an edge, wild; lengths and offsets.
#![forbid(unsafe_code)]

use super::{Generator, PAGE};
use crate::program::Value;

pub(super) const WILD: &[u64] = &[
    0,
    1,
    0xfff,
    0x1000,
    u64::MAX,
    u64::MAX - 0xfff,
    0x7fff_ffff_ffff,
    0x7fff_ffff_f000,
    0x8000_0000_0000,
    0xdead_0000_0000_0000,
    0xffff_8000_0000_0000,
    0xffff_ffff_8020_0000,
    i64::MAX as u64,
    1 << 63,
    0xffff_ffff_ff60_0000,
    0x8000_0000,
    0xffff_ffff,
    0x7fff_ffff,
];
pub(super) const LENGTHS: &[u64] = &[
    0,
    1,
    0xfff,
    PAGE,
    PAGE + 1,
    2 * PAGE,
    4 * PAGE,
    16 * PAGE,
    64 * PAGE,
    0x20_0000,
    0x40_0000,
    1 << 30,
    1 << 40,
    1 << 47,
    u64::MAX,
    u64::MAX - 0xfff,
    0x7fff_f000,
    i64::MAX as u64,
    3,
    100,
    511,
];
pub(super) const OFFSETS: &[u64] = &[
    0,
    1,
    5,
    10,
    36,
    4095,
    PAGE,
    PAGE + 1,
    0x1_0000,
    0x20_0000,
    1 << 31,
    1 << 32,
    1 << 42,
    i64::MAX as u64,
    u64::MAX,
    1 << 63,
    i64::MAX as u64 - 0xfff,
    i64::MAX as u64 & !0xfff,
];

impl Generator {
    pub(super) fn wild(&mut self) -> Value {
        if self.rng.chance(20) {
            return Value::Number(self.rng.word());
        }
        Value::Number(self.rng.pick(WILD))
    }

    pub(super) fn number(&mut self, list: &[i64]) -> u64 {
        let word = self.rng.pick(list) as u64;
        match self.rng.below(20) {
            0 => word.wrapping_add(1),
            1 => word.wrapping_sub(1),
            2 if !self.alone => self.rng.pick(WILD),
            3 => self.rng.below(64) as u64,
            _ => word,
        }
    }

    pub(super) fn near(&mut self, list: &[u64]) -> u64 {
        let word = self.rng.pick(list);
        match self.rng.below(12) {
            0 => word.wrapping_add(1),
            1 => word.wrapping_sub(1),
            2 => self.rng.below(0x8000) as u64,
            _ => word,
        }
    }

    /// Mostly small: what is large takes its time.
    pub(super) fn length(&mut self) -> u64 {
        if self.rng.chance(65) { PAGE * (1 + self.rng.below(16) as u64) } else { self.near(LENGTHS) }
    }

    pub(super) fn buffer_size(&mut self) -> usize {
        match self.rng.below(10) {
            0 => 0,
            1 => 1,
            2 => 4096,
            3 => 8 + self.rng.below(0x3000),
            4..=6 => 8,
            _ => self.rng.below(128),
        }
    }
}
