//! The figures of `darter lines`: instructions beside lines, per operation, both kernels beside each other.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use comfy_table::{CellAlignment, Table, presets};
use darter_measure::{LineWindow, NamedLine, Names};
use serde::{Deserialize, Serialize};

use super::modelled::ModelledCache;
use super::names;
use super::predict::Curve;
use crate::bench::exact::Count;
use crate::bench::results::Origin;
use crate::bench::suite::Spec;
use crate::bench::table::number;

/// What `darter lines` counted: the content of its --json.
#[derive(Serialize, Deserialize, Clone)]
pub struct Counted {
    #[serde(flatten)]
    pub origin: Origin,
    pub figures: Vec<Figures>,
    /// With --predict.
    #[serde(default)]
    pub model: Vec<Curve>,
    /// What the model takes hardware to cost.
    #[serde(default)]
    pub costs: Option<String>,
}

/// One benchmark on one kernel with one number of CPUs.
#[derive(Serialize, Deserialize, Clone)]
pub struct Figures {
    pub bench: String,
    pub kernel: String,
    pub cpus: u32,
    pub ops: u64,
    /// Exact, of one task on one CPU; null: not counted.
    pub kernel_instructions_per_op: Option<f64>,
    pub user_instructions_per_op: Option<f64>,
    /// Of repeated string instructions.
    pub iterations_per_op: Option<f64>,
    pub transfers_per_op: f64,
    pub kernel_transfers_per_op: f64,
    pub remote_transfers_per_op: f64,
    pub conflict_lines: usize,
    /// The line that moved most often: its name, and how often per operation.
    pub hottest: Option<String>,
    pub hottest_per_op: f64,
    pub accesses_per_op: f64,
    /// Windows looked at, and the conflict lines of all of them by name.
    pub windows: usize,
    pub conflicts: Vec<Conflict>,
    /// Not read back: nothing draws it.
    #[serde(skip_deserializing)]
    pub modelled_cache: Option<ModelledCache>,
    /// The worst lines, as many as the text shows; not read back either.
    #[serde(skip_deserializing)]
    pub lines: Vec<NamedLine>,
    /// What the text shows of the lines.
    pub report: String,
}

#[derive(Serialize, Deserialize, Clone)]
pub struct Conflict {
    pub name: String,
    /// Windows in which a line of this name conflicts.
    pub windows: usize,
    /// Per operation, in each window: transfers, and how many there could have been had the CPUs come to the line in turns.
    pub transfers_per_op: Vec<f64>,
    pub turns_per_op: Vec<f64>,
    /// Class, writer and other user.
    pub how: String,
}

impl Figures {
    pub fn new(
        spec: &Spec,
        kernel: String,
        cpus: u32,
        (ops, window): (u64, &LineWindow),
        names: &Names,
        report: String,
    ) -> Figures {
        let each = |count: u64| count as f64 / ops.max(1) as f64;
        let hottest = window.lines.iter().max_by_key(|line| line.transfers).filter(|line| line.transfers > 0);
        Figures {
            bench: spec.name.clone(),
            kernel,
            cpus,
            ops,
            kernel_instructions_per_op: None,
            user_instructions_per_op: None,
            iterations_per_op: None,
            transfers_per_op: each(window.transfers()),
            kernel_transfers_per_op: each(window.kernel_reads + window.kernel_writes),
            remote_transfers_per_op: each(window.remote),
            conflict_lines: window.conflicts().count(),
            hottest: hottest.map(|line| names.line(window, line).stable()),
            hottest_per_op: hottest.map_or(0.0, |line| each(line.transfers)),
            accesses_per_op: each(window.user_accesses + window.kernel_accesses),
            windows: 0,
            conflicts: Vec::new(),
            modelled_cache: None,
            lines: Vec::new(),
            report,
        }
    }

    /// The conflict lines of any of these windows.
    pub fn add_windows(&mut self, names: &Names, windows: &[(u64, LineWindow)]) {
        let mut named: BTreeMap<String, Conflict> = BTreeMap::new();
        for (at, (ops, window)) in windows.iter().enumerate() {
            for (name, sharing) in names::conflicts(names, window) {
                let conflict = named.entry(name.clone()).or_insert_with(|| Conflict {
                    name,
                    windows: 0,
                    transfers_per_op: vec![0.0; windows.len()],
                    turns_per_op: vec![0.0; windows.len()],
                    how: sharing.how,
                });
                conflict.windows += 1;
                let ops = (*ops).max(1) as f64;
                for (all, count) in [
                    (&mut conflict.transfers_per_op, sharing.transfers),
                    (&mut conflict.turns_per_op, sharing.turns),
                ] {
                    all.get_mut(at).into_iter().for_each(|each| *each = count as f64 / ops);
                }
            }
        }
        (self.windows, self.conflicts) = (windows.len(), named.into_values().collect());
    }

    pub fn add_instructions(&mut self, counts: &[Count]) {
        let own = |count: &&Count| count.benchmark == self.bench && count.kernel == self.kernel;
        if let Some(count) = counts.iter().find(own) {
            self.kernel_instructions_per_op = count.kernel_instructions;
            self.user_instructions_per_op = count.user;
            self.iterations_per_op = count.iterations;
        }
    }
}

pub fn table(all: &[Figures]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "benchmark",
        "kernel",
        "CPUs",
        "operations",
        "kernel instructions / op",
        "(user)",
        "lines taken / op",
        "conflict lines",
    ]);
    for figures in all {
        let show = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), number);
        table.add_row([
            figures.bench.clone(),
            figures.kernel.clone(),
            figures.cpus.to_string(),
            figures.ops.to_string(),
            show(figures.kernel_instructions_per_op),
            show(figures.user_instructions_per_op),
            format!("{:.3}", figures.transfers_per_op),
            figures.conflict_lines.to_string(),
        ]);
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
