//! For tests: figures as they are measured, of two kernels, with a run that failed.
#![forbid(unsafe_code)]

use super::kept::Kept;
use crate::bench::guest::Measured;
use crate::bench::results::{Origin, Results, Sample};

const BENCHES: [(&str, f64); 3] = [("faultzf", 167_992.0), ("mmap", 34_852.0), ("faultfile", 4_502_911.0)];
const KERNELS: [&str; 2] = ["darter", "linux"];

fn origin() -> Origin {
    Origin {
        versions: vec!["darter 986bdb4".into(), "6.12.117+deb12-amd64".into()],
        qemu: "10.0.2".into(),
        command: "./darter bench faultzf mmap faultfile --vs linux".into(),
    }
}

fn rates() -> Results {
    let mut samples = Vec::new();
    for (run, noise) in [(1, 1.0), (2, 0.97), (3, 1.04)] {
        for cpus in [1, 2, 4] {
            for (kernel, slower) in KERNELS.iter().zip([1.0, 0.4]) {
                for (bench, rate) in BENCHES {
                    let rate = rate * noise * slower * f64::from(cpus).sqrt();
                    let measured = Measured {
                        ops: rate as u64,
                        seconds: 1.0,
                        rate,
                        min_per_task: 1,
                        max_per_task: 2,
                        user: 0.1,
                        sys: 0.9,
                        said: Vec::new(),
                    };
                    let hung = (bench, *kernel, cpus) == ("faultfile", "linux", 4);
                    samples.push(Sample {
                        benchmark: bench.into(),
                        kernel: (*kernel).into(),
                        cpu_model: "max".into(),
                        cpus,
                        run,
                        boot_seconds: Some(0.5),
                        result: if hung { Err("it hung".into()) } else { Ok(measured) },
                    });
                }
            }
        }
    }
    Results {
        kernels: KERNELS.map(str::to_owned).to_vec(),
        origin: origin(),
        accel: "tcg".into(),
        host_cpus: 2,
        memory_bytes: 1 << 30,
        seconds_each: 1.0,
        runs: 3,
        seconds: 77.0,
        samples,
    }
}

/// All parts.
pub fn kept() -> Kept {
    let mut kept: Kept = serde_json::from_value(serde_json::json!({
        "instructions": {
            "versions": origin().versions, "qemu": "10.0.2", "command": "./darter bench --instructions",
            "counts": BENCHES.iter().flat_map(|(bench, _)| KERNELS.map(|kernel| serde_json::json!({
                "benchmark": bench, "kernel": kernel, "user": 12.0, "iterations": 4096.0, "failed": null, "profile": [],
                "kernel_instructions": if kernel == "linux" { 4183.0 } else { 554.0 },
                "expensive": { "locked": 1.56, "filled_bytes": 4102.0 },
            }))).collect::<Vec<_>>(),
        },
        "lines": {
            "versions": origin().versions, "qemu": "10.0.2", "command": "./darter lines faultzf mmap faultfile --predict",
            "costs": "51 ns a line within a socket of 24 cores",
            "figures": BENCHES.iter().flat_map(|(bench, _)| [2, 4].into_iter().flat_map(move |cpus| KERNELS.map(|kernel| {
                let lines = if kernel == "linux" { 1.6 * f64::from(cpus) } else { 0.001 };
                serde_json::json!({
                    "bench": bench, "kernel": kernel, "cpus": cpus, "ops": 1000, "kernel_instructions_per_op": 554.0,
                    "user_instructions_per_op": 9.0, "iterations_per_op": 0.0, "transfers_per_op": lines,
                    "kernel_transfers_per_op": lines, "remote_transfers_per_op": 0.0, "conflict_lines": 3,
                    "hottest": "a::very::long<name>::of.a_line_that_is_taken_most_often_of_all",
                    "hottest_per_op": lines / 2.0, "accesses_per_op": 900.0, "windows": 1, "conflicts": [],
                    "modelled_cache": null, "lines": [], "report": "",
                })
            }))).collect::<Vec<_>>(),
            "model": BENCHES.iter().flat_map(|(bench, rate)| KERNELS.map(|kernel| serde_json::json!({
                "bench": bench, "kernel": kernel, "kind": "model", "alone_ns": 200.0, "counted": [[2, 0.1, 0.1], [4, 0.1, 0.1]],
                "rates": (1..=48).map(|cpus| (cpus, rate * f64::from(cpus))).collect::<Vec<_>>(),
                "bound": if kernel == "linux" { serde_json::json!([7, "a_lock"]) } else { serde_json::Value::Null },
            }))).collect::<Vec<_>>(),
        },
        "grid": {
            "versions": origin().versions, "qemu": "10.0.2", "command": "./darter lines --grid",
            "grids": KERNELS.map(|kernel| serde_json::json!({
                "kernel": kernel,
                "operations": (0..17).map(|number| format!("operation-{number}")).collect::<Vec<_>>(),
                "cells": (0..17 * 18 / 2).map(|number| serde_json::json!({
                    "pair": ["one", "other"], "lines": number, "names": { "a.line": "written" },
                    "failed": if number == 9 { serde_json::json!("it did not end in time") } else { serde_json::Value::Null },
                })).collect::<Vec<_>>(),
            })),
        },
    }))
    .unwrap();
    kept.rates = Some(rates());
    kept
}
