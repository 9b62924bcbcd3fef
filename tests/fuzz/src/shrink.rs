//! Makes a failing case small: programs, tasks, calls, arguments are left out as long as it still fails.
#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::program::{Part, Place, Program, Value};

/// Tries candidates until none that is smaller fails, or the time is over. `fails` runs a candidate.
pub fn shrink(
    programs: Vec<Program>,
    budget: Duration,
    mut fails: impl FnMut(&[Program]) -> Result<bool>,
) -> Result<Vec<Program>> {
    let end = Instant::now() + budget;
    let mut best = programs;
    // Halves, quarters, … of the batch, then each alone.
    let mut size = best.len().div_ceil(2);
    while best.len() > 1 && Instant::now() < end {
        let mut smaller = false;
        let mut from = 0;
        while from < best.len() && best.len() > 1 && Instant::now() < end {
            let mut candidate = best.clone();
            let to = (from + size).min(candidate.len());
            candidate.drain(from..to);
            if !candidate.is_empty() && fails(&candidate)? {
                best = candidate;
                smaller = true;
            } else {
                from += size;
            }
        }
        if size == 1 && !smaller {
            break;
        }
        size = size.div_ceil(2).max(1);
    }
    while Instant::now() < end {
        let mut smaller = false;
        let mut number = 0;
        // Each success begins a new list of candidates; a failure goes on in it.
        while let Some(candidate) = candidate(&best, number) {
            if Instant::now() >= end {
                break;
            }
            if fails(&candidate)? {
                best = candidate;
                smaller = true;
            } else {
                number += 1;
            }
        }
        if !smaller {
            break;
        }
    }
    Ok(best)
}

/// The smaller batch number `number`: without a task, half of a task's calls, a call; with a simpler argument.
fn candidate(programs: &[Program], mut number: usize) -> Option<Vec<Program>> {
    let change = |index: usize, change: &dyn Fn(&mut Program)| {
        let mut smaller = programs.to_vec();
        if let Some(program) = smaller.get_mut(index) {
            change(program);
        }
        smaller
    };
    for (index, program) in programs.iter().enumerate() {
        if program.tasks.len() > 1 {
            if number < program.tasks.len() {
                return Some(change(index, &|program| drop(program.tasks.remove(number))));
            }
            number -= program.tasks.len();
        }
    }
    for (index, program) in programs.iter().enumerate() {
        for (place, task) in program.tasks.iter().enumerate() {
            let half = task.calls.len() / 2;
            if half > 1 {
                if number < 2 {
                    let range = if number == 0 { 0..half } else { half..task.calls.len() };
                    return Some(change(index, &|program| {
                        if let Some(task) = program.tasks.get_mut(place) {
                            task.calls.drain(range.clone());
                        }
                    }));
                }
                number -= 2;
            }
        }
    }
    for (index, program) in programs.iter().enumerate() {
        for (place, task) in program.tasks.iter().enumerate() {
            if number < task.calls.len() {
                return Some(change(index, &|program| {
                    if let Some(task) = program.tasks.get_mut(place) {
                        task.calls.remove(number);
                    }
                }));
            }
            number -= task.calls.len();
        }
    }
    for (index, program) in programs.iter().enumerate() {
        let simpler = simpler(program);
        if let Some(program) = simpler.get(number) {
            let mut smaller = programs.to_vec();
            if let Some(place) = smaller.get_mut(index) {
                *place = program.clone();
            }
            return Some(smaller);
        }
        number -= simpler.len();
    }
    None
}

/// The program with one argument simpler, each in turn.
fn simpler(program: &Program) -> Vec<Program> {
    let mut all = Vec::new();
    if program.shared {
        all.push(Program { shared: false, ..program.clone() });
    }
    for (place, task) in program.tasks.iter().enumerate() {
        for (at, call) in task.calls.iter().enumerate() {
            for (argument, value) in call.arguments.iter().enumerate() {
                for simple in simpler_values(value) {
                    let mut one = program.clone();
                    let found = one.tasks.get_mut(place).and_then(|task| task.calls.get_mut(at));
                    if let Some(value) = found.and_then(|call| call.arguments.get_mut(argument)) {
                        *value = simple;
                    }
                    all.push(one);
                }
            }
        }
    }
    all
}

fn simpler_values(value: &Value) -> Vec<Value> {
    match value {
        Value::Number(0) | Value::Code(_) | Value::Pid(_) | Value::Result { .. } => Vec::new(),
        Value::Number(number) => {
            let mut all = vec![Value::Number(0)];
            // Each bit of a set of flags.
            if number.count_ones() > 1 && *number < 1 << 32 {
                all.extend(
                    (0..32)
                        .filter(|bit| number & 1 << bit != 0)
                        .map(|bit| Value::Number(number & !(1 << bit))),
                );
            }
            all
        }
        Value::Data(data) => {
            let mut all = vec![Value::Number(0)];
            if data.place != Place::Anywhere {
                let mut plain = data.clone();
                plain.place = Place::Anywhere;
                all.push(Value::Data(plain));
            }
            if data.parts.len() > 1 {
                for index in 0..data.parts.len() {
                    if let Some(Part::Value(size, Value::Number(number))) = data.parts.get(index)
                        && *number != 0
                    {
                        let mut zero = data.clone();
                        if let Some(part) = zero.parts.get_mut(index) {
                            *part = Part::Bytes(vec![0; *size]);
                        }
                        all.push(Value::Data(zero));
                    }
                }
            }
            all
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::Generator;
    use crate::program::TaskKind;

    #[test]
    fn what_matters_alone_is_left() {
        // "Fails" where a program opens something and, in another task, something is closed.
        let number = |name: &str| crate::table::number(name).unwrap();
        let (open, close) = (number("openat"), number("close"));
        let fails = |programs: &[Program]| {
            Ok(programs.iter().any(|program| {
                let has = |wanted: usize| program.calls().any(|call| call.number == wanted);
                has(open) && has(close)
            }))
        };
        let programs: Vec<Program> = (0..).map(|seed| Generator::new(seed).program()).take(60).collect();
        assert!(fails(&programs).unwrap());
        let small = shrink(programs, Duration::from_secs(60), fails).unwrap();
        assert_eq!(small.len(), 1);
        assert_eq!(small[0].count(), 2, "{}", small[0]);
        assert!(small[0].tasks.len() <= 2);
        assert!(
            small[0].calls().all(|call| call
                .arguments
                .iter()
                .all(|v| matches!(v, Value::Number(0) | Value::Result { .. })))
        );
        let _ = TaskKind::Process;
    }
}
