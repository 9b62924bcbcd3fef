//! The options of `darter bench`.
#![forbid(unsafe_code)]

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::parse_seconds;
use crate::flame;
use crate::machine::accel::Wanted;
use crate::machine::kernel::Kernel;
use crate::size::parse_bytes;

#[derive(Args)]
pub struct Bench {
    /// Benchmarks to run; all if none is named. With --instructions also a case of `lines --calls`: "calls sync", "calls read threads"
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// CPU counts, a machine each
    #[arg(long, value_delimiter = ',', default_value = "1,2,4", value_name = "N,...")]
    pub cpus: Vec<u32>,
    /// The kernel to measure
    #[arg(long, default_value = "darter", value_parser = Kernel::parse, value_name = "darter|linux|FILE")]
    pub kernel: Kernel,
    /// The kernel to compare with, alternating
    #[arg(long, value_parser = Kernel::parse, value_name = "linux|FILE")]
    pub vs: Option<Kernel>,
    /// Boots of each kernel at each CPU count; the table shows each, the median and the ratio
    #[arg(long, default_value_t = 3, value_name = "N")]
    pub runs: u32,
    /// Take no further round of boots when it would not end within so many seconds
    #[arg(long, value_parser = parse_seconds, value_name = "SECONDS")]
    pub budget: Option<f64>,
    /// Seconds that each benchmark runs for
    #[arg(long, default_value_t = 1.0, value_name = "SECONDS")]
    pub seconds: f64,
    /// Memory of the machines
    #[arg(long, short = 'm', default_value = "1G", value_parser = parse_bytes, value_name = "SIZE")]
    pub memory: u64,
    /// Sockets, each a NUMA node with its part of CPUs and memory
    #[arg(long, default_value_t = 1, value_name = "S", conflicts_with = "instructions")]
    pub sockets: u32,
    /// max: all that QEMU has; plain: without fast string instructions; both: each in turn
    #[arg(long, value_enum, default_value_t = CpuModels::Max)]
    pub cpu_models: CpuModels,
    #[arg(long, value_enum, default_value_t = Wanted::Auto)]
    pub accel: Wanted,
    /// Words for both kernels' command lines
    #[arg(long, value_name = "ARGS", allow_hyphen_values = true)]
    pub append: Vec<String>,
    /// Count instructions per operation, exactly, instead of rates
    #[arg(long)]
    pub instructions: bool,
    /// With --instructions: the kernel functions that cost most
    #[arg(long, requires = "instructions")]
    pub profile: bool,
    /// Write all results there too
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write one page of all that was measured, with pictures
    #[arg(long, value_parser = flame::parse_output, value_name = "FILE.html", help_heading = "Report")]
    pub report: Option<PathBuf>,
    /// With --report: measure this too, with the same benchmarks; lines have the model's curves
    #[arg(
        long,
        requires = "report",
        value_delimiter = ',',
        value_name = "PART,...",
        help_heading = "Report"
    )]
    pub with: Vec<Part>,
    /// With --report or --compare: instead of measuring, take what earlier runs of bench, lines and lines --grid wrote with --json
    #[arg(long, value_delimiter = ',', value_name = "FILE,...", help_heading = "Report")]
    pub from: Vec<PathBuf>,
    /// With --report: flame graphs to link
    #[arg(
        long,
        requires = "report",
        value_delimiter = ',',
        value_name = "FILE.svg,...",
        help_heading = "Report"
    )]
    pub flames: Vec<PathBuf>,
    /// Before and after: what an earlier run wrote with --json; the kernel of a revision, which is built and takes turns with the other;
    /// or `vm_token`, this kernel with one lock around its VM system
    #[arg(long, value_name = "FILE.json|REV|vm_token", help_heading = "Report")]
    pub compare: Option<String>,
    /// With --compare: status 1 where a median is worse by more (default: 15 for rates, which move with what else the host does; 1 for
    /// instructions, which are counted exactly)
    #[arg(long, requires = "compare", value_parser = parse_percent, value_name = "PERCENT", help_heading = "Report")]
    pub threshold: Option<f64>,
}

impl Bench {
    /// More is made of the figures than their table.
    pub fn is_reported(&self) -> bool {
        self.report.is_some() || self.compare.is_some() || !self.from.is_empty()
    }
}

/// What a report has beside rates.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Part {
    Instructions,
    Lines,
    Grid,
    Flame,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CpuModels {
    Max,
    Plain,
    Both,
}

fn parse_percent(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(percent) if (0.0..=1000.0).contains(&percent) => Ok(percent),
        _ => Err("not between 0 and 1000 percent".into()),
    }
}
