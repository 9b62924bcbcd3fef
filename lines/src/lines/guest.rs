//! What the guest's own memory says of the lines that are reported: read once, when a window is complete.
//!
//! A physical address says nothing of what lies there; a kernel's metadata of the page does. So for each reported line the
//! metadata of its page is written beside the counts, as bytes: what they mean is known to the reader of the file. Wholly
//! outside the path of an access.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Bytes of one page's metadata: `Frame` of Darter and `struct page` of Linux, both.
pub const FRAME: u64 = 64;
const PAGE_BITS: u32 = 12;
/// A page may belong to a block of so many (log2) pages, whose first page says what it is.
const BLOCK_BITS: u32 = 10;

/// What to read: options `frames=` and `read=`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The virtual address of the array of pages' metadata, by page number.
    pub frames: Option<u64>,
    /// Virtual addresses and bytes to read in any case.
    pub ranges: Vec<(u64, usize)>,
}

impl Wanted {
    /// `ADDRESS:BYTES`, as the option `read=` has it.
    pub fn range(text: &str) -> Option<(u64, usize)> {
        let (address, bytes) = text.split_once(':')?;
        Some((address.parse().ok()?, bytes.parse().ok().filter(|bytes| (1..=1 << 16).contains(bytes))?))
    }

    /// The field `"memory"` of a window that reports these lines (physical address and virtual address of each). `read` fills a
    /// buffer from a virtual address, or says that nothing is there.
    pub fn harvest(
        &self,
        lines: impl Iterator<Item = (u64, u64)>,
        read: &mut dyn FnMut(u64, usize) -> Option<Vec<u8>>,
    ) -> String {
        let mut wanted: BTreeMap<u64, usize> = self.ranges.iter().copied().collect();
        if let Some(frames) = self.frames {
            for (physical, virt) in lines {
                // A line of the array itself is the metadata of some page.
                let own = virt.checked_sub(frames).map(|offset| offset / FRAME);
                let own = own.filter(|page| *page < 1 << (40 - PAGE_BITS));
                for page in [Some(physical >> PAGE_BITS), own].into_iter().flatten() {
                    for bits in 0..=BLOCK_BITS {
                        wanted.insert(frames + (page >> bits << bits) * FRAME, FRAME as usize);
                    }
                }
            }
        }
        let mut text = String::from("\"memory\":[");
        for (address, bytes) in wanted {
            let Some(content) = read(address, bytes) else { continue };
            let comma = if text.ends_with('[') { "" } else { "," };
            let _ = write!(text, "{comma}\n [{address},\"");
            for byte in content {
                let _ = write!(text, "{byte:02x}");
            }
            text.push_str("\"]");
        }
        text.push(']');
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAMES: u64 = 0xffff_c000_0000_0000;

    #[test]
    fn the_metadata_of_a_lines_page_is_read_and_that_of_the_blocks_it_may_belong_to() {
        let wanted = Wanted { frames: Some(FRAMES), ranges: vec![(0x1000, 2)] };
        let mut asked = Vec::new();
        // Page 6: in blocks that begin at 4 and 0. Then a line that is the metadata of page 8.
        let lines = [(0x6040, 0xffff_8000_0000_6040), (0x10_0000, FRAMES + 8 * FRAME)];
        let text = wanted.harvest(lines.into_iter(), &mut |address, bytes| {
            asked.push(address);
            (address != FRAMES).then(|| vec![0xa5; bytes.min(2)])
        });
        let frame = |page| FRAMES + page * FRAME;
        assert_eq!(asked, [0x1000, frame(0), frame(4), frame(6), frame(8), frame(256)]);
        assert!(text.starts_with("\"memory\":[\n [4096,\"a5a5\"],\n ["), "{text}");
        assert_eq!(text.matches("a5a5").count(), 5, "what is not there is left out: {text}");
    }

    #[test]
    fn nothing_is_read_unless_asked_for() {
        let text = Wanted::default().harvest([(64, 64)].into_iter(), &mut |_, _| panic!("a read"));
        assert_eq!(text, "\"memory\":[]");
    }

    #[test]
    fn a_range_has_an_address_and_a_sane_length() {
        assert_eq!(Wanted::range("4096:8"), Some((4096, 8)));
        for bad in ["4096", "x:1", "1:0", "1:65537"] {
            assert_eq!(Wanted::range(bad), None, "{bad}");
        }
    }
}
