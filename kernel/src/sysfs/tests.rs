//! The names and texts of sysfs on a machine of known size.

use super::folder::{Bus, Class, Folder, relative};
use super::texts::{OfCpu, Set, Text};
use super::tree::Leads;
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
                assert_eq!(inner.parent(), Some(folder));
                assert_eq!(inner.name().bytes(), name);
                left.push(inner);
            }
            true
        });
    }
    assert!(seen.len() > 20);
    assert_eq!(Folder::Cpu(1023).name().bytes(), b"cpu1023");
}

#[test]
fn links_lead_up_no_farther_than_they_must() {
    let link = |from, to| {
        let mut out = Vec::new();
        relative(from, to, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    assert_eq!(link(Folder::Cpu(0), Folder::Node(0)), "../../node/node0");
    assert_eq!(link(Folder::Node(1), Folder::Cpu(12)), "../../cpu/cpu12");
    assert_eq!(link(Folder::Cpu(0), Folder::Bus(Bus::Cpu)), "../../../../bus/cpu");
    assert_eq!(link(Folder::Class(Class::Mem), Folder::Char(0)), "../../devices/virtual/mem/null");
    assert_eq!(link(Folder::DevChar, Folder::Char(0)), "../../devices/virtual/mem/null");
    assert_eq!(link(Folder::Topology(3), Folder::Cpu(3)), "../../cpu3");
    assert_eq!(link(Folder::Char(0), Folder::Class(Class::Mem)), "../../../../class/mem");
}
