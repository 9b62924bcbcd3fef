//! Random numbers that are the same for the same seed, on every machine and in every version (xorshift64*; Vigna 2016).
#![forbid(unsafe_code)]

pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        // Seeds that differ little begin far apart (the finalizer of splitmix64); zero would stay zero.
        let mut state = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Rng((state ^ (state >> 31)).max(1))
    }

    pub fn word(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Below `end`; 0 where `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from((self.word() >> 16).checked_rem(end as u64).unwrap_or(0)).unwrap_or(0)
    }

    /// True in `percent` of 100 cases.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of them; the default where there is none.
    pub fn pick<T: Copy + Default>(&mut self, from: &[T]) -> T {
        from.get(self.below(from.len())).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let (mut a, mut b, mut c) = (Rng::new(1), Rng::new(1), Rng::new(2));
        let first: Vec<u64> = (0..4).map(|_| a.word()).collect();
        assert_eq!(first, (0..4).map(|_| b.word()).collect::<Vec<_>>());
        assert_ne!(first, (0..4).map(|_| c.word()).collect::<Vec<_>>());
    }
}
