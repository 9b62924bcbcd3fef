//! Text of many numbers, put together without format strings, which take several times the instructions.
#![forbid(unsafe_code)]

use alloc::vec::Vec;

use sync::TryVec;

use crate::errno::Result;

/// Bytes of a number and what follows it; the longest has 20 digits.
const ROOM: usize = 32;

/// Writes behind what is there.
pub struct Text<'a>(pub &'a mut Vec<u8>);

impl Text<'_> {
    pub fn put(&mut self, text: &str) -> Result {
        Ok(self.0.try_extend_from_slice(text.as_bytes())?)
    }

    /// `n` and `end`, which has a few bytes.
    pub fn number(&mut self, n: u64, end: &str) -> Result {
        self.digits::<10>(n, 1, 0, end)
    }

    /// The same, of `width` bytes at least, with blanks before it.
    pub fn padded(&mut self, n: u64, width: usize, end: &str) -> Result {
        self.digits::<10>(n, 1, width, end)
    }

    /// `n` in octal, of so many digits at least.
    pub fn octal(&mut self, n: u64, digits: usize, end: &str) -> Result {
        self.digits::<8>(n, digits, 0, end)
    }

    /// Those of `0..count` that are in a set, as ranges: `0-3,5`.
    #[expect(clippy::arithmetic_side_effects, reason = "numbers below count")]
    pub fn ranges(&mut self, count: usize, is_in: impl Fn(usize) -> bool) -> Result {
        let is_in = |n: usize| n < count && is_in(n);
        let (mut n, mut separator) = (0, "");
        while n < count {
            let start = n;
            while is_in(n) {
                n += 1;
            }
            if n > start {
                self.put(separator)?;
                self.number(start as u64, "")?;
                if n > start + 1 {
                    self.put("-")?;
                    self.number(n as u64 - 1, "")?;
                }
                separator = ",";
            }
            n += 1;
        }
        Ok(())
    }

    /// The same in hexadecimal.
    pub fn hex(&mut self, n: u64, digits: usize, end: &str) -> Result {
        self.digits::<16>(n, digits, 0, end)
    }

    #[expect(clippy::arithmetic_side_effects, reason = "a base is not zero")]
    fn digits<const BASE: u64>(&mut self, n: u64, digits: usize, width: usize, end: &str) -> Result {
        let mut bytes = [0; ROOM];
        let mut places = bytes.iter_mut().rev();
        for (byte, place) in end.bytes().rev().zip(places.by_ref()) {
            *place = byte;
        }
        let ended = places.len();
        let mut left = n;
        let enough = ended.saturating_sub(digits);
        while let Some(place) = places.next() {
            let digit = (left % BASE) as u8;
            *place = if digit < 10 { b'0' | digit } else { b'a'.wrapping_add(digit).wrapping_sub(10) };
            left /= BASE;
            if left == 0 && places.len() <= enough {
                break;
            }
        }
        let padding = width.saturating_sub(ended.saturating_sub(places.len()));
        places.by_ref().take(padding).for_each(|place| *place = b' ');
        let start = places.len();
        Ok(self.0.try_extend_from_slice(bytes.get(start..).unwrap_or(&[]))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;
    use std::string::String;

    #[test]
    fn numbers_are_written_as_fmt_writes_them() {
        for n in [0, 1, 7, 8, 9, 10, 15, 16, 99, 100, 4095, 123_456_789, u64::MAX / 2, u64::MAX] {
            let mut out = Vec::new();
            let mut text = Text(&mut out);
            text.put("Row:\t").unwrap();
            text.number(n, "\n").unwrap();
            text.padded(n, 8, " kB\n").unwrap();
            text.octal(n, 4, "").unwrap();
            text.hex(n, 16, "\n").unwrap();
            text.hex(n, 2, ",").unwrap();
            let expected = format!("Row:\t{n}\n{n:>8} kB\n{n:04o}{n:016x}\n{n:02x},");
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}
