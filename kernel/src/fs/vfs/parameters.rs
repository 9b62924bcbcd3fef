//! What file systems say of their options when they are given one by one, by fsconfig(2).
#![forbid(unsafe_code)]

/// How a file system is given its options.
pub enum Parameters {
    /// It has none.
    None,
    /// Each is looked at as it comes.
    Each(fn(&[u8], Value<'_>) -> Result<(), Refused>),
    /// They are gathered as the text that mount(2) takes, which is looked at when the file system is made.
    Text,
    /// Programs do not mount it.
    Never,
}

/// The value that an option is given.
#[derive(Clone, Copy)]
pub enum Value<'a> {
    Flag,
    Text(&'a [u8]),
    /// Bytes, a path or a file: no option of any file system takes them yet.
    Other,
}

/// Why an option is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    Unknown,
    Value,
    /// It has a value, and takes none.
    Unexpected,
    /// This kernel does not carry it out.
    Unsupported,
    /// The number of a user or group that is none. Linux says so twice.
    Id,
    /// The number of no user, or no group.
    Nobody(&'static str),
}

/// A number in full, in a base, or with base 0 as C writes them. One newline may follow it.
pub fn unsigned(text: &[u8], base: u32) -> Option<u32> {
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    let text = text.strip_prefix(b"+").unwrap_or(text);
    let (base, digits) = match (base, text) {
        (0 | 16, [b'0', b'x' | b'X', digits @ ..]) => (16, digits),
        (0, [b'0', _, ..]) => (8, text),
        (0, _) => (10, text),
        _ => (base, text),
    };
    let digits = core::str::from_utf8(digits).ok().filter(|digits| !digits.starts_with('+'))?;
    u32::from_str_radix(digits, base).ok()
}

#[cfg(test)]
mod tests {
    use super::unsigned;

    #[test]
    fn numbers_are_written_as_in_c() {
        let all = [("0x10", Some(16)), ("010", Some(8)), ("+5", Some(5)), ("7\n", Some(7)), ("0", Some(0))];
        for (text, number) in all {
            assert_eq!(unsigned(text.as_bytes(), 0), number, "{text}");
        }
        for text in ["", "-1", "1 ", "++1", "0x", "08", "4294967296", "\n"] {
            assert_eq!(unsigned(text.as_bytes(), 0), None, "{text}");
        }
        assert_eq!(unsigned(b"0x1", 8), None);
        assert_eq!(unsigned(b"0700", 8), Some(0o700));
    }
}
