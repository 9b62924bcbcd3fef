//! Instruction mode: windows, and what one operation costs by the difference of two of them.
//!
//! The difference takes away what belongs to no operation: the marker, the loop's start, a call's first use.

use crate::{Error, Symbols, refused};
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};

/// What one window counted, all CPUs together. A repeated string instruction counts once; its iterations are apart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Window {
    /// As the program calls it: windows of one machine have ascending numbers.
    pub number: u64,
    pub user: u64,
    pub kernel: u64,
    pub user_iterations: u64,
    pub kernel_iterations: u64,
    /// The kernel's instructions that cost more than others, by kind; bytes of string instructions.
    #[serde(default)]
    pub expensive: BTreeMap<String, u64>,
    /// The kernel's program counters with executions and iterations; empty without `hist=on`.
    #[serde(default)]
    pub profile: Vec<(u64, u64, u64)>,
}

/// Instructions per operation.
#[derive(Clone, Debug, PartialEq)]
pub struct PerOp {
    pub user: f64,
    pub kernel: f64,
    /// Iterations of repeated string instructions, user and kernel. Below zero as in `expensive`.
    pub iterations: f64,
    /// Of the kernel's, those that cost more than others, by kind: locked ones, writes of CR3, bytes that string instructions fill.
    /// Below zero where the larger window has fewer, by what belongs to no operation.
    pub expensive: BTreeMap<String, f64>,
}

/// One function's share of an operation.
#[derive(Clone, Debug, PartialEq)]
pub struct FunctionCost {
    pub name: String,
    pub instructions: f64,
    pub iterations: f64,
}

#[derive(Deserialize)]
struct File {
    format: String,
    mode: String,
    windows: Vec<Window>,
}

pub fn parse_instructions(json: &str) -> Result<Vec<Window>, Error> {
    refused(json)?;
    let file: File = serde_json::from_str(json).map_err(|error| Error::Format(error.to_string()))?;
    if file.format != "darter-lines/1" || file.mode != "instructions" {
        return Err(Error::Format(format!("format {:?}, mode {:?}", file.format, file.mode)));
    }
    Ok(file.windows)
}

/// Operations between the two windows; they must differ.
fn operations(small_ops: u64, big_ops: u64) -> Result<f64, Error> {
    match big_ops.checked_sub(small_ops) {
        None | Some(0) => Err(Error::Windows("the second window must hold more operations than the first")),
        Some(operations) => Ok(operations as f64),
    }
}

pub fn per_op(small: &Window, small_ops: u64, big: &Window, big_ops: u64) -> Result<PerOp, Error> {
    let operations = operations(small_ops, big_ops)?;
    let each = |small: u64, big: u64| match big.checked_sub(small) {
        None => Err(Error::Windows("fewer instructions for more operations: was the system quiet?")),
        Some(difference) => Ok(difference as f64 / operations),
    };
    // An operation need have none, and what belongs to no operation lies in either window.
    let iterations = |window: &Window| (window.user_iterations + window.kernel_iterations) as f64;
    Ok(PerOp {
        user: each(small.user, big.user)?,
        kernel: each(small.kernel, big.kernel)?,
        iterations: (iterations(big) - iterations(small)) / operations,
        expensive: big
            .expensive
            .iter()
            .map(|(kind, &big)| {
                let small = small.expensive.get(kind).copied().unwrap_or_default();
                (kind.clone(), (big as f64 - small as f64) / operations)
            })
            .collect(),
    })
}

/// The kernel's functions by instructions per operation, worst first. A function that did less in the larger window
/// (background work) shows below zero.
pub fn profile_per_op(
    small: &Window,
    small_ops: u64,
    big: &Window,
    big_ops: u64,
    symbols: &Symbols,
) -> Result<Vec<FunctionCost>, Error> {
    let operations = operations(small_ops, big_ops)?;
    let mut functions: HashMap<&str, (f64, f64)> = HashMap::new();
    for (window, sign) in [(small, -1.0), (big, 1.0)] {
        for &(pc, executions, iterations) in &window.profile {
            let sum = functions.entry(symbols.name(pc)).or_default();
            sum.0 += sign * executions as f64;
            sum.1 += sign * iterations as f64;
        }
    }
    let mut costs: Vec<_> = functions
        .into_iter()
        .map(|(name, (instructions, iterations))| FunctionCost {
            name: name.to_owned(),
            instructions: instructions / operations,
            iterations: iterations / operations,
        })
        .filter(|cost| cost.instructions != 0.0 || cost.iterations != 0.0)
        .collect();
    costs.sort_by(|a, b| b.instructions.total_cmp(&a.instructions).then_with(|| a.name.cmp(&b.name)));
    Ok(costs)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"{"format":"darter-lines/1","mode":"instructions","tasks":1,"windows":[
        {"number":0,"cpus":[{"cpu":0,"user":6009,"kernel":318000,"user_iterations":0,"kernel_iterations":8}],
         "user":6009,"kernel":318000,"user_iterations":0,"kernel_iterations":8,"expensive":{"locked":1001,"iret":2},"profile":[[4096,1000,8],[8192,500,0]]},
        {"number":1,"cpus":[],"user":12009,"kernel":636000,"user_iterations":0,"kernel_iterations":4108,
         "expensive":{"locked":3001,"iret":1},"profile":[[4096,2000,4108],[4100,1000,0],[8192,500,0]]}
    ]}"#;

    #[test]
    fn an_operation_is_the_difference_of_two_windows() {
        let windows = parse_instructions(FILE).unwrap();
        let cost = per_op(&windows[0], 1000, &windows[1], 2000).unwrap();
        let expensive = [("locked".into(), 2.0), ("iret".into(), -0.001)].into();
        assert_eq!(cost, PerOp { user: 6.0, kernel: 318.0, iterations: 4.1, expensive });
    }

    #[test]
    fn functions_are_sorted_by_their_share_and_what_does_not_grow_is_left_out() {
        let windows = parse_instructions(FILE).unwrap();
        let symbols = Symbols::from_system_map("1000 T fault\n2000 T boot\n").unwrap();
        let costs = profile_per_op(&windows[0], 1000, &windows[1], 2000, &symbols).unwrap();
        assert_eq!(costs, [FunctionCost { name: "fault".into(), instructions: 2.0, iterations: 4.1 }]);
    }

    #[test]
    fn windows_in_the_wrong_order_give_no_figure() {
        let windows = parse_instructions(FILE).unwrap();
        assert!(matches!(per_op(&windows[1], 1000, &windows[0], 2000), Err(Error::Windows(_))));
        assert!(matches!(per_op(&windows[0], 1000, &windows[1], 1000), Err(Error::Windows(_))));
    }

    #[test]
    fn other_files_and_refusals_are_told_apart() {
        assert!(matches!(parse_instructions("{}"), Err(Error::Format(_))));
        assert!(matches!(parse_instructions(r#"{"format":"other/1","mode":"x"}"#), Err(Error::Format(_))));
        let refusal = r#"{"format":"darter-lines/1","error":"several CPUs"}"#;
        assert_eq!(parse_instructions(refusal), Err(Error::Refused("several CPUs".into())));
    }
}
