//! Headers that anybody may have written: what is a program, and which errno the others get.

use super::*;
use crate::errno::{EINVAL, EIO};
use crate::fs::file::OpenFlags;
use crate::fs::file::buffer::Input;
use crate::testing::{check, in_process};
use alloc::sync::Arc;
use proptest::prelude::*;

const HEADER_SIZE: usize = 64;
const PART_SIZE: usize = 56;
const PT_NULL: u32 = 0;

/// A program header of the tests.
#[derive(Clone, Copy, Debug)]
struct Part {
    kind: u32,
    flags: u32,
    offset: u64,
    address: u64,
    file_size: u64,
    memory_size: u64,
    align: u64,
}

const LOAD: Part = Part {
    kind: abi::PT_LOAD,
    flags: abi::PF_R | abi::PF_X,
    offset: 0,
    address: 0x40_0000,
    file_size: 0x1000,
    memory_size: 0x1000,
    align: 0x1000,
};

/// Where the tests' programs begin.
pub(in crate::process::exec) const ENTRY: usize = 0x40_1000;

/// A program that can be loaded.
pub(in crate::process::exec) fn smallest() -> Vec<u8> {
    elf(&[LOAD])
}

fn elf(parts: &[Part]) -> Vec<u8> {
    let mut bytes = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    for half in [abi::ET_EXEC as u16, 62] {
        bytes.extend(half.to_le_bytes());
    }
    bytes.extend(1u32.to_le_bytes());
    for word in [ENTRY as u64, HEADER_SIZE as u64, 0] {
        bytes.extend(word.to_le_bytes());
    }
    bytes.extend(0u32.to_le_bytes());
    for half in [HEADER_SIZE as u16, PART_SIZE as u16, parts.len() as u16, 0, 0, 0] {
        bytes.extend(half.to_le_bytes());
    }
    for part in parts {
        bytes.extend(part.kind.to_le_bytes());
        bytes.extend(part.flags.to_le_bytes());
        let words = [part.offset, part.address, part.address, part.file_size, part.memory_size, part.align];
        words.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
    }
    bytes
}

fn file(bytes: &[u8]) -> Arc<File> {
    let file = crate::fs::anon::memfd::try_new(b"", 0o777, 0).unwrap();
    assert!(file.flags().contains(OpenFlags::READ_WRITE));
    assert_eq!(file.write(&mut Input::kernel(bytes)), Ok(bytes.len()));
    file
}

fn parse(bytes: &[u8]) -> Result<Image> {
    Image::parse(&file(bytes), &bytes[..bytes.len().min(HEAD)])
}

/// What an image that is whole promises to who maps it.
fn check_sound(image: &Image) {
    assert!(image.align.is_power_of_two() && image.align >= PAGE_SIZE);
    for load in &image.loads {
        assert!(load.file_size <= load.memory_size);
        assert!(load.address.checked_add(load.memory_size).is_some_and(|end| end <= USER_END));
        assert_eq!(load.address % PAGE_SIZE, (load.offset % PAGE_SIZE as u64) as usize);
    }
    assert!(image.loads.is_sorted_by_key(|load| load.address));
    let (start, end) = image.span();
    assert!(start <= end);
}

#[test]
fn a_program_is_what_its_headers_say() {
    in_process(|| {
        let data = Part {
            flags: abi::PF_R | abi::PF_W,
            offset: 0x1010,
            address: 0x40_2010,
            file_size: 0x20,
            memory_size: 0x3000,
            align: 0x20_0000,
            ..LOAD
        };
        let stack = Part { kind: abi::PT_GNU_STACK, flags: abi::PF_R | abi::PF_W | abi::PF_X, ..LOAD };
        let image = parse(&elf(&[LOAD, data, stack])).unwrap();
        check_sound(&image);
        assert!(!image.relocatable && !image.broken && image.stack_exec);
        assert_eq!((image.entry, image.header_count), (ENTRY, 3));
        assert_eq!(image.headers, 0x40_0000 + HEADER_SIZE);
        assert_eq!(image.align, 0x20_0000);
        assert_eq!(image.span(), (0x40_0000, 0x40_6000));
        let rights: Vec<_> = image.loads.iter().map(|load| (load.read, load.write, load.exec)).collect();
        assert_eq!(rights, [(true, false, true), (true, true, false)]);
        assert_eq!(image.interpreter, None);
    });
}

#[test]
fn the_interpreters_name_ends_with_nul() {
    in_process(|| {
        let with = |name: &[u8]| {
            let at = (HEADER_SIZE + 2 * PART_SIZE) as u64;
            let interpreter = Part { kind: abi::PT_INTERP, offset: at, file_size: name.len() as u64, ..LOAD };
            parse(&[&elf(&[interpreter, LOAD])[..], name].concat()).map(|image| image.interpreter)
        };
        assert_eq!(with(b"/lib/ld.so\0"), Ok(Some(b"/lib/ld.so".to_vec())));
        assert_eq!(with(b"/lib\0/ld.so\0"), Ok(Some(b"/lib".to_vec())));
        assert_eq!(with(b"/lib/ld.so"), Err(Errno::ENOEXEC));
        assert_eq!(with(b"\0"), Err(Errno::ENOEXEC));
        assert_eq!(with(&[b'x'; 4097]), Err(Errno::ENOEXEC));
    });
}

#[test]
fn an_interpreters_name_beyond_the_file_is_an_error_of_reading() {
    in_process(|| {
        for (offset, errno) in [(1 << 20, EIO), (u64::MAX, EINVAL), (i64::MAX as u64, EIO)] {
            let interpreter = Part { kind: abi::PT_INTERP, offset, file_size: 9, ..LOAD };
            assert_eq!(parse(&elf(&[interpreter, LOAD])).err(), Some(errno), "{offset:#x}");
        }
    });
}

#[test]
fn what_is_no_program_for_this_machine_is_refused() {
    in_process(|| {
        let good = elf(&[LOAD]);
        assert!(parse(&good).is_ok());
        // Of each field that matters: place and a value that is wrong.
        for (at, value, field) in [
            (0, b'x', "magic"),
            (16, 1, "kind: ET_REL"),
            (18, 3, "machine: i386"),
            (54, 32, "size of a header: 32 bits"),
            (56, 0, "number of headers: none"),
        ] {
            let mut bad = good.clone();
            bad[at] = value;
            assert_eq!(parse(&bad).err(), Some(Errno::ENOEXEC), "{field}");
        }
        assert_eq!(parse(&good[..40]).err(), Some(Errno::ENOEXEC), "half a header");
        assert_eq!(parse(&good[..good.len() - 1]).err(), Some(Errno::ENOEXEC), "half a part");
        let mut far = good.clone();
        far[32..40].copy_from_slice(&u64::MAX.to_le_bytes());
        assert_eq!(parse(&far).err(), Some(Errno::ENOEXEC), "headers beyond the file");
    });
}

#[test]
fn parts_that_cannot_be_mapped_are_found_before_they_are() {
    in_process(|| {
        let page = PAGE_SIZE as u64;
        for (part, why) in [
            (Part { file_size: 0x2000, ..LOAD }, "more in the file than in memory"),
            (Part { memory_size: u64::MAX, ..LOAD }, "the end overflows"),
            (Part { address: USER_END as u64 - page + 1, ..LOAD }, "beyond the user half"),
            (Part { offset: 8, ..LOAD }, "offset and address differ within the page"),
            (Part { offset: u64::MAX - page + 1, address: 0, ..LOAD }, "beyond any file"),
        ] {
            let image = parse(&elf(&[part])).unwrap();
            assert!(image.broken, "{why}");
            check_sound(&image);
        }
        let descending = [Part { address: 0x80_0000, ..LOAD }, LOAD];
        assert!(parse(&elf(&descending)).unwrap().broken);
        assert!(parse(&elf(&[Part { kind: PT_NULL, ..LOAD }])).unwrap().broken, "no part at all");
    });
}

#[test]
fn a_strange_alignment_is_a_page() {
    in_process(|| {
        for align in [0, 3, 8, u64::MAX, 1 << 63] {
            assert_eq!(parse(&elf(&[Part { align, ..LOAD }])).unwrap().align, PAGE_SIZE, "{align}");
        }
    });
}

fn parts() -> impl Strategy<Value = Vec<Part>> {
    let number = || {
        prop_oneof![
            Just(0u64),
            Just(0x1000),
            Just(0x40_0000),
            Just(u64::MAX),
            Just(USER_END as u64),
            Just(i64::MAX as u64),
            0u64..0x3000,
            any::<u64>(),
        ]
    };
    let kind = prop_oneof![
        4 => Just(abi::PT_LOAD), 1 => Just(abi::PT_INTERP), 1 => Just(abi::PT_GNU_STACK), 1 => any::<u32>(),
    ];
    let part = (kind, any::<u32>(), number(), number(), number(), number(), number()).prop_map(
        |(kind, flags, offset, address, file_size, memory_size, align)| Part {
            kind,
            flags,
            offset,
            address,
            file_size,
            memory_size,
            align,
        },
    );
    prop::collection::vec(part, 0..5)
}

#[test]
fn no_header_does_harm() {
    in_process(|| {
        let known = |result: Result<Image>| match result {
            Ok(image) => check_sound(&image),
            Err(errno) => assert!([Errno::ENOEXEC, EINVAL, EIO].contains(&errno), "{errno:?}"),
        };
        check(200, &parts(), |parts| known(parse(&elf(&parts))));
        check(100, &prop::collection::vec(any::<u8>(), 0..400), |bytes| known(parse(&bytes)));
        let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6);
        check(200, &changes, |changes| {
            let mut bytes = elf(&[LOAD, Part { kind: abi::PT_INTERP, file_size: 8, ..LOAD }]);
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            known(parse(&bytes));
        });
    });
}

#[test]
fn a_file_without_bytes_is_no_program() {
    in_process(|| assert_eq!(parse(&[]).err(), Some(Errno::ENOEXEC)));
}
