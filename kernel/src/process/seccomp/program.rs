//! Programs of the classic BPF that seccomp(2) takes: checked once, then run for each system call. Jumps only go forward, so a program ends.
//!
//! What is accepted is what Linux 6.12 accepts: the instructions of the original filter language (McCanne and Jacobson, "The BSD Packet Filter", 1993), without
//! loads of bytes and of packets, and without the remainder. A program reads the words of `Call` and nothing else.
#![forbid(unsafe_code)]

use crate::errno::{Errno, Result};
use alloc::vec::Vec;
use sync::TryVec;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// struct sock_filter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Instruction {
    pub code: u16,
    /// How far a jump goes if its condition holds, and if not.
    pub jt: u8,
    pub jf: u8,
    pub k: u32,
}

/// Instructions of one program (BPF_MAXINSNS).
pub const MOST: usize = 4096;

/// Words of a program's own.
const CELLS: usize = 16;

/// Words of struct seccomp_data.
const WORDS: usize = 16;

// Loads, by what is loaded into A or X: a word of the call, its length, a constant, a cell.
const LD_CALL: u16 = 0x20;
const LD_LEN: u16 = 0x80;
const LDX_LEN: u16 = 0x81;
const LD_IMM: u16 = 0x00;
const LDX_IMM: u16 = 0x01;
const LD_CELL: u16 = 0x60;
const LDX_CELL: u16 = 0x61;
const ST: u16 = 0x02;
const STX: u16 = 0x03;
const JA: u16 = 0x05;
const RET_K: u16 = 0x06;
const RET_A: u16 = 0x16;
const TAX: u16 = 0x07;
const TXA: u16 = 0x87;
const NEG: u16 = 0x84;

/// In a code of calculations and jumps: the second operand is X, and not `k`.
const BY_X: u16 = 0x08;

/// Calculations, without their operand.
const ADD: u16 = 0x04;
const SUB: u16 = 0x14;
const MUL: u16 = 0x24;
const DIV: u16 = 0x34;
const OR: u16 = 0x44;
const AND: u16 = 0x54;
const LSH: u16 = 0x64;
const RSH: u16 = 0x74;
const XOR: u16 = 0xa4;

/// Conditions, without their operand.
const JEQ: u16 = 0x15;
const JGT: u16 = 0x25;
const JGE: u16 = 0x35;
const JSET: u16 = 0x45;

/// struct seccomp_data: what is asked about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Call {
    pub number: i32,
    /// AUDIT_ARCH_…
    pub machine: u32,
    pub pc: u64,
    pub arguments: [u64; 6],
}

impl Call {
    fn words(&self) -> [u32; WORDS] {
        let halves = |long: u64| [long as u32, (long >> 32) as u32];
        let [[p0, p1], [a0, a1], [b0, b1], [c0, c1], [d0, d1], [e0, e1], [f0, f1]] = [
            halves(self.pc),
            halves(self.arguments[0]),
            halves(self.arguments[1]),
            halves(self.arguments[2]),
            halves(self.arguments[3]),
            halves(self.arguments[4]),
            halves(self.arguments[5]),
        ];
        [self.number as u32, self.machine, p0, p1, a0, a1, b0, b1, c0, c1, d0, d1, e0, e1, f0, f1]
    }
}

/// A program that has been checked.
pub struct Program(Vec<Instruction>);

impl Program {
    /// # Errors
    /// EINVAL: no such program. ENOMEM.
    pub fn try_new(code: Vec<Instruction>) -> Result<Self> {
        let last = code.last().ok_or(Errno::EINVAL)?;
        let ends = matches!(last.code, RET_K | RET_A);
        let len = code.len();
        if len > MOST
            || !ends
            || !code.iter().enumerate().all(|(at, one)| is_sound(one, len.wrapping_sub(at)))
        {
            return Err(Errno::EINVAL);
        }
        check_cells(&code)?;
        Ok(Self(code))
    }

    /// Bytes of memory.
    pub fn size(&self) -> usize {
        self.0.capacity().wrapping_mul(size_of::<Instruction>())
    }

    /// Instructions as Linux counts them, which translates the program into its own language first (bpf_convert_filter).
    pub fn weight(&self) -> usize {
        const PROLOGUE: usize = 3;
        self.0.iter().map(weight_of).fold(PROLOGUE, usize::wrapping_add)
    }

    /// What the program says of a call.
    pub fn run(&self, call: &Call) -> u32 {
        let words = call.words();
        let (mut a, mut x, mut cells) = (0u32, 0u32, [0u32; CELLS]);
        let mut at = 0usize;
        while let Some(one) = self.0.get(at) {
            at = at.wrapping_add(1);
            let k = one.k;
            let cell = k as usize % CELLS;
            match one.code {
                LD_CALL => a = words[k as usize / 4 % WORDS],
                LD_LEN => a = (WORDS * 4) as u32,
                LDX_LEN => x = (WORDS * 4) as u32,
                LD_IMM => a = k,
                LDX_IMM => x = k,
                LD_CELL => a = cells[cell],
                LDX_CELL => x = cells[cell],
                ST => cells[cell] = a,
                STX => cells[cell] = x,
                TAX => x = a,
                TXA => a = x,
                NEG => a = a.wrapping_neg(),
                RET_K => return k,
                RET_A => return a,
                JA => at = at.wrapping_add(k as usize),
                code => {
                    let operand = if code & BY_X == 0 { k } else { x };
                    let jump = |holds: bool| usize::from(if holds { one.jt } else { one.jf });
                    match code & !BY_X {
                        ADD => a = a.wrapping_add(operand),
                        SUB => a = a.wrapping_sub(operand),
                        MUL => a = a.wrapping_mul(operand),
                        // A division by nothing is the program's end, with 0.
                        DIV => match a.checked_div(operand) {
                            Some(quotient) => a = quotient,
                            None => return 0,
                        },
                        OR => a |= operand,
                        AND => a &= operand,
                        XOR => a ^= operand,
                        LSH => a = a.wrapping_shl(operand),
                        RSH => a = a.wrapping_shr(operand),
                        JEQ => at = at.wrapping_add(jump(a == operand)),
                        JGT => at = at.wrapping_add(jump(a > operand)),
                        JGE => at = at.wrapping_add(jump(a >= operand)),
                        JSET => at = at.wrapping_add(jump(a & operand != 0)),
                        _ => return 0,
                    }
                }
            }
        }
        0
    }
}

/// Is there such an instruction, `left` before the program's end, itself among them?
fn is_sound(one: &Instruction, left: usize) -> bool {
    let k = one.k as usize;
    let is_within = |far: u8| usize::from(far).wrapping_add(1) < left;
    match one.code {
        LD_CALL => k < WORDS * 4 && k.is_multiple_of(4),
        LD_CELL | LDX_CELL | ST | STX => k < CELLS,
        LD_LEN | LDX_LEN | LD_IMM | LDX_IMM | TAX | TXA | NEG | RET_K | RET_A => true,
        JA => k < left.wrapping_sub(1),
        DIV => k != 0,
        LSH | RSH => k < 32,
        code => match code & !BY_X {
            ADD | SUB | MUL | DIV | OR | AND | XOR | LSH | RSH => true,
            JEQ | JGT | JGE | JSET => is_within(one.jt) && is_within(one.jf),
            _ => false,
        },
    }
}

/// No cell is read that was not written before, whichever way the program came there.
#[expect(clippy::indexing_slicing, reason = "jumps stay within the program, and cells are few: `is_sound`")]
fn check_cells(code: &[Instruction]) -> Result {
    let mut masks: Vec<u16> = Vec::new();
    masks.try_resize(code.len(), u16::MAX)?;
    let mut written = 0u16;
    for (at, one) in code.iter().enumerate() {
        written &= masks[at];
        let mut jump = |far: usize| masks[at.wrapping_add(1).wrapping_add(far)] &= written;
        match one.code {
            ST | STX => written |= 1 << one.k,
            LD_CELL | LDX_CELL if written & 1 << one.k == 0 => return Err(Errno::EINVAL),
            JA => {
                jump(one.k as usize);
                written = u16::MAX;
            }
            code if matches!(code & !BY_X, JEQ | JGT | JGE | JSET) => {
                jump(one.jt.into());
                jump(one.jf.into());
                written = u16::MAX;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Instructions of Linux's own language that one becomes.
fn weight_of(one: &Instruction) -> usize {
    const BY_NOTHING: usize = 4;
    match one.code {
        RET_K => 2,
        code if code == DIV | BY_X => 1 + BY_NOTHING,
        code => match code & !BY_X {
            op @ (JEQ | JGT | JGE | JSET) => {
                // A constant that is negative as an `int` is loaded first.
                let loads = usize::from(code & BY_X == 0 && one.k.cast_signed() < 0);
                // One jump is enough where the other way goes straight on; each condition but JSET has a contrary.
                let both = one.jf != 0 && (one.jt != 0 || op == JSET);
                loads.wrapping_add(1).wrapping_add(usize::from(both))
            }
            _ => 1,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::proptest;

    fn program(code: &[(u16, u8, u8, u32)]) -> Result<Program> {
        Program::try_new(code.iter().map(|&(code, jt, jf, k)| Instruction { code, jt, jf, k }).collect())
    }

    const CALL: Call = Call {
        number: 39,
        machine: 0xc000_003e,
        pc: 0x1122_3344_5566,
        arguments: [1 << 32 | 2, 3, 4, 5, 6, 0x7777_8888_9999_aaaa],
    };

    fn value(code: &[(u16, u8, u8, u32)]) -> u32 {
        program(code).unwrap().run(&CALL)
    }

    #[test]
    fn every_word_of_a_call_is_read_at_its_place() {
        let words: Vec<u32> = (0..16).map(|n| value(&[(LD_CALL, 0, 0, n * 4), (RET_A, 0, 0, 0)])).collect();
        let expected =
            [39, 0xc000_003e, 0x3344_5566, 0x1122, 2, 1, 3, 0, 4, 0, 5, 0, 6, 0, 0x9999_aaaa, 0x7777_8888];
        assert_eq!(words, expected);
        assert!(program(&[(LD_CALL, 0, 0, 64), (RET_A, 0, 0, 0)]).is_err());
        assert!(program(&[(LD_CALL, 0, 0, 2), (RET_A, 0, 0, 0)]).is_err());
    }

    #[test]
    fn calculations_wrap_and_a_division_by_nothing_ends_the_program() {
        let by = |op: u16, a: u32, operand: u32| {
            let by_k = (op | BY_X, 0, 0, 0);
            value(&[(LDX_IMM, 0, 0, operand), (LD_IMM, 0, 0, a), by_k, (RET_A, 0, 0, 0)])
        };
        assert_eq!(by(ADD, u32::MAX, 2), 1);
        assert_eq!(by(SUB, 1, 2), u32::MAX);
        assert_eq!(by(MUL, 1 << 31, 2), 0);
        assert_eq!(by(DIV, 7, 2), 3);
        assert_eq!(by(DIV, 7, 0), 0);
        assert_eq!(by(LSH, 1, 33), 2);
        assert_eq!(by(RSH, 4, 33), 2);
        assert_eq!(by(XOR, 6, 3), 5);
        assert_eq!(value(&[(LD_IMM, 0, 0, 1), (NEG, 0, 0, 0), (RET_A, 0, 0, 0)]), u32::MAX);
        for op in [DIV, LSH, RSH] {
            let k = if op == DIV { 0 } else { 32 };
            assert!(program(&[(op, 0, 0, k), (RET_A, 0, 0, 0)]).is_err());
        }
    }

    #[test]
    fn jumps_go_where_their_condition_says_and_never_out() {
        let chosen = |op: u16, k: u32| {
            value(&[(LD_CALL, 0, 0, 0), (op, 1, 0, k), (RET_K, 0, 0, 100), (RET_K, 0, 0, 200)])
        };
        assert_eq!([chosen(JEQ, 39), chosen(JEQ, 40)], [200, 100]);
        assert_eq!([chosen(JGT, 38), chosen(JGT, 39)], [200, 100]);
        assert_eq!([chosen(JGE, 39), chosen(JGE, 40)], [200, 100]);
        assert_eq!([chosen(JSET, 1), chosen(JSET, 8)], [200, 100]);
        assert_eq!(value(&[(JA, 0, 0, 1), (RET_K, 0, 0, 1), (RET_K, 0, 0, 2)]), 2);
        for bad in
            [(JA, 0, 0, 1), (JA, 0, 0, u32::MAX), (JEQ, 1, 0, 0), (JEQ, 0, 1, 0), (JSET | BY_X, 255, 0, 0)]
        {
            assert!(program(&[bad, (RET_K, 0, 0, 0)]).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_cell_is_written_on_every_way_to_where_it_is_read() {
        let end = (RET_A, 0, 0, 0);
        assert!(program(&[(LD_CELL, 0, 0, 3), end]).is_err());
        assert!(program(&[(ST, 0, 0, 3), (LD_CELL, 0, 0, 3), end]).is_ok());
        assert!(program(&[(JEQ, 1, 0, 1), (ST, 0, 0, 3), (LD_CELL, 0, 0, 3), end]).is_err());
        assert!(program(&[(JEQ, 0, 1, 1), (ST, 0, 0, 3), (JEQ, 0, 0, 1), (LD_CELL, 0, 0, 3), end]).is_err());
        assert!(program(&[(ST, 0, 0, 16), end]).is_err());
        assert_eq!(value(&[(LD_IMM, 0, 0, 9), (ST, 0, 0, 15), (LDX_CELL, 0, 0, 15), (TXA, 0, 0, 0), end]), 9);
    }

    #[test]
    fn a_program_has_an_end_and_a_length() {
        assert!(program(&[]).is_err());
        assert!(program(&[(LD_IMM, 0, 0, 0)]).is_err());
        let code =
            |n: usize| Program::try_new(alloc::vec![Instruction { code: RET_K, ..Default::default() }; n]);
        assert!(code(MOST).is_ok());
        assert!(code(MOST + 1).is_err());
        assert_eq!(code(1).unwrap().weight(), 5);
    }

    proptest! {
        #[test]
        fn whatever_is_accepted_ends(words: Vec<(u16, u8, u8, u32)>) {
            let known = [
                LD_CALL, LD_LEN, LDX_LEN, LD_IMM, LDX_IMM, LD_CELL, LDX_CELL, ST, STX, JA, RET_K, RET_A, TAX, TXA, NEG, ADD, SUB,
                MUL, DIV, OR, AND, LSH, RSH, XOR, JEQ, JGT, JGE, JSET, ADD | BY_X, DIV | BY_X, LSH | BY_X, JEQ | BY_X,
            ];
            let mut code: Vec<_> = words
                .iter()
                .map(|&(code, jt, jf, k)| (known[usize::from(code) % known.len()], jt % 4, jf % 4, k % 17))
                .collect();
            code.push((RET_K, 0, 0, 7));
            if let Ok(program) = program(&code) {
                program.run(&CALL);
            }
        }
    }
}
