//! What /proc/darter/contention says (kernel/src/procfs/darter/contention.rs has the format), and what was counted between two looks at it.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};

const VERSION: &str = "version 1";

/// How a wait was spent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    Spin,
    Sleep,
}

/// Waits of one kind.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Waits {
    pub count: u64,
    pub ns: u64,
    pub longest_ns: u64,
    /// The CPU that held the lock when the longest wait began, where the lock says it.
    pub holder: Option<u32>,
}

impl Waits {
    pub fn add(&mut self, other: &Waits) {
        self.count += other.count;
        self.ns += other.ns;
        if other.longest_ns >= self.longest_ns {
            self.longest_ns = other.longest_ns;
            self.holder = other.holder;
        }
    }

    pub fn average_ns(&self) -> u64 {
        self.ns.checked_div(self.count).unwrap_or(0)
    }
}

/// One look at the file.
#[derive(Default, Debug)]
pub struct Snapshot {
    at_ns: u64,
    lost: u64,
    /// By class: acquisitions since boot.
    taken: BTreeMap<String, u64>,
    /// By kind, class and caller: since it was switched on.
    waits: BTreeMap<(Kind, String, String), Waits>,
}

impl Snapshot {
    pub fn parse(text: &str) -> Result<Snapshot> {
        let mut lines = text.lines();
        let version = lines.next().unwrap_or_default();
        ensure!(version == VERSION, "its first line is '{version}' and not '{VERSION}'");
        let mut snapshot = Snapshot::default();
        for line in lines {
            snapshot.take(line).with_context(|| format!("'{line}'"))?;
        }
        Ok(snapshot)
    }

    fn take(&mut self, line: &str) -> Result<()> {
        let (kind, rest) = line.split_once(' ').context("it has one word")?;
        match kind {
            "counted" => {
                let [_, lost, at] = words(rest)?;
                (self.lost, self.at_ns) = (lost.parse()?, at.parse()?);
            }
            "taken" => {
                let [count, class] = words(rest)?;
                *self.taken.entry(class.to_owned()).or_default() += count.parse::<u64>()?;
            }
            "waits" => {
                let [_, spins, spun, longest_spin, sleeps, slept, longest_sleep, holder, caller, class] =
                    words(rest)?;
                let holder = if holder == "-" { None } else { Some(holder.parse()?) };
                let caller = caller.rsplit_once(':').map_or(caller, |(without_column, _)| without_column);
                for (kind, count, ns, longest_ns, holder) in [
                    (Kind::Spin, spins, spun, longest_spin, holder),
                    (Kind::Sleep, sleeps, slept, longest_sleep, None),
                ] {
                    let waits = Waits {
                        count: count.parse()?,
                        ns: ns.parse()?,
                        longest_ns: longest_ns.parse()?,
                        holder,
                    };
                    if waits.count > 0 {
                        self.waits
                            .entry((kind, class.to_owned(), caller.to_owned()))
                            .or_default()
                            .add(&waits);
                    }
                }
            }
            other => bail!("unknown word '{other}'"),
        }
        Ok(())
    }
}

/// The first words of a line, and the rest of it as the last.
fn words<const N: usize>(line: &str) -> Result<[&str; N]> {
    let words: Vec<&str> = line.splitn(N, ' ').collect();
    <[&str; N]>::try_from(words).map_err(|words| anyhow::anyhow!("{} words, not {N}", words.len()))
}

/// What was counted while the program ran.
#[derive(Debug)]
pub struct Counts {
    pub seconds: f64,
    /// Waits that the kernel's tables had no place for.
    pub lost: u64,
    /// By class: acquisitions.
    pub taken: BTreeMap<String, u64>,
    pub waits: BTreeMap<(Kind, String, String), Waits>,
}

impl Counts {
    /// Waits begin from zero when they are switched on, before the first look; acquisitions do not.
    pub fn between(first: &Snapshot, last: &Snapshot) -> Counts {
        let taken = last.taken.iter().map(|(class, count)| {
            let before = first.taken.get(class).copied().unwrap_or(0);
            (class.clone(), count.saturating_sub(before))
        });
        Counts {
            seconds: last.at_ns.saturating_sub(first.at_ns) as f64 / 1e9,
            lost: last.lost,
            taken: taken.collect(),
            waits: last.waits.clone(),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub const FIRST: &str = "version 1\ncounted on 0 1000000000\ntaken 100 leaf\ntaken 1 pipe data\n";
    pub const LAST: &str = "version 1\ncounted on 3 3000000000\ntaken 1100 leaf\ntaken 501 pipe data\n\
        waits 0 10 4000000 900000 0 0 0 1 vm/src/op/fault.rs:120:9 leaf\n\
        waits 1 30 2000000 100000 0 0 0 0 vm/src/op/fault.rs:120:9 leaf\n\
        waits 1 10 2000000 300000 0 0 0 0 vm/src/op/fault.rs:200:9 leaf\n\
        waits 1 2 1000 600 50 80000000 7000000 - kernel/src/fs/anon/pipe.rs:7:5 pipe data\n";

    pub fn counts() -> Counts {
        Counts::between(&Snapshot::parse(FIRST).unwrap(), &Snapshot::parse(LAST).unwrap())
    }

    #[test]
    fn cpus_are_added_up_and_what_was_before_is_taken_off() {
        let counts = counts();
        assert_eq!((counts.seconds, counts.lost), (2.0, 3));
        assert_eq!((counts.taken["leaf"], counts.taken["pipe data"]), (1000, 500));
        let key = |kind, class: &str, caller: &str| (kind, class.to_owned(), caller.to_owned());
        assert_eq!(
            counts.waits[&key(Kind::Spin, "leaf", "vm/src/op/fault.rs:120")],
            Waits { count: 40, ns: 6_000_000, longest_ns: 900_000, holder: Some(1) }
        );
        assert_eq!(
            counts.waits[&key(Kind::Sleep, "pipe data", "kernel/src/fs/anon/pipe.rs:7")],
            Waits { count: 50, ns: 80_000_000, longest_ns: 7_000_000, holder: None }
        );
        assert_eq!(counts.waits.len(), 4);
    }

    #[test]
    fn another_format_is_an_error() {
        for text in [
            "",
            "version 2\n",
            "version 1\nwaits 0 1 2\n",
            "version 1\nnew 1 2\n",
            "version 1\ntaken x leaf\n",
        ] {
            assert!(Snapshot::parse(text).is_err(), "{text}");
        }
    }
}
