//! `darter flame --lines`: every cache line that a CPU takes from another while the program runs, by the calls of who takes it (lines/src/stacks/transfers.rs).
//!
//! Upon the stack of who takes the line stands that of its last write, the other way round: `from` and the function that wrote it, then that one's callers, last their
//! program. `from a reader`: the other CPU had only read the line; of reads nothing is kept.
#![forbid(unsafe_code)]

use anyhow::Result;
use clap::ValueEnum;
use darter_measure::Transfers;

use super::Taken;
use super::calls::{Count, Holder};
use super::exact::Counting;

/// Whose lines are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Whose {
    /// Those that are taken at addresses of the kernel's
    Kernel,
    /// Those of programs' memory as well
    All,
}

/// Runs the program and counts transfers.
pub fn count(mut counting: Counting<'_>, whose: Whose) -> Result<Taken> {
    let (ended, stacks) = counting.run::<Transfers>(darter_measure::transfers_plugin)?;
    let how = match whose {
        Whose::Kernel => " of the kernel's cache lines",
        Whose::All => " of cache lines",
    };
    let mut taken = Taken { unit: "transfers", how: how.into(), ..Taken::unfinished(ended) };
    let Some(stacks) = stacks else { return Ok(taken) };
    let drawn = |of_program: bool| whose == Whose::All || !of_program;
    let counts = stacks.counts.iter().filter(|Transfers(.., of_program)| drawn(*of_program));
    let counts = counts.map(|&Transfers(node, place, number, writer, _)| {
        let from = Some(writer.map_or(Holder::Reader, Holder::Writer));
        Count { node, place, number, from }
    });
    taken.all = counts.clone().map(|count| count.number).sum();
    taken.folded = counting.fold(&stacks, counts);
    taken.but = match (taken.all, stacks.all - taken.all) {
        (0, 0) => "no CPU took a line from another".into(),
        (0, others) => format!(
            "all {others} lines that CPUs took from each other were of programs' memory (--lines=all)"
        ),
        (_, 0) => String::new(),
        (_, others) => format!(", {others} more of programs' memory are not drawn (--lines=all)"),
    };
    Ok(taken)
}
