//! Runs the operations of one kernel, with KVM's trace on.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::{COUNT, Causes, count};
use crate::bench::boot;
use crate::cli::{Exits as Options, MachineOptions};
use crate::machine::Model;
use crate::machine::accel::{Accel, Wanted};
use crate::machine::kernel::Kernel;
use crate::paths::Tree;
use crate::root::{Addition, Root};
use crate::run;
use crate::run::nested::{self, Around, DARTER};

const IN_GUEST: &str = "/bin/exits";
/// Seconds that the outer machine may take beside.
const OUTER_SECONDS: f64 = 120.0;
/// KiB of trace for each CPU: two hundred thousand exits.
const BUFFER: u32 = 16 << 10;

/// The names of the operations.
pub fn cases(paths: &Tree) -> Result<Vec<String>> {
    let program = paths.exits();
    let said = Command::new(&program).arg("list").output();
    let said = said.with_context(|| format!("cannot ask {}: run 'make guest'", program.display()))?;
    Ok(String::from_utf8_lossy(&said.stdout).lines().map(str::to_owned).collect())
}

pub fn measure(options: &Options, paths: &Tree, kernel: &Kernel) -> Result<Vec<(String, Causes)>> {
    let inner = MachineOptions {
        kernel: kernel.clone(),
        machine: Model::Q35,
        cpus: options.cpus,
        sockets: 1,
        threads: 1,
        memory: options.memory,
        root: Root::Busybox,
        add: vec![Addition { source: paths.exits(), destination: IN_GUEST.into() }],
        accel: Wanted::Nested,
        cpu_model: "max".into(),
        deterministic: false,
        // An idle machine is measured.
        no_balloon: true,
        disk: Vec::new(),
        share: Vec::new(),
        rw: Vec::new(),
        gdb: None,
        user: None,
        append: options.append.clone(),
        qemu_arg: Vec::new(),
        env: Vec::new(),
        timeout: Some(options.timeout),
        boot_timeout: options.timeout,
        verbose: false,
        initramfs: None,
    };
    let mut command = vec![IN_GUEST.to_owned()];
    command.extend(options.cases.iter().cloned());
    let (outer, words) = nested::outer(paths, &inner, false, &command, &around())?;
    let memory = outer.memory + (u64::from(outer.cpus * BUFFER) << 10);
    let machine = boot::machine(outer.cpus, memory, Accel::Tcg, &outer.cpu_model);
    note!("{}: {} CPUs under KVM, in an emulated machine (a minute or two)", kernel.name(), options.cpus);
    let limit = Duration::from_secs_f64(options.timeout + OUTER_SECONDS);
    let said = run::capture(&machine, &outer.kernel, &outer.append, &outer.add, &words, limit)
        .with_context(|| format!("measuring {}", kernel.name()))?;
    per_operation(&said)
}

/// The trace of KVM's events that `count` reads, and its counting.
fn around() -> Around {
    let before = format!(
        "cd /sys/kernel/tracing || exit 125
        echo mono > trace_clock; echo {BUFFER} > buffer_size_kb
        echo 'function >= 0x44415200 && function <= 0x444152ff' > events/kvm/kvm_cpuid/filter
        for event in kvm_cpuid kvm_exit kvm_msr kvm_pio; do echo 1 > events/kvm/$event/enable || exit 125; done
        cd /root"
    );
    let after =
        format!("echo 0 > /sys/kernel/tracing/tracing_on; {DARTER} {COUNT} < /sys/kernel/tracing/trace");
    Around { before, after }
}

/// What the program and the counting said: for each case the median of its windows, for one operation.
fn per_operation(said: &str) -> Result<Vec<(String, Causes)>> {
    let mut counts: BTreeMap<u32, Causes> = BTreeMap::new();
    let mut cases: Vec<(String, Vec<(u32, f64)>)> = Vec::new();
    for line in said.lines() {
        if let Some((number, causes)) = line.strip_prefix(count::LINE).and_then(|rest| rest.split_once(' ')) {
            counts.insert(number.parse()?, serde_json::from_str(causes)?);
            continue;
        }
        let words: Vec<&str> = line.split(' ').collect();
        let [number, name, operations] = words.as_slice() else { continue };
        let window = (number.parse()?, operations.parse::<f64>()?);
        match cases.last_mut() {
            Some((last, windows)) if last == name => windows.push(window),
            _ => cases.push(((*name).to_owned(), vec![window])),
        }
    }
    if cases.is_empty() || counts.is_empty() {
        bail!("no operation was seen: the guest said '{}'", said.trim());
    }
    cases.into_iter().map(|(name, windows)| Ok((name.clone(), median(&name, &windows, &counts)?))).collect()
}

/// Of each cause by itself.
fn median(name: &str, windows: &[(u32, f64)], counts: &BTreeMap<u32, Causes>) -> Result<Causes> {
    let mut rates: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for (number, operations) in windows {
        let causes = counts.get(number);
        let causes = causes.with_context(|| format!("the trace lacks a window of {name}"))?;
        for (cause, count) in causes {
            rates.entry(cause).or_default().push(count / operations);
        }
    }
    let median = |mut all: Vec<f64>| {
        all.resize(windows.len(), 0.0);
        all.sort_by(f64::total_cmp);
        all.get(all.len() / 2).copied().unwrap_or(0.0)
    };
    let causes = rates.into_iter().map(|(cause, all)| (cause.to_owned(), median(all)));
    Ok(causes.filter(|(_, rate)| *rate > 0.0).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_the_median_of_its_cases_windows() {
        let said = "1 fork 10\n2 fork 10\n3 fork 10\nexits of window 1 {\"HLT\":90}\n\
                    exits of window 2 {\"HLT\":20}\nexits of window 3 {\"HLT\":10,\"CPUID\":10}\n";
        let figures = per_operation(said).unwrap();
        assert_eq!(figures.len(), 1);
        assert_eq!(figures[0].1, Causes::from([("HLT".to_owned(), 2.0)]));
        assert!(per_operation("1 fork 10\n").is_err());
        assert!(per_operation("1 fork 10\nexits of window 2 {}\n").is_err());
    }
}
