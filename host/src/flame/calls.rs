//! Names for a tree of calls: places become functions, and what has the same names on its way is one.
//!
//! A place and a way are named once, however many counts lie there: a compiler's run has millions.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, HashMap};

use darter_measure::Symbols;

use super::programs::Programs;
use super::samples::{Mapping, find};
use super::{UNKNOWN, clean, of_kernel, text};

/// A function or program, by its place in the list of names.
type Name = usize;
/// A way of names, by its place in the list of ways. 0: the empty one.
type Way = usize;

/// Who had a line that another CPU took.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Holder<Where> {
    /// Its CPU had read it only.
    Reader,
    /// It was written last there.
    Writer(Where),
}

/// So many at a place below a node; of transfers, from whom, which is a place below a node, too.
#[derive(Clone, Copy, Debug)]
pub struct Count {
    pub node: usize,
    pub place: u64,
    pub number: u64,
    pub from: Option<Holder<(usize, u64)>>,
}

/// What stands before the innermost function of who had the line.
const FROM: &str = "from ";

pub struct Calls<'a> {
    /// As `darter_measure::Stacks` has them.
    nodes: &'a [(usize, u64)],
    kernel: &'a Symbols,
    programs: Programs<'a>,
    /// Of each program.
    mappings: Vec<Vec<Mapping>>,
    /// Which program each node belongs to.
    owners: Vec<usize>,
    names: Vec<String>,
    numbers: HashMap<String, Name>,
    /// By program and address.
    places: HashMap<(usize, u64), Name>,
    /// The way that leads to it, and the name at its end.
    ways: Vec<(Way, Name)>,
    next: HashMap<(Way, Name), Way>,
    /// The way of a node's calls, and of those that enter the kernel.
    of_nodes: Vec<[Option<Way>; 2]>,
}

fn in_kernel(place: u64) -> bool {
    place >> 63 != 0
}

impl<'a> Calls<'a> {
    /// `threads` and `mappings`: what each program's threads are called, and where its files lie.
    pub fn new(
        nodes: &'a [(usize, u64)],
        threads: &[String],
        mappings: Vec<Vec<Mapping>>,
        kernel: &'a Symbols,
        programs: Programs<'a>,
    ) -> Self {
        let mut owners: Vec<usize> = Vec::with_capacity(nodes.len());
        for &(parent, place) in nodes {
            let owner = owners.get(parent).copied().filter(|_| parent > 0);
            owners.push(owner.unwrap_or_else(|| usize::try_from(place).unwrap_or_default()));
        }
        let mut calls = Self {
            nodes,
            kernel,
            programs,
            mappings,
            owners,
            names: Vec::new(),
            numbers: HashMap::new(),
            places: HashMap::new(),
            ways: vec![(0, 0)],
            next: HashMap::new(),
            of_nodes: vec![[None; 2]; nodes.len()],
        };
        // The first names are the programs'.
        for (number, thread) in threads.iter().enumerate() {
            calls.names.push(if number == 0 { "kernel".into() } else { clean(thread) });
        }
        calls
    }

    /// A line for each way: who ran, its functions, then the kernel's with their mark; from whom, of what was taken: the same the other way round; and how many.
    pub fn fold(mut self, counts: impl Iterator<Item = Count>) -> String {
        let mut sums: HashMap<(Way, Option<Holder<Way>>), u64> = HashMap::new();
        for Count { node, place, number, from } in counts {
            let way = self.way_to(node, place);
            let from = from.map(|holder| match holder {
                Holder::Reader => Holder::Reader,
                Holder::Writer((node, place)) => Holder::Writer(self.way_to(node, place)),
            });
            *sums.entry((way, from)).or_default() += number;
        }
        let mut lines: BTreeMap<String, u64> = BTreeMap::new();
        for ((way, from), count) in sums {
            let mut line = self.inside_out(way).rev().collect::<Vec<_>>().join(";");
            match from {
                None => {}
                Some(Holder::Reader) => line.extend([";", FROM, "a reader"]),
                Some(Holder::Writer(way)) => {
                    let separators = std::iter::once(FROM).chain(std::iter::repeat(""));
                    for (separator, name) in separators.zip(self.inside_out(way)) {
                        line.extend([";", separator, name]);
                    }
                }
            }
            *lines.entry(line).or_default() += count;
        }
        text(&lines)
    }

    /// The names on a way, the innermost first.
    fn inside_out(&self, way: Way) -> impl DoubleEndedIterator<Item = &str> {
        let mut names = Vec::new();
        let mut way = way;
        while let Some((before, name)) = self.ways.get(way).filter(|_| way > 0) {
            names.extend(self.names.get(*name).map(String::as_str));
            way = *before;
        }
        names.into_iter()
    }

    /// The way to a place below a node.
    fn way_to(&mut self, node: usize, place: u64) -> Way {
        let way = self.way(node, in_kernel(place));
        let owner = self.owners.get(node).copied().unwrap_or_default();
        let name = self.name(owner, place);
        self.step(way, name)
    }

    /// The way of what a node has called, or of the kernel's that was entered there.
    fn way(&mut self, node: usize, kernel: bool) -> Way {
        // From the outermost without a way yet: stacks are too deep for recursion.
        let mut todo = Vec::new();
        let (mut node, mut kernel) = (node, kernel);
        let mut way = loop {
            if let Some(way) = self.of_nodes.get(node).and_then(|ways| ways[usize::from(kernel)]) {
                break way;
            }
            let Some(&(parent, place)) = self.nodes.get(node).filter(|_| node > 0) else { break 0 };
            todo.push((node, kernel));
            (node, kernel) = (parent, parent > 0 && in_kernel(place));
        };
        for (node, kernel) in todo.into_iter().rev() {
            let Some(&(parent, place)) = self.nodes.get(node) else { continue };
            let owner = self.owners.get(node).copied().unwrap_or_default();
            let name = match parent {
                0 => owner,
                // A call returns behind it; what entered the kernel is the place itself.
                _ if kernel && !in_kernel(place) => self.name(owner, place),
                _ => self.name(owner, place.saturating_sub(1)),
            };
            way = self.step(way, name);
            if let Some(ways) = self.of_nodes.get_mut(node) {
                ways[usize::from(kernel)] = Some(way);
            }
        }
        way
    }

    fn step(&mut self, way: Way, name: Name) -> Way {
        let ways = &mut self.ways;
        *self.next.entry((way, name)).or_insert_with(|| {
            ways.push((way, name));
            ways.len() - 1
        })
    }

    /// The function at a place of a program, or of the kernel.
    fn name(&mut self, program: usize, place: u64) -> Name {
        let program = if in_kernel(place) { 0 } else { program };
        if let Some(name) = self.places.get(&(program, place)) {
            return *name;
        }
        let text = if in_kernel(place) {
            of_kernel(self.kernel, place)
        } else {
            let found = self.mappings.get(program).and_then(|maps| find(maps, place));
            let name = found.map(|(mapping, offset)| self.programs.name(&mapping.file, offset));
            clean(&name.unwrap_or_else(|| UNKNOWN.into()))
        };
        let names = &mut self.names;
        let name = *self.numbers.entry(text).or_insert_with_key(|text| {
            names.push(text.clone());
            names.len() - 1
        });
        self.places.insert((program, place), name);
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flame::tests::{ENTRY, kernel, machine};
    use crate::paths::Tree;

    /// The stacks of counts in a program `a;b` that calls, enters the kernel, and whose kernel is interrupted; and of the kernel's own.
    fn fold(counts: &[Count]) -> String {
        let nodes = [(0, 0), (0, 1), (1, 4096), (2, ENTRY + 0x100), (0, 0)];
        let (paths, machine, kernel) = (Tree::find(), machine(), kernel());
        let threads = [String::new(), "a;b".into()];
        let programs = Programs::new(&paths, &machine);
        Calls::new(&nodes, &threads, vec![Vec::new(); 2], &kernel, programs).fold(counts.iter().copied())
    }

    #[test]
    fn what_has_the_same_names_is_one_line() {
        let counts =
            [(1, 4096, 1), (1, 4100, 2), (2, 8192, 3), (2, ENTRY, 4), (3, ENTRY + 0x104, 5), (4, ENTRY, 7)];
        let counts = counts.map(|(node, place, number)| Count { node, place, number, from: None });
        assert_eq!(
            fold(&counts),
            "a:b;[unknown] 3\na:b;[unknown];[unknown] 3\na:b;[unknown];entry_[k] 4\n\
             a:b;[unknown];entry_[k];fault_[k] 5\nkernel;entry_[k] 7\n"
        );
    }

    #[test]
    fn behind_what_took_a_line_stands_who_had_it_the_other_way_round() {
        let counts = [
            (1, Holder::Writer((3, ENTRY + 0x108))),
            (2, Holder::Writer((3, ENTRY + 0x110))),
            (4, Holder::Reader),
            (8, Holder::Writer((1, 4096))),
            (16, Holder::Writer((4, ENTRY))),
            (32, Holder::Writer((0, 0))),
        ];
        let counts = counts.map(|(number, from)| Count { node: 4, place: ENTRY, number, from: Some(from) });
        assert_eq!(
            fold(&counts),
            "kernel;entry_[k];from [unknown] 32\n\
             kernel;entry_[k];from [unknown];a:b 8\n\
             kernel;entry_[k];from a reader 4\n\
             kernel;entry_[k];from entry_[k];kernel 16\n\
             kernel;entry_[k];from fault_[k];entry_[k];[unknown];a:b 3\n"
        );
    }
}
