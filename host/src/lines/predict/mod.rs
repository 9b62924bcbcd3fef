//! `darter lines --predict`: a MODEL of how fast a benchmark would be on real hardware with up to 48 CPUs.
//!
//! An operation takes its instructions at a fixed rate, and for each line that it takes from another CPU the time in which
//! hardware passes one. Lines are counted with some numbers of CPUs; between them the count is interpolated, beyond the
//! largest it stays as it is. The line that moves most often can be in one cache at a time, which bounds all CPUs together.
//! Nothing else is in the model: no waiting for locks, no misses that one CPU alone has, no limit of memory's bandwidth.
//!
//! Costs by default: 51 ns between cores of a socket and 108 ns between two sockets, as measured on an Intel Xeon Platinum 8375C
//! (Ice Lake, 2.9 GHz; github.com/nviennot/core-to-core-latency, single-socket and dual-socket medians). That an instruction
//! takes a cycle is an assumption, and so is that a string instruction moves 32 bytes in one.
#![forbid(unsafe_code)]

mod picture;

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::report::Figures;
use crate::bench::table::number;
use crate::cli::Costs;

pub use picture::{charts, draw};

const MOST: u32 = 48;
/// CPU counts in the text.
const SHOWN: [u32; 8] = [1, 2, 4, 8, 16, 24, 32, 48];

/// One benchmark on one kernel.
#[derive(Serialize, Deserialize, Clone)]
pub struct Curve {
    pub bench: String,
    pub kernel: String,
    /// Always "model": nothing here was timed.
    pub kind: String,
    /// Nanoseconds of an operation that takes no line.
    pub alone_ns: f64,
    /// CPU counts with the transfers per operation that were counted there, and the hottest line's share.
    pub counted: Vec<(u32, f64, f64)>,
    /// CPU counts with operations per second, all CPUs together.
    pub rates: Vec<(u32, f64)>,
    /// The CPU count from which on one line alone is the limit, and which.
    pub bound: Option<(u32, String)>,
}

/// A curve for each benchmark and kernel of which instructions were counted.
pub fn curves(all: &[Figures], costs: &Costs) -> Vec<Curve> {
    let mut curves: Vec<Curve> = Vec::new();
    for figures in all {
        if curves.iter().any(|curve| curve.bench == figures.bench && curve.kernel == figures.kernel) {
            continue;
        }
        let own: Vec<&Figures> =
            all.iter().filter(|f| f.bench == figures.bench && f.kernel == figures.kernel).collect();
        curves.extend(curve(&own, costs));
    }
    curves
}

fn curve(own: &[&Figures], costs: &Costs) -> Option<Curve> {
    let first = own.first()?;
    let instructions = first.kernel_instructions_per_op? + first.user_instructions_per_op?;
    let alone_ns = instructions / (costs.ipc * costs.ghz)
        + first.iterations_per_op.unwrap_or(0.0) / (costs.string_bytes * costs.ghz);
    let mut counted: Vec<(u32, f64, f64)> =
        own.iter().map(|f| (f.cpus, f.transfers_per_op, f.hottest_per_op)).collect();
    counted.sort_by_key(|(cpus, ..)| *cpus);
    let transfers: Vec<(u32, f64)> = counted.iter().map(|&(cpus, all, _)| (cpus, all)).collect();
    let hottest: Vec<(u32, f64)> = counted.iter().map(|&(cpus, _, hot)| (cpus, hot)).collect();
    let mut bound = None;
    let rates = (1..=MOST)
        .map(|cpus| {
            let cost = costs.of_transfer(cpus);
            let each = alone_ns + interpolate(&transfers, cpus) * cost;
            let free = f64::from(cpus) / each;
            let hot = interpolate(&hottest, cpus) * cost;
            let limit = if hot > 0.0 { 1.0 / hot } else { f64::INFINITY };
            if limit < free && bound.is_none() {
                let name = own.iter().filter_map(|f| f.hottest.clone()).next_back().unwrap_or_default();
                bound = Some((cpus, name));
            }
            (cpus, free.min(limit) * 1e9)
        })
        .collect();
    Some(Curve {
        bench: first.bench.clone(),
        kernel: first.kernel.clone(),
        kind: "model".into(),
        alone_ns,
        counted,
        rates,
        bound,
    })
}

/// Of a count known at some numbers of CPUs, none at one CPU.
fn interpolate(known: &[(u32, f64)], cpus: u32) -> f64 {
    let mut below = (1, 0.0);
    for &(at, value) in known {
        if at >= cpus {
            let part = f64::from(cpus - below.0) / f64::from((at - below.0).max(1));
            return below.1 + (value - below.1) * part;
        }
        below = (at, value);
    }
    below.1
}

impl Costs {
    /// Nanoseconds for which a line is on its way, where any two of `cpus` CPUs are as likely to be the ends. Sockets are
    /// filled one after another.
    fn of_transfer(&self, cpus: u32) -> f64 {
        let socket = self.cores_per_socket.max(1);
        let (full, rest) = (cpus / socket, cpus % socket);
        let pairs = |n: u32| f64::from(n) * f64::from(n.saturating_sub(1));
        let all = pairs(cpus);
        let within = f64::from(full) * pairs(socket) + pairs(rest);
        let remote = if all > 0.0 { 1.0 - within / all } else { 0.0 };
        self.cost_local + remote * (self.cost_remote - self.cost_local)
    }

    /// In words.
    pub fn text(&self) -> String {
        format!(
            "{} ns a line within a socket of {} cores, {} ns between sockets, {} instructions a cycle at {} GHz",
            self.cost_local, self.cores_per_socket, self.cost_remote, self.ipc, self.ghz
        )
    }
}

pub fn text(curves: &[Curve], costs: &Costs) -> String {
    let mut text = format!(
        "\nMODEL, not a measurement: operations a second that instructions and lines alone would allow\n({})\n",
        costs.text()
    );
    let _ = write!(text, "{:18} {:8}", "benchmark", "kernel");
    SHOWN.iter().for_each(|cpus| {
        let _ = write!(text, "{:>13}", format!("{cpus} CPU{}", if *cpus == 1 { "" } else { "s" }));
    });
    text.push('\n');
    for curve in curves {
        let _ = write!(text, "{:18} {:8}", curve.bench, curve.kernel);
        for cpus in SHOWN {
            let rate = curve.rates.iter().find(|(at, _)| *at == cpus).map_or(0.0, |(_, rate)| *rate);
            let _ = write!(text, "{:>13}", number(rate));
        }
        text.push('\n');
        if let Some((cpus, name)) = &curve.bound {
            let _ = writeln!(text, "{:27}from {cpus} CPUs on {name} is the limit", "");
        }
    }
    let counted: Vec<String> = curves
        .iter()
        .flat_map(|curve| &curve.counted)
        .map(|(cpus, ..)| *cpus)
        .collect::<std::collections::BTreeSet<u32>>()
        .iter()
        .map(u32::to_string)
        .collect();
    let _ = writeln!(
        text,
        "lines were counted with {} CPUs; between them they are interpolated, beyond them they stay as they are",
        counted.join(", ")
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::layout;

    fn costs() -> Costs {
        Costs {
            cost_local: 50.0,
            cost_remote: 100.0,
            cores_per_socket: 2,
            ipc: 1.0,
            ghz: 1.0,
            string_bytes: 32.0,
        }
    }

    fn figures(cpus: u32, transfers: f64, hottest: f64) -> Figures {
        Figures {
            bench: "b".into(),
            kernel: "k".into(),
            cpus,
            ops: 1,
            kernel_instructions_per_op: Some(900.0),
            user_instructions_per_op: Some(100.0),
            iterations_per_op: Some(0.0),
            transfers_per_op: transfers,
            kernel_transfers_per_op: transfers,
            remote_transfers_per_op: 0.0,
            conflict_lines: 0,
            hottest: Some("LOCK".into()),
            hottest_per_op: hottest,
            accesses_per_op: 0.0,
            windows: 1,
            conflicts: Vec::new(),
            modelled_cache: None,
            lines: Vec::new(),
            report: String::new(),
        }
    }

    #[test]
    fn nothing_shared_scales_with_the_cpus() {
        let curves = curves(&[figures(2, 0.0, 0.0), figures(4, 0.0, 0.0)], &costs());
        let [curve] = curves.as_slice() else { panic!() };
        assert_eq!(curve.alone_ns, 1000.0);
        assert_eq!(curve.rates[47], (48, 48e6));
        assert_eq!(curve.bound, None);
    }

    #[test]
    fn transfers_are_interpolated_and_cost_more_between_sockets() {
        assert_eq!(interpolate(&[(2, 10.0), (4, 20.0)], 1), 0.0);
        assert_eq!(interpolate(&[(2, 10.0), (4, 20.0)], 3), 15.0);
        assert_eq!(interpolate(&[(2, 10.0), (4, 20.0)], 48), 20.0);
        assert_eq!((costs().of_transfer(1), costs().of_transfer(2)), (50.0, 50.0));
        // Of the 12 ordered pairs of 4 CPUs 8 are of two sockets.
        assert!((costs().of_transfer(4) - (50.0 + 50.0 * 8.0 / 12.0)).abs() < 1e-9);
    }

    #[test]
    fn one_hot_line_bounds_all_cpus_together() {
        let curves = curves(&[figures(2, 1.0, 1.0)], &costs());
        let (cpus, name) = curves[0].bound.clone().unwrap();
        assert_eq!(name, "LOCK");
        let rate = curves[0].rates[47].1;
        assert!(cpus > 2 && (rate - 1e9 / costs().of_transfer(48)).abs() < 1.0, "{cpus} {rate}");
    }

    #[test]
    fn the_text_and_the_picture_say_that_it_is_a_model() {
        let curves = curves(&[figures(2, 1.0, 0.1)], &costs());
        assert!(text(&curves, &costs()).contains("MODEL, not a measurement"));
        let svg = draw(&curves, &costs()).unwrap();
        layout::check(&svg).unwrap();
        assert!(svg.starts_with("<svg") && svg.contains("MODEL, not a measurement"), "{svg}");
    }
}
