//! A machine in which the time between events can be measured: time counts in instructions, and CPUs take short turns.
//!
//! With `-icount` one host thread runs the CPUs in turn. Time goes on two nanoseconds with each instruction of any CPU, so a CPU of N that are
//! busy executes one N-th of 500 million instructions a second, and neither what else goes on on this machine nor how many CPUs it has shows in
//! a figure: a run gives the same figures each time.
//!
//! QEMU divides the time until the next timer evenly among the CPUs for their next turn. Left to itself that is milliseconds, for which a CPU
//! stands still in the middle of an instruction stream, and a wake-up on another CPU waits for the turn. A timer of QEMU's own, of a
//! filter on a network without a device, keeps turns short ([`round_us`]). The guest does not see it.
#![forbid(unsafe_code)]

use crate::bench::append;
use crate::bench::boot::{self, Boot, Ran};
use crate::bench::guest::Command;
use crate::machine::Machine;
use crate::machine::accel::Accel;
use crate::machine::kernel::Kernel;
use crate::paths::Tree;
use crate::relay::signals::Signals;
use crate::root::Addition;
use crate::symbols;

use anyhow::{Context, Result};

/// In which each CPU has its turn, in virtual microseconds.
const ROUND_US: u32 = 100;
/// With more CPUs than so many a turn would be so short that the host does little but change from CPU to CPU: then it has so many microseconds.
const FEW_CPUS: u32 = 16;
const TURN_US: u32 = 10;
/// Virtual seconds after the boot.
const SETTLE: f64 = 2.0;
/// Seconds that one command may take.
const LIMIT: u32 = 900;
/// Where the programs stand in the guest.
const GUEST: &str = "/sched";

fn round_us(cpus: u32) -> u32 {
    if cpus > FEW_CPUS { cpus * TURN_US } else { ROUND_US }
}

pub fn machine(cpus: u32, memory: u64) -> Machine {
    let mut machine = boot::machine(cpus, memory, Accel::Tcg, "max");
    machine.deterministic = true;
    let filter = format!("filter-buffer,id=rounds,netdev=none,interval={}", round_us(cpus));
    machine.extra = ["-netdev", "hubport,id=none,hubid=0", "-object", &filter].map(Into::into).to_vec();
    machine
}

/// The programs of bench/sched, for the guest's root.
pub fn programs(paths: &Tree) -> Result<Vec<Addition>> {
    let folder = paths.sched();
    let list = std::fs::read_dir(&folder);
    let list = list.with_context(|| format!("cannot read {}: run 'make benchmarks'", folder.display()))?;
    let mut found = Vec::new();
    for entry in list {
        let entry = entry?;
        let destination = std::path::Path::new(GUEST).join(entry.file_name());
        found.push(Addition { source: entry.path(), destination });
    }
    found.sort_by(|one, other| one.destination.cmp(&other.destination));
    Ok(found)
}

/// Runs all `lines`, programs of bench/sched with their arguments, one after another.
pub fn run(
    paths: &Tree,
    kernel: &Kernel,
    machine: Machine,
    own: &[String],
    lines: &[String],
    signals: &mut Signals,
    begun: &dyn Fn(usize),
) -> Result<Ran> {
    let add = programs(paths)?;
    let mut words = append(kernel, own);
    words.push(symbols::COUNTED_APPEND.into());
    let boot = Boot {
        paths,
        kernel,
        machine,
        add: &add,
        append: words,
        settle: SETTLE,
        limit: LIMIT,
        undisturbed: true,
    };
    let commands: Vec<Command> =
        lines.iter().map(|line| Command { line: format!("{GUEST}/{line}"), huge_pages: false }).collect();
    boot.run_all(signals, &commands, begun)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_short_beside_what_is_measured_and_not_too_short_for_the_host() {
        let turn = |cpus: u32| f64::from(round_us(cpus)) / f64::from(cpus);
        assert!([1, 2, 4, 16, 17, 48, 255].into_iter().all(|cpus| (6.0..=100.0).contains(&turn(cpus))));
        let words = machine(48, 1 << 30).extra;
        assert!(
            words.iter().any(|word| word == "filter-buffer,id=rounds,netdev=none,interval=480"),
            "{words:?}"
        );
    }
}
