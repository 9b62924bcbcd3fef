//! Terminal settings: `struct termios` as the kernel's ABI has it (asm-generic/termbits.h), and the flags that mean something here.
#![forbid(unsafe_code)]
#![allow(dead_code)]

// c_iflag
pub const IGNBRK: u32 = 0o1;
pub const ISTRIP: u32 = 0o40;
pub const INLCR: u32 = 0o100;
pub const IGNCR: u32 = 0o200;
pub const ICRNL: u32 = 0o400;
pub const IUCLC: u32 = 0o1000;
pub const IXON: u32 = 0o2000;
pub const IXANY: u32 = 0o4000;
pub const IMAXBEL: u32 = 0o20000;
pub const IUTF8: u32 = 0o40000;
// c_oflag
pub const OPOST: u32 = 0o1;
pub const OLCUC: u32 = 0o2;
pub const ONLCR: u32 = 0o4;
pub const OCRNL: u32 = 0o10;
pub const ONOCR: u32 = 0o20;
pub const ONLRET: u32 = 0o40;
pub const TABDLY: u32 = 0o14000;
pub const XTABS: u32 = 0o14000;
// c_cflag
pub const CSIZE: u32 = 0o60;
pub const CS8: u32 = 0o60;
pub const CREAD: u32 = 0o200;
pub const PARENB: u32 = 0o400;
pub const CLOCAL: u32 = 0o4000;
// c_lflag
pub const ISIG: u32 = 0o1;
pub const ICANON: u32 = 0o2;
pub const ECHO: u32 = 0o10;
pub const ECHOE: u32 = 0o20;
pub const ECHOK: u32 = 0o40;
pub const ECHONL: u32 = 0o100;
pub const NOFLSH: u32 = 0o200;
pub const TOSTOP: u32 = 0o400;
pub const ECHOCTL: u32 = 0o1000;
pub const ECHOKE: u32 = 0o4000;
pub const IEXTEN: u32 = 0o100000;
pub const EXTPROC: u32 = 0o200000;
// Places in c_cc
pub const VINTR: usize = 0;
pub const VQUIT: usize = 1;
pub const VERASE: usize = 2;
pub const VKILL: usize = 3;
pub const VEOF: usize = 4;
pub const VTIME: usize = 5;
pub const VMIN: usize = 6;
pub const VSTART: usize = 8;
pub const VSTOP: usize = 9;
pub const VSUSP: usize = 10;
pub const VEOL: usize = 11;
pub const VREPRINT: usize = 12;
pub const VWERASE: usize = 14;
pub const VLNEXT: usize = 15;
pub const VEOL2: usize = 16;

/// Bytes of `struct termios`; `struct termios2` has two speeds more.
pub const SIZE: usize = 36;
pub const SIZE2: usize = 44;

#[derive(Clone, Copy)]
pub struct Termios {
    pub input: u32,
    pub output: u32,
    pub control: u32,
    pub local: u32,
    pub line: u8,
    pub chars: [u8; 19],
    /// Of input and output in baud, where `control` names none of the usual ones (BOTHER).
    pub speeds: [u32; 2],
}

/// The bits of a speed in `control`; those of the input's lie 16 higher, and zero there means the output's.
const CBAUD: u32 = 0o10017;
const INPUT_SHIFT: u32 = 16;
const BOTHER: u32 = 0o10000;

/// What the bits of a speed mean; `other` where they name none.
fn baud(bits: u32, other: u32) -> u32 {
    const SLOW: [u32; 16] =
        [0, 50, 75, 110, 134, 150, 200, 300, 600, 1200, 1800, 2400, 4800, 9600, 19_200, 38_400];
    const FAST: [u32; 16] = [
        0, 57_600, 115_200, 230_400, 460_800, 500_000, 576_000, 921_600, 1_000_000, 1_152_000, 1_500_000,
        2_000_000, 2_500_000, 3_000_000, 3_500_000, 4_000_000,
    ];
    let table = if bits & BOTHER == 0 { &SLOW } else { &FAST };
    if bits == BOTHER { other } else { table.get(bits as usize & 15).copied().unwrap_or(0) }
}

impl Termios {
    /// What a terminal is when it is first opened: 115200 8N1, canonical, with echo.
    pub const DEFAULT: Termios = Termios {
        input: ICRNL | IXON,
        output: OPOST | ONLCR,
        // B115200 | CS8 | CREAD | HUPCL
        control: 0o10002 | 0o60 | 0o200 | 0o2000,
        local: ISIG | ICANON | ECHO | ECHOE | ECHOK | ECHOCTL | ECHOKE | IEXTEN,
        line: 0,
        chars: [3, 28, 127, 21, 4, 0, 1, 0, 17, 19, 26, 0, 18, 15, 23, 22, 0, 0, 0],
        speeds: [0; 2],
    };

    /// What a virtio console begins with: 38400 8N1, hung up at the last close.
    pub const CONSOLE: Termios = Termios { control: 0o17 | 0o60 | 0o200 | 0o2000, ..Termios::DEFAULT };

    /// What a pseudo-terminal begins with: 38400 8N1.
    pub const PSEUDO: Termios = Termios { control: 0o17 | 0o60 | 0o200, ..Termios::DEFAULT };

    /// No bit and no character.
    pub const NONE: Termios =
        Termios { input: 0, output: 0, control: 0, local: 0, line: 0, chars: [0; 19], speeds: [0; 2] };

    pub fn char(&self, which: usize) -> u8 {
        self.chars.get(which).copied().unwrap_or(0)
    }

    /// Is `byte` the special character `which`? Zero switches one off.
    pub fn is(&self, byte: u8, which: usize) -> bool {
        byte != 0 && self.char(which) == byte
    }

    pub fn local(&self, flag: u32) -> bool {
        self.local & flag != 0
    }

    pub fn input(&self, flag: u32) -> bool {
        self.input & flag != 0
    }

    pub fn output(&self, flag: u32) -> bool {
        self.output & flag != 0
    }

    pub fn to_bytes(self) -> [u8; SIZE2] {
        let mut bytes = [0; SIZE2];
        let words = [self.input, self.output, self.control, self.local];
        let [input, output] = self.speeds;
        let output = baud(self.control & CBAUD, output);
        let input = match self.control >> INPUT_SHIFT & CBAUD {
            0 => output,
            bits => baud(bits, input),
        };
        let all = words
            .iter()
            .flat_map(|w| w.to_ne_bytes())
            .chain([self.line])
            .chain(self.chars)
            .chain(input.to_ne_bytes())
            .chain(output.to_ne_bytes());
        for (to, from) in bytes.iter_mut().zip(all) {
            *to = from;
        }
        bytes
    }

    #[expect(clippy::arithmetic_side_effects, reason = "eleven words")]
    pub fn from_bytes(bytes: &[u8; SIZE2]) -> Termios {
        let word =
            |i: usize| bytes.iter().skip(i * 4).take(4).rev().fold(0u32, |w, b| w << 8 | u32::from(*b));
        let mut chars = [0; 19];
        for (to, from) in chars.iter_mut().zip(bytes.iter().skip(17)) {
            *to = *from;
        }
        Termios {
            input: word(0),
            output: word(1),
            control: word(2),
            local: word(3),
            line: bytes.get(16).copied().unwrap_or(0),
            chars,
            speeds: [word(9), word(10)],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::check;
    use proptest::prelude::*;

    #[test]
    fn settings_come_back_from_their_bytes() {
        let numbers = (any::<[u32; 4]>(), any::<u8>(), any::<[u8; 19]>());
        check(200, &numbers, |([input, output, control, local], line, chars)| {
            let speeds = [12_345, 54_321];
            let back = Termios::from_bytes(
                &Termios { input, output, control, local, line, chars, speeds }.to_bytes(),
            );
            assert_eq!((back.input, back.output, back.control), (input, output, control));
            assert_eq!((back.local, back.line, back.chars), (local, line, chars));
        });
    }

    #[test]
    fn a_speed_is_one_of_the_usual_ones_or_any() {
        let told = |control| {
            let bytes = Termios { control, speeds: [7, 12_345], ..Termios::DEFAULT }.to_bytes();
            [SIZE, SIZE + 4].map(|at| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap()))
        };
        assert_eq!(told(0o15), [9600, 9600]);
        assert_eq!(told(0o10017), [4_000_000; 2]);
        assert_eq!(told(BOTHER), [12_345; 2]);
        assert_eq!(told(BOTHER | 0o13 << INPUT_SHIFT), [2400, 12_345]);
        assert_eq!(told(BOTHER | BOTHER << INPUT_SHIFT), [7, 12_345]);
    }

    /// `stty -a < /dev/ttyS0` on Linux, before anybody has changed anything but the speed.
    #[test]
    fn a_fresh_terminal_is_as_linux_has_it() {
        let bytes = Termios::DEFAULT.to_bytes();
        assert_eq!(bytes[..4], 0o2400u32.to_ne_bytes());
        assert_eq!(bytes[4..8], 0o5u32.to_ne_bytes());
        assert_eq!(bytes[12..16], 0o105073u32.to_ne_bytes());
        assert_eq!(bytes[17..26], *b"\x03\x1c\x7f\x15\x04\x00\x01\x00\x11");
        assert_eq!(bytes[SIZE..][..4], 115_200u32.to_ne_bytes());
        assert_eq!(Termios::PSEUDO.to_bytes()[SIZE..][..4], 38_400u32.to_ne_bytes());
    }

    #[test]
    fn zero_is_no_special_character() {
        let off = Termios { chars: [0; 19], ..Termios::DEFAULT };
        assert!(!off.is(0, VEOF));
        assert!(Termios::DEFAULT.is(4, VEOF));
    }
}
