//! Transfer mode: every line that a CPU takes from another from `Marker::Begin` to `Marker::End`, by the calls that led there and by those that led to its last write.
//!
//! What a transfer is says the directory of line mode. It knows nothing of a line before its first access after the first mark. Of a line's last write it keeps 48 bits of
//! address. In this mode they are a packed site instead, which leads to the address and to the calls above it:
//!
//! ```text
//!     bit 44                  13 12                          0
//!         ├────── site ─────────┤├── bytes behind the block's ──┤
//!         a node, a block's start         first byte
//! ```
//!
//! The walker has a site for each block that it enters, so an access finds its own by one addition to the program counter (`Walker::shift`).
#![forbid(unsafe_code)]

use super::tree::Node;
use super::{Numbers, Shared, Walker, lock};
use crate::code;
use crate::lines::directory::Taken;
use crate::lines::recorder::Access;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::ops::DerefMut;
use std::sync::Mutex;

/// A site's place in the list. 0: not known.
type Site = u32;
/// Sites that are told apart at most; beyond them they are not known.
const MOST: usize = 1 << 24;
/// A block has 512 instructions at most (TCG_MAX_INSNS of QEMU), and an instruction 15 bytes.
const BEHIND_BITS: u32 = 13;
const _: () = assert!(512 * code::LONGEST <= 1 << BEHIND_BITS);
/// As the directory takes bit 47 of an address for all above it.
const _: () = assert!(Site::BITS + BEHIND_BITS < 48);

/// Blocks below the nodes that executed them.
pub struct Sites {
    list: Vec<(Node, u64)>,
    numbers: Numbers<Site>,
}

impl Default for Sites {
    fn default() -> Sites {
        Sites { list: vec![(0, 0)], numbers: Numbers::default() }
    }
}

impl Sites {
    /// The site of a block that begins at `start` and is executed by `node`.
    fn site(&mut self, node: Node, start: u64) -> Site {
        let next = self.list.len();
        if next >= MOST {
            return self.numbers.get(&(node, start)).copied().unwrap_or_default();
        }
        *self.numbers.entry((node, start)).or_insert_with(|| {
            self.list.push((node, start));
            next as Site
        })
    }

    /// The node and the program counter of a packed site.
    fn find(&self, packed: u64) -> (Node, u64) {
        match self.list.get((packed >> BEHIND_BITS) as usize) {
            Some((0, 0)) | None => (0, 0),
            Some((node, start)) => (*node, start.wrapping_add(packed & ((1 << BEHIND_BITS) - 1))),
        }
    }
}

/// One kind of transfer. Sites are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Taking {
    /// What takes the line.
    by: u64,
    /// What wrote it last, if another CPU did; else that one had read it only.
    from: Option<u64>,
    /// It is taken at an address of a program's, not of the kernel's.
    of_program: bool,
}

impl Taking {
    pub fn new(access: &Access, taken: Taken) -> Taking {
        let from = taken.write.map(|write| write.pc);
        Taking { by: access.pc, from, of_program: !code::in_kernel(access.vaddr) }
    }
}

/// What a CPU takes.
#[derive(Default)]
pub struct Transfers {
    /// Those of `Sites` that the CPU has met.
    sites: Numbers<Site>,
    counts: HashMap<Taking, u64>,
    open: bool,
    /// Of all kinds together.
    all: u64,
}

impl Transfers {
    /// Counting begins.
    pub fn open(&mut self) {
        self.open = true;
    }

    /// Counting ends.
    pub fn close(&mut self) {
        self.open = false;
    }

    /// The CPU has taken a line from another.
    pub fn took(&mut self, taking: Taking) {
        if self.open {
            *self.counts.entry(taking).or_default() += 1;
            self.all += 1;
        }
    }
}

impl Walker {
    /// From the addresses that QEMU gives the instructions of the block that the CPU executes to their packed sites.
    pub fn shift(&mut self, shared: &Mutex<Shared>) -> u64 {
        let Some(last) = self.last else { return 0 };
        let (node, start) = (self.node, last.start());
        let sites = &mut self.transfers.sites;
        let site = *sites.entry((node, start)).or_insert_with(|| lock(shared).sites.site(node, start));
        (u64::from(site) << BEHIND_BITS).wrapping_sub(last.block.start)
    }
}

/// The file: how many transfers there were, who ran, the tree, and what was taken where in it: node, program counter, how many, node and program counter of
/// the last write (none: the line was only read), whether it was taken at a program's address.
pub fn document(walkers: &mut [impl DerefMut<Target = Walker>], shared: &Mutex<Shared>) -> String {
    let all: u64 = walkers.iter().map(|walker| walker.transfers.all).sum();
    let state = lock(shared);
    let mut text = format!(
        "{{\"format\":\"darter-lines/1\",\"mode\":\"transfers\",\"transfers\":{all},{},\"counts\":[",
        state.tree.fields()
    );
    let mut counts: Vec<_> =
        walkers.iter_mut().flat_map(|walker| std::mem::take(&mut walker.transfers.counts)).collect();
    counts.sort_unstable();
    for (index, (Taking { by, from, of_program }, count)) in counts.into_iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        let (node, pc) = state.sites.find(by);
        let _ = write!(text, "{comma}[{node},{pc},{count},");
        let _ = match from.map(|from| state.sites.find(from)) {
            Some((node, pc)) => write!(text, "[{node},{pc}],{of_program}]"),
            None => write!(text, "null,{of_program}]"),
        };
    }
    text + "]}\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::directory::{Directory, Write};
    use crate::lines::recorder::Recorder;

    fn access(line: u64, vaddr: u64, pc: u64, write: bool) -> Access {
        Access { line, offset: 0, bytes: 8, vaddr, pc, write, locked: false }
    }

    #[test]
    fn a_site_is_packed_with_the_distance_from_its_block() {
        let mut sites = Sites::default();
        let (a, b) = (sites.site(3, 0x1000), sites.site(4, u64::MAX - 0xfff));
        assert_eq!([sites.site(3, 0x1000), sites.site(4, u64::MAX - 0xfff)], [a, b]);
        let packed = |site: Site, behind: u64| u64::from(site) << BEHIND_BITS | behind;
        assert_eq!(sites.find(packed(a, 0x1fff)), (3, 0x2fff));
        assert_eq!(sites.find(packed(b, 0xf)), (4, u64::MAX - 0xff0));
        // What is not known is nothing, wherever in its block.
        assert_eq!([sites.find(7), sites.find(packed(b + 1, 7))], [(0, 0); 2]);
    }

    #[test]
    fn what_is_taken_is_counted_by_both_sites() {
        let shared = Mutex::<Shared>::default();
        let [by, from] = [(0, 0x40), (0, 0x50)].map(|(node, start)| lock(&shared).sites.site(node, start));
        let [by, from] = [by, from].map(|site| u64::from(site) << BEHIND_BITS | 2);
        let mut walker = Walker::default();
        let took = |walker: &mut Walker| {
            for (vaddr, write) in [(0x1000, Some(from)), (u64::MAX, Some(from)), (u64::MAX, None)] {
                let write = write.map(|pc| Write { cpu: 1, pc });
                let taking = Taking::new(&access(1, vaddr, by, true), Taken { from: 1, write });
                walker.transfers.took(taking);
            }
        };
        took(&mut walker);
        walker.transfers.open();
        took(&mut walker);
        took(&mut walker);
        walker.transfers.close();
        took(&mut walker);
        let document = document(&mut [&mut walker], &shared);
        assert!(document.contains("\"mode\":\"transfers\",\"transfers\":6,\"programs\""), "{document}");
        let counts = "[0,66,2,null,false],[0,66,2,[0,82],false],[0,66,2,[0,82],true]";
        assert!(document.ends_with(&format!("\"counts\":[{counts}]}}\n")), "{document}");
    }

    /// The window of line mode and this mode are told the same accesses.
    #[test]
    fn as_many_are_counted_as_in_line_mode() {
        static DIRECTORY: Directory = Directory::new();
        let mut recorders = [0, 1].map(|cpu| Recorder::new(cpu, &DIRECTORY, None));
        let mut walker = Walker::default();
        walker.transfers.open();
        recorders.iter_mut().for_each(Recorder::open);
        for round in 0..1000_u64 {
            for (number, recorder) in recorders.iter_mut().enumerate() {
                let access = access(round % 7, 0x1000, 8, (round + number as u64) % 3 == 0);
                if let Some(taken) = recorder.note(&access) {
                    walker.transfers.took(Taking::new(&access, taken));
                }
            }
        }
        let records = recorders.iter_mut().filter_map(Recorder::close);
        let counted: u64 = records.map(|record| record.transfers.values().sum::<u64>()).sum();
        assert_eq!((walker.transfers.all, walker.transfers.counts.values().sum()), (counted, counted));
        assert!(counted > 300, "{counted}");
    }
}
