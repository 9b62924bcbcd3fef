//! select(2).
#![forbid(unsafe_code)]

use alloc::vec::Vec;

use sync::TryVec;
use zerocopy::IntoBytes;

use super::{deadline, deadline_and_mask, end, wait, with_entries};
use crate::errno::*;
use crate::fs::caller;
use crate::fs::file::poll::{ERR, HUP, IN, NVAL, OUT, PRI, RDNORM, WRNORM};
use crate::memory::user::{UserPtr, UserSlice};
use crate::sched::give_way;

const SETS: usize = 3;
/// What each set asks for: errors and hang-ups wake only where they count for it. What is no file any more counts for all.
const WANTED: [u32; SETS] = [IN | RDNORM | HUP | ERR | NVAL, OUT | WRNORM | ERR | NVAL, PRI | NVAL];
/// As many descriptors as a table has room for at least, on Linux.
const FEWEST: usize = 64;
/// Words of three sets of 512 descriptors, which lie on the stack.
const FEW_WORDS: usize = SETS * 8;

fn select(count: i32, addresses: [usize; SETS], deadline: Option<u64>) -> Result<usize> {
    // Linux looks at as many as its table has room for, which is a power of two.
    let room = caller::files().size();
    let room = room.checked_next_power_of_two().unwrap_or(room).max(FEWEST);
    let count = usize::try_from(count).map_err(|_| EINVAL)?.min(room);
    let words = count.div_ceil(64);
    let mut few = [0u64; FEW_WORDS];
    let mut many = Vec::new();
    let sets = match words.checked_mul(SETS).and_then(|all| few.get_mut(..all)) {
        Some(few) => few,
        None => {
            many.try_resize(words.saturating_mul(SETS), 0)?;
            &mut *many
        }
    };
    select_these(count, words, sets, addresses, deadline)
}

/// `sets` holds three sets of `words` words: what is asked for, and in the end what came.
#[expect(clippy::arithmetic_side_effects, reason = "counts and numbers of descriptors; bits below 64")]
fn select_these(
    count: usize,
    words: usize,
    sets: &mut [u64],
    addresses: [usize; SETS],
    deadline: Option<u64>,
) -> Result<usize> {
    let words = words.max(1);
    for (set, address) in sets.chunks_exact_mut(words).zip(addresses) {
        if address != 0 {
            match set {
                [word] => *word = UserPtr::new(address).read()?,
                _ => UserSlice::new(address, size_of_val(set)).read(set.as_mut_bytes())?,
            }
        }
        // What lies behind the last descriptor is not asked for.
        if let (Some(last), rest @ 1..) = (set.last_mut(), count % 64) {
            *last &= !(u64::MAX << rest);
        }
    }
    let asked = |sets: &[u64], word: usize| {
        sets.chunks_exact(words).filter_map(|set| set.get(word)).fold(0, |all, bits| all | bits)
    };
    let several: usize = (0..words).map(|word| asked(sets, word).count_ones() as usize).sum();
    with_entries(several, |entries| {
        let mut left = entries.iter_mut();
        for word in 0..words {
            for (bit, entry) in bits(asked(sets, word)).zip(&mut left) {
                entry.fd = (word * 64 + bit) as i32;
                entry.file = Some(caller::file(entry.fd)?);
                for (set, wanted) in sets.chunks_exact(words).zip(WANTED) {
                    if set.get(word).is_some_and(|set| set >> bit & 1 != 0) {
                        entry.events |= wanted;
                    }
                }
            }
            if give_way() {
                return Err(EINTR);
            }
        }
        wait(entries, deadline)?;
        let (mut n, mut left) = (0, entries.iter());
        for word in 0..words {
            for (bit, entry) in bits(asked(sets, word)).zip(&mut left) {
                for (set, wanted) in sets.chunks_exact_mut(words).zip(WANTED) {
                    let Some(set) = set.get_mut(word).filter(|set| **set >> bit & 1 != 0) else { continue };
                    if entry.result.get() & wanted != 0 {
                        n += 1;
                    } else {
                        *set &= !(1 << bit);
                    }
                }
            }
            if give_way() {
                return Err(EINTR);
            }
        }
        for (set, address) in sets.chunks_exact(words).zip(addresses) {
            if address != 0 {
                match set {
                    [word] => UserPtr::new(address).write(word)?,
                    _ => UserSlice::new(address, size_of_val(set)).write(set.as_bytes())?,
                }
            }
        }
        Ok(n)
    })
}

/// The bits that are set in `word`, lowest first.
fn bits(word: u64) -> impl Iterator<Item = usize> {
    let mut rest = word;
    core::iter::from_fn(move || {
        let bit = (rest != 0).then(|| rest.trailing_zeros() as usize)?;
        rest &= rest.wrapping_sub(1);
        Some(bit)
    })
}

pub fn sys_select(count: i32, read: usize, write: usize, except: usize, timeout: usize) -> Result<usize> {
    let deadline = deadline(timeout, 1000)?;
    end(select(count, [read, write, except], deadline), timeout, deadline, 1000)
}

pub fn sys_pselect6(
    count: i32,
    read: usize,
    write: usize,
    except: usize,
    timeout: usize,
    mask: usize,
) -> Result<usize> {
    // The last argument is a pair: address of the mask and its size.
    let pair = UserPtr::<[usize; 2]>::new(mask).non_null();
    let [address, size] = pair.map_or(Ok([0; 2]), |pair| pair.read())?;
    let deadline = deadline_and_mask(timeout, address, size)?;
    end(select(count, [read, write, except], deadline), timeout, deadline, 1)
}
