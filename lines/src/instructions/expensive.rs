//! Instructions that cost more than others, by kind: what a count of instructions hides.
//!
//! A kind is read from an instruction's bytes once, when it is translated. How dear each is depends on the processor and on whether
//! there is a hypervisor below: port I/O and most WRMSR leave the guest, a locked instruction is some twenty plain ones.
#![forbid(unsafe_code)]

/// What an instruction is, as far as its cost goes (opcodes: SDM volume 2, appendix A).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A read-modify-write of memory with a LOCK prefix, or XCHG with memory, which locks by itself.
    Locked,
    /// MFENCE, LFENCE, SFENCE, SERIALIZE.
    Fence,
    /// A write of CR3: another page table, and a flush of the TLB.
    Cr3,
    /// INVLPG, INVPCID.
    Invalidate,
    Wrmsr,
    /// Back to a program, or from an interrupt of the kernel, by IRET.
    Iret,
    Sysret,
    /// IN, OUT, INS, OUTS.
    Port,
    /// XSAVE in all its forms, FXSAVE.
    Save,
    /// XRSTOR, XRSTORS, FXRSTOR.
    Restore,
    /// STOS with a repeat prefix, and the bytes of one iteration: memory is filled.
    Fill(u8),
    /// MOVS with a repeat prefix, and the bytes of one iteration: memory is copied.
    Copy(u8),
}

/// The names under which kinds are counted, in the order of tables.
pub const NAMES: [&str; 12] = [
    "locked",
    "fence",
    "cr3",
    "invalidate",
    "wrmsr",
    "iret",
    "sysret",
    "port",
    "save",
    "restore",
    "filled_bytes",
    "copied_bytes",
];

impl Kind {
    /// Its place in [`NAMES`].
    pub fn place(self) -> usize {
        match self {
            Kind::Locked => 0,
            Kind::Fence => 1,
            Kind::Cr3 => 2,
            Kind::Invalidate => 3,
            Kind::Wrmsr => 4,
            Kind::Iret => 5,
            Kind::Sysret => 6,
            Kind::Port => 7,
            Kind::Save => 8,
            Kind::Restore => 9,
            Kind::Fill(_) => 10,
            Kind::Copy(_) => 11,
        }
    }

    /// How much so many executions and further iterations are: bytes of string instructions, else executions. An instruction that
    /// repeats looks at its count once more than it moves anything, so that its moves are its further iterations.
    pub fn amount(self, executions: u64, iterations: u64) -> u64 {
        match self {
            Kind::Fill(bytes) | Kind::Copy(bytes) => iterations * u64::from(bytes),
            Kind::Port => executions + iterations,
            _ => executions,
        }
    }

    pub fn of(code: &[u8]) -> Option<Kind> {
        let prefixes = Prefixes::of(code);
        let rest = code.get(prefixes.length..)?;
        let byte = |at: usize| rest.get(at).copied();
        let opcode = byte(0)?;
        // MOD is 3 where the operand is a register and no memory.
        let memory = |at: usize| byte(at).is_some_and(|modrm| modrm >> 6 != 3);
        let reg = |at: usize| byte(at).map(|modrm| modrm >> 3 & 7);
        let string = match (opcode & 1 != 0, prefixes.wide, prefixes.narrow) {
            (false, ..) => 1,
            (true, true, _) => 8,
            (true, false, true) => 2,
            (true, false, false) => 4,
        };
        let kind = match opcode {
            0xcf => Kind::Iret,
            0xe4..=0xe7 | 0xec..=0xef | 0x6c..=0x6f => Kind::Port,
            0xa4 | 0xa5 if prefixes.repeat => Kind::Copy(string),
            0xaa | 0xab if prefixes.repeat => Kind::Fill(string),
            0x86 | 0x87 if memory(1) => Kind::Locked,
            0x0f => match (byte(1)?, reg(2)) {
                (0x07, _) => Kind::Sysret,
                (0x30, _) => Kind::Wrmsr,
                (0x22, Some(3)) => Kind::Cr3,
                (0x01, Some(7)) if memory(2) => Kind::Invalidate,
                (0x01, _) if byte(2) == Some(0xe8) => Kind::Fence,
                (0x38, _) if byte(2) == Some(0x82) && prefixes.narrow => Kind::Invalidate,
                (0xae, Some(0 | 4 | 6)) if memory(2) => Kind::Save,
                (0xae, Some(1 | 5)) if memory(2) => Kind::Restore,
                (0xae, Some(5..=7)) if !memory(2) && !prefixes.repeat => Kind::Fence,
                (0xc7, Some(4 | 5)) if memory(2) => Kind::Save,
                (0xc7, Some(3)) if memory(2) => Kind::Restore,
                _ if prefixes.lock => Kind::Locked,
                _ => return None,
            },
            _ if prefixes.lock => Kind::Locked,
            _ => return None,
        };
        Some(kind)
    }
}

/// What stands before an opcode (SDM volume 2, section 2.1.1), REX among it.
#[derive(Default)]
struct Prefixes {
    length: usize,
    lock: bool,
    repeat: bool,
    /// 66: operands of two bytes, or another instruction.
    narrow: bool,
    /// REX.W: operands of eight bytes.
    wide: bool,
}

impl Prefixes {
    fn of(code: &[u8]) -> Prefixes {
        let mut prefixes = Prefixes::default();
        for &byte in code {
            match byte {
                0xf0 => prefixes.lock = true,
                0xf2 | 0xf3 => prefixes.repeat = true,
                0x66 => prefixes.narrow = true,
                0x48..=0x4f => prefixes.wide = true,
                0x40..=0x47 | 0x26 | 0x2e | 0x36 | 0x3e | 0x64 | 0x65 | 0x67 => {}
                _ => break,
            }
            prefixes.length += 1;
        }
        prefixes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_read_from_the_bytes() {
        for (code, kind) in [
            (&[0xf0, 0x48, 0x0f, 0xb1, 0x11][..], Some(Kind::Locked)), // lock cmpxchg %rdx,(%rcx)
            (&[0xf0, 0xff, 0x03], Some(Kind::Locked)),                 // lock incl (%rbx)
            (&[0x48, 0x87, 0x07], Some(Kind::Locked)),                 // xchg %rax,(%rdi)
            (&[0x48, 0x87, 0xc7], None),                               // xchg %rax,%rdi
            (&[0x0f, 0xb1, 0x11], None),                               // cmpxchg alone
            (&[0x0f, 0xae, 0xf0], Some(Kind::Fence)),                  // mfence
            (&[0x0f, 0xae, 0xe8], Some(Kind::Fence)),                  // lfence
            (&[0x0f, 0xae, 0xf8], Some(Kind::Fence)),                  // sfence
            (&[0x0f, 0x01, 0xe8], Some(Kind::Fence)),                  // serialize
            (&[0x0f, 0x22, 0xd8], Some(Kind::Cr3)),                    // mov %rax,%cr3
            (&[0x0f, 0x22, 0xe0], None),                               // mov %rax,%cr4
            (&[0x0f, 0x20, 0xd8], None),                               // mov %cr3,%rax
            (&[0x0f, 0x01, 0x38], Some(Kind::Invalidate)),             // invlpg (%rax)
            (&[0x0f, 0x01, 0xf8], None),                               // swapgs
            (&[0x66, 0x0f, 0x38, 0x82, 0x0f], Some(Kind::Invalidate)), // invpcid (%rdi),%rcx
            (&[0x0f, 0x30], Some(Kind::Wrmsr)),
            (&[0x0f, 0x32], None),             // rdmsr
            (&[0x48, 0xcf], Some(Kind::Iret)), // iretq
            (&[0x48, 0x0f, 0x07], Some(Kind::Sysret)),
            (&[0xec], Some(Kind::Port)),                           // in (%dx),%al
            (&[0xe6, 0x80], Some(Kind::Port)),                     // out %al,$0x80
            (&[0xf3, 0x6e], Some(Kind::Port)),                     // rep outsb
            (&[0x48, 0x0f, 0xae, 0x27], Some(Kind::Save)),         // xsave64 (%rdi)
            (&[0x48, 0x0f, 0xae, 0x37], Some(Kind::Save)),         // xsaveopt64 (%rdi)
            (&[0x48, 0x0f, 0xc7, 0x67, 0x40], Some(Kind::Save)),   // xsavec64 0x40(%rdi)
            (&[0x48, 0x0f, 0xae, 0x2f], Some(Kind::Restore)),      // xrstor64 (%rdi)
            (&[0x48, 0x0f, 0xc7, 0x1f], Some(Kind::Restore)),      // xrstors64 (%rdi)
            (&[0x0f, 0xae, 0x57, 0x10], None),                     // ldmxcsr
            (&[0xf3, 0x48, 0x0f, 0xae, 0xd0], None),               // wrfsbase %rax
            (&[0xf3, 0x48, 0x0f, 0xae, 0xe8], None),               // incsspq %rax
            (&[0x0f, 0xc7, 0x0f], None),                           // cmpxchg8b without lock
            (&[0xf0, 0x48, 0x0f, 0xc7, 0x0f], Some(Kind::Locked)), // lock cmpxchg16b
            (&[0xf3, 0x48, 0xab], Some(Kind::Fill(8))),            // rep stosq
            (&[0xf3, 0xaa], Some(Kind::Fill(1))),                  // rep stosb
            (&[0xf3, 0x66, 0xab], Some(Kind::Fill(2))),            // rep stosw
            (&[0xf3, 0xa5], Some(Kind::Copy(4))),                  // rep movsd
            (&[0xa4], None),                                       // movsb
            (&[0x89, 0xf0], None),                                 // mov %esi,%eax
            (&[], None),
        ] {
            assert_eq!(Kind::of(code), kind, "{code:x?}");
        }
    }

    #[test]
    fn each_kind_has_a_name_of_its_own() {
        use Kind::*;
        let all =
            [Locked, Fence, Cr3, Invalidate, Wrmsr, Iret, Sysret, Port, Save, Restore, Fill(1), Copy(1)];
        let places: Vec<usize> = all.into_iter().map(Kind::place).collect();
        assert_eq!(places, (0..NAMES.len()).collect::<Vec<_>>());
    }

    #[test]
    fn string_instructions_are_counted_in_bytes() {
        assert_eq!(Kind::Fill(8).amount(1, 512), 4096);
        assert_eq!(Kind::Copy(1).amount(2, 7), 7);
        assert_eq!(Kind::Port.amount(1, 2), 3);
        assert_eq!(Kind::Locked.amount(3, 0), 3);
    }
}
