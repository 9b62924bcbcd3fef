//! Options of a tmpfs mount (tmpfs(5)): read from text, and shown in /proc/mounts.
#![forbid(unsafe_code)]

use alloc::vec::Vec;
use core::fmt::Write;

use sync::heap::Text;

use crate::errno::{EINVAL, ENOMEM, Result};
use crate::fs::vfs::parameters::{Refused, Value, unsigned};

const PAGE: u64 = 4096;
/// What Linux counts an inode as, in bytes: it bounds their number.
const INODE_BYTES: u64 = 1024;

/// What was asked for.
#[derive(Default, Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Pages; 0: no limit.
    pub blocks: Option<u64>,
    /// 0: no limit.
    pub inodes: Option<u64>,
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
}

impl Options {
    /// # Errors
    /// EINVAL.
    pub fn parse(text: &[u8]) -> Result<Options> {
        let mut options = Options::default();
        for option in text.split(|&b| b == b',').filter(|o| !o.is_empty()) {
            let mut parts = option.splitn(2, |&b| b == b'=');
            let key = parts.next().unwrap_or(&[]);
            options.set(key, parts.next().map_or(Value::Flag, Value::Text)).map_err(|_| EINVAL)?;
        }
        Ok(options)
    }

    fn set(&mut self, key: &[u8], value: Value<'_>) -> core::result::Result<(), Refused> {
        const FLAGS: [&[u8]; 6] = [b"inode64", b"inode32", b"noswap", b"quota", b"usrquota", b"grpquota"];
        const OTHERS: [&[u8]; 5] = [
            b"mpol",
            b"usrquota_block_hardlimit",
            b"usrquota_inode_hardlimit",
            b"grpquota_block_hardlimit",
            b"grpquota_inode_hardlimit",
        ];
        if FLAGS.contains(&key) {
            // The first says what is so anyway; the others of its kind are refused.
            return match value {
                Value::Flag if key == b"inode64" => Ok(()),
                Value::Flag => Err(Refused::Unsupported),
                _ => Err(Refused::Unexpected),
            };
        }
        let text = match value {
            Value::Text(text) if !text.is_empty() => text,
            _ => &[],
        };
        let refused = if text.is_empty() { Refused::Value } else { Refused::Unsupported };
        match key {
            b"size" => self.blocks = Some(pages(text)?),
            b"nr_blocks" => self.blocks = Some(whole(text, i64::MAX as u64)?),
            b"nr_inodes" => self.inodes = Some(whole(text, u64::MAX / INODE_BYTES)?),
            b"mode" => self.mode = Some(unsigned(text, 8).ok_or(Refused::Value)? & 0o7777),
            b"uid" => self.uid = Some(id(text, "uid")?),
            b"gid" => self.gid = Some(id(text, "gid")?),
            b"huge" => match text {
                // As above.
                b"never" => {}
                b"always" | b"within_size" | b"advise" => return Err(Refused::Unsupported),
                _ => return Err(Refused::Value),
            },
            _ if OTHERS.contains(&key) => return Err(refused),
            _ => return Err(Refused::Unknown),
        }
        Ok(())
    }
}

/// Is that an option, as fsconfig(2) gives it?
pub fn check(key: &[u8], value: Value<'_>) -> core::result::Result<(), Refused> {
    Options::default().set(key, value)
}

/// The largest number is nobody's.
fn id(text: &[u8], what: &'static str) -> core::result::Result<u32, Refused> {
    match unsigned(text, 0) {
        None => Err(Refused::Id),
        Some(u32::MAX) => Err(Refused::Nobody(what)),
        Some(id) => Ok(id),
    }
}

/// A number as Linux takes it here: decimal, octal or hexadecimal, and a letter for a power of 1024. What follows is left over.
fn scaled(text: &[u8]) -> (u64, &[u8]) {
    let (radix, digits) = match text {
        [b'0', b'x' | b'X', rest @ ..] => (16, rest),
        [b'0', rest @ ..] if !rest.is_empty() => (8, rest),
        all => (10, all),
    };
    let mut n = 0_u64;
    let mut rest = digits;
    while let [first, after @ ..] = rest
        && let Some(digit) = char::from(*first).to_digit(radix)
    {
        n = n.wrapping_mul(u64::from(radix)).wrapping_add(u64::from(digit));
        rest = after;
    }
    let shift = match rest.first().map(u8::to_ascii_lowercase) {
        Some(b'k') => 10,
        Some(b'm') => 20,
        Some(b'g') => 30,
        Some(b't') => 40,
        Some(b'p') => 50,
        Some(b'e') => 60,
        _ => return (n, rest),
    };
    (n.checked_shl(shift).unwrap_or(0), rest.get(1..).unwrap_or(&[]))
}

fn whole(text: &[u8], most: u64) -> core::result::Result<u64, Refused> {
    match scaled(text) {
        (n, []) if !text.is_empty() && n <= most => Ok(n),
        _ => Err(Refused::Value),
    }
}

/// Bytes, or a part of memory in per cent; in pages.
fn pages(text: &[u8]) -> core::result::Result<u64, Refused> {
    match scaled(text) {
        _ if text.is_empty() => Err(Refused::Value),
        (n, []) => Ok(n.div_ceil(PAGE)),
        (n, b"%") => {
            // Linux does this in bytes, and rounds up to a page then.
            Ok((n.wrapping_mul(PAGE).wrapping_mul(vm::frame::total_frames()) / 100).div_ceil(PAGE))
        }
        _ => Err(Refused::Value),
    }
}

/// What a mount shows of its options: those that are not the default.
#[derive(Clone, Copy)]
pub struct Shown {
    /// Pages; None: the default.
    pub blocks: Option<u64>,
    pub inodes: Option<u64>,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
}

impl Shown {
    /// # Errors
    /// ENOMEM.
    pub fn text(&self, out: &mut Vec<u8>) -> Result {
        let mut put = |text: core::fmt::Arguments<'_>| Text(out).write_fmt(text).map_err(|_| ENOMEM);
        if let Some(blocks) = self.blocks {
            put(format_args!(",size={}k", blocks.saturating_mul(PAGE / 1024)))?;
        }
        if let Some(inodes) = self.inodes {
            put(format_args!(",nr_inodes={inodes}"))?;
        }
        if self.mode != super::MODE {
            put(format_args!(",mode={:03o}", self.mode))?;
        }
        if self.uid != 0 {
            put(format_args!(",uid={}", self.uid))?;
        }
        if self.gid != 0 {
            put(format_args!(",gid={}", self.gid))?;
        }
        put(format_args!(",inode64"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(text: &str) -> Result<Options> {
        Options::parse(text.as_bytes())
    }

    #[test]
    fn sizes_have_suffixes_and_are_rounded_up_to_pages() {
        let blocks = |text| options(text).map(|o| o.blocks);
        assert_eq!(blocks("size=1m"), Ok(Some(256)));
        assert_eq!(blocks("size=1"), Ok(Some(1)));
        assert_eq!(blocks("size=0x10k,nr_inodes=5"), Ok(Some(4)));
        assert_eq!(blocks("nr_blocks=2k"), Ok(Some(2048)));
        assert_eq!(blocks("size=0"), Ok(Some(0)));
        assert_eq!(blocks(""), Ok(None));
        assert_eq!(blocks("size=100%"), Ok(Some(vm::frame::total_frames())));
    }

    #[test]
    fn what_is_no_option_or_no_value_is_refused() {
        for text in ["size=", "size", "size=1x", "size=1k1", "size=x", "mode=8", "uid=4294967295", "uid=-1"] {
            assert_eq!(options(text), Err(EINVAL), "{text}");
        }
        for text in ["nr_blocks=5%", "nr_inodes=18446744073709551615", "huge=always", "inode32", "sise=1k"] {
            assert_eq!(options(text), Err(EINVAL), "{text}");
        }
    }
}
