//! The options of the commands that watch a program's kernel at work.
#![forbid(unsafe_code)]

use std::path::PathBuf;

use clap::Args;

use super::MachineOptions;
use crate::flame;
use crate::top::Column;

#[derive(Args)]
#[command(mut_arg("cpus", |arg| arg.short(None)), mut_arg("memory", |arg| arg.short(None)))]
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
    /// The program and its arguments; one whose name begins with - stands behind --
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD [ARG]")]
    pub command: Vec<String>,
}

#[derive(Args)]
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
    /// Print a JSON object in a line at each look; the program's stdout goes to stderr
    #[arg(long)]
    pub json: bool,
    /// The program and its arguments; one whose name begins with - stands behind --
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD [ARG]")]
    pub command: Vec<String>,
}

#[derive(Args)]
pub struct Flame {
    #[command(flatten)]
    pub machine: MachineOptions,
    /// Samples of each CPU a second
    #[arg(long, default_value_t = 250, value_parser = flame::parse_rate, value_name = "N")]
    pub rate: u32,
    /// Count every instruction instead, on all CPUs, from the start of the program to its end, in emulation (2 to 20 times slower). Calls are followed one by one,
    /// with frame pointers or without; where a program changes its own stack (coroutines), callers may be wrong, and the function that runs and the sum still are
    /// exact. A repeated string instruction is one. Nothing is drawn of a program that has not ended
    #[arg(long, conflicts_with_all = ["rate", "lines"])]
    pub exact: bool,
    /// Count instead every cache line that a CPU takes from another, by the calls of who takes it, in emulation (as --exact; slower). The last frame says who had
    /// written the line. Lines that are taken at programs' addresses are drawn with --lines=all, and else said to be left out. Caches are endless, and what was written
    /// before the program began is not known
    #[arg(long, conflicts_with = "rate", value_enum, num_args = 0..=1, require_equals = true, default_missing_value = "kernel", value_name = "kernel|all")]
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
    /// The program and its arguments; one whose name begins with - stands behind --
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD [ARG]")]
    pub command: Vec<String>,
}

fn parse_interval(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.05..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("not between 0.05 and 3600 seconds".into()),
    }
}
