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

    #[expect(clippy::arithmetic_side_effects, reason = "thirteen fields of eight digits")]
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

    #[expect(clippy::arithmetic_side_effects, reason = "places in an archive in memory")]
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::check;
    use proptest::prelude::*;
    use std::format;
    use std::vec::Vec;

    #[derive(Clone, Debug)]
    struct Made {
        name: Vec<u8>,
        /// The header's numbers in their order, sizes apart.
        numbers: [u32; 10],
        data: Vec<u8>,
    }

    fn encode(member: &Made) -> Vec<u8> {
        let [inode, mode, uid, gid, links, modified, major, minor, rmajor, rminor] = member.numbers;
        let (size, name_size) = (member.data.len() as u32, member.name.len() as u32 + 1);
        let mut bytes = b"070701".to_vec();
        for n in [inode, mode, uid, gid, links, modified, size, major, minor, rmajor, rminor, name_size, 0] {
            bytes.extend(format!("{n:08x}").bytes());
        }
        bytes.extend(&member.name);
        bytes.push(0);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes.extend(&member.data);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn archive(members: &[Made]) -> Vec<u8> {
        let trailer = Made { name: TRAILER.to_vec(), numbers: [0; 10], data: Vec::new() };
        members.iter().chain([&trailer]).flat_map(encode).collect()
    }

    fn members() -> impl Strategy<Value = Vec<Made>> {
        let name = prop::collection::vec(1u8.., 1..40).prop_filter("the end", |name| name != TRAILER);
        let member = (name, any::<[u32; 10]>(), prop::collection::vec(any::<u8>(), 0..200))
            .prop_map(|(name, numbers, data)| Made { name, numbers, data });
        prop::collection::vec(member, 0..6)
    }

    fn is_same(read: &Member<'_>, made: &Made) -> bool {
        let [inode, mode, uid, gid, links, modified, major, minor, rmajor, rminor] = made.numbers;
        read.name == made.name
            && read.data == made.data
            && (read.mode, read.uid, read.gid) == (mode, uid, gid)
            && (read.links, read.modified) == (links, modified)
            && (read.inode, read.rdev) == ((inode, major, minor), (rmajor, rminor))
    }

    #[test]
    fn what_was_put_into_an_archive_is_read_from_it() {
        check(200, &members(), |made| {
            let bytes = archive(&made);
            let mut reader = Reader::new(&bytes);
            let read: Vec<_> = reader.by_ref().collect();
            assert_eq!(reader.error, None);
            assert_eq!(read.len(), made.len());
            assert!(read.iter().zip(&made).all(|(read, made)| is_same(read, made)));
        });
    }

    #[test]
    fn archives_follow_each_other_with_zeros_between() {
        let member = Made { name: b"a".to_vec(), numbers: [1; 10], data: b"x".to_vec() };
        let one = archive(&[member]);
        let both = [&one[..], &[0; 512], &one].concat();
        let archives: Vec<_> = Reader::new(&both).map(|member| member.archive).collect();
        assert_eq!(archives, [0, 1]);
    }

    #[test]
    fn an_archive_that_is_cut_short_says_so_and_gives_what_comes_before() {
        let member = |name: &[u8]| Made { name: name.to_vec(), numbers: [0; 10], data: b"12345".to_vec() };
        let bytes = [encode(&member(b"whole")), encode(&member(b"cut"))].concat();
        let mut reader = Reader::new(&bytes[..bytes.len() - 4]);
        assert_eq!(reader.next().map(|member| member.name), Some(&b"whole"[..]));
        assert!(reader.next().is_none());
        assert!(reader.error.is_some());
    }

    #[test]
    fn no_bytes_do_harm() {
        let noise = prop::collection::vec(any::<u8>(), 0..600);
        check(300, &noise, |bytes| Reader::new(&bytes).for_each(drop));
        let spoilt = (members(), prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8));
        check(300, &spoilt, |(made, changes)| {
            let mut bytes = archive(&made);
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            // Each member takes a header at least, so a reader that goes on for ever would show here.
            assert!(Reader::new(&bytes).count() <= bytes.len() / HEADER);
        });
    }

    #[test]
    fn numbers_that_are_too_large_end_the_reading() {
        for field in [6, 11] {
            let mut bytes = archive(&[Made { name: b"a".to_vec(), numbers: [0; 10], data: Vec::new() }]);
            bytes[6 + field * 8..14 + field * 8].copy_from_slice(b"ffffffff");
            let mut reader = Reader::new(&bytes);
            assert!(reader.next().is_none());
            assert!(reader.error.is_some());
        }
    }
}
