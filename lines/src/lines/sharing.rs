//! A window of all CPUs put together: which lines conflict, of what kind they are, and what moved.
//!
//! A *conflict line* has a writer and at least one other CPU in the window. That depends on what the CPUs touched, not on who came
//! first, so it is the same in repeated runs where the count of transfers is not.
#![forbid(unsafe_code)]

use super::cache::Counts;
use super::guest::Wanted;
use super::recorder::{Record, Touched, Transfer, Used, Visits};
use super::spread::Spread;
use crate::code;
use std::collections::HashMap;
use std::fmt::Write as _;

/// How a conflict line is shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// No byte that one CPU writes is touched by another: only the line is shared.
    False,
    /// Shared bytes that are written by locked instructions and by plain ones: taken and released.
    Lock,
    /// Shared bytes that only locked instructions write.
    Atomic,
    /// Shared bytes that only plain instructions write.
    Shared,
}

impl Class {
    pub fn name(self) -> &'static str {
        match self {
            Class::False => "false",
            Class::Lock => "lock",
            Class::Atomic => "atomic",
            Class::Shared => "shared",
        }
    }
}

/// The kind of conflict of what several CPUs did with one line, or none.
pub fn classify(touched: &[&Touched]) -> Option<Class> {
    let (mut shared, mut conflict) = (0, false);
    for (index, mine) in touched.iter().enumerate() {
        for (_, other) in touched.iter().enumerate().filter(|&(at, _)| at != index) {
            conflict |= mine.written() != 0;
            shared |= mine.written() & (other.read | other.written());
        }
    }
    let by = |mask: fn(&Touched) -> u64| touched.iter().any(|touched| mask(touched) & shared != 0);
    conflict.then(|| match (by(|t| t.locked), by(|t| t.plain)) {
        (false, false) => Class::False,
        (true, true) => Class::Lock,
        (true, false) => Class::Atomic,
        (false, true) => Class::Shared,
    })
}

#[derive(Default)]
struct Line<'a> {
    used: Vec<(usize, &'a Used)>,
    /// Transfers by what made them, all CPUs together: (write, pc, last write's pc).
    pairs: HashMap<(bool, u64, u64), u64, Spread>,
    transfers: u64,
    remote: u64,
}

/// At most so many pairs of places are written for one line, the most frequent first.
const PAIRS: usize = 8;

/// The fields of the window's entry. `node_cpus`: CPUs per NUMA node, 0 for one node. `read`: see [`Wanted::harvest`].
pub fn harvest(
    records: &[Record],
    node_cpus: usize,
    memory: &Wanted,
    read: &mut dyn FnMut(u64, usize) -> Option<Vec<u8>>,
) -> String {
    let mut lines: HashMap<u64, Line<'_>, Spread> = HashMap::default();
    let mut matrix: HashMap<(usize, usize), u64, Spread> = HashMap::default();
    let mut sums = Sums::default();
    for record in records {
        sums.user_accesses += record.user_accesses;
        sums.kernel_accesses += record.kernel_accesses;
        for (&line, used) in &record.lines {
            lines.entry(line).or_default().used.push((record.cpu, used));
        }
        for (transfer, &count) in &record.transfers {
            let remote = node_cpus > 0 && transfer.from / node_cpus != record.cpu / node_cpus;
            sums.add(transfer, count, remote);
            *matrix.entry((transfer.from, record.cpu)).or_default() += count;
            let line = lines.entry(transfer.line).or_default();
            *line.pairs.entry((transfer.write, transfer.pc, transfer.from_pc)).or_default() += count;
            line.transfers += count;
            line.remote += if remote { count } else { 0 };
        }
    }
    let mut lines: Vec<_> = lines
        .into_iter()
        .map(|(number, line)| {
            let touched: Vec<_> = line.used.iter().map(|(_, used)| &used.touched).collect();
            (number, classify(&touched), line)
        })
        .filter(|(_, class, line)| class.is_some() || line.transfers > 0)
        .collect();
    lines.sort_by_key(|(number, _, line)| (std::cmp::Reverse(line.transfers), *number));
    let mut matrix: Vec<_> = matrix.into_iter().collect();
    matrix.sort_unstable();

    let mut text = sums.fields();
    text.push_str(",\"matrix\":");
    list(&mut text, matrix.iter(), |text, ((from, to), count)| {
        let _ = write!(text, "[{from},{to},{count}]");
    });
    text.push_str(",\"cache\":");
    let caches = records.iter().filter_map(|record| Some((record.cpu, record.cache?)));
    list(&mut text, caches, |text, (cpu, Counts { accesses, local, remote, taken })| {
        let _ = write!(text, "[{cpu},{accesses},{local},{remote},{taken}]");
    });
    text.push_str(",\"lines\":");
    list(&mut text, lines.iter(), |text, (number, class, line)| line.write(text, *number, *class));
    text.push(',');
    text.push_str(&memory.harvest(lines.iter().map(|(number, _, line)| (number << 6, line.vaddr())), read));
    text
}

/// A JSON array.
fn list<T>(text: &mut String, items: impl Iterator<Item = T>, mut write: impl FnMut(&mut String, T)) {
    for (index, item) in items.enumerate() {
        text.push(if index == 0 { '[' } else { ',' });
        write(text, item);
    }
    text.push_str(if text.ends_with([':']) { "[]" } else { "]" });
}

impl Line<'_> {
    /// A kernel address says more than a program's, where the line has both.
    fn vaddr(&self) -> u64 {
        self.used.iter().map(|(_, used)| used.touched.vaddr).max().unwrap_or(0)
    }

    fn write(&self, text: &mut String, number: u64, class: Option<Class>) {
        let vaddr = self.vaddr();
        let class = class.map_or("null".into(), |class| format!("\"{}\"", class.name()));
        let _ = write!(
            text,
            "\n {{\"line\":{},\"vaddr\":{vaddr},\"class\":{class},\"transfers\":{},\"remote\":{},\"cpus\":",
            number << 6,
            self.transfers,
            self.remote
        );
        let mut used = self.used.clone();
        used.sort_by_key(|(cpu, _)| *cpu);
        list(text, used.iter(), |text, (cpu, Used { touched, visits })| {
            let Touched { read_pc, write_pc, read, vaddr, .. } = touched;
            let (written, Visits { all, writing }) = (touched.written(), visits);
            let _ = write!(text, "[{cpu},{read_pc},{write_pc},{read},{written},{vaddr},{all},{writing}]");
        });
        let mut pairs: Vec<_> = self.pairs.iter().collect();
        pairs.sort_by_key(|&(place, count)| (std::cmp::Reverse(*count), *place));
        text.push_str(",\"pairs\":");
        list(text, pairs.iter().take(PAIRS), |text, ((write, pc, from_pc), count)| {
            let _ = write!(text, "[{},{pc},{from_pc},{count}]", u8::from(*write));
        });
        text.push('}');
    }
}

#[derive(Default)]
struct Sums {
    user_accesses: u64,
    kernel_accesses: u64,
    user_reads: u64,
    user_writes: u64,
    kernel_reads: u64,
    kernel_writes: u64,
    remote: u64,
}

impl Sums {
    fn add(&mut self, transfer: &Transfer, count: u64, remote: bool) {
        *match (code::in_kernel(transfer.pc), transfer.write) {
            (false, false) => &mut self.user_reads,
            (false, true) => &mut self.user_writes,
            (true, false) => &mut self.kernel_reads,
            (true, true) => &mut self.kernel_writes,
        } += count;
        self.remote += if remote { count } else { 0 };
    }

    fn fields(&self) -> String {
        format!(
            "\"user_accesses\":{},\"kernel_accesses\":{},\"user_reads\":{},\"user_writes\":{},\"kernel_reads\":{},\
             \"kernel_writes\":{},\"remote\":{}",
            self.user_accesses,
            self.kernel_accesses,
            self.user_reads,
            self.user_writes,
            self.kernel_reads,
            self.kernel_writes,
            self.remote
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(read: u64, written: u64) -> Touched {
        Touched { read, plain: written, ..Touched::default() }
    }

    fn locked(bytes: u64) -> Touched {
        Touched { read: bytes, locked: bytes, ..Touched::default() }
    }

    #[test]
    fn lines_are_classified_by_what_was_done_with_their_bytes() {
        assert_eq!(classify(&[&plain(0xff, 0xff)]), None);
        assert_eq!(classify(&[&plain(0xff, 0), &plain(0xff, 0)]), None);
        assert_eq!(classify(&[&plain(0xff, 0xff), &plain(0xff, 0xff)]), Some(Class::Shared));
        assert_eq!(classify(&[&plain(0, 0xff), &plain(0xf0, 0)]), Some(Class::Shared));
        assert_eq!(classify(&[&plain(0xff, 0xff), &plain(0xff00, 0xff00)]), Some(Class::False));
        assert_eq!(classify(&[&plain(0xff, 0xff), &plain(0xff00, 0)]), Some(Class::False));
        assert_eq!(classify(&[&locked(0xff), &locked(0xff)]), Some(Class::Atomic));
        let lock = Touched { plain: 0xf, ..locked(0xf) };
        assert_eq!(classify(&[&lock, &lock]), Some(Class::Lock));
    }

    #[test]
    fn plain_writes_of_bytes_of_ones_own_make_no_lock() {
        let counter = Touched { plain: 0xff00, ..locked(0xf) };
        assert_eq!(classify(&[&counter, &locked(0xf)]), Some(Class::Atomic));
    }

    #[test]
    fn a_window_names_its_lines_and_what_moved() {
        let pc = 0xffff_ffff_8100_0000;
        let mut records = [
            Record { cpu: 0, kernel_accesses: 5, ..Record::default() },
            Record { cpu: 3, ..Record::default() },
        ];
        for (record, write_pc) in records.iter_mut().zip([pc, pc + 1]) {
            let touched = Touched { write_pc, vaddr: 0x1c0, ..plain(0xff, 0xff) };
            record.lines.insert(7, Used { touched, visits: Visits { all: 3, writing: 2 } });
            // Read only: not listed.
            record.lines.insert(8, Used { touched: plain(0xff, 0), ..Used::default() });
        }
        let transfer = Transfer { line: 7, write: true, pc: pc + 1, from: 0, from_pc: pc };
        records[1].transfers.insert(transfer, 4);
        records[1].cache = Some(Counts { accesses: 9, local: 2, remote: 1, taken: 1 });
        let text = harvest(&records, 2, &Wanted::default(), &mut |_, _| None);
        assert_eq!(
            text,
            format!(
                "\"user_accesses\":0,\"kernel_accesses\":5,\"user_reads\":0,\"user_writes\":0,\"kernel_reads\":0,\"kernel_writes\":4,\
                 \"remote\":4,\"matrix\":[[0,3,4]],\"cache\":[[3,9,2,1,1]],\"lines\":[\n \
                 {{\"line\":448,\"vaddr\":448,\"class\":\"shared\",\"transfers\":4,\
                 \"remote\":4,\"cpus\":[[0,0,{pc},255,255,448,3,2],[3,0,{},255,255,448,3,2]],\"pairs\":[[1,{},{pc},4]]}}],\"memory\":[]",
                pc + 1,
                pc + 1
            )
        );
        let empty = harvest(&[], 0, &Wanted::default(), &mut |_, _| None);
        assert!(empty.ends_with("\"matrix\":[],\"cache\":[],\"lines\":[],\"memory\":[]"));
    }
}
