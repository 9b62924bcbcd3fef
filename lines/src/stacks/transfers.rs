//! Transfer mode: every line that a CPU takes from another from `Marker::Begin` to `Marker::End`, by the calls that led there, and by who had written it.
//!
//! What a transfer is says the directory of line mode. It knows nothing of a line before its first access after the first mark.
#![forbid(unsafe_code)]

use super::tree::{Node, Program};
use super::{Shared, Walker, lock};
use crate::code;
use crate::lines::directory::{PROGRAMS, Taken};
use crate::lines::recorder::Access;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::ops::DerefMut;
use std::sync::Mutex;

/// One kind of transfer at one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Taking {
    /// What takes it.
    pc: u64,
    /// What wrote it last, if another CPU did; else that one had read it only.
    from: Option<Writer>,
    /// It is taken at an address of a program's, not of the kernel's.
    of_program: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Writer {
    pc: u64,
    /// Whose code that is; none: one of too many.
    program: Option<Program>,
}

impl Taking {
    pub fn new(access: &Access, taken: Taken) -> Taking {
        let from = taken.write.map(|write| Writer {
            pc: write.pc,
            program: (write.program < PROGRAMS - 1).then_some(write.program.into()),
        });
        Taking { pc: access.pc, from, of_program: !code::in_kernel(access.vaddr) }
    }
}

/// What a CPU takes.
#[derive(Default)]
pub struct Transfers {
    counts: HashMap<(Node, Taking), u64>,
    open: bool,
    /// Lines that the CPU had taken when counting began, and took until it ended.
    began: u64,
    all: u64,
}

impl Transfers {
    /// Counting begins, when the CPU has taken so many.
    pub fn open(&mut self, now: u64) {
        (self.began, self.open) = (now, true);
    }

    /// Counting ends.
    pub fn close(&mut self, now: u64) {
        if std::mem::take(&mut self.open) {
            self.all = now.wrapping_sub(self.began);
        }
    }

    pub fn took(&mut self, node: Node, taking: Taking) {
        if self.open {
            *self.counts.entry((node, taking)).or_default() += 1;
        }
    }
}

/// The file: how many transfers there were, who ran, the tree, and what was taken where in it: node, place, how many; where the line was written last (0: it was
/// read) and by which program; whether it was taken at a program's address.
pub fn document(walkers: &mut [impl DerefMut<Target = Walker>], shared: &Mutex<Shared>) -> String {
    let all: u64 = walkers.iter().map(|walker| walker.transfers.all).sum();
    let mut text = format!(
        "{{\"format\":\"darter-lines/1\",\"mode\":\"transfers\",\"transfers\":{all},{},\"counts\":[",
        lock(shared).tree.fields()
    );
    let mut counts: Vec<_> =
        walkers.iter_mut().flat_map(|walker| std::mem::take(&mut walker.transfers.counts)).collect();
    counts.sort_unstable();
    for (index, ((node, Taking { pc, from, of_program }), count)) in counts.into_iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        let _ = write!(text, "{comma}[{node},{pc},{count},");
        let Writer { pc, program } = from.unwrap_or(Writer { pc: 0, program: None });
        let _ = match program {
            Some(program) => write!(text, "{pc},{program},{of_program}]"),
            None => write!(text, "{pc},null,{of_program}]"),
        };
    }
    text + "]}\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::directory::Write;

    fn taking(vaddr: u64, write: Option<Write>) -> Taking {
        let access = Access { line: 1, offset: 0, bytes: 8, vaddr, pc: 0x40, write: true, locked: false };
        Taking::new(&access, Taken { from: 1, write })
    }

    #[test]
    fn what_is_taken_is_counted_by_place_and_by_who_wrote_it() {
        let write = |program| Some(Write { cpu: 1, program, pc: 0x50 });
        let mut walker = Walker::default();
        let took = |walker: &mut Walker, number: u64| {
            for taking in [
                taking(0x1000, write(3)),
                taking(u64::MAX, write(3)),
                taking(u64::MAX, write(PROGRAMS - 1)),
                taking(u64::MAX, None),
            ] {
                walker.took(taking);
            }
            number + 4
        };
        let began = took(&mut walker, 0);
        walker.transfers.open(began);
        let between = took(&mut walker, began);
        let ended = took(&mut walker, between);
        walker.transfers.close(ended);
        took(&mut walker, ended);
        let document = document(&mut [&mut walker], &Mutex::default());
        assert!(document.contains("\"mode\":\"transfers\",\"transfers\":8,\"programs\""), "{document}");
        let counts = "[0,64,2,0,null,false],[0,64,2,80,null,false],[0,64,2,80,3,false],[0,64,2,80,3,true]";
        assert!(document.ends_with(&format!("\"counts\":[{counts}]}}\n")), "{document}");
    }
}
