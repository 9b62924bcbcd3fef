//! New programs, from the rows of the table.
//!
//! Most arguments are what the table says they should be, some lie at the edge of it, few are wild: a call that fails at its first
//! argument shows little of the kernel. Descriptors, processes, timers and mappings come from calls before.
//!
//! This file makes programs and calls; `value` chooses by kind, with `numbers`, `data` and `files` for what each is made of.
#![forbid(unsafe_code)]

mod comparable;
mod data;
mod files;
mod numbers;
mod settings;
mod theme;
mod value;

use darter_table::{CALLS, Call as Row, Kind, Opt};

use crate::hopeless;
use crate::program::{Call, MOST_CALLS, MOST_TASKS, Peek, Program, Task, TaskKind, Value};
use crate::rng::Rng;
use crate::table::{self, Resource};

/// The free addresses of a program (guest/executor.h).
const WINDOW: u64 = 0x2000_0000;
const PAGE: u64 = 0x1000;

/// A result of an earlier call.
#[derive(Clone, Copy, Debug)]
struct Made {
    resource: Resource,
    id: u32,
    part: u8,
}

pub struct Generator {
    pub rng: Rng,
    made: Vec<Made>,
    next_id: u32,
    /// Of the row whose arguments are being made: the options chosen so far, for what they take.
    chosen: Vec<&'static Opt>,
    depth: usize,
    /// Programs that are to do the same on two kernels: one task, nothing that depends on time or chance.
    pub alone: bool,
}

impl Generator {
    pub fn new(seed: u64) -> Generator {
        Generator {
            rng: Rng::new(seed),
            made: Vec::new(),
            next_id: 0,
            chosen: Vec::new(),
            depth: 0,
            alone: false,
        }
    }

    pub fn program(&mut self) -> Program {
        self.made.clear();
        self.next_id = 0;
        let rng = &mut self.rng;
        let uid = if rng.chance(50) { 1000 } else { 0 };
        let shared = rng.chance(30);
        let count = if self.alone || rng.chance(35) { 1 } else { 2 + rng.below(MOST_TASKS - 1) };
        let mut program = Program { uid, shared, tasks: Vec::new() };
        let theme = self.theme();
        for _ in 0..count {
            let calls = self.calls(&theme, count);
            program.tasks.push(Task { kind: self.kind(), calls });
        }
        hopeless::tame(&mut program);
        program
    }

    pub fn kind(&mut self) -> TaskKind {
        TaskKind::ALL.get(self.rng.below(4)).copied().unwrap_or(TaskKind::Process)
    }

    /// Goes on with a program that is there: its results are known, its ids are taken.
    pub fn adopt(&mut self, program: &Program) {
        self.made.clear();
        self.next_id = program.next_id();
        for call in program.calls() {
            self.remember(call);
        }
    }

    fn remember(&mut self, call: &Call) {
        let Some(row) = CALLS.iter().find(|row| row.number == call.number) else { return };
        let (returned, left) = table::results(row.name, row.makes);
        let left = left.iter().zip(1u8..).map(|(&(.., resource), part)| (resource, part));
        for (resource, part) in returned.map(|resource| (resource, 0)).into_iter().chain(left) {
            self.made.push(Made { resource, id: call.id, part });
        }
    }

    fn calls(&mut self, theme: &[&'static Row], tasks: usize) -> Vec<Call> {
        let most = if tasks == 1 { 20 } else { 10 };
        let wanted = 2 + self.rng.below(most);
        let mut calls = Vec::new();
        while calls.len() < wanted {
            self.call_into(theme, &mut calls);
        }
        calls
    }

    /// One more call, and before it those that make what it takes.
    pub fn call_into(&mut self, theme: &[&'static Row], calls: &mut Vec<Call>) {
        if !self.alone && self.rng.chance(3) && (self.next_id as usize) + 8 < MOST_CALLS {
            return self.setting(calls);
        }
        let row = if self.rng.chance(96) && !theme.is_empty() {
            theme.get(self.rng.below(theme.len())).copied()
        } else {
            CALLS.get(self.rng.below(CALLS.len()))
        };
        if let Some(row) = row {
            self.make(row, calls);
        }
    }

    pub fn any_call(&mut self, calls: &mut Vec<Call>) {
        let theme = self.theme();
        self.call_into(&theme, calls);
    }

    /// The arguments of a row anew.
    pub fn again(&mut self, number: usize, calls: &mut Vec<Call>) {
        match CALLS.iter().find(|row| row.number == number) {
            Some(row) => self.make(row, calls),
            None => self.any_call(calls),
        }
    }

    fn make(&mut self, row: &'static Row, calls: &mut Vec<Call>) {
        if usize::try_from(self.next_id).unwrap_or(MOST_CALLS) >= MOST_CALLS
            || (self.alone && !(row.there && comparable::comparable(row.name)))
        {
            return;
        }
        let mut arguments = vec![Value::Number(0); row.arguments.len()];
        self.chosen.clear();
        // Options first, for they say what others are; lengths last, for they follow buffers.
        for round in 0..3 {
            for (index, argument) in row.arguments.iter().enumerate() {
                let turn = match argument.kind {
                    Kind::Options(_) => 0,
                    Kind::Size => 2,
                    _ => 1,
                };
                if turn == round {
                    let value = if turn == 2 {
                        self.size_for(row, index, &arguments)
                    } else {
                        self.value(&argument.kind, calls)
                    };
                    if let Some(place) = arguments.get_mut(index) {
                        *place = value;
                    }
                }
            }
        }
        if row.name == "clone" {
            self.stack_for_clone(&mut arguments);
        }
        let peeks = table::results(row.name, row.makes)
            .1
            .iter()
            .map(|&(argument, offset, size, _)| Peek { argument, offset, size })
            .collect();
        let id = self.next_id;
        self.next_id += 1;
        let call = Call { id, number: row.number, arguments, peeks };
        self.remember(&call);
        calls.push(call);
    }

    /// A child with its parent's memory has to have a stack, or both are lost; sometimes it has none.
    fn stack_for_clone(&mut self, arguments: &mut [Value]) {
        let stack = if self.rng.chance(80) { WINDOW + PAGE * (1 + self.rng.below(15) as u64) } else { 0 };
        if let [flags, place, ..] = arguments
            && matches!(flags, Value::Number(flags) if *flags & 0x100 != 0 || self.rng.chance(20))
        {
            *place = Value::Number(stack);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_that_is_there_is_made() {
        let mut seen = std::collections::HashSet::new();
        for seed in 0..4000 {
            seen.extend(Generator::new(seed).program().calls().map(|call| call.number));
        }
        for row in CALLS.iter().filter(|row| row.there) {
            assert!(seen.contains(&row.number), "{}", row.name);
        }
    }

    #[test]
    fn a_program_is_within_its_bounds() {
        for seed in 0..1000 {
            let program = Generator::new(seed).program();
            assert!((1..=MOST_TASKS).contains(&program.tasks.len()));
            assert!(program.count() <= MOST_CALLS);
            assert!(program.calls().all(|call| call.arguments.len() <= 6));
        }
    }

    #[test]
    fn descriptors_come_from_calls_before() {
        let uses = |program: &Program| {
            program
                .calls()
                .flat_map(|call| &call.arguments)
                .filter(|value| matches!(value, Value::Result { .. }))
                .count()
        };
        let used: usize = (0..200).map(|seed| uses(&Generator::new(seed).program())).sum();
        assert!(used > 400, "{used}");
    }
}
