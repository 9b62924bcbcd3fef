//! `darter flame --lines`: every cache line that a CPU takes from another while the program runs, by the calls of who takes it (lines/src/stacks/transfers.rs).
//!
//! The last frame of a stack says from whom: the function that had written the line, or that it was only read.
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
        Whose::Kernel => " of lines of the kernel's",
        Whose::All => " of lines",
    };
    let mut taken = Taken { unit: "transfers", how: how.into(), ..Taken::unfinished(ended) };
    let Some(stacks) = stacks else { return Ok(taken) };
    let drawn = |of_program: bool| whose == Whose::All || !of_program;
    let counts = stacks.counts.iter().filter(|Transfers(.., of_program)| drawn(*of_program));
    let counts = counts.map(|&Transfers(node, place, number, pc, program, _)| {
        let holder = if pc == 0 { Holder::Reader } else { Holder::Writer(program, pc) };
        Count { node, place, number, from: Some(holder) }
    });
    taken.all = counts.clone().map(|count| count.number).sum();
    taken.folded = counting.fold(&stacks, counts);
    taken.but = match (taken.all, stacks.all - taken.all) {
        (0, 0) => "no CPU took a line from another".into(),
        (0, others) => format!("all {others} lines that CPUs took from each other were programs'"),
        (_, 0) => String::new(),
        (_, others) => format!(", {others} more of programs' memory are not drawn"),
    };
    Ok(taken)
}
