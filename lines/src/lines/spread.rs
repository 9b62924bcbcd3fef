//! How the maps of lines and transfers spread their keys.
#![forbid(unsafe_code)]

use std::hash::{BuildHasherDefault, Hasher};

/// Spreads small integers over a hash table; nobody chooses them to collide.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mix(u64);
pub type Spread = BuildHasherDefault<Mix>;

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(byte.into());
        }
    }
    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }
}

/// The same for line numbers: those of one page stay side by side, so that what is done with a page a line at a time meets memory
/// of the map that is at hand.
#[derive(Clone, Copy, Debug, Default)]
pub struct ByPage(u64);
pub type SpreadPages = BuildHasherDefault<ByPage>;

/// Lines of a page, as bits of a line's number.
const IN_PAGE: u64 = 63;

impl Hasher for ByPage {
    fn finish(&self) -> u64 {
        let page = (self.0 >> 6).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (page ^ (page >> 32)) & !IN_PAGE | self.0 & IN_PAGE
    }
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0 << 8 | u64::from(byte);
        }
    }
    fn write_u64(&mut self, word: u64) {
        self.0 = word;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hash::BuildHasher;

    #[test]
    fn lines_of_a_page_stay_side_by_side_and_pages_do_not() {
        let hash = |line: u64| SpreadPages::default().hash_one(line);
        assert!((64..128).all(|line| hash(line) == hash(64) + line - 64));
        assert_ne!(hash(128), hash(64) + 64);
        // The highest bits, by which a map tells entries apart, differ too.
        assert_ne!(hash(128) >> 57, hash(64) >> 57);
    }
}
