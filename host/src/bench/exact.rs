//! `darter bench --instructions`: exact instructions per operation, by the plugin of lines/.
//!
//! One task on one emulated CPU, time counted in instructions, so that repeated runs give identical counts. Each
//! benchmark runs twice in the same boot, for N and for 2 N operations; the difference is what N operations cost, free
//! of what belongs to no operation. Repeated string instructions count once, and their iterations apart.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, HashMap};

use anyhow::{Context, Result, bail};
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use darter_measure::{FunctionCost, PerOp, Window};
use serde::{Deserialize, Serialize};

use super::boot::{self, Boot};
use super::guest::{self, Command};
use super::results::Origin;
use super::suite::{self, Spec};
use super::table::number;
use super::{append, progress_bar, write_json};
use crate::cli::Bench;
use crate::exit::usage;
use crate::machine::accel::{Accel, Wanted};
use crate::machine::kernel::Kernel;
use crate::paths::Tree;
use crate::relay::signals::Signals;
use crate::symbols;

/// Functions shown with --profile.
const SHOWN: usize = 25;
/// For Linux, which on a machine with one CPU overwrites the LOCK prefixes of its code. On the machines that people have it does not.
const KEEP_LOCKS: &str = "noreplace-smp";
/// Kinds of expensive instructions, as the plugin and the table call them.
pub const EXPENSIVE: [(&str, &str); 12] = [
    ("locked", "locked"),
    ("fence", "fences"),
    ("cr3", "CR3"),
    ("invalidate", "INVLPG"),
    ("wrmsr", "WRMSR"),
    ("iret", "IRET"),
    ("sysret", "SYSRET"),
    ("port", "port I/O"),
    ("save", "XSAVE"),
    ("restore", "XRSTOR"),
    ("filled_bytes", "bytes filled"),
    ("copied_bytes", "copied"),
];
/// Below this per operation nothing is shown: what ticks and grace periods do now and then.
pub const RARE: f64 = 0.005;

#[derive(Serialize, Deserialize, Clone)]
pub struct Count {
    pub benchmark: String,
    pub kernel: String,
    pub user: Option<f64>,
    pub kernel_instructions: Option<f64>,
    pub iterations: Option<f64>,
    /// Of the kernel's instructions, those that cost more than others, by kind.
    pub expensive: BTreeMap<String, f64>,
    pub failed: Option<String>,
    profile: Vec<(String, f64, f64)>,
}

/// How a machine counts.
pub struct Exact<'a> {
    pub memory: u64,
    pub append: &'a [String],
    pub profile: bool,
}

#[derive(Serialize, Deserialize, Clone)]
pub struct Counts {
    #[serde(flatten)]
    pub origin: Origin,
    pub counts: Vec<Count>,
}

pub fn count(options: &Bench) -> Result<u8> {
    if options.accel == Wanted::Kvm {
        return Err(usage("--instructions counts in emulation: leave --accel kvm away"));
    }
    let paths = Tree::find();
    let plugin = paths.lines_plugin();
    if !plugin.is_file() {
        bail!("{} is missing: run 'make plugin'", plugin.display());
    }
    let specs = suite::choose_exact(&options.names)?;
    let kernels: Vec<Kernel> =
        [Some(options.kernel.clone()), options.vs.clone()].into_iter().flatten().collect();
    for kernel in &kernels {
        kernel.image(&paths)?;
    }
    let mut signals = Signals::catch()?;
    let mut counts = Counts { origin: Origin::new(&paths, &kernels), counts: Vec::new() };
    let progress = progress_bar((specs.len() * 2 * kernels.len()) as u64);
    for kernel in &kernels {
        progress.set_message(format!("{}: boot", kernel.name()));
        let base = progress.position();
        let tell = |number: usize| {
            progress.set_position(base + number as u64);
            let name = specs.get(number / 2).map_or("", |spec| spec.name.as_str());
            progress.set_message(format!("{}: {name}", kernel.name()));
        };
        let how = Exact { memory: options.memory, append: &options.append, profile: options.profile };
        counts.counts.extend(count_on(&mut signals, &paths, kernel, &specs, &how, &tell)?);
        progress.set_position(base + specs.len() as u64 * 2);
    }
    progress.finish_and_clear();
    print(&counts, &specs, &kernels);
    if let Some(path) = &options.json {
        write_json(path, &counts)?;
    }
    Ok(u8::from(counts.counts.iter().any(|count| count.failed.is_some() && count.kernel == "darter")))
}

/// A machine that counts all of `specs`, each with two runs; `tell` is told of each run as it begins.
pub fn count_on(
    signals: &mut Signals,
    paths: &Tree,
    kernel: &Kernel,
    specs: &[Spec],
    options: &Exact<'_>,
    tell: &dyn Fn(usize),
) -> Result<Vec<Count>> {
    let folder = tempfile::tempdir_in(paths.cache("run")?)?;
    let out = folder.path().join("counts.json");
    let mut machine = boot::machine(1, options.memory, Accel::Tcg, "max");
    machine.deterministic = true;
    let plugin = darter_measure::instructions_plugin(&paths.lines_plugin(), &out, options.profile);
    machine.extra = vec!["-plugin".into(), plugin];
    let mut words = append(kernel, options.append);
    words.push(symbols::COUNTED_APPEND.into());
    if *kernel == Kernel::Linux {
        words.push(KEEP_LOCKS.into());
    }
    let boot = Boot {
        paths,
        kernel,
        machine,
        add: &[],
        append: words,
        settle: super::SETTLE,
        limit: 600,
        undisturbed: false,
    };
    let commands: Vec<Command> = specs
        .iter()
        .flat_map(|spec| [spec.exact_ops, 2 * spec.exact_ops].map(|ops| spec.counted(ops)))
        .map(|line| Command { line, huge_pages: false })
        .collect();
    let ran = boot.run(signals, &commands, tell)?;
    // The plugin may have written nothing when the machine failed early.
    let windows = match std::fs::read_to_string(&out) {
        Ok(text) => darter_measure::parse_instructions(&text).context("the plugin's counts")?,
        Err(_) => Vec::new(),
    };
    let symbols = if options.profile { Some(symbols::of(kernel, paths)?) } else { None };
    let mut windows: HashMap<u64, Window> =
        windows.into_iter().map(|window| (window.number, window)).collect();
    let mut results = ran.results.into_iter().enumerate();
    let mut counts = Vec::new();
    for spec in specs {
        // Operations as the program says: it ends the round that it is in.
        let mut next = || -> Result<(u64, Window), String> {
            let (number, result) = results.next().unzip();
            match result.flatten() {
                Some(Ok(measured)) => number
                    .and_then(|number| windows.remove(&guest::window(number)))
                    .map(|window| (measured.ops, window))
                    .ok_or_else(|| "the plugin saw no window for it".to_owned()),
                Some(Err(why)) => Err(why),
                None => Err(ran.machine.clone().unwrap_or_else(|| "it did not run".into())),
            }
        };
        let (small, big) = (next(), next());
        let figures = match (&small, &big) {
            (Ok((ops, small)), Ok((more, big))) => {
                darter_measure::per_op(small, *ops, big, *more).map_err(|error| error.to_string())
            }
            (Err(why), _) | (_, Err(why)) => Err(why.clone()),
        };
        let profile = match (&small, &big, &symbols) {
            (Ok((ops, small)), Ok((more, big)), Some(symbols)) => {
                darter_measure::profile_per_op(small, *ops, big, *more, symbols).unwrap_or_default()
            }
            _ => Vec::new(),
        };
        counts.push(row(spec, kernel, figures, profile));
    }
    Ok(counts)
}

fn row(spec: &Spec, kernel: &Kernel, figures: Result<PerOp, String>, profile: Vec<FunctionCost>) -> Count {
    let (good, failed) = match figures {
        Ok(figures) => (Some(figures), None),
        Err(why) => (None, Some(why)),
    };
    Count {
        benchmark: spec.name.clone(),
        kernel: kernel.name(),
        user: good.as_ref().map(|figures| figures.user),
        kernel_instructions: good.as_ref().map(|figures| figures.kernel),
        iterations: good.as_ref().map(|figures| figures.iterations),
        expensive: good.map(|figures| figures.expensive).unwrap_or_default(),
        failed,
        profile: profile.into_iter().map(|cost| (cost.name, cost.instructions, cost.iterations)).collect(),
    }
}

/// A row for each benchmark and kernel; a point where there is none.
fn print_expensive(counts: &Counts, specs: &[Spec], kernels: &[Kernel]) {
    out!("\nof these, what costs more than others; bytes by repeated string instructions:");
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN).set_content_arrangement(ContentArrangement::Disabled);
    let mut header = vec!["operation".to_owned(), "kernel".to_owned()];
    header.extend(EXPENSIVE.iter().map(|(_, title)| (*title).to_owned()));
    table.set_header(header);
    for spec in specs {
        for kernel in kernels {
            let found = counts.counts.iter().find(|count| {
                count.benchmark == spec.name && count.kernel == kernel.name() && count.failed.is_none()
            });
            let Some(count) = found else { continue };
            let mut cells = vec![spec.name.clone(), kernel.name()];
            cells.extend(EXPENSIVE.iter().map(|&(kind, _)| match count.expensive.get(kind) {
                Some(&each) if each >= RARE => format!("{each:.2}"),
                _ => "·".to_owned(),
            }));
            table.add_row(cells);
        }
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    out!("{table}");
}

fn print(counts: &Counts, specs: &[Spec], kernels: &[Kernel]) {
    out!(
        "{} on QEMU {}: kernel instructions per operation, exact, one task; iterations of string instructions apart",
        counts.origin.versions.join(" beside "),
        counts.origin.qemu
    );
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN).set_content_arrangement(ContentArrangement::Disabled);
    let mut header = vec!["operation".to_owned()];
    for kernel in kernels {
        header.extend([kernel.name(), "(iterations)".into(), "(user)".into()]);
    }
    header.extend(["ratio".to_owned(), String::new()]);
    table.set_header(header);
    for spec in specs {
        let of = |kernel: &Kernel| {
            counts.counts.iter().find(|count| count.benchmark == spec.name && count.kernel == kernel.name())
        };
        let mut cells = vec![spec.name.clone()];
        for kernel in kernels {
            let count = of(kernel);
            let show = |value: Option<f64>| value.map_or_else(|| "failed".to_owned(), number);
            cells.push(show(count.and_then(|count| count.kernel_instructions)));
            cells.push(show(count.and_then(|count| count.iterations)));
            cells.push(show(count.and_then(|count| count.user)));
        }
        let kernel_part: Vec<f64> =
            kernels.iter().filter_map(|kernel| of(kernel)?.kernel_instructions).collect();
        cells.push(match kernel_part.as_slice() {
            [ours, theirs] if *theirs > 0.0 => format!("{:.2}", ours / theirs),
            _ => String::new(),
        });
        cells.push(spec.what.to_owned());
        table.add_row(cells);
    }
    for column in table.column_iter_mut().skip(1).take(3 * kernels.len() + 1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    out!("{table}");
    print_expensive(counts, specs, kernels);
    for count in &counts.counts {
        if let Some(why) = &count.failed {
            out!("failed: {} on {}: {why}", count.benchmark, count.kernel);
        }
        if !count.profile.is_empty() {
            out!("\n{} on {}, instructions (iterations) per operation:", count.benchmark, count.kernel);
        }
        for (name, instructions, iterations) in count.profile.iter().take(SHOWN) {
            out!("  {instructions:10.1} {:>12}  {name}", format!("({iterations:.1})"));
        }
    }
    out!("{}", counts.origin.command);
}
