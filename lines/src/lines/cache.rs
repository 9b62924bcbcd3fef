//! A model of a CPU's cache: of one size, so that lines are lost for want of room too, and not only to other CPUs.
//!
//! The directory takes caches to be endless, which makes transfers a property of the program. Whether a page of another node costs
//! anything depends on how often it is fetched; for that there is this model: sets of `WAYS` lines, the least recently used goes,
//! no prefetching, no levels, no sharing between CPUs. A line that another CPU has written since is gone as well. Off unless
//! asked for (`cache=BYTES`); its figures are said to be modelled wherever they are shown.
//!
//! Invariant CountLocal: a model belongs to the thread of its CPU.
#![forbid(unsafe_code)]

use super::directory::LINE_BITS;

pub const WAYS: usize = 16;
/// No line has this number.
const NONE: u64 = u64::MAX;

/// Where physical memory lies: options `home=START:END:NODE`, END exclusive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Homes(pub Vec<(u64, u64, usize)>);

impl Homes {
    pub fn range(text: &str) -> Option<(u64, u64, usize)> {
        let mut words = text.split(':');
        let range = (words.next()?.parse().ok()?, words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        (words.next().is_none() && range.0 < range.1).then_some(range)
    }

    /// The node of a line's memory; 0 where nothing is said of it.
    fn of(&self, line: u64) -> usize {
        let address = line << LINE_BITS;
        self.0
            .iter()
            .find(|(start, end, _)| (*start..*end).contains(&address))
            .map_or(0, |(_, _, node)| *node)
    }
}

/// What a window's accesses met. Iterations of a string instruction within one line are one access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub accesses: u64,
    /// Lines fetched, by where their memory lies.
    pub local: u64,
    pub remote: u64,
    /// Of all fetched: those that another CPU had taken while they were here.
    pub taken: u64,
}

pub struct Cache {
    /// `WAYS` lines for each set, the one used last first.
    lines: Vec<u64>,
    /// The line of the last access, which is first in its set.
    last: u64,
    node: usize,
    homes: Homes,
    counts: Counts,
}

impl Cache {
    /// Of `bytes`, or the next smaller power of two times a set; of a CPU of node `node`.
    pub fn new(bytes: usize, node: usize, homes: Homes) -> Cache {
        let sets = (bytes >> LINE_BITS) / WAYS;
        let sets = if sets == 0 { 1 } else { 1 << sets.ilog2() };
        Cache { lines: vec![NONE; sets * WAYS], last: NONE, node, homes, counts: Counts::default() }
    }

    /// The CPU uses `line`, which no other CPU has written since it used it last (`held`), or one has. `counted`: in a window.
    #[inline]
    pub fn access(&mut self, line: u64, held: bool, counted: bool) {
        self.counts.accesses += u64::from(counted);
        if !held || line != self.last {
            self.look(line, held, counted);
        }
    }

    fn look(&mut self, line: u64, held: bool, counted: bool) {
        self.last = line;
        let sets = self.lines.len() / WAYS;
        let first = (line as usize & (sets - 1)) * WAYS;
        let Some(set) = self.lines.get_mut(first..first + WAYS) else { return };
        let place = set.iter().position(|there| *there == line);
        if let Some(before) = set.get_mut(..=place.unwrap_or(WAYS - 1)) {
            before.rotate_right(1);
        }
        if let Some(front) = set.first_mut() {
            *front = line;
        }
        if counted && (place.is_none() || !held) {
            let remote = self.homes.of(line) != self.node;
            *(if remote { &mut self.counts.remote } else { &mut self.counts.local }) += 1;
            self.counts.taken += u64::from(place.is_some());
        }
    }

    /// The window's counts, which begin anew; what lies in the cache stays.
    pub fn harvest(&mut self) -> Counts {
        std::mem::take(&mut self.counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines that fall into the first of four sets.
    const SETS: u64 = 4;
    const BYTES: usize = SETS as usize * WAYS * 64;

    fn counts(cache: &mut Cache, lines: impl IntoIterator<Item = u64>) -> (u64, u64) {
        for line in lines {
            cache.access(line, true, true);
        }
        let counts = cache.harvest();
        (counts.accesses, counts.local + counts.remote)
    }

    #[test]
    fn as_many_lines_of_a_set_as_it_has_ways_stay() {
        let mut cache = Cache::new(BYTES, 0, Homes::default());
        let lines = || (0..WAYS as u64).map(|n| n * SETS);
        assert_eq!(counts(&mut cache, lines()), (16, 16));
        assert_eq!(counts(&mut cache, lines()), (16, 0));
        // One more than fit, always in the same order: from then on the line that goes is the next one wanted.
        let more = || (0..=WAYS as u64).map(|n| n * SETS);
        assert_eq!(counts(&mut cache, more()), (17, 1));
        assert_eq!(counts(&mut cache, more()), (17, 17));
    }

    #[test]
    fn the_least_recently_used_line_goes() {
        let mut cache = Cache::new(BYTES, 0, Homes::default());
        counts(&mut cache, (0..16).map(|n| n * SETS));
        // 0 is used again, so 1 is the oldest and makes room for 16.
        assert_eq!(counts(&mut cache, [0, 16 * SETS, 0]), (3, 1));
        assert_eq!(counts(&mut cache, [SETS]), (1, 1));
        // 1 took the place of 2, and 3 is still there.
        assert_eq!(counts(&mut cache, [3 * SETS, 2 * SETS]), (2, 1));
    }

    #[test]
    fn other_sets_are_left_alone() {
        let mut cache = Cache::new(BYTES, 0, Homes::default());
        assert_eq!(counts(&mut cache, [1, 2, 3]), (3, 3));
        counts(&mut cache, (0..100).map(|n| n * SETS));
        assert_eq!(counts(&mut cache, [1, 2, 3]), (3, 0));
    }

    #[test]
    fn a_line_that_another_cpu_wrote_is_fetched_again() {
        let mut cache = Cache::new(BYTES, 0, Homes::default());
        cache.access(5, false, true);
        cache.access(5, true, true);
        cache.access(5, false, true);
        assert_eq!(cache.harvest(), Counts { accesses: 3, local: 2, remote: 0, taken: 1 });
    }

    #[test]
    fn a_fetch_is_remote_by_where_the_memory_lies() {
        let homes = Homes(vec![(0, 4096, 0), (4096, 8192, 1)]);
        let mut cache = Cache::new(BYTES, 1, homes);
        // Lines 0 to 63 lie on node 0, 64 to 127 on node 1, and of 128 nothing is said.
        for line in [0, 63, 64, 127, 128] {
            cache.access(line, false, true);
        }
        assert_eq!(cache.harvest(), Counts { accesses: 5, local: 2, remote: 3, taken: 0 });
    }

    #[test]
    fn outside_a_window_lines_come_and_go_and_nothing_counts() {
        let mut cache = Cache::new(BYTES, 0, Homes::default());
        cache.access(7, false, false);
        cache.access(7, true, true);
        assert_eq!(cache.harvest(), Counts { accesses: 1, ..Counts::default() });
    }

    #[test]
    fn ranges_have_three_numbers() {
        assert_eq!(Homes::range("0:4096:1"), Some((0, 4096, 1)));
        for bad in ["0:4096", "4096:0:1", "0:1:2:3", "a:1:2"] {
            assert_eq!(Homes::range(bad), None, "{bad}");
        }
    }
}
