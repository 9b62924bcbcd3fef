//! What /proc/darter/cpus says (kernel/src/procfs/darter/cpus.rs has the format), and what each CPU did between two looks at it.
#![forbid(unsafe_code)]

use std::collections::HashMap;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use serde::Serialize;

const VERSION: &str = "version 1";
/// Columns at a line's end that are no numbers; the class has the rest of the line.
const WORDS: [&str; 3] = ["holder", "caller", "class"];
/// Frames of a batch (`vm::frame`).
const BATCH: u64 = 64;

/// One CPU's line.
struct Line {
    counts: Vec<u64>,
    holder: Option<u32>,
    caller: String,
    class: String,
}

/// One look at the file.
pub struct Snapshot {
    /// Where a column is.
    columns: HashMap<String, usize>,
    lines: Vec<Line>,
}

impl Snapshot {
    pub fn parse(text: &str) -> Result<Snapshot> {
        let mut lines = text.lines();
        let version = lines.next().unwrap_or_default();
        ensure!(version == VERSION, "its first line is '{version}' and not '{VERSION}'");
        let names: Vec<&str> = lines.next().unwrap_or_default().split(' ').collect();
        ensure!(names.ends_with(&WORDS), "its columns do not end in {}", WORDS.join(" "));
        let numbers = names.len() - WORDS.len();
        let columns =
            names[..numbers].iter().enumerate().map(|(at, name)| ((*name).to_owned(), at)).collect();
        let lines = lines.map(|line| {
            let words: Vec<&str> = line.splitn(names.len(), ' ').collect();
            ensure!(words.len() == names.len(), "'{line}' has {} columns", words.len());
            let counts = words[..numbers].iter().map(|word| word.parse()).collect::<Result<_, _>>();
            Ok(Line {
                counts: counts.with_context(|| format!("'{line}'"))?,
                holder: words[numbers].parse().ok(),
                caller: words[numbers + 1].to_owned(),
                class: words[numbers + 2].to_owned(),
            })
        });
        Ok(Snapshot { columns, lines: lines.collect::<Result<_>>()? })
    }

    /// # Errors
    /// There is no such column.
    fn column(&self, name: &str) -> Result<usize> {
        self.columns.get(name).copied().with_context(|| format!("it has no column {name}"))
    }

    /// When it was made, seconds of the guest's clock.
    pub fn at(&self) -> f64 {
        let at = self.columns.get("at").and_then(|at| self.lines.first()?.counts.get(*at));
        at.map_or(0.0, |ns| *ns as f64 / 1e9)
    }
}

/// What one CPU did, or all did together: a second's worth, shares of its time in percent.
#[derive(Serialize, Clone, Debug, Default)]
pub struct Figures {
    /// None: all of them.
    pub cpu: Option<u32>,
    pub timer: f64,
    /// Interrupts from other CPUs: reschedule, flush, call.
    pub ipi: f64,
    /// Of devices.
    pub extint: f64,
    pub user: f64,
    pub sys: f64,
    pub idle: f64,
    /// Locks that were not free, and the share of its time that it spun for them.
    pub smpcol: f64,
    pub spinning: f64,
    pub faults: f64,
    pub zero_fill: f64,
    pub forks: f64,
    pub execs: f64,
    pub exits: f64,
    /// Interrupts to flush translations: received, and sent.
    pub tlb: f64,
    pub tlb_sent: f64,
    /// Frames taken from another NUMA node.
    pub remote: f64,
    pub switches: f64,
    /// The lock that was waited for last, if any was, where it was taken, and which CPU held it.
    pub label: Option<String>,
    pub caller: Option<String>,
    pub holder: Option<u32>,
}

/// A column to sort by.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Column {
    Cpu,
    Timer,
    Ipi,
    Extint,
    User,
    Sys,
    Idle,
    Smpcol,
    Faults,
    Zfill,
    Execs,
    Tlb,
    Remote,
}

impl Column {
    pub const ALL: [Column; 13] = [
        Column::Cpu,
        Column::Timer,
        Column::Ipi,
        Column::Extint,
        Column::User,
        Column::Sys,
        Column::Idle,
        Column::Smpcol,
        Column::Faults,
        Column::Zfill,
        Column::Execs,
        Column::Tlb,
        Column::Remote,
    ];

    /// What stands above it.
    pub fn title(self) -> &'static str {
        match self {
            Column::Cpu => "cpu",
            Column::Timer => "timr",
            Column::Ipi => "ipi",
            Column::Extint => "ext",
            Column::User => "usr%",
            Column::Sys => "sys%",
            Column::Idle => "idl%",
            Column::Smpcol => "scol",
            Column::Faults => "flt",
            Column::Zfill => "zfil",
            Column::Execs => "exec",
            Column::Tlb => "tlb",
            Column::Remote => "rmot",
        }
    }

    pub fn of(self, figures: &Figures) -> f64 {
        match self {
            Column::Cpu => figures.cpu.map_or(0.0, f64::from),
            Column::Timer => figures.timer,
            Column::Ipi => figures.ipi,
            Column::Extint => figures.extint,
            Column::User => figures.user,
            Column::Sys => figures.sys,
            Column::Idle => figures.idle,
            Column::Smpcol => figures.smpcol,
            Column::Faults => figures.faults,
            Column::Zfill => figures.zero_fill,
            Column::Execs => figures.execs,
            Column::Tlb => figures.tlb,
            Column::Remote => figures.remote,
        }
    }
}

impl Figures {
    /// Did the CPU do anything?
    pub fn is_busy(&self) -> bool {
        self.user + self.sys >= 0.5
    }
}

const FAULTS: [&str; 9] =
    ["zero-fill", "zero-read", "copy", "reuse", "object", "around", "fill", "raced", "refused"];

/// What was done between two looks: all CPUs together, and each.
///
/// # Errors
/// The kernel's columns are not those that are known here.
pub fn between(first: &Snapshot, last: &Snapshot) -> Result<(Figures, Vec<Figures>)> {
    let mut cpus = Vec::new();
    for (n, (before, after)) in first.lines.iter().zip(&last.lines).enumerate() {
        let count = |name: &str| -> Result<f64> {
            let at = last.column(name)?;
            Ok(after.counts[at].saturating_sub(before.counts[at]) as f64)
        };
        let seconds = (count("at")? / 1e9).max(1e-9);
        let rate = |names: &[&str]| -> Result<f64> {
            Ok(names.iter().map(|name| count(name)).sum::<Result<f64>>()? / seconds)
        };
        // Times of tasks lack up to a tick at each look: their own sum is the whole.
        let (user, sys, idle) = (count("user")? + count("nice")?, count("system")?, count("idle")?);
        let whole = (user + sys + idle).max(1.0);
        let share = |ns: f64| 100.0 * ns / whole;
        let collisions = rate(&["spins", "sleeps"])?;
        let met = collisions > 0.0 && after.class != "-";
        // A fault on an object's page maps those around it as well: they are no faults.
        let kinds: Vec<&str> = FAULTS.into_iter().filter(|kind| *kind != "around").collect();
        cpus.push(Figures {
            cpu: Some(n as u32),
            timer: rate(&["timer"])?,
            ipi: rate(&["reschedule", "flush", "call"])?,
            extint: rate(&["device"])?,
            user: share(user),
            sys: share(sys),
            idle: share(idle),
            smpcol: collisions,
            spinning: share(count("spun")?),
            faults: rate(&kinds)?,
            zero_fill: rate(&["zero-fill"])?,
            forks: rate(&["forks"])?,
            execs: rate(&["execs"])?,
            exits: rate(&["exits"])?,
            tlb: rate(&["flush"])?,
            tlb_sent: rate(&["sent-flush"])?,
            remote: rate(&["far"])? * BATCH as f64,
            switches: rate(&["switches"])?,
            label: met.then(|| after.class.clone()),
            caller: met.then(|| after.caller.clone()),
            holder: after.holder.filter(|_| met),
        });
    }
    Ok((total(&cpus), cpus))
}

/// Sums of counts, and means of shares.
fn total(cpus: &[Figures]) -> Figures {
    let sum = |part: fn(&Figures) -> f64| cpus.iter().map(part).sum::<f64>();
    let mean = |part: fn(&Figures) -> f64| sum(part) / cpus.len().max(1) as f64;
    let worst = cpus.iter().filter(|cpu| cpu.label.is_some());
    let worst = worst.max_by(|one, other| one.smpcol.total_cmp(&other.smpcol));
    Figures {
        cpu: None,
        timer: sum(|cpu| cpu.timer),
        ipi: sum(|cpu| cpu.ipi),
        extint: sum(|cpu| cpu.extint),
        user: mean(|cpu| cpu.user),
        sys: mean(|cpu| cpu.sys),
        idle: mean(|cpu| cpu.idle),
        smpcol: sum(|cpu| cpu.smpcol),
        spinning: mean(|cpu| cpu.spinning),
        faults: sum(|cpu| cpu.faults),
        zero_fill: sum(|cpu| cpu.zero_fill),
        forks: sum(|cpu| cpu.forks),
        execs: sum(|cpu| cpu.execs),
        exits: sum(|cpu| cpu.exits),
        tlb: sum(|cpu| cpu.tlb),
        tlb_sent: sum(|cpu| cpu.tlb_sent),
        remote: sum(|cpu| cpu.remote),
        switches: sum(|cpu| cpu.switches),
        label: worst.and_then(|cpu| cpu.label.clone()),
        caller: worst.and_then(|cpu| cpu.caller.clone()),
        holder: worst.and_then(|cpu| cpu.holder),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    const NAMES: &str = "cpu at user nice system idle stolen switches timer device reschedule flush call spurious \
        sent-reschedule sent-flush spared flush:unmap zero-fill zero-read copy reuse object around fill raced refused \
        forks execs exits near far spins spun sleeps slept holder caller class";

    /// Two looks, two seconds apart, at two CPUs of which the second idles.
    pub fn looks() -> (Snapshot, Snapshot) {
        let file = |lines: [&str; 2]| {
            Snapshot::parse(&format!("version 1\n{NAMES}\n{}\n{}\n", lines[0], lines[1])).unwrap()
        };
        let idle = "1 1000000000 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 - - -";
        let later =
            "1 3000000000 0 0 0 2000000000 0 0 0 0 4 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 - - -";
        (
            file([
                "0 1000000000 5 0 5 0 0 0 10 0 0 0 0 0 0 0 0 0 100 0 0 0 0 0 0 0 0 0 0 0 0 0 1 5 0 0 - - -",
                idle,
            ]),
            file([
                "0 3000000000 1500000005 0 500000005 0 0 20 210 6 2 8 0 0 0 4 0 4 2100 10 20 0 30 999 0 0 0 6 4 6 0 3 5 200000005 2 7 1 a.rs:1:2 tree of leaves",
                later,
            ]),
        )
    }

    #[test]
    fn figures_are_rates_and_shares() {
        let (first, last) = looks();
        let (total, cpus) = between(&first, &last).unwrap();
        let busy = &cpus[0];
        assert_eq!((busy.timer, busy.ipi, busy.extint, busy.tlb, busy.tlb_sent), (100.0, 5.0, 3.0, 4.0, 2.0));
        assert_eq!((busy.user, busy.sys, busy.idle), (75.0, 25.0, 0.0));
        assert_eq!((busy.faults, busy.zero_fill, busy.execs, busy.remote), (1030.0, 1000.0, 2.0, 96.0));
        assert_eq!((busy.smpcol, busy.spinning), (3.0, 10.0));
        assert_eq!((busy.label.as_deref(), busy.holder), (Some("tree of leaves"), Some(1)));
        assert_eq!((cpus[1].idle, cpus[1].label.as_deref(), cpus[1].is_busy()), (100.0, None, false));
        assert_eq!((total.ipi, total.user, total.label), (7.0, 37.5, busy.label.clone()));
    }

    #[test]
    fn another_format_is_an_error() {
        assert!(Snapshot::parse("version 2\n").is_err());
        assert!(Snapshot::parse("version 1\ncpu at\n").is_err());
        assert!(Snapshot::parse("version 1\ncpu holder caller class\n0 -\n").is_err());
        let few = |at: u64| {
            Snapshot::parse(&format!("version 1\ncpu at holder caller class\n0 {at} - - -\n")).unwrap()
        };
        assert!(between(&few(1), &few(2)).is_err());
    }
}
