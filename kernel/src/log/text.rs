//! How records are shown: as lines of syslog(2), and as /dev/kmsg has them.
#![forbid(unsafe_code)]

use super::Line;
use super::ring::Record;
use alloc::vec::Vec;
use core::fmt::Write;
use sync::heap::Text;
use sync::{AllocError, TryVec};

/// The longest record of /dev/kmsg: Linux's PRINTK_MESSAGE_MAX.
const MOST: usize = 2048;

#[expect(clippy::arithmetic_side_effects, reason = "a text is at most `ring::MOST` bytes long")]
impl Record {
    fn priority(&self) -> u32 {
        u32::from(self.facility) << 3 | u32::from(self.level)
    }

    /// What each of its lines begins with: `<6>[    0.123456] `.
    fn prefix(&self) -> Line<48> {
        let mut prefix = Line::new();
        let (seconds, rest) = (self.time / 1_000_000, self.time % 1_000_000);
        let _ = write!(prefix, "<{}>[{seconds:5}.{rest:06}] ", self.priority());
        prefix
    }

    /// Bytes that `lines_of` makes of it.
    pub fn shown_len(&self) -> usize {
        self.prefix().as_bytes().len() * self.lines + self.len + 1
    }

    /// Adds its lines as syslog(2) shows them to `out`; `text` is its text.
    ///
    /// # Errors
    /// No memory.
    pub fn put_lines(&self, text: &[u8], out: &mut Vec<u8>) -> Result<(), AllocError> {
        let prefix = self.prefix();
        for line in text.split(|byte| *byte == b'\n') {
            out.try_extend_from_slice(prefix.as_bytes())?;
            out.try_extend_from_slice(line)?;
            out.try_push(b'\n')?;
        }
        Ok(())
    }

    /// Adds it as /dev/kmsg shows it to `out`: `priority,number,microseconds,-;text`, with bytes that are not printed as `\xNN`.
    ///
    /// # Errors
    /// No memory.
    pub fn put_record(&self, text: &[u8], out: &mut Vec<u8>) -> Result<(), AllocError> {
        let mut begin = Line::<64>::new();
        let _ = write!(begin, "{},{},{},-;", self.priority(), self.seq, self.time);
        out.try_extend_from_slice(begin.as_bytes())?;
        for &byte in text {
            match byte {
                b' '..=b'~' if byte != b'\\' => out.try_push(byte)?,
                _ => write!(Text(out), "\\x{byte:02x}").map_err(|_| AllocError)?,
            }
        }
        out.try_push(b'\n')?;
        out.truncate(MOST);
        Ok(())
    }
}

/// Splits what a program has written to /dev/kmsg: facility, level and text. Without `<N>` before it the level is `level`, and the facility is that of
/// programs (1), as it is where the kernel's (0) is named. The text ends with its first NUL, and one newline at its end is left out.
pub fn parse(text: &[u8], level: u8) -> (u8, u8, &[u8]) {
    let (mut facility, mut level, mut rest) = (1, level, text);
    if let Some(inside) = text.strip_prefix(b"<") {
        let digits = inside.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (number, after) = inside.split_at(digits);
        if let Some(after) = after.strip_prefix(b">") {
            let number = number
                .iter()
                .fold(0u32, |n, digit| n.wrapping_mul(10).wrapping_add(u32::from(digit.wrapping_sub(b'0'))));
            level = number as u8 & 7;
            facility = Some((number >> 3) as u8).filter(|f| *f != 0).unwrap_or(1);
            rest = after;
        }
    }
    let rest = rest.split(|byte| *byte == 0).next().unwrap_or(&[]);
    (facility, level, rest.strip_suffix(b"\n").unwrap_or(rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::String;

    const RECORD: Record = Record { seq: 7, time: 1_000_023, facility: 1, level: 6, len: 0, lines: 1 };

    fn made(make: impl FnOnce(&mut Vec<u8>) -> Result<(), AllocError>) -> String {
        let mut out = Vec::new();
        make(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn each_line_has_the_priority_and_the_time_before_it() {
        let text = b"one\ntwo";
        let record = Record { len: text.len(), lines: 2, ..RECORD };
        let shown = made(|out| record.put_lines(text, out));
        assert_eq!(shown, "<14>[    1.000023] one\n<14>[    1.000023] two\n");
        assert_eq!(record.shown_len(), shown.len());
        assert_eq!(made(|out| RECORD.put_lines(b"", out)).len(), RECORD.shown_len());
    }

    #[test]
    fn a_record_is_one_line_whatever_is_in_it() {
        let shown = made(|out| RECORD.put_record(b"a\\b\n\xff~", out));
        assert_eq!(shown, "14,7,1000023,-;a\\x5cb\\x0a\\xff~\n");
    }

    #[test]
    fn a_priority_is_taken_from_the_text() {
        assert_eq!(parse(b"plain\n", 4), (1, 4, &b"plain"[..]));
        assert_eq!(parse(b"<6>a\n\n", 4), (1, 6, &b"a\n"[..]));
        assert_eq!(parse(b"<30>a", 4), (3, 6, &b"a"[..]));
        assert_eq!(parse(b"<6a", 4), (1, 4, &b"<6a"[..]));
        assert_eq!(parse(b"<>a\0b", 4), (1, 0, &b"a"[..]));
        assert_eq!(parse(b"", 4), (1, 4, &b""[..]));
    }
}
