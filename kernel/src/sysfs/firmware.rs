//! What the firmware says of the machine (SMBIOS 3.7): its tables as they are, and the machine's identity, as Linux's sysfs-firmware-dmi-tables and dmi class
//! have them.
//!
//! The tables come from the firmware. A structure that reaches beyond them ends the walk.
#![forbid(unsafe_code)]

use alloc::vec::Vec;
use core::fmt::Write;

use sync::TryVec;
use sync::heap::Text as Out;

use crate::arch;
use crate::errno::{ENOMEM, Result};

macro_rules! put {
    ($out:expr, $($arg:tt)*) => { write!(Out($out), $($arg)*).map_err(|_| ENOMEM)? };
}

/// Kinds of structures (7.1 to 7.4, 7.45).
const FIRMWARE: u8 = 0;
const SYSTEM: u8 = 1;
const BOARD: u8 = 2;
const CHASSIS: u8 = 3;
const END: u8 = 127;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OfFirmware {
    /// The tables, and the entry point that leads to them.
    Structures,
    Entry,
    /// What a program is told of the machine, and with a name before it.
    Modalias,
    Event,
    Identity(Identity),
}

/// What tells machines apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Identity {
    /// A text of a structure, by the byte that has its number.
    Word(u8, usize),
    /// Two numbers: release of the firmware, of the embedded controller's. None has both 255.
    Release(usize),
    ChassisKind,
    Uuid,
}

/// Files, what a modalias calls each, and whether root alone may read it.
pub const IDENTITY: &[(&str, &str, Identity)] = &[
    ("bios_vendor", "bvn", Identity::Word(FIRMWARE, 4)),
    ("bios_version", "bvr", Identity::Word(FIRMWARE, 5)),
    ("bios_date", "bd", Identity::Word(FIRMWARE, 8)),
    ("bios_release", "br", Identity::Release(0x14)),
    ("ec_firmware_release", "efr", Identity::Release(0x16)),
    ("sys_vendor", "svn", Identity::Word(SYSTEM, 4)),
    ("product_name", "pn", Identity::Word(SYSTEM, 5)),
    ("product_version", "pvr", Identity::Word(SYSTEM, 6)),
    ("board_vendor", "rvn", Identity::Word(BOARD, 4)),
    ("board_name", "rn", Identity::Word(BOARD, 5)),
    ("board_version", "rvr", Identity::Word(BOARD, 6)),
    ("chassis_vendor", "cvn", Identity::Word(CHASSIS, 4)),
    ("chassis_type", "ct", Identity::ChassisKind),
    ("chassis_version", "cvr", Identity::Word(CHASSIS, 6)),
    ("product_sku", "sku", Identity::Word(SYSTEM, 0x19)),
    // No modalias has these.
    ("board_asset_tag", "", Identity::Word(BOARD, 8)),
    ("board_serial", "", Identity::Word(BOARD, SERIAL)),
    ("chassis_asset_tag", "", Identity::Word(CHASSIS, 8)),
    ("chassis_serial", "", Identity::Word(CHASSIS, SERIAL)),
    ("product_family", "", Identity::Word(SYSTEM, 0x1a)),
    ("product_serial", "", Identity::Word(SYSTEM, SERIAL)),
    ("product_uuid", "", Identity::Uuid),
];

/// The byte of a serial number, in all structures that have one here.
const SERIAL: usize = 7;

/// A structure: its bytes, and the texts behind it.
#[derive(Clone, Copy)]
struct Structure<'a> {
    bytes: &'a [u8],
    texts: &'a [u8],
}

impl<'a> Structure<'a> {
    /// The first in `tables`, and what follows it.
    fn first(tables: &'a [u8]) -> Option<(Structure<'a>, &'a [u8])> {
        const HEADER: u8 = 4;
        let length = usize::from(*tables.get(1).filter(|length| **length >= HEADER)?);
        let (bytes, behind) = tables.split_at_checked(length)?;
        // Two zeros end it, whether or not there are texts.
        let end = behind.windows(2).position(|pair| pair == [0, 0])?.saturating_add(2);
        let (texts, rest) = behind.split_at_checked(end)?;
        Some((Structure { bytes, texts }, rest))
    }

    fn kind(&self) -> u8 {
        self.bytes.first().copied().unwrap_or(END)
    }

    /// The text whose number is in a byte. Number 0, and one of spaces alone, is an empty text. None: it does not have the byte.
    fn text(&self, at: usize) -> Option<&'a [u8]> {
        let number = usize::from(*self.bytes.get(at)?);
        let texts = self.texts.split(|byte| *byte == 0);
        let text = number.checked_sub(1).and_then(|n| texts.take_while(|text| !text.is_empty()).nth(n));
        Some(text.filter(|text| text.iter().any(|byte| *byte != b' ')).unwrap_or(b""))
    }
}

/// The tables as they lie in memory.
#[derive(Clone, Copy)]
struct Tables<'a> {
    all: &'a [u8],
    /// How many structures there are. None: the last says so.
    count: Option<u16>,
}

fn tables() -> Option<Tables<'static>> {
    arch::firmware_tables().map(|found| Tables { all: found.structures, count: found.count })
}

impl<'a> Tables<'a> {
    fn structures(self) -> impl Iterator<Item = Structure<'a>> {
        let (mut rest, mut left) = (self.all, self.count.map_or(usize::MAX, usize::from));
        core::iter::from_fn(move || {
            left = left.checked_sub(1)?;
            let (structure, behind) = Structure::first(rest)?;
            rest = behind;
            if self.count.is_none() && structure.kind() == END {
                left = 0;
            }
            Some(structure)
        })
    }

    /// All that structures take.
    fn shown(self) -> &'a [u8] {
        let length = self.structures().map(|one| one.bytes.len().saturating_add(one.texts.len())).sum();
        self.all.get(..length).unwrap_or(self.all)
    }

    /// The first structure of a kind counts.
    fn first_of(self, kind: u8) -> Option<Structure<'a>> {
        self.structures().find(|structure| structure.kind() == kind)
    }

    /// Does it say so much?
    fn has(self, what: Identity) -> bool {
        match what {
            Identity::Word(kind, at) => self.first_of(kind).is_some_and(|one| one.text(at).is_some()),
            Identity::Release(at) => self.release(at).is_some(),
            Identity::ChassisKind => self.chassis().is_some(),
            Identity::Uuid => self.uuid().is_some(),
        }
    }

    fn write(self, what: Identity, out: &mut Vec<u8>) -> Result {
        match what {
            Identity::Word(kind, at) => {
                let text = self.first_of(kind).and_then(|one| one.text(at));
                Ok(out.try_extend_from_slice(text.unwrap_or_default())?)
            }
            Identity::Release(at) => {
                if let Some([major, minor]) = self.release(at) {
                    put!(out, "{major}.{minor}");
                }
                Ok(())
            }
            Identity::ChassisKind => {
                if let Some(kind) = self.chassis() {
                    put!(out, "{kind}");
                }
                Ok(())
            }
            Identity::Uuid => self.uuid().map_or(Ok(()), |uuid| write_uuid(uuid, out)),
        }
    }

    fn release(self, at: usize) -> Option<[u8; 2]> {
        let firmware = self.first_of(FIRMWARE)?;
        let release = firmware.bytes.get(at..)?.first_chunk().copied()?;
        (release != [u8::MAX; 2]).then_some(release)
    }

    /// Without the bit that says it has a lock.
    fn chassis(self) -> Option<u8> {
        Some(*self.first_of(CHASSIS)?.bytes.get(5)? & 0x7f)
    }

    /// None where it was not set.
    fn uuid(self) -> Option<[u8; 16]> {
        let uuid: [u8; 16] = self.first_of(SYSTEM)?.bytes.get(8..)?.first_chunk().copied()?;
        (uuid != [0; 16] && uuid != [u8::MAX; 16]).then_some(uuid)
    }

    /// `dmi:` and what there is, without spaces, colons and what is not ASCII.
    fn modalias(self, out: &mut Vec<u8>) -> Result {
        out.try_extend_from_slice(b"dmi")?;
        for (_, short, what) in
            IDENTITY.iter().filter(|(_, short, what)| !short.is_empty() && self.has(*what))
        {
            put!(out, ":{short}");
            let mut word = Vec::new();
            self.write(*what, &mut word)?;
            for byte in word.into_iter().filter(|byte| byte.is_ascii_graphic() && *byte != b':') {
                out.try_push(byte)?;
            }
        }
        Ok(out.try_push(b':')?)
    }
}

/// The first three of its parts have the lowest byte first (7.2.1); before version 2.6 they did not, which no virtual machine has.
fn write_uuid(uuid: [u8; 16], out: &mut Vec<u8>) -> Result {
    const ORDER: [usize; 16] = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
    for (n, at) in ORDER.into_iter().enumerate() {
        let dash = if matches!(n, 4 | 6 | 8 | 10) { "-" } else { "" };
        put!(out, "{dash}{:02x}", uuid.get(at).copied().unwrap_or_default());
    }
    Ok(())
}

/// Does the firmware describe the machine?
pub fn is_there() -> bool {
    tables().is_some()
}

/// What there is of the machine's identity.
pub fn identity() -> impl Iterator<Item = (&'static str, Identity)> {
    let all = tables().map(|tables| {
        IDENTITY.iter().filter(move |(_, _, what)| tables.has(*what)).map(|(name, _, what)| (*name, *what))
    });
    all.into_iter().flatten()
}

impl OfFirmware {
    /// May root alone read it?
    pub fn is_secret(self) -> bool {
        match self {
            OfFirmware::Structures | OfFirmware::Entry => true,
            OfFirmware::Identity(what) => matches!(what, Identity::Word(_, SERIAL) | Identity::Uuid),
            OfFirmware::Modalias | OfFirmware::Event => false,
        }
    }

    /// Of one that is not text, its length.
    pub fn bytes(self) -> Option<u64> {
        match self {
            OfFirmware::Structures => Some(tables().map_or(0, |tables| tables.shown().len() as u64)),
            OfFirmware::Entry => Some(arch::firmware_tables().map_or(0, |found| found.entry.len() as u64)),
            _ => None,
        }
    }
}

pub fn text(of: OfFirmware, out: &mut Vec<u8>) -> Result {
    let Some(tables) = tables() else { return Ok(()) };
    match of {
        OfFirmware::Structures => Ok(out.try_extend_from_slice(tables.shown())?),
        OfFirmware::Entry => {
            let entry = arch::firmware_tables().map_or(&[][..], |found| found.entry);
            Ok(out.try_extend_from_slice(entry)?)
        }
        OfFirmware::Modalias => tables.modalias(out),
        OfFirmware::Event => {
            put!(out, "MODALIAS=");
            tables.modalias(out)
        }
        OfFirmware::Identity(what) => tables.write(what, out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::string::String;

    /// A structure: kind, bytes behind its header, texts.
    fn structure(kind: u8, bytes: &[u8], texts: &[&str]) -> Vec<u8> {
        let mut all = std::vec![kind, bytes.len() as u8 + 4, 0, 0];
        all.extend_from_slice(bytes);
        texts.iter().for_each(|text| all.extend_from_slice(std::format!("{text}\0").as_bytes()));
        all.extend_from_slice(if texts.is_empty() { b"\0\0" } else { b"\0" });
        all
    }

    fn machine() -> Vec<u8> {
        let mut uuid = [0u8; 16];
        (0..16).for_each(|n| uuid[n] = n as u8);
        let mut firmware = [0u8; 20];
        (firmware[0], firmware[4], firmware[16], firmware[17], firmware[18], firmware[19]) =
            (1, 2, 3, 4, 255, 255);
        let system = [&[1, 2, 0, 3][..], &uuid, &[6, 0, 0]].concat();
        [
            structure(FIRMWARE, &firmware, &["Maker: one", "04/01/2014"]),
            structure(SYSTEM, &system, &["Q", "A B", "  "]),
            structure(CHASSIS, &[0, 0x81, 9], &[]),
            structure(END, &[], &[]),
            structure(BOARD, &[1, 1, 1], &["behind the end"]),
        ]
        .concat()
    }

    fn said(tables: Tables<'_>, name: &str) -> Option<String> {
        let (_, _, what) = *IDENTITY.iter().find(|(own, ..)| *own == name).unwrap();
        let mut out = Vec::new();
        tables.write(what, &mut out).unwrap();
        tables.has(what).then(|| String::from_utf8(out).unwrap())
    }

    #[test]
    fn the_machine_is_told_by_its_structures() {
        let all = machine();
        let tables = Tables { all: &all, count: None };
        for (name, expected) in [
            ("bios_vendor", Some("Maker: one")),
            ("bios_version", Some("")),
            ("bios_date", Some("04/01/2014")),
            ("bios_release", Some("3.4")),
            ("ec_firmware_release", None),
            ("sys_vendor", Some("Q")),
            ("product_name", Some("A B")),
            ("product_serial", Some("")),
            ("product_uuid", Some("03020100-0504-0706-0809-0a0b0c0d0e0f")),
            ("product_family", Some("")),
            ("board_name", None),
            ("chassis_type", Some("1")),
            ("chassis_version", Some("")),
            ("chassis_serial", None),
        ] {
            assert_eq!(said(tables, name).as_deref(), expected, "{name}");
        }
        let mut out = Vec::new();
        tables.modalias(&mut out).unwrap();
        let expected = "dmi:bvnMakerone:bvr:bd04/01/2014:br3.4:svnQ:pnAB:pvr:cvn:ct1:cvr:sku:";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn tables_end_where_they_say() {
        let all = machine();
        let wide = Tables { all: &all, count: None };
        assert_eq!((wide.structures().count(), wide.shown().last()), (4, Some(&0)));
        assert!(wide.shown().len() < all.len());
        // With a count, what stands behind the end counts too.
        let narrow = Tables { all: &all, count: Some(5) };
        assert_eq!(said(narrow, "board_name").as_deref(), Some("behind the end"));
        assert_eq!(narrow.shown().len(), all.len());
        assert_eq!(Tables { all: &all, count: Some(1) }.structures().count(), 1);
    }

    proptest! {
        #[test]
        fn no_table_is_read_beyond_its_end(
            mut all in proptest::collection::vec(prop_oneof![Just(0u8), 0u8..8, any::<u8>()], 0..200),
            count in proptest::option::of(0u16..20),
            cut in 0usize..400,
        ) {
            let mut whole = machine();
            whole.truncate(cut);
            whole.append(&mut all);
            let tables = Tables { all: &whole, count };
            let mut out = Vec::new();
            tables.modalias(&mut out).unwrap();
            for (_, _, what) in IDENTITY {
                tables.write(*what, &mut out).unwrap();
            }
            prop_assert!(tables.shown().len() <= whole.len());
        }
    }
}
