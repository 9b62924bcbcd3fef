//! How far a function moves the stack pointer, and how far it is at each call: read from its instructions.
//!
//! The instructions are followed from the first, along jumps, with the stack pointer's distance from the return address. Code that only a
//! jump through a table reaches is taken to run at the greatest distance seen.

use crate::image::Function;
use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum To {
    /// A function of this address.
    Direct(u64),
    /// A function that a register or memory names.
    Indirect,
}

#[derive(Clone, Debug)]
pub struct Call {
    pub to: To,
    /// Bytes of the caller's frame below its return address, the callee's return address among them unless the callee takes the frame over.
    pub depth: u64,
}

#[derive(Default, Debug)]
pub struct Frame {
    /// Bytes below the return address.
    pub size: u64,
    pub calls: Vec<Call>,
}

/// The state at an instruction.
#[derive(Clone, Copy)]
struct At {
    depth: i64,
    /// The distance that RBP holds, once it is the frame pointer.
    base: Option<i64>,
}

pub fn of(function: &Function) -> Frame {
    let code: BTreeMap<u64, Instruction> =
        Decoder::with_ip(64, &function.code, function.start, DecoderOptions::NONE)
            .iter()
            .map(|one| (one.ip(), one))
            .collect();
    let mut frame = Frame::default();
    let mut seen = BTreeSet::new();
    let mut open = vec![(function.start, At { depth: 0, base: None })];
    loop {
        while let Some((at, state)) = open.pop() {
            if let Some(one) = code.get(&at)
                && seen.insert(at)
            {
                open.extend(step(one, state, function, &mut frame));
            }
        }
        // What no jump that can be read leads to.
        match code.keys().find(|at| !seen.contains(at)) {
            Some(&at) => open.push((at, At { depth: frame.size as i64, base: None })),
            None => return frame,
        }
    }
}

/// Notes what `one` does to the stack and whom it calls. Returns where it goes on.
fn step(one: &Instruction, mut state: At, function: &Function, frame: &mut Frame) -> Vec<(u64, At)> {
    let inside =
        |address: u64| (function.start..function.start + function.code.len() as u64).contains(&address);
    let next = one.next_ip();
    match one.flow_control() {
        FlowControl::Call | FlowControl::IndirectCall => {
            let to = if one.flow_control() == FlowControl::Call {
                To::Direct(one.near_branch_target())
            } else {
                To::Indirect
            };
            frame.calls.push(Call { to, depth: state.depth.max(0) as u64 + 8 });
            return vec![(next, state)];
        }
        FlowControl::Return | FlowControl::Exception => return Vec::new(),
        FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch => {
            let target = one.near_branch_target();
            let mut on = if one.flow_control() == FlowControl::ConditionalBranch {
                vec![(next, state)]
            } else {
                Vec::new()
            };
            if inside(target) {
                on.push((target, state));
            } else {
                frame.calls.push(Call { to: To::Direct(target), depth: state.depth.max(0) as u64 });
            }
            return on;
        }
        FlowControl::IndirectBranch => {
            // A table of this function's own, or the last call of it.
            if state.depth == 0 {
                frame.calls.push(Call { to: To::Indirect, depth: 0 });
            }
            return Vec::new();
        }
        _ => (),
    }
    let on_stack = one.op0_kind() == OpKind::Register && one.op0_register() == Register::RSP;
    match one.mnemonic() {
        Mnemonic::Sub if on_stack && is_number(one) => state.depth += one.immediate(1) as i64,
        Mnemonic::Add if on_stack && is_number(one) => state.depth -= one.immediate(1) as i64,
        Mnemonic::Mov if on_stack && one.op1_register() == Register::RBP => {
            state.depth = state.base.unwrap_or(state.depth)
        }
        Mnemonic::Lea if on_stack && one.memory_base() == Register::RBP => {
            state.depth = state.base.map_or(state.depth, |base| base - one.memory_displacement64() as i64);
        }
        Mnemonic::Lea if on_stack && one.memory_base() == Register::RSP => {
            state.depth -= one.memory_displacement64() as i64
        }
        Mnemonic::Mov if one.op0_register() == Register::RBP && one.op1_register() == Register::RSP => {
            state.base = Some(state.depth)
        }
        // Alignment takes less than what it aligns to.
        Mnemonic::And if on_stack && is_number(one) => state.depth += -(one.immediate(1) as i64) - 1,
        _ if one.code() != Code::INVALID => state.depth -= i64::from(one.stack_pointer_increment()),
        _ => (),
    }
    frame.size = frame.size.max(state.depth.max(0) as u64);
    vec![(next, state)]
}

fn is_number(one: &Instruction) -> bool {
    matches!(
        one.op1_kind(),
        OpKind::Immediate8
            | OpKind::Immediate32
            | OpKind::Immediate8to64
            | OpKind::Immediate32to64
            | OpKind::Immediate64
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(code: &[u8]) -> Frame {
        of(&Function { start: 0x1000, name: String::new(), code: code.to_vec() })
    }

    #[test]
    fn pushes_and_room_count_and_calls_see_them() {
        // push rbx; sub rsp, 0x20; call +0; add rsp, 0x20; pop rbx; ret
        let seen =
            frame(&[0x53, 0x48, 0x83, 0xec, 0x20, 0xe8, 0, 0, 0, 0, 0x48, 0x83, 0xc4, 0x20, 0x5b, 0xc3]);
        assert_eq!(seen.size, 0x28);
        assert_eq!(seen.calls.len(), 1);
        assert_eq!(seen.calls[0].depth, 0x30);
        assert_eq!(seen.calls[0].to, To::Direct(0x100a));
    }

    #[test]
    fn a_jump_out_of_a_function_is_a_call_on_the_frame_that_is_left() {
        // jmp far behind the end
        let seen = frame(&[0xe9, 0x00, 0x01, 0, 0]);
        assert_eq!(seen.calls[0].depth, 0);
        assert_eq!(seen.calls[0].to, To::Direct(0x1105));
    }

    #[test]
    fn alignment_counts_in_full_and_the_frame_pointer_ends_it() {
        // push rbp; mov rbp, rsp; and rsp, -64; mov rsp, rbp; call rax; pop rbp; ret
        let seen = frame(&[
            0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xe4, 0xc0, 0x48, 0x89, 0xec, 0xff, 0xd0, 0x5d, 0xc3,
        ]);
        assert_eq!(seen.size, 8 + 63);
        assert_eq!(seen.calls[0].depth, 16);
        assert_eq!(seen.calls[0].to, To::Indirect);
    }
}
