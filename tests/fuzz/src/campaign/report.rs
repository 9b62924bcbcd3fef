//! What a campaign says: a line for each batch, and the sum at its end.
#![forbid(unsafe_code)]

use super::Campaign;
use crate::machine::{End, Outcome};

impl Campaign<'_> {
    pub(super) fn progress(&self, cpus: u32, outcome: &Outcome) {
        let counts = &self.counts;
        let steered = if self.options.fixed {
            String::new()
        } else {
            let (reached, total) = (self.coverage.count(), self.coverage.total());
            let share = reached as f64 * 100.0 / total.max(1) as f64;
            format!("{reached} of {total} blocks ({share:.1} %)  {} kept  ", self.corpus.len())
        };
        let how = match &outcome.end {
            End::Whole => "",
            End::Died(_) => "  DIED",
            End::Hung(_) => "  HUNG",
            End::Undead(_) => "  UNDEAD",
            End::Escaped(_) => "  escaped",
            End::Broken(_) => "  broken",
            End::Slow => "  slow",
        };
        println!(
            "{:6.0} s  {cpus:2} CPUs  {:7} programs  {:9} calls ({} % succeed)  {}{} cases  slowest {} ms  free {:?}{how}",
            self.since.elapsed().as_secs_f64(),
            counts.programs,
            counts.calls,
            counts.successes * 100 / counts.calls.max(1),
            steered,
            counts.cases,
            outcome.slowest.1,
            outcome.memory.first().map(|(before, after)| before - after),
        );
    }

    pub(super) fn report(&self) {
        let counts = &self.counts;
        let minutes = self.since.elapsed().as_secs_f64() / 60.0;
        let (reached, total) = (self.coverage.count(), self.coverage.total());
        println!(
            "fuzzed for {minutes:.1} minutes, seed {}: {} batches, {} programs, {} calls",
            self.options.seed, counts.batches, counts.programs, counts.calls
        );
        println!(
            "{} kinds of failures, {} more of the same; {} programs ended the supervisor as they may",
            counts.cases, counts.again, counts.escaped
        );
        if let Some(at) = self.last_failure {
            println!("the last {:.1} minutes without one", at.elapsed().as_secs_f64() / 60.0);
        }
        if self.options.fixed {
            return;
        }
        println!(
            "{reached} of {total} basic blocks of the kernel were executed ({:.1} %)",
            reached as f64 * 100.0 / total.max(1) as f64
        );
        let mut missed: Vec<_> =
            self.coverage.functions().into_iter().filter(|(_, all, some)| all - some > 8).collect();
        missed.sort_by_key(|(_, all, some)| std::cmp::Reverse(all - some));
        println!("functions with most blocks not reached (reached of all):");
        for (name, all, some) in missed.iter().take(25) {
            println!("    {some:4} of {all:4}  {name}");
        }
    }
}
