//! Random bytes: /dev/random, /dev/urandom, getrandom, AT_RANDOM.
//!
//! Each CPU has a ChaCha20 generator of its own that replaces its key with every use (fast key erasure), so a later look at memory
//! does not tell what was given out. Keys come from a pool seeded with the processor's generator where it has one, at boot with a device of the machine that
//! gives random bytes (virtio), and cycle counts; a virtual machine without either has little else.
#![forbid(unsafe_code)]

use crate::lock_order as level;
use sync::{LocalCell, SpinLock, lock_class, per_cpu};

use crate::device::virtio::entropy;
use crate::errno::Result;
use crate::fs::file::buffer::{Input, Output};
use crate::sched::{Deadline, Sleep};

lock_class! { static POOL_CLASS: LockClass = ("random pool", level::RandomPool); }

static POOL: SpinLock<Generator, level::RandomPool> =
    SpinLock::new(Generator { key: [0x6461_7274, 0x6572, 3, 4, 5, 6, 7, 8] }, &POOL_CLASS);

struct Generator {
    key: [u32; 8],
}

/// What a CPU gives out from.
struct Source {
    generator: Generator,
    /// Half of what the generator gave last, if nobody has had it yet; else zeros.
    rest: [u8; HALF],
    has_rest: bool,
}

const HALF: usize = 16;
/// Bytes from the machine's source of entropy at boot.
const SEED: usize = 64;

per_cpu! { static MINE: LocalCell<Option<Source>> = LocalCell::new(None); }

fn quarter(s: &mut [u32; 16], a: usize, b: usize, c: usize, d: usize) {
    let (mut x, mut y, mut z, mut w) = (s[a & 15], s[b & 15], s[c & 15], s[d & 15]);
    x = x.wrapping_add(y);
    w = (w ^ x).rotate_left(16);
    z = z.wrapping_add(w);
    y = (y ^ z).rotate_left(12);
    x = x.wrapping_add(y);
    w = (w ^ x).rotate_left(8);
    z = z.wrapping_add(w);
    y = (y ^ z).rotate_left(7);
    (s[a & 15], s[b & 15], s[c & 15], s[d & 15]) = (x, y, z, w);
}

/// One ChaCha20 block (RFC 8439, 2.3) with the counter in word 12.
fn block(key: &[u32; 8], counter: u32) -> [u32; 16] {
    let [k0, k1, k2, k3, k4, k5, k6, k7] = *key;
    let start = [
        0x6170_7865,
        0x3320_646e,
        0x7962_2d32,
        0x6b20_6574,
        k0,
        k1,
        k2,
        k3,
        k4,
        k5,
        k6,
        k7,
        counter,
        0,
        0,
        0,
    ];
    let mut s = start;
    for _ in 0..10 {
        quarter(&mut s, 0, 4, 8, 12);
        quarter(&mut s, 1, 5, 9, 13);
        quarter(&mut s, 2, 6, 10, 14);
        quarter(&mut s, 3, 7, 11, 15);
        quarter(&mut s, 0, 5, 10, 15);
        quarter(&mut s, 1, 6, 11, 12);
        quarter(&mut s, 2, 7, 8, 13);
        quarter(&mut s, 3, 4, 9, 14);
    }
    for (word, first) in s.iter_mut().zip(start) {
        *word = word.wrapping_add(first);
    }
    s
}

impl Generator {
    /// 32 fresh bytes; the key moves on.
    fn next(&mut self) -> [u8; 32] {
        let words = block(&self.key, 0);
        let mut bytes = [0; 32];
        for (key, word) in self.key.iter_mut().zip(words) {
            *key = word;
        }
        for (chunk, word) in bytes.chunks_mut(4).zip(words.iter().skip(8)) {
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    #[expect(clippy::arithmetic_side_effects, reason = "at most three bytes")]
    fn mix(&mut self, data: &[u8]) {
        for chunk in data.chunks(32) {
            for (i, byte) in chunk.iter().enumerate() {
                if let Some(word) = self.key.get_mut(i / 4) {
                    *word ^= u32::from(*byte) << (i % 4 * 8);
                }
            }
            self.next();
        }
    }
}

/// Puts bytes of the machine's source of entropy into the pool, if it has one; waits for it for a second. Once, at boot, before anything has been given out
/// to a program: a CPU's generator takes its key from the pool when it is first used.
pub fn seed_from_device() {
    let deadline = Deadline::from(crate::arch::time::now().saturating_add(1_000_000_000));
    let mixed = entropy::read(SEED, Sleep::Killable, Some(deadline), |bytes| POOL.lock().mix(bytes));
    if let Some(Err(why)) = mixed {
        crate::warn!("no random bytes from the machine's source of entropy: {why:?}");
    }
}

/// A generator for this CPU, with a key from the pool.
fn seeded() -> Generator {
    let mut pool = POOL.lock();
    for _ in 0..4 {
        let hardware = crate::arch::hardware_random().unwrap_or(0);
        pool.mix(&hardware.to_le_bytes());
        pool.mix(&sync::machine::cycles().to_le_bytes());
    }
    let bytes = pool.next();
    let mut key = [0; 8];
    for (word, chunk) in key.iter_mut().zip(bytes.chunks(4)) {
        *word = chunk.iter().rev().fold(0, |w, b| w << 8 | u32::from(*b));
    }
    Generator { key }
}

impl Source {
    fn seeded() -> Self {
        Source { generator: seeded(), rest: [0; HALF], has_rest: false }
    }

    /// Half an output. What is given out does not stay here.
    fn half(&mut self) -> [u8; HALF] {
        if core::mem::take(&mut self.has_rest) {
            return core::mem::take(&mut self.rest);
        }
        let (half, rest) = halves(self.generator.next());
        (self.rest, self.has_rest) = (rest, true);
        half
    }
}

fn halves(all: [u8; 2 * HALF]) -> ([u8; HALF], [u8; HALF]) {
    let (first, second) = all.split_at(HALF);
    (first.try_into().unwrap_or_default(), second.try_into().unwrap_or_default())
}

/// 32 random bytes.
pub fn bytes() -> [u8; 32] {
    let taken = MINE.with(|mine| mine.get_or_insert_with(Source::seeded).generator.next());
    taken.unwrap_or_else(|| seeded().next())
}

/// 16 random bytes, for every exec: two ask for one block of the generator.
pub fn half() -> [u8; HALF] {
    let taken = MINE.with(|mine| mine.get_or_insert_with(Source::seeded).half());
    taken.unwrap_or_else(|| Source::seeded().half())
}

/// Fills what the caller wants, unless it is killed meanwhile.
pub fn fill(out: &mut Output<'_>) -> Result<()> {
    while out.left() > 0 && out.put(&bytes()) > 0 {}
    Ok(())
}

/// What a program writes to /dev/random goes into the pool.
pub fn stir(from: &mut Input<'_>) -> Result<()> {
    let mut buffer = [0; 64];
    loop {
        let n = from.take(&mut buffer);
        if n == 0 {
            return Ok(());
        }
        POOL.lock().mix(buffer.get(..n).unwrap_or(&[]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_is_given_out_in_two_halves_and_does_not_stay() {
        let key = [7; 8];
        let mut source = Source { generator: Generator { key }, rest: [0; HALF], has_rest: false };
        let mut generator = Generator { key };
        for _ in 0..2 {
            let (first, second) = halves(generator.next());
            assert_ne!(first, second);
            assert_eq!(source.half(), first);
            assert_eq!(source.half(), second);
            assert_eq!(source.rest, [0; HALF]);
        }
    }
}
