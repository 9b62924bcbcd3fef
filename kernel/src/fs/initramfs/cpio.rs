//! The "newc" form of cpio archives, as an initramfs comes in: several of them one after the other, with zeros between.
//! A malformed header ends the reading; nothing in an archive can do more harm than that.
#![forbid(unsafe_code)]

const HEADER: usize = 110;
const TRAILER: &[u8] = b"TRAILER!!!";

/// One member of an archive.
pub struct Member<'a> {
    pub name: &'a [u8],
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub links: u32,
    /// Seconds since 1970.
    pub modified: u32,
    pub rdev: (u32, u32),
    /// With `archive`, tells which members are one file.
    pub inode: (u32, u32, u32),
    /// Number of the archive it is from.
    pub archive: u32,
    pub data: &'a [u8],
}

/// Reads members until the end, or until something that is no member.
pub struct Reader<'a> {
    data: &'a [u8],
    at: usize,
    archive: u32,
    /// What was found instead of a member.
    pub error: Option<&'static str>,
}

impl<'a> Reader<'a> {
    pub fn new(data: &'a [u8]) -> Self {
        Reader { data, at: 0, archive: 0, error: None }
    }

    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(len)?;
        let part = self.data.get(self.at..end)?;
        // Headers, names and data all end on a multiple of four.
        self.at = end.checked_next_multiple_of(4)?;
        Some(part)
    }

    fn member(&mut self) -> Option<Member<'a>> {
        // The header is 110 bytes, and the name goes on right after it.
        let start = self.at;
        let header = self.data.get(start..start.checked_add(HEADER)?)?;
        if !matches!(header.get(..6)?, b"070701" | b"070702") {
            return None;
        }
        let field = |i: usize| -> Option<u32> {
            let text = header.get(6 + i * 8..14 + i * 8)?;
            text.iter().try_fold(0, |n: u32, &c| Some(n << 4 | char::from(c).to_digit(16)?))
        };
        let (size, name_size) = (field(6)? as usize, field(11)? as usize);
        let name = self.take(HEADER.checked_add(name_size)?)?.get(HEADER..)?;
        let name = name.strip_suffix(b"\0")?;
        let data = self.take(size)?;
        Some(Member {
            name,
            mode: field(1)?,
            uid: field(2)?,
            gid: field(3)?,
            links: field(4)?,
            modified: field(5)?,
            rdev: (field(9)?, field(10)?),
            inode: (field(0)?, field(7)?, field(8)?),
            archive: self.archive,
            data,
        })
    }
}

impl<'a> Iterator for Reader<'a> {
    type Item = Member<'a>;

    fn next(&mut self) -> Option<Member<'a>> {
        loop {
            let rest = self.data.get(self.at..)?;
            let zeros = rest.iter().position(|&b| b != 0)?;
            self.at += zeros;
            match self.member() {
                Some(member) if member.name == TRAILER => self.archive += 1,
                Some(member) => return Some(member),
                None => {
                    self.error = Some("not a cpio archive (newc), or cut short");
                    self.at = self.data.len();
                    return None;
                }
            }
        }
    }
}
