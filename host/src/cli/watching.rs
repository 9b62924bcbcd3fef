//! The options of the commands that watch a program's kernel at work, in a machine of their own or in one that runs.
#![forbid(unsafe_code)]

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use clap::{Arg, Args, Id};

use super::{MachineOptions, parse_seconds};
use crate::flame;
use crate::top::Column;

/// Which machine is watched, where none is started.
#[derive(Args)]
pub struct Attach {
    /// Watch the machine of process PID, a darter command that runs; without PID, or where neither this nor a program is given, the only machine of this user's that runs. What was set
    /// in its kernel is set back when this ends, by Ctrl-C or in whatever way
    #[arg(long, num_args = 0..=1, value_name = "PID", conflicts_with = "command")]
    pub attach: Option<Option<u32>>,
    /// With a machine that runs: end after so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, conflicts_with = "command")]
    pub seconds: Option<f64>,
}

impl Attach {
    pub fn pid(&self) -> Option<u32> {
        self.attach.flatten()
    }

    pub fn limit(&self) -> Option<Duration> {
        self.seconds.map(Duration::from_secs_f64)
    }
}

/// What a machine is made from is for a machine of one's own.
fn of_own_machine(arg: Arg) -> Arg {
    static MACHINE: LazyLock<HashSet<Id>> = LazyLock::new(|| {
        let command = MachineOptions::augment_args(clap::Command::new(""));
        command.get_arguments().map(|arg| arg.get_id().clone()).collect()
    });
    if !MACHINE.contains(arg.get_id()) {
        return arg;
    }
    // What is required is not where it conflicts with what is there.
    arg.requires("command").conflicts_with_all(["attach", "seconds"])
}

#[derive(Args)]
#[command(mut_args(of_own_machine), mut_arg("cpus", |arg| arg.short(None)), mut_arg("memory", |arg| arg.short(None)))]
pub struct Lockstat {
    #[command(flatten)]
    pub machine: MachineOptions,
    /// Sort by, and give the share of, the number of waits instead of the time
    #[arg(short = 'c')]
    pub count: bool,
    /// Waits and time of a second
    #[arg(short = 's')]
    pub per_second: bool,
    /// Waits and time of a CPU
    #[arg(short = 'p')]
    pub per_cpu: bool,
    /// One line for all callers in a source file
    #[arg(short = 'm')]
    pub merge: bool,
    /// Locks alone, without their callers
    #[arg(short = 'l', conflicts_with = "functions")]
    pub locks: bool,
    /// Callers alone, whatever the lock
    #[arg(short = 'f')]
    pub functions: bool,
    /// Write the report there
    #[arg(short = 'o', value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Print one JSON object with all that was counted; the program's stdout goes to stderr, or stays if -o is given
    #[arg(long, conflicts_with_all = ["count", "per_second", "per_cpu", "merge", "locks", "functions"])]
    pub json: bool,
    #[command(flatten)]
    pub attach: Attach,
    /// The program and its arguments; one whose name begins with - stands behind --. Without: a machine that runs is watched
    #[arg(trailing_var_arg = true, value_name = "CMD [ARG]")]
    pub command: Vec<String>,
}

#[derive(Args)]
#[command(mut_args(of_own_machine))]
pub struct Top {
    #[command(flatten)]
    pub machine: MachineOptions,
    /// Seconds between two looks
    #[arg(long, short = 'i', default_value_t = 1.0, value_parser = parse_interval, value_name = "SECONDS")]
    pub interval: f64,
    /// The column to sort by, the largest first; cpu: in the order of CPUs
    #[arg(long, value_enum, default_value_t = Column::Cpu)]
    pub sort: Column,
    /// Leave out CPUs that did nothing
    #[arg(long)]
    pub busy: bool,
    /// Show only CPUs that waited for a lock with TEXT in its class or in its caller, in small letters or large ones; the total is that of all
    #[arg(long, default_value = "", hide_default_value = true, value_name = "TEXT")]
    pub filter: String,
    /// Print a JSON object in a line at each look; the program's stdout goes to stderr
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub attach: Attach,
    /// The program and its arguments; one whose name begins with - stands behind --. Without: a machine that runs is watched
    #[arg(trailing_var_arg = true, value_name = "CMD [ARG]")]
    pub command: Vec<String>,
}

#[derive(Args)]
#[command(mut_args(of_own_machine))]
pub struct Flame {
    #[command(flatten)]
    pub machine: MachineOptions,
    /// Samples of each CPU a second
    #[arg(long, default_value_t = 250, value_parser = flame::parse_rate, value_name = "N")]
    pub rate: u32,
    /// Count every instruction instead, on all CPUs, from the start of the program to its end, in emulation (2 to 20 times slower). Calls are followed one by one,
    /// with frame pointers or without; where a program changes its own stack (coroutines), callers may be wrong, and the function that runs and the sum still are
    /// exact. A repeated string instruction is one. Nothing is drawn of a program that has not ended
    #[arg(long, conflicts_with_all = ["rate", "attach", "seconds", "lines"], requires = "command")]
    pub exact: bool,
    /// Count instead every cache line that a CPU takes from another: a transfer, as `darter lines` counts them, in emulation and by calls as --exact, and slower. Upon the stack of who takes
    /// the line stands the stack of who wrote it last, the other way round: "from" and the function that wrote it, its callers, its program. "from a reader": the other CPU had read it
    /// only, and who reads is not kept. "from [unknown]": no function is known there. Lines that are taken at programs' addresses are drawn with --lines=all, and else only said to be left
    /// out. Caches are endless, and what was written before the program began is not known. What hardware moves by itself (page walks, DMA) is not seen
    #[arg(long, conflicts_with_all = ["rate", "attach", "seconds"], requires = "command", value_enum, num_args = 0..=1, require_equals = true, default_missing_value = "kernel", value_name = "kernel|all")]
    pub lines: Option<flame::Whose>,
    /// The graph
    #[arg(short = 'o', long, default_value = flame::OUTPUT, value_parser = flame::parse_output, value_name = "FILE.svg")]
    pub output: PathBuf,
    /// Write the stacks there, a line each, as flame graph tools read them
    #[arg(long, value_parser = flame::parse_output, value_name = "FILE")]
    pub folded: Option<PathBuf>,
    /// Draw what has become more and less than in stacks that --folded wrote before
    #[arg(long, value_name = "OLD.folded")]
    pub diff: Option<PathBuf>,
    #[command(flatten)]
    pub attach: Attach,
    /// The program and its arguments; one whose name begins with - stands behind --. Without: a machine that runs is watched
    #[arg(trailing_var_arg = true, value_name = "CMD [ARG]")]
    pub command: Vec<String>,
}

fn parse_interval(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.05..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("not between 0.05 and 3600 seconds".into()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::{Cli, Command};
    use super::*;

    fn top(words: &str) -> Result<Top, String> {
        match Cli::try_parse_from(words.split(' ')).map_err(|error| error.to_string())?.command {
            Command::Top(top) => Ok(*top),
            _ => Err("not top".into()),
        }
    }

    #[test]
    fn without_a_program_a_machine_that_runs_is_watched() {
        let pid = |words| top(words).map(|top| (top.attach.pid(), top.command.is_empty()));
        assert_eq!(pid("darter top"), Ok((None, true)));
        assert_eq!(pid("darter top --attach --seconds 2"), Ok((None, true)));
        assert_eq!(pid("darter top --attach 77 --busy"), Ok((Some(77), true)));
        assert_eq!(pid("darter top --cpus 4 -- ls -l"), Ok((None, false)));
    }

    #[test]
    fn what_would_have_no_effect_is_refused() {
        for words in [
            "--cpus 4",
            "--attach 77 --memory 2G",
            "--seconds 2 -- ls",
            "--attach 77 -- ls",
            "--attach x",
            "-v",
        ] {
            assert!(top(&format!("darter top {words}")).is_err(), "{words}");
        }
        assert!(Cli::try_parse_from(["darter", "flame", "--exact"]).is_err());
    }
}
