//! Programs from programs: what has reached new code is near more.
#![forbid(unsafe_code)]

use std::collections::HashMap;

use crate::generate::Generator;
use crate::hopeless;
use crate::program::{Call, Data, MOST_CALLS, MOST_TASKS, Part, Program, Task, Value};

/// Calls of a program that grew by mutation.
const LARGE: usize = 80;

impl Generator {
    /// A program like `one`, with something of `other`.
    pub fn mutate(&mut self, one: &Program, other: &Program) -> Program {
        let mut program = one.clone();
        for _ in 0..1 + self.rng.below(4) {
            self.adopt(&program);
            match self.rng.below(20) {
                0..=9 if program.count() >= LARGE => self.drop_call(&mut program),
                0..=5 => self.insert(&mut program),
                6..=9 => self.replace(&mut program),
                10..=13 => self.nudge(&mut program),
                14 | 15 => self.drop_call(&mut program),
                16 => self.splice(&mut program, other),
                17 => self.beside(&mut program),
                18 => program.shared = !program.shared,
                _ => program.uid = if program.uid == 0 { 1000 } else { 0 },
            }
        }
        if program.count() == 0 {
            return self.program();
        }
        compact(&mut program);
        hopeless::tame(&mut program);
        program
    }

    fn insert(&mut self, program: &mut Program) {
        let task = self.rng.below(program.tasks.len());
        let mut calls = Vec::new();
        self.any_call(&mut calls);
        let Some(task) = program.tasks.get_mut(task) else { return };
        let at = self.rng.below(task.calls.len() + 1);
        task.calls.splice(at..at, calls);
    }

    /// A call with other arguments, under its own id.
    fn replace(&mut self, program: &mut Program) {
        let Some((task, at)) = self.place(program) else { return };
        let Some(task) = program.tasks.get_mut(task) else { return };
        let Some((number, id)) = task.calls.get(at).map(|call| (call.number, call.id)) else { return };
        let mut calls = Vec::new();
        self.again(number, &mut calls);
        if let Some(last) = calls.last_mut() {
            last.id = id;
            task.calls.splice(at..=at, calls);
        }
    }

    /// One number a little different.
    fn nudge(&mut self, program: &mut Program) {
        let Some((task, at)) = self.place(program) else { return };
        let Some(call) = program.tasks.get_mut(task).and_then(|task| task.calls.get_mut(at)) else { return };
        let argument = self.rng.below(call.arguments.len());
        let Some(mut value) = call.arguments.get_mut(argument) else { return };
        loop {
            match value {
                Value::Number(number) => {
                    *number = match self.rng.below(6) {
                        0 => number.wrapping_add(1),
                        1 => number.wrapping_sub(1),
                        2 => *number ^ (1 << self.rng.below(64)),
                        3 => *number ^ (1 << self.rng.below(16)),
                        4 => number.wrapping_mul(2),
                        _ => number.wrapping_add(0x1000),
                    };
                    return;
                }
                Value::Data(data) => {
                    let part = self.rng.below(data.parts.len());
                    match data.parts.get_mut(part) {
                        Some(Part::Value(_, inner)) => value = inner,
                        Some(Part::Bytes(bytes)) => {
                            let index = self.rng.below(bytes.len());
                            if let Some(byte) = bytes.get_mut(index) {
                                *byte = self.rng.word() as u8;
                            }
                            return;
                        }
                        Some(Part::Room(_)) | None => return,
                    }
                }
                Value::Result { .. } | Value::Code(_) | Value::Pid(_) => return,
            }
        }
    }

    fn drop_call(&mut self, program: &mut Program) {
        if let Some((task, at)) = self.place(program)
            && let Some(task) = program.tasks.get_mut(task)
        {
            task.calls.remove(at);
        }
    }

    /// The calls of a task of another program, after those of one of this.
    fn splice(&mut self, program: &mut Program, other: &Program) {
        let from = self.rng.below(other.tasks.len());
        let calls = other.tasks.get(from).map_or(&[][..], |task| &task.calls);
        if program.count() + calls.len() > LARGE {
            return;
        }
        let calls = renumbered(calls, program.next_id());
        let task = self.rng.below(program.tasks.len());
        if let Some(task) = program.tasks.get_mut(task) {
            task.calls.extend(calls);
        }
    }

    /// A task once more, beside itself: what it does races with itself. Its descriptors and mappings are those of the first.
    fn beside(&mut self, program: &mut Program) {
        let from = self.rng.below(program.tasks.len());
        let Some(task) = program.tasks.get(from) else { return };
        if program.tasks.len() >= MOST_TASKS || program.count() + task.calls.len() > LARGE.min(MOST_CALLS) {
            return;
        }
        let first = program.next_id();
        let mut calls = task.calls.clone();
        for (call, id) in calls.iter_mut().zip(first..) {
            call.id = id;
        }
        let kind = self.kind();
        program.tasks.push(Task { kind, calls });
    }

    fn place(&mut self, program: &Program) -> Option<(usize, usize)> {
        let mut at = self.rng.below(program.count());
        for (index, task) in program.tasks.iter().enumerate() {
            if at < task.calls.len() {
                return Some((index, at));
            }
            at -= task.calls.len();
        }
        None
    }
}

/// Ids from 0 on, in the order of the calls.
fn compact(program: &mut Program) {
    let ids: HashMap<u32, u32> = program.calls().map(|call| call.id).zip(0..).collect();
    for call in program.tasks.iter_mut().flat_map(|task| &mut task.calls) {
        call.id = ids.get(&call.id).copied().unwrap_or(call.id);
        call.arguments.iter_mut().for_each(|value| rename(value, &ids));
    }
}

/// The calls with ids from `first` on; results of each other are named by them.
fn renumbered(calls: &[Call], first: u32) -> Vec<Call> {
    let ids: HashMap<u32, u32> = calls.iter().map(|call| call.id).zip(first..).collect();
    let mut calls = calls.to_vec();
    for call in &mut calls {
        call.id = ids.get(&call.id).copied().unwrap_or(call.id);
        call.arguments.iter_mut().for_each(|value| rename(value, &ids));
    }
    calls
}

fn rename(value: &mut Value, ids: &HashMap<u32, u32>) {
    match value {
        Value::Result { id, .. } => {
            // A result of a call that did not come along is none.
            *id = ids.get(id).copied().unwrap_or(u32::MAX);
        }
        Value::Data(Data { parts, .. }) => {
            for part in parts {
                if let Part::Value(_, value) = part {
                    rename(value, ids);
                }
            }
        }
        Value::Number(_) | Value::Code(_) | Value::Pid(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn ids_stay_unique_and_programs_bounded() {
        let mut generator = Generator::new(7);
        let other = generator.program();
        let mut program = generator.program();
        for _ in 0..3000 {
            program = generator.mutate(&program, &other);
            let ids: HashSet<u32> = program.calls().map(|call| call.id).collect();
            assert_eq!(ids.len(), program.count(), "{program}");
            assert!(program.count() <= MOST_CALLS && program.tasks.len() <= MOST_TASKS);
        }
    }
}
