//! Options of a mount. Linux's overlay keeps changes in a directory that is named (`upperdir`); this one keeps them in memory, which is to be said, so that nobody takes
//! the one for the other.
#![forbid(unsafe_code)]

use alloc::vec::Vec;

use sync::TryVec;

use crate::errno::{EINVAL, Result};

/// What was asked for.
#[derive(Debug, PartialEq, Eq)]
pub struct Options {
    /// Path of the directory below.
    pub below: Vec<u8>,
}

impl Options {
    /// # Errors
    /// EINVAL: an option that is not carried out, or one is lacking; ENOMEM.
    pub fn parse(text: &[u8]) -> Result<Options> {
        let (mut below, mut in_memory) = (Vec::new(), false);
        for option in text.split(|&b| b == b',').filter(|o| !o.is_empty()) {
            match option.strip_prefix(b"lowerdir=") {
                Some(path) => below = Vec::try_from_slice(path)?,
                None if option == b"upper=memory" => in_memory = true,
                None => return Err(EINVAL),
            }
        }
        // Several directories, one above the other, are not there.
        if !in_memory || below.is_empty() || below.contains(&b':') {
            Err(EINVAL)
        } else {
            Ok(Options { below })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_carried_out_is_taken() {
        let options = Options::parse(b"lowerdir=/lower,upper=memory").unwrap();
        assert_eq!(options.below, b"/lower");
        for text in [
            "",
            "upper=memory",
            "lowerdir=/a",
            "lowerdir=,upper=memory",
            "lowerdir=/a:/b,upper=memory",
            "lowerdir=/a,upperdir=/b,workdir=/c",
            "lowerdir=/a,upper=memory,index=on",
            "lowerdir=/a,upper=disk",
        ] {
            assert_eq!(Options::parse(text.as_bytes()), Err(EINVAL), "{text}");
        }
    }
}
