//! Options of a mount, by the names that Linux's v9fs has for them. One that is not carried out is refused, and so is a value.
#![forbid(unsafe_code)]

use alloc::vec::Vec;
use core::fmt::Write;

use sync::TryVec;
use sync::heap::Text;

use super::client::MESSAGE_LEAST;
use crate::errno::{EINVAL, ENOMEM, Result};
use crate::fs::vfs::parameters::unsigned;

/// Nanoseconds for which an answer is believed where nothing else was asked. A shell script that looks a file up, stats it and opens it asks once; who changes a
/// file on the host and looks in the guest sees it before he has typed the next command.
const LIFETIME: u64 = 1_000_000_000;

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Bytes of the longest message; `None`: as many as the device takes.
    pub message: Option<u32>,
    /// Which of the server's trees.
    pub tree: Vec<u8>,
    /// `cache=loose`: nobody changes the files elsewhere, so all that was said is believed for ever.
    pub is_loose: bool,
    /// `cache=mmap` and `cache=loose`: what is written goes into pages, and to the server later.
    pub writes_back: bool,
}

impl Options {
    /// # Errors
    /// EINVAL; ENOMEM.
    pub fn parse(text: &[u8]) -> Result<Options> {
        let mut options = Options { message: None, tree: Vec::new(), is_loose: false, writes_back: false };
        for option in text.split(|&b| b == b',').filter(|o| !o.is_empty()) {
            let (key, value) =
                match option.iter().position(|&b| b == b'=').and_then(|at| option.split_at_checked(at)) {
                    Some((key, value)) => (key, value.get(1..).unwrap_or(&[])),
                    None => (option, &[][..]),
                };
            match (key, value) {
                // One channel, one protocol, one way to ask: as whom does not depend on who asks.
                (b"trans", b"virtio") | (b"version", b"9p2000.L") | (b"access", b"any") => {}
                // The last one counts.
                (b"cache", b"none") => (options.is_loose, options.writes_back) = (false, false),
                (b"cache", b"mmap") => (options.is_loose, options.writes_back) = (false, true),
                (b"cache", b"loose") => (options.is_loose, options.writes_back) = (true, true),
                (b"aname", tree) => options.tree = Vec::try_from_slice(tree)?,
                (b"msize", number) => {
                    let size = unsigned(number, 10).filter(|&size| size >= MESSAGE_LEAST);
                    options.message = Some(size.ok_or(EINVAL)?);
                }
                _ => return Err(EINVAL),
            }
        }
        Ok(options)
    }

    pub fn writes_back(&self) -> bool {
        self.writes_back
    }

    /// By what name the cache is asked for.
    fn cache(&self) -> &'static [u8] {
        match (self.is_loose, self.writes_back) {
            (true, _) => b"cache=loose",
            (false, true) => b"cache=mmap",
            (false, false) => b"cache=none",
        }
    }

    /// For how many nanoseconds what the server said is believed.
    pub fn lifetime(&self) -> u64 {
        if self.is_loose { u64::MAX } else { LIFETIME }
    }

    /// Is all that `text` asks for so already? It is by the names that are shown, too. `message`: bytes of the longest message.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn are(&self, text: &[u8], message: u32) -> Result<bool> {
        let mut shown = Vec::new();
        self.show(message, &mut shown)?;
        let is_so = |option: &[u8]| {
            let is_shown = shown.split(|&b| b == b',').any(|known| known == option);
            is_shown || option == b"version=9p2000.L" || option == self.cache()
        };
        Ok(text.split(|&b| b == b',').all(is_so))
    }

    /// As Linux shows them. `message`: bytes of the longest message.
    pub fn show(&self, message: u32, out: &mut Vec<u8>) -> Result {
        if !self.tree.is_empty() {
            out.try_extend_from_slice(b",aname=")?;
            out.try_extend_from_slice(&self.tree)?;
        }
        if self.is_loose {
            out.try_extend_from_slice(b",cache=0xf")?;
        } else if self.writes_back {
            out.try_extend_from_slice(b",cache=0x5")?;
        }
        write!(Text(out), ",access=any,msize={message},trans=virtio").map_err(|_| ENOMEM)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_carried_out_is_taken_and_shown() {
        let text = b"trans=virtio,version=9p2000.L,,access=any,msize=65536,cache=loose,aname=/a";
        let options = Options::parse(text).unwrap();
        assert_eq!((options.message, &options.tree[..], options.is_loose), (Some(65536), &b"/a"[..], true));
        assert_eq!(options.lifetime(), u64::MAX);
        let mut shown = Vec::new();
        options.show(65536, &mut shown).unwrap();
        assert_eq!(shown, b",aname=/a,cache=0xf,access=any,msize=65536,trans=virtio");
        assert_eq!(Options::parse(b"").unwrap().lifetime(), LIFETIME);
        for (text, loose, back) in [
            ("cache=none", false, false),
            ("cache=mmap", false, true),
            ("cache=mmap,cache=loose", true, true),
        ] {
            let options = Options::parse(text.as_bytes()).unwrap();
            assert_eq!((options.is_loose, options.writes_back()), (loose, back), "{text}");
        }
        shown.clear();
        Options::parse(b"cache=mmap").unwrap().show(8192, &mut shown).unwrap();
        assert_eq!(shown, b",cache=0x5,access=any,msize=8192,trans=virtio");
    }

    #[test]
    fn what_is_so_already_may_be_asked_for_again() {
        let options = Options::parse(b"cache=loose,aname=/a").unwrap();
        for (text, so) in [
            ("", true),
            ("trans=virtio,version=9p2000.L,access=any,msize=8192,cache=0xf", true),
            ("cache=loose,aname=/a", true),
            ("aname=/b", false),
            ("msize=4096", false),
            ("size=1", false),
        ] {
            assert_eq!(options.are(text.as_bytes(), 8192), Ok(so), "{text}");
        }
        let none = Options::parse(b"").unwrap();
        assert_eq!((none.are(b"cache=loose", 8192), none.are(b"cache=none", 8192)), (Ok(false), Ok(true)));
        let mmap = Options::parse(b"cache=mmap").unwrap();
        assert_eq!((mmap.are(b"cache=mmap", 8192), mmap.are(b"cache=none", 8192)), (Ok(true), Ok(false)));
    }

    #[test]
    fn what_is_not_carried_out_is_refused() {
        for text in [
            "trans=tcp",
            "trans=fd",
            "trans",
            "version=9p2000",
            "version=9p2000.u",
            "access=user",
            "access=client",
            "access=0",
            "cache=readahead",
            "cache=fscache",
            "cache=0xf",
            "msize=4095",
            "msize=",
            "msize=x",
            "msize=4294967296",
            "posixacl",
            "noxattr",
            "debug=1",
            "dfltuid=0",
            "uname=root",
            "nodevmap",
            "size=1",
            "directio",
            "ignoreqv",
            "afid=1",
            "cachetag=x",
            "locktimeout=1",
        ] {
            assert_eq!(Options::parse(text.as_bytes()), Err(EINVAL), "{text}");
        }
    }
}
