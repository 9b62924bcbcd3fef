//! /proc/PID/numa_maps: on which NUMA nodes the pages of each mapping lie (numa_maps(5)), and from where new ones come.
//! Pages are not aged, so none is told as inactive.
#![forbid(unsafe_code)]

use alloc::vec::Vec;

use sync::TryVec;
use vm::frame::MAX_NUMA_NODES;
use vm::policy::{Mode, Naming, Policy};
use vm::{MappingInfo, PageKind, VirtAddr};

use super::Seen;
use crate::errno::Result;
use crate::fs::file::mapped;
use crate::procfs::text::Text;

/// What is counted of a mapping, in pages.
#[derive(Default)]
struct Counts {
    pages: u64,
    anonymous: u64,
    dirty: u64,
    most_mappers: u32,
    nodes: [u64; MAX_NUMA_NODES],
}

#[expect(clippy::arithmetic_side_effects, reason = "counts of pages in memory")]
pub fn numa_maps(seen: &Seen<'_>, m: &MappingInfo<'_>, out: &mut Vec<u8>) -> Result {
    let text = &mut Text(out);
    text.hex(m.start as u64, 8, " ")?;
    let own = seen.space.policy_at(VirtAddr(m.start)).filter(|policy| !policy.is_none());
    put_policy(own.unwrap_or(seen.policy), text)?;
    let file = m.object.and_then(mapped::find);
    if let Some(file) = &file {
        let [name, gone] = file.name();
        name_of_file(name, gone, text)?;
    } else if m.object.is_some() && m.shared {
        name_of_file(mapped::SHARED, b"", text)?;
    } else if seen.is_heap(m) {
        text.put(" heap")?;
    } else if seen.is_stack(m) {
        text.put(" stack")?;
    }
    let mut counts = Counts::default();
    seen.space.for_each_page(m.start..m.end, &mut |page| {
        let (anonymous, dirty) = match page.kind {
            PageKind::Zero => return,
            PageKind::Private => (1, 1),
            PageKind::Object { paged } => (0, u64::from(!paged)),
        };
        counts.pages += 1;
        counts.anonymous += anonymous;
        counts.dirty += dirty;
        counts.most_mappers = counts.most_mappers.max(page.mappers);
        if let Some(node) = counts.nodes.get_mut(page.frame.numa_node()) {
            *node += 1;
        }
    });
    if counts.pages == 0 {
        return text.put("\n");
    }
    for (name, value) in [(" anon=", counts.anonymous), (" dirty=", counts.dirty)] {
        if value != 0 {
            text.put(name)?;
            text.number(value, "")?;
        }
    }
    if counts.pages != counts.anonymous && counts.pages != counts.dirty {
        text.put(" mapped=")?;
        text.number(counts.pages, "")?;
    }
    if counts.most_mappers > 1 {
        text.put(" mapmax=")?;
        text.number(counts.most_mappers.into(), "")?;
    }
    for (node, pages) in (0..).zip(counts.nodes) {
        if pages != 0 {
            text.put(" N")?;
            text.number(node, "=")?;
            text.number(pages, "")?;
        }
    }
    text.put(" kernelpagesize_kB=4\n")
}

fn put_policy(policy: Policy, text: &mut Text<'_>) -> Result {
    text.put(match policy.mode() {
        None => "default",
        Some(Mode::Preferred) => "prefer",
        Some(Mode::Bind) => "bind",
        Some(Mode::Interleave) => "interleave",
        Some(Mode::Local) => "local",
        Some(Mode::PreferredMany) => "prefer (many)",
        Some(Mode::WeightedInterleave) => "weighted interleave",
    })?;
    text.put(match policy.naming() {
        Naming::Plain => "",
        Naming::Static => "=static",
        Naming::Relative => "=relative",
    })?;
    let nodes = policy.nodes();
    if nodes == 0 || policy.mode() == Some(Mode::Local) {
        return Ok(());
    }
    text.put(":")?;
    text.ranges(MAX_NUMA_NODES, |node| nodes >> node & 1 != 0)
}

/// Blanks and the like of a name are octal.
fn name_of_file(name: &[u8], gone: &[u8], text: &mut Text<'_>) -> Result {
    text.put(" file=")?;
    for &byte in name.iter().chain(gone) {
        match byte {
            b'\n' | b'\t' | b'=' | b' ' => {
                text.put("\\")?;
                text.octal(byte.into(), 3, "")?;
            }
            _ => text.0.try_push(byte)?,
        }
    }
    Ok(())
}
