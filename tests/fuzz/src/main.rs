//! The fuzzer of the whole table of system calls. `make fuzz` runs it; tests/fuzz/README.md is its manual.
//!
//!     table, paths  ->  generate, mutate  ->  program  ->  encode  ->  machine (guest/executor.c)  ->  coverage, campaign, shrink
#![forbid(unsafe_code)]

mod campaign;
mod compare;
mod coverage;
mod encode;
mod generate;
mod hopeless;
mod machine;
mod mutate;
mod paths;
mod program;
mod replay;
mod rng;
mod shrink;
mod table;
mod text;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};

use crate::campaign::{Campaign, Options};
use crate::machine::Machine;

/// Makes programs from the table of system calls and runs them on the kernel
#[derive(Parser)]
#[command(name = "darter-fuzz", max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// The kernel: the one with checks, if nothing is said
    #[arg(long, global = true, value_name = "darter|linux|FILE")]
    kernel: Option<String>,
    /// Memory of each machine
    #[arg(long, global = true, default_value = "384M")]
    memory: String,
    /// Milliseconds for each program
    #[arg(long, global = true, default_value_t = 400)]
    limit: u16,
}

#[derive(Subcommand)]
enum Command {
    /// Fuzz for a time, and make small what fails
    Run(Run),
    /// Run the cases found so far, or the files named
    Replay {
        files: Vec<PathBuf>,
        /// How often each runs
        #[arg(long, default_value_t = 4)]
        rounds: u32,
        /// Show what each call returned
        #[arg(long)]
        results: bool,
    },
    /// Run programs of one task on Linux as well and compare the two call by call
    Compare {
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Programs
        #[arg(long, default_value_t = 1000)]
        count: usize,
        #[arg(long, default_value_t = 500)]
        batch: usize,
        /// Rounds of making small what differs; each takes two machines
        #[arg(long, default_value_t = 0)]
        small: usize,
    },
    /// Print the programs of a seed
    Show {
        seed: u64,
        #[arg(default_value_t = 1)]
        count: u64,
    },
}

#[derive(Args)]
struct Run {
    #[arg(long, default_value_t = 600)]
    seconds: u64,
    /// The same seed makes the same programs where nothing was kept before; the time, if none is named
    #[arg(long)]
    seed: Option<u64>,
    /// Machines have one of these numbers of CPUs
    #[arg(long, value_delimiter = ',', default_value = "1,2,2,5,5,16")]
    cpus: Vec<u32>,
    /// Programs for each machine
    #[arg(long, default_value_t = 200)]
    batch: usize,
    /// Let the seed alone say which programs run, and not what others reached; each number of CPUs has its turn
    #[arg(long)]
    fixed: bool,
    /// End with so many cases found
    #[arg(long)]
    cases: Option<usize>,
    /// Where cases are kept
    #[arg(long, value_name = "FOLDER")]
    found: Option<PathBuf>,
    /// Begin without the programs that earlier runs kept in target/fuzz/corpus, and keep none
    #[arg(long)]
    fresh: bool,
    /// Seconds to make one case small
    #[arg(long, default_value_t = 240)]
    shrink: u64,
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("darter-fuzz: {problem:#}");
            ExitCode::from(125)
        }
    }
}

fn run(cli: &Cli) -> Result<bool> {
    let root = std::env::var_os("DARTER_ROOT").map_or_else(|| PathBuf::from("."), PathBuf::from);
    let checked = root.join("target/x86_64-unknown-none/lockdep/darter-kernel");
    let kernel = cli.kernel.clone().unwrap_or_else(|| checked.display().to_string());
    let machine =
        Machine { root: root.clone(), kernel: kernel.clone(), memory: cli.memory.clone(), limit: cli.limit };
    match &cli.command {
        Command::Run(run) => {
            let now =
                std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).context("the clock")?;
            let options = Options {
                seconds: run.seconds,
                seed: run.seed.unwrap_or(now.as_secs()),
                cpus: run.cpus.clone(),
                batch: run.batch.max(1),
                fixed: run.fixed,
                corpus: (!run.fresh && !run.fixed).then(|| root.join("target/fuzz/corpus")),
                found: run.found.clone().unwrap_or_else(|| root.join("tests/fuzz/found")),
                cases: run.cases.unwrap_or(usize::MAX),
                shrink: run.shrink,
            };
            let file = match kernel.as_str() {
                "darter" => root.join("target/x86_64-unknown-none/kernel/darter-kernel"),
                file => PathBuf::from(file),
            };
            Campaign::new(&machine, &options, &file)?.run()
        }
        Command::Replay { files, rounds, results } => {
            replay::replay(&machine, &root, files, *rounds, *results)
        }
        Command::Compare { seed, count, batch, small } => {
            compare::compare(&machine, &root, *seed, *count, (*batch).max(1), *small)
        }
        Command::Show { seed, count } => {
            for seed in *seed..seed.saturating_add(*count) {
                println!("# seed {seed}\n{}", generate::Generator::new(seed).program());
            }
            Ok(true)
        }
    }
}
