//! Where a CPU sits in its machine, and the caches that it shares with others.
#![forbid(unsafe_code)]

/// Where a CPU sits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seat {
    /// Its place in the machine: near ones differ in low bits.
    pub place: u32,
    /// CPUs with the same are threads of one core.
    pub core: u32,
    /// The number of the core in its package.
    pub core_in_package: u32,
    pub package: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheKind {
    Data,
    Instruction,
    Unified,
}

/// A cache as its CPU sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cache {
    pub level: u32,
    pub kind: CacheKind,
    /// Bytes.
    pub line: u32,
    pub ways: u32,
    pub sets: u32,
    pub partitions: u32,
    /// Low bits of a CPU's place in the machine that tell apart those that share it.
    pub share: u32,
    /// The same of those that say the same number; older processors number it by CPU.
    pub numbered: u32,
}

impl Cache {
    /// Bytes.
    pub fn size(&self) -> u64 {
        [self.line, self.ways, self.sets, self.partitions].into_iter().map(u64::from).product()
    }

    /// The number of the one that a CPU in this seat has.
    pub fn id(&self, seat: Seat) -> u32 {
        seat.place.checked_shr(self.numbered).unwrap_or(0)
    }

    /// Do CPUs in these seats share it?
    pub fn is_shared(&self, a: Seat, b: Seat) -> bool {
        let of = |seat: Seat| seat.place.checked_shr(self.share).unwrap_or(0);
        of(a) == of(b)
    }
}
