//! What the plugin reads from an instruction's bytes: is it a marker, is it a repeated string instruction?
#![forbid(unsafe_code)]

/// The longest x86 instruction (SDM volume 2, section 2.3.11).
pub const LONGEST: usize = 15;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marker {
    /// Windows follow.
    Watch,
    /// The number of the window stands in RAX.
    Open,
    Close,
    /// No windows follow until the next mark: the guest runs at full speed.
    Rest,
    /// The guest's init starts the program that it was given.
    Begin,
    /// That program has ended.
    End,
}

/// `nopl 0x444152xx(%rax)`: a NOP on every kernel and processor since the Pentium Pro (SDM volume 2, NOP), with a
/// displacement that no compiler emits.
pub fn marker(code: &[u8]) -> Option<Marker> {
    match code {
        [0x0f, 0x1f, 0x80, 0x01, 0x52, 0x41, 0x44] => Some(Marker::Open),
        [0x0f, 0x1f, 0x80, 0x02, 0x52, 0x41, 0x44] => Some(Marker::Close),
        [0x0f, 0x1f, 0x80, 0x03, 0x52, 0x41, 0x44] => Some(Marker::Watch),
        [0x0f, 0x1f, 0x80, 0x04, 0x52, 0x41, 0x44] => Some(Marker::Rest),
        [0x0f, 0x1f, 0x80, 0x05, 0x52, 0x41, 0x44] => Some(Marker::Begin),
        [0x0f, 0x1f, 0x80, 0x06, 0x52, 0x41, 0x44] => Some(Marker::End),
        _ => None,
    }
}

impl Marker {
    /// Is it one of init's, which the modes heed that follow calls, and no other?
    pub fn is_of_init(self) -> bool {
        matches!(self, Marker::Begin | Marker::End)
    }
}

/// Is this a LOCK-prefixed instruction, or XCHG, which locks by itself where it has a memory operand (SDM volume 2, LOCK)?
pub fn locks(code: &[u8]) -> bool {
    for byte in code {
        match byte {
            0xf0 | 0x86 | 0x87 => return true,
            0x66 | 0x67 | 0x26 | 0x2e | 0x36 | 0x3e | 0x64 | 0x65 | 0xf2 | 0xf3 | 0x40..=0x4f => {}
            _ => return false,
        }
    }
    false
}

/// Is this INS, OUTS, MOVS, CMPS, STOS, LODS or SCAS with a repeat prefix (SDM volume 2, REP)?
pub fn repeats(code: &[u8]) -> bool {
    let mut repeat = false;
    for byte in code {
        match byte {
            0xf2 | 0xf3 => repeat = true,
            // Operand size, address size, segments, LOCK; then REX.
            0x66 | 0x67 | 0x26 | 0x2e | 0x36 | 0x3e | 0x64 | 0x65 | 0xf0 | 0x40..=0x4f => {}
            0x6c..=0x6f | 0xa4..=0xa7 | 0xaa..=0xaf => return repeat,
            _ => return false,
        }
    }
    false
}

/// Is this address in the kernel's half? (Canonical addresses, SDM volume 1, section 3.3.7.1.)
pub fn in_kernel(address: u64) -> bool {
    address >> 63 != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_are_told_apart_and_other_nops_are_none() {
        assert_eq!(marker(&[0x0f, 0x1f, 0x80, 1, 0x52, 0x41, 0x44]), Some(Marker::Open));
        assert_eq!(marker(&[0x0f, 0x1f, 0x80, 2, 0x52, 0x41, 0x44]), Some(Marker::Close));
        assert_eq!(marker(&[0x0f, 0x1f, 0x80, 3, 0x52, 0x41, 0x44]), Some(Marker::Watch));
        assert_eq!(marker(&[0x0f, 0x1f, 0x80, 4, 0x52, 0x41, 0x44]), Some(Marker::Rest));
        assert_eq!(marker(&[0x0f, 0x1f, 0x80, 5, 0x52, 0x41, 0x44]), Some(Marker::Begin));
        assert_eq!(marker(&[0x0f, 0x1f, 0x80, 6, 0x52, 0x41, 0x44]), Some(Marker::End));
        assert_eq!(marker(&[0x0f, 0x1f, 0x80, 0, 0, 0, 0]), None);
        assert_eq!(marker(&[0x0f, 0x1f, 0x80, 1, 0x52, 0x41]), None);
    }

    #[test]
    fn locked_instructions_are_known_by_prefix_or_as_xchg() {
        assert!(locks(&[0xf0, 0x48, 0x0f, 0xb1, 0x11])); // lock cmpxchg
        assert!(locks(&[0x2e, 0xf0, 0xff, 0x03])); // cs lock incl
        assert!(locks(&[0x48, 0x87, 0x07])); // xchg
        assert!(!locks(&[0x0f, 0xb1, 0x11])); // cmpxchg alone
        assert!(!locks(&[0x89, 0xf0])); // mov: f0 is an operand
        assert!(!locks(&[]));
    }

    #[test]
    fn only_string_instructions_with_a_prefix_repeat() {
        assert!(repeats(&[0xf3, 0xaa])); // rep stosb
        assert!(repeats(&[0xf3, 0x48, 0xab])); // rep stosq
        assert!(repeats(&[0x67, 0xf3, 0xa4])); // rep movsb, 32-bit addresses
        assert!(repeats(&[0xf2, 0xae])); // repne scasb
        assert!(!repeats(&[0xaa])); // stosb
        assert!(!repeats(&[0xf3, 0x90])); // pause
        assert!(!repeats(&[0xf3, 0x0f, 0x1e, 0xfa])); // endbr64
        assert!(!repeats(&[0xf3, 0xc3])); // rep ret
        assert!(!repeats(&[0xf3, 0xa8, 0x01])); // test al
        assert!(!repeats(&[]));
    }
}
