//! The predicted curves: a chart for each benchmark, a line for each kernel, a point where lines were counted.
#![forbid(unsafe_code)]

use anyhow::Result;

use super::{Curve, MOST};
use crate::cli::Costs;
use crate::plot::{self, Chart, KERNELS};

const MARKS: [u32; 7] = [1, 8, 16, 24, 32, 40, MOST];

/// All charts on one picture.
pub fn draw(curves: &[Curve], costs: &Costs) -> Result<String> {
    plot::panels(
        "MODEL, not a measurement: operations a second, all CPUs together",
        &costs.text(),
        &charts(curves),
    )
}

pub fn charts(curves: &[Curve]) -> Vec<Chart> {
    let mut benches: Vec<&str> = Vec::new();
    for curve in curves {
        if !benches.contains(&curve.bench.as_str()) {
            benches.push(&curve.bench);
        }
    }
    benches.into_iter().map(|bench| chart(bench, curves)).collect()
}

fn chart(bench: &str, curves: &[Curve]) -> Chart {
    let own = curves.iter().filter(|curve| curve.bench == bench).zip(KERNELS.iter().cycle());
    let curves = own.map(|(curve, colour)| {
        let line: Vec<(f64, f64)> = curve.rates.iter().map(|&(cpus, rate)| (f64::from(cpus), rate)).collect();
        let counted = |cpus: f64| curve.counted.iter().any(|&(at, ..)| f64::from(at) == cpus);
        let points = line.iter().copied().filter(|&(cpus, _)| counted(cpus)).collect();
        plot::Curve { name: curve.kernel.clone(), colour, line, points }
    });
    Chart {
        title: bench.to_owned(),
        what: "modelled operations a second, all CPUs together".into(),
        curves: curves.collect(),
        cpus: MARKS.to_vec(),
    }
}
