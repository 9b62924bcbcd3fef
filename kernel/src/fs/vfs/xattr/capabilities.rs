//! The capabilities that a file gives to who executes it: the attribute `security.capability` (capabilities(7), *File capabilities*; the bytes
//! are `vfs_cap_data` and `vfs_ns_cap_data` of Linux's header of capabilities).
#![forbid(unsafe_code)]

use core::ops::Deref;

use crate::errno::{EINVAL, Result};
use crate::fs::caller::Capability;

const EFFECTIVE: u32 = 1;
const REVISION_2: u32 = 0x0200_0000;
const REVISION_3: u32 = 0x0300_0000;
/// Words of each revision.
const WORDS_2: usize = 5;
const WORDS_3: usize = 6;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileCapabilities {
    /// As they stand there, unknown ones too.
    permitted: u64,
    inheritable: u64,
    /// Who executes the file has them in effect.
    pub effective: bool,
    /// Of revision 3: the user that is user 0 of the name space in which they count.
    root: Option<u32>,
}

impl FileCapabilities {
    /// # Errors
    /// EINVAL: neither revision 2 nor 3.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let (chunks, []) = bytes.as_chunks::<4>() else { return Err(EINVAL) };
        let mut words = [0; WORDS_3];
        words.iter_mut().zip(chunks).for_each(|(word, chunk)| *word = u32::from_le_bytes(*chunk));
        let [first, p_low, i_low, p_high, i_high, root] = words;
        let root = match (first & !EFFECTIVE, chunks.len()) {
            (REVISION_2, WORDS_2) => None,
            (REVISION_3, WORDS_3) if root != u32::MAX => Some(root),
            _ => return Err(EINVAL),
        };
        let both = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let (permitted, inheritable) = (both(p_low, p_high), both(i_low, i_high));
        Ok(Self { permitted, inheritable, effective: first & EFFECTIVE != 0, root })
    }

    /// As they are kept and told: of revision 2, unless they are another name space's.
    pub fn bytes(&self) -> Bytes {
        let root = self.root.filter(|root| *root != 0);
        let (revision, words) = if root.is_some() { (REVISION_3, WORDS_3) } else { (REVISION_2, WORDS_2) };
        let halves = |set: u64| [set as u32, (set >> 32) as u32];
        let ([p_low, p_high], [i_low, i_high]) = (halves(self.permitted), halves(self.inheritable));
        let first = revision | u32::from(self.effective);
        let all = [first, p_low, i_low, p_high, i_high, root.unwrap_or(0)];
        Bytes { words: all.map(u32::to_le_bytes), len: words }
    }

    /// Do they count here? There is one name space, in which user 0 is user 0.
    pub fn count(&self) -> bool {
        self.root.is_none_or(|root| root == 0)
    }

    pub fn permitted(&self) -> Capability {
        Capability::from_bits_truncate(self.permitted)
    }

    pub fn inheritable(&self) -> Capability {
        Capability::from_bits_truncate(self.inheritable)
    }
}

pub struct Bytes {
    words: [[u8; 4]; WORDS_3],
    len: usize,
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.words.get(..self.len).unwrap_or(&[]).as_flattened()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CHOWN: [u8; 20] = [1, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

    #[test]
    fn what_a_file_gives() {
        let one = FileCapabilities::parse(&CHOWN).unwrap();
        assert_eq!(one.permitted(), Capability::CHOWN);
        assert!(one.inheritable().is_empty() && one.effective && one.count());
        assert_eq!(&one.bytes()[..], &CHOWN);
    }

    #[test]
    fn the_third_revision_is_for_a_name_space() {
        let with_root = |root: u32| {
            let mut bytes = CHOWN.to_vec();
            bytes[3] = 3;
            bytes.extend(root.to_le_bytes());
            FileCapabilities::parse(&bytes)
        };
        assert_eq!(&with_root(0).unwrap().bytes()[..], &CHOWN);
        let other = with_root(1000).unwrap();
        assert!(!other.count());
        assert_eq!(other.bytes().len(), 24);
        assert_eq!(with_root(u32::MAX), Err(EINVAL));
    }

    proptest! {
        #[test]
        fn anything_is_refused_or_comes_back(bytes in proptest::collection::vec(any::<u8>(), 0..30), revision in 0u8..5, long: bool) {
            let mut bytes = bytes;
            if long {
                bytes.resize(if revision == 2 { 20 } else { 24 }, 7);
                bytes[..4].copy_from_slice(&[1, 0, 0, revision]);
            }
            if let Ok(one) = FileCapabilities::parse(&bytes) {
                prop_assert_eq!(&*FileCapabilities::parse(&one.bytes()).unwrap().bytes(), &*one.bytes());
            }
        }
    }
}
