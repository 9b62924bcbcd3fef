//! #! lines, and programs on their way into memory.

use super::*;
use crate::errno::{E2BIG, EACCES, EFAULT, ENOENT, ENOEXEC};
use crate::testing::{BAD_ADDRESS, Memory, check, fork, in_process, put_file, syscall};
use proptest::prelude::*;
use std::vec::Vec as StdVec;

fn script(line: &[u8]) -> Result<(&[u8], Option<&[u8]>)> {
    parse_script(line)
}

#[test]
fn a_script_names_its_interpreter_and_perhaps_one_argument() {
    let sh = &b"/bin/sh"[..];
    for (line, expected) in [
        (&b"#!/bin/sh\n"[..], (sh, None)),
        (b"#! \t/bin/sh \t\n", (sh, None)),
        (b"#!/bin/sh -e\nrest", (sh, Some(&b"-e"[..]))),
        (b"#!/bin/sh  -e  -x \n", (sh, Some(b"-e  -x"))),
        (b"#!/bin/sh", (sh, None)),
        (b"#!/bin/sh\0junk\n", (sh, None)),
        (b"#!/bin/sh -e\0junk\n", (sh, Some(b"-e"))),
    ] {
        assert_eq!(script(line), Ok(expected), "{}", line.escape_ascii());
    }
}

#[test]
fn a_script_without_an_interpreter_is_no_program() {
    for line in [&b"#!"[..], b"#!\n", b"#!  \t\n/bin/sh", b"#!\0/bin/sh\n"] {
        assert_eq!(script(line), Err(ENOEXEC), "{}", line.escape_ascii());
    }
}

#[test]
fn an_interpreters_name_must_be_whole() {
    let mut head = [b'x'; HEAD];
    head[..3].copy_from_slice(b"#!/");
    assert_eq!(script(&head), Err(ENOEXEC));
    // A shorter file ends where it ends, and a name that a blank ends is whole.
    assert!(script(&head[..HEAD - 1]).is_ok());
    head[HEAD - 1] = b' ';
    assert!(script(&head).is_ok());
}

#[test]
fn no_line_does_harm() {
    let byte = prop_oneof![Just(b' '), Just(b'\t'), Just(b'\n'), Just(0), Just(b'/'), any::<u8>()];
    check(300, &prop::collection::vec(byte, 0..40), |bytes| {
        if let Ok((name, argument)) = script(&[b"#!", &bytes[..]].concat()) {
            let clean = |part: &[u8]| !part.is_empty() && !part.contains(&b'\n') && !part.contains(&0);
            assert!(clean(name) && !name.contains(&b' '));
            assert!(argument.is_none_or(clean));
        }
    });
}

/// Pointers to these strings, and a null: what execve takes.
fn pointers(strings: &[&[u8]]) -> Memory {
    let mut words = StdVec::new();
    for string in strings {
        words.extend(Memory::of(&[string, &b"\0"[..]].concat()).address.to_ne_bytes());
    }
    words.extend([0; 8]);
    Memory::of(&words)
}

#[test]
fn arguments_are_copied_as_they_are_and_within_their_limits() {
    in_process(|| {
        let copy = |array: usize, mut budget: usize| Strings::copy_from_user(array, &mut budget);
        let page = [b'x'; 5000];
        let array = pointers(&[b"sh", b"", &page]).address;
        let list = copy(array, 1 << 20).unwrap();
        assert_eq!(list.iter().collect::<StdVec<_>>(), [&b"sh"[..], b"", &page]);
        assert_eq!(copy(0, 100).unwrap().count, 0, "no array is an empty one, as on Linux");
        let cost = list.cost();
        assert!(copy(array, cost).is_ok());
        assert_eq!(copy(array, cost - 1).err(), Some(E2BIG));
        assert_eq!(copy(BAD_ADDRESS, 100).err(), Some(EFAULT));
        let bad = Memory::of(&BAD_ADDRESS.to_ne_bytes());
        assert_eq!(copy(bad.address, 100).err(), Some(EFAULT));
        // A string that ends with its page is no fault.
        let memory = Memory::new(1);
        crate::arch::user::copy_to_user(memory.end(3), b"ab\0").unwrap();
        let last = Memory::of(&[memory.end(3).to_ne_bytes(), [0; 8]].concat());
        assert_eq!(copy(last.address, 100).unwrap().bytes, b"ab\0");
    });
}

#[test]
fn what_cannot_be_executed_gets_linuxs_errno() {
    in_process(|| {
        put_file("/empty", b"", 0o755);
        put_file("/text", b"text", 0o755);
        put_file("/plain", b"#!/empty\n", 0o644);
        put_file("/orphan", b"#!/nowhere\n", 0o755);
        put_file("/loop", b"#!/loop\n", 0o755);
        let (none, argv) = (pointers(&[]), pointers(&[b"x"]));
        let exec = |path: &str| {
            let path = Memory::of_str(path);
            syscall(abi::__NR_execve, &[path.address, argv.address, none.address]).err()
        };
        assert_eq!(exec("/empty"), Some(ENOEXEC));
        assert_eq!(exec("/text"), Some(ENOEXEC));
        assert_eq!(exec("/plain"), Some(EACCES));
        assert_eq!(exec("/orphan"), Some(ENOENT));
        assert_eq!(exec("/loop"), Some(Errno::ELOOP));
        assert_eq!(exec("/nowhere"), Some(ENOENT));
        assert_eq!(exec("/"), Some(EACCES));
    });
}

#[test]
fn a_program_is_loaded_with_its_arguments_on_its_stack() {
    in_process(|| {
        let child = fork(|| {
            put_file("/bin", &image::tests::smallest(), 0o755);
            put_file("/script", b"#!/bin -x\n", 0o755);
            let (path, argv, envp) =
                (Memory::of_str("/script"), pointers(&[b"zero", b"one"]), pointers(&[b"A=b"]));
            let regs = crate::arch::program::syscall(
                abi::__NR_execve as usize,
                [path.address, argv.address, envp.address, 0, 0, 0],
            );
            assert_eq!(regs.pc(), image::tests::ENTRY);
            let word = |n: usize| {
                let mut word = [0; 8];
                crate::arch::user::copy_from_user(&mut word, regs.sp() + n * 8).unwrap();
                usize::from_ne_bytes(word)
            };
            let text = |address: usize| {
                let mut buffer = [0; 64];
                let len = crate::arch::user::strncpy_from_user(&mut buffer, address).unwrap();
                StdVec::from(&buffer[..len])
            };
            assert_eq!(word(0), 4);
            let found: StdVec<_> = (1..=4).map(|n| text(word(n))).collect();
            assert_eq!(found, [&b"/bin"[..], b"-x", b"/script", b"one"]);
            assert_eq!((word(5), text(word(6)), word(7)), (0, b"A=b".to_vec(), 0));
            assert_eq!(crate::process::current().comm_padded()[..7], *b"script\0");
        });
        assert_eq!(child.wait(), 0);
    });
}
