//! Bytes looked at eight at a time: names are cut out of paths and hashed at every open, strings copied at every exec.
#![forbid(unsafe_code)]

/// 1 and 128 in each byte.
const ONES: u64 = u64::from_ne_bytes([1; 8]);
const HIGH: u64 = ONES << 7;

/// Where `byte` first stands.
#[inline]
pub fn find(byte: u8, bytes: &[u8]) -> Option<usize> {
    let (words, tail) = bytes.as_chunks();
    for (n, word) in words.iter().enumerate() {
        if let Some(at) = find_in_word(byte, u64::from_le_bytes(*word)) {
            return Some(n * 8 + at);
        }
    }
    // A zero that is found behind the tail is none of its bytes.
    find_in_word(byte, word(tail)).filter(|at| *at < tail.len()).map(|at| words.len() * 8 + at)
}

/// The first of the word's bytes that is `byte`.
#[inline]
fn find_in_word(byte: u8, word: u64) -> Option<usize> {
    let differs = word ^ (u64::from(byte) * ONES);
    // The high bit of each byte that is zero, and perhaps of some above the first that is (Hacker's Delight, 6-1).
    let zeros = differs.wrapping_sub(ONES) & !differs & HIGH;
    (zeros != 0).then(|| zeros.trailing_zeros() as usize / 8)
}

/// Are they the same? For names, which are short: without a call.
#[inline]
pub fn equal(a: &[u8], b: &[u8]) -> bool {
    let ((words, tail), (others, other_tail)) = (a.as_chunks(), b.as_chunks());
    let same = |(a, b): (&[u8; 8], &[u8; 8])| u64::from_le_bytes(*a) == u64::from_le_bytes(*b);
    a.len() == b.len() && words.iter().zip(others).all(same) && word(tail) == word(other_tail)
}

/// Fewer than eight bytes as the low ones of a word, the first the lowest; the others are zero.
#[inline]
pub fn word(bytes: &[u8]) -> u64 {
    let shift = |n: usize| 8 * n as u32;
    let len = bytes.len();
    // The parts overlap where both have the same bytes.
    if let (Some(low), Some(high)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let (low, high) = (u32::from_le_bytes(*low), u32::from_le_bytes(*high));
        return u64::from(low) | u64::from(high) << shift(len - 4);
    }
    let (Some(first), Some(middle), Some(last)) = (bytes.first(), bytes.get(len / 2), bytes.last()) else {
        return 0;
    };
    u64::from(*first) | u64::from(*middle) << shift(len / 2) | u64::from(*last) << shift(len - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::check;
    use proptest::prelude::*;
    use std::vec::Vec;

    #[test]
    fn bytes_are_equal_if_all_are() {
        let text: Vec<u8> = (1..=40).collect();
        for len in 0..=text.len() {
            let own = &text[..len];
            let elsewhere: Vec<u8> = [&[0], own].concat();
            assert!(equal(own, &elsewhere[1..]));
            assert!(len == 0 || !equal(own, &text[..len - 1]));
            for at in 0..len {
                let mut other = own.to_vec();
                other[at] ^= 0x80;
                assert!(!equal(own, &other), "{len} bytes, of which number {at} differs");
            }
        }
    }

    #[test]
    fn a_byte_is_found_where_it_first_stands() {
        // Few values, so that it often stands more than once, and one below and above it.
        let byte = || {
            prop_oneof![
                Just(0u8),
                Just(1),
                Just(b'.'),
                Just(b'/'),
                Just(b'0'),
                Just(0x7f),
                Just(0x80),
                Just(0xff)
            ]
        };
        check(2000, &(byte(), prop::collection::vec(byte(), 0..40)), |(wanted, bytes)| {
            for wanted in [wanted, 0] {
                assert_eq!(find(wanted, &bytes), bytes.iter().position(|b| *b == wanted));
            }
        });
    }

    #[test]
    fn a_word_has_the_bytes_and_zeros_above() {
        let all = [0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77];
        for len in 0..8 {
            let mut padded = [0; 8];
            padded[..len].copy_from_slice(&all[..len]);
            assert_eq!(word(&all[..len]), u64::from_le_bytes(padded), "{len} bytes");
        }
    }
}
