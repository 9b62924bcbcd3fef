//! The `darter` command: runs Linux programs on the Darter kernel in virtual machines, and measures it.
//!
//! It keeps to one thread: QEMU's life is tied to the thread that started it (machine/qemu.rs).
#![forbid(unsafe_code)]

#[macro_use]
mod say;

mod allocators;
mod attach;
mod bench;
mod booted;
mod builds;
mod cli;
mod doctor;
mod exit;
mod exits;
mod flame;
mod growth;
mod lines;
mod loads;
mod lockstat;
mod machine;
mod paced;
mod paths;
mod plot;
mod relay;
mod report;
mod root;
mod run;
mod shares;
mod size;
mod symbols;
mod top;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use cli::{Cli, Command};

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Run(options) => run::run(&options),
        Command::Shell(options) => run::shell(&options),
        Command::Bench(options) if options.is_reported() => bench::interrupted(report::report(&options)),
        Command::Bench(options) => bench::bench(&options),
        Command::Lines(options) => lines::lines(&options),
        Command::Growth(options) => growth::growth(&options),
        Command::Exits(options) => exits::exits(&options),
        Command::ExitsCount => exits::count(),
        Command::Allocators(options) => allocators::allocators(&options),
        Command::Shares(options) => shares::shares(&options),
        Command::Loads(options) => loads::loads(&options),
        Command::Builds(options) => builds::builds(&options),
        Command::Lockstat(options) => lockstat::lockstat(&options),
        Command::Top(options) => top::top(&options),
        Command::Flame(options) => flame::flame(&options),
        Command::Test(options) => booted::test(&options),
        Command::Doctor => doctor::doctor(),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "darter", &mut std::io::stdout());
            Ok(0)
        }
        Command::Guard { parent, arguments } => {
            machine::qemu::guard(&parent, &arguments).map(|()| exit::MACHINE)
        }
    };
    match result {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            note!("darter: {error:#}");
            ExitCode::from(exit::status_of(&error))
        }
    }
}
