//! The names and texts of sysfs on a machine of known size.

use super::texts::{OfCpu, Set, Text};
use super::tree::{Folder, Leads, Numbered};
use crate::errno::ENOENT;
use crate::testing::{get_file, in_process, mount_at};
use std::collections::HashSet;
use std::string::String;
use std::vec::Vec;

fn said(text: Text) -> String {
    let mut out = Vec::new();
    text.write(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn files_are_found_by_their_path() {
    in_process(|| {
        mount_at("sysfs", "/sys");
        let last = sync::machine::cpus() - 1;
        let online = if last == 0 { "0\n".into() } else { std::format!("0-{last}\n") };
        assert_eq!(get_file("/sys/devices/system/cpu/online").unwrap(), online.as_bytes());
        assert_eq!(get_file("/sys/devices/system/cpu/cpu0/topology/core_cpus_list").unwrap(), b"0\n");
        assert_eq!(get_file("/sys/devices/system/cpu/cpu0/node0/distance").unwrap().split_at(2).0, b"10");
        assert_eq!(get_file("/sys/devices/system/cpu/cpu0/online").unwrap_err(), ENOENT);
        assert_eq!(get_file("/sys/devices/system/cpu/cpu4096/online").unwrap_err(), ENOENT);
    });
}

#[test]
fn sets_are_lists_and_masks_of_words() {
    let cpus = sync::machine::cpus();
    assert_eq!(said(Text::List(Set::With(OfCpu::Core, 0))), "0");
    let mask = said(Text::Mask(Set::Cpus));
    assert_eq!(mask.split(',').count(), cpus.div_ceil(32) as usize);
    let ones: u32 = mask.split(',').map(|word| u32::from_str_radix(word, 16).unwrap().count_ones()).sum();
    assert_eq!(ones, cpus);
}

#[test]
fn numbers_of_inodes_are_told_apart() {
    let mut seen = HashSet::new();
    let mut left = std::vec![Folder::Root];
    while let Some(folder) = left.pop() {
        folder.each(&mut |n, name, leads| {
            assert!(!name.is_empty());
            assert!(seen.insert(folder.number(n)), "{folder:?} {n}");
            if let Leads::Folder(inner) = leads {
                left.push(inner);
            }
            true
        });
    }
    assert!(seen.len() > 20);
    assert_eq!(Numbered::new(b"cpu", 1023).bytes(), b"cpu1023");
    assert_eq!(Numbered::new(b"", 0).bytes(), b"0");
}
