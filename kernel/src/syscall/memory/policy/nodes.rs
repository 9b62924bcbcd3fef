//! Sets of NUMA nodes as programs name them: words of bits, and how many of these count (set_mempolicy(2)).
#![forbid(unsafe_code)]

use crate::errno::{Errno, Result};
use crate::memory::user::{UserPtr, UserSlice};
use sync::machine;
use vm::addr::PAGE_SIZE;
use vm::policy::with_memory;

/// Nodes that a set can have, as on Linux for x86-64 (CONFIG_NODES_SHIFT).
const MOST: usize = 1024;
const WORD: usize = u64::BITS as usize;
const WORDS: usize = MOST / WORD;

/// A set of nodes that a program names.
pub struct NodeMask([u64; WORDS]);

impl NodeMask {
    /// The set at `mask`, of `bits` bits less one, as Linux counts; empty without a mask.
    ///
    /// # Errors
    /// EINVAL: it is too long, or names a node beyond those that there can be. EFAULT.
    #[expect(clippy::arithmetic_side_effects, reason = "no more bits than a page has")]
    pub fn read(mask: usize, bits: usize) -> Result<Self> {
        let mut words = [0; WORDS];
        let mut bits = bits.wrapping_sub(1);
        if bits == 0 || mask == 0 {
            return Ok(Self(words));
        }
        if bits > PAGE_SIZE * 8 {
            return Err(Errno::EINVAL);
        }
        let mask = UserPtr::<u64>::new(mask);
        // From the end on, as Linux does: that says which of two errors is told.
        while bits > MOST {
            if mask.at((bits - 1) / WORD)?.read()? != 0 {
                return Err(Errno::EINVAL);
            }
            bits = (bits - WORD).max(MOST);
        }
        for (n, word) in words.iter_mut().enumerate().take(bits.div_ceil(WORD)) {
            *word = mask.at(n)?.read()?;
            if bits - n * WORD < WORD {
                *word &= (1 << (bits % WORD)) - 1;
            }
        }
        Ok(Self(words))
    }

    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// The first 64 nodes.
    pub fn first_word(&self) -> u64 {
        self.0[0]
    }

    /// Does it name a node beyond these?
    pub fn goes_beyond(&self) -> bool {
        self.0.iter().skip(1).any(|word| *word != 0)
    }

    /// The same with what lies beyond the first word modulo the nodes that have memory, for nodes that are relative to these.
    pub fn folded(&self) -> u64 {
        if !self.goes_beyond() {
            return self.first_word();
        }
        let nodes = with_memory().count_ones() as usize;
        let is_named = |n: &usize| self.0.get(n / WORD).is_some_and(|word| word >> (n % WORD) & 1 != 0);
        (0..MOST).filter(is_named).filter_map(|n| n.checked_rem(nodes)).fold(0, |all, n| all | 1 << n)
    }
}

/// Writes `nodes` to `mask`, which has `bits` bits less one.
///
/// # Errors
/// EINVAL: it is too long. EFAULT.
#[expect(clippy::arithmetic_side_effects, reason = "no more bytes than a page has")]
pub fn tell(nodes: u64, mask: usize, bits: usize) -> Result {
    // In whole words; it is Linux's sum, which comes to none for the largest number.
    let len = (bits.wrapping_sub(1).wrapping_add(WORD - 1) & !(WORD - 1)) / 8;
    let told = (machine::nodes() as usize).div_ceil(WORD) * (WORD / 8);
    if len > told {
        if len > PAGE_SIZE {
            return Err(Errno::EINVAL);
        }
        UserSlice::new(mask, len).check()?;
        let rest = UserSlice::new(mask, len).skip(told);
        for start in (0..len - told).step_by(WORD) {
            rest.skip(start).take(WORD).write(&[0; WORD][..(len - told - start).min(WORD)])?;
        }
    }
    UserSlice::new(mask, len.min(told)).write(&nodes.to_ne_bytes()[..len.min(told)])
}
