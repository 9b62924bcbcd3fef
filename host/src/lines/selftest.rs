//! `darter lines --self-test`: before the detector is trusted, it must find what was planted and stay silent on the rest.
//!
//! A program in the guest uses lines in known ways from every CPU: a counter that all write, an atomic one, words of several CPUs
//! in one line, a lock and what it guards, a line that all read, and a line of each CPU's own, written by a locked instruction
//! too (which emulation on one host thread ascribes to the wrong CPU). It also makes all CPUs write one page table of
//! the kernel, which must be found by its name.
#![forbid(unsafe_code)]

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use darter_measure::{Class, Error, LineWindow, parse_lines};

use super::windows::{machine, read};
use crate::cli::Lines;
use crate::paths::Tree;
use crate::root::Addition;
use crate::run::capture;
use crate::symbols;

const LIMIT: Duration = Duration::from_secs(600);
const PROGRAM: &str = "/bin/line-selftest";

/// What all CPUs write of the kernel's memory when they fault in the same 2 MiB, by how Darter's own metadata names it: the page
/// table, and the lock of the object that belongs to it.
const KERNEL: [&str; 2] = ["leaf page table", "page-table-node.state"];

struct Plant<'a> {
    name: &'a str,
    vaddr: u64,
}

pub fn run(options: &Lines) -> Result<u8> {
    let paths = Tree::find();
    let folder = tempfile::tempdir_in(paths.cache("run")?)?;
    let out = folder.path().join("lines.json");
    let addition = Addition { source: paths.line_selftest(), destination: PROGRAM.into() };
    let names = symbols::names(&options.machine.kernel, &paths)?;
    let mut wrong = 0;
    for &cpus in &options.cpus {
        let machine = machine(&options.machine, cpus, &paths, &out, &names.plugin_options(cpus))?;
        let mut append = options.machine.append.clone();
        append.push(symbols::COUNTED_APPEND.into());
        let additions = std::slice::from_ref(&addition);
        let printed =
            capture(&machine, &options.machine.kernel, &append, additions, &[PROGRAM.into()], LIMIT)?;
        let windows = read(&out)?;
        let expected = printed.lines().find_map(|line| line.strip_prefix("windows ")?.trim().parse().ok());
        let right = expected == Some(windows.len());
        wrong += u32::from(!right);
        let verdict = if right { "right" } else { "WRONG" };
        out!("{cpus:2} CPUs  windows      {verdict}  {} seen of {}", windows.len(), expected.unwrap_or(0));
        // The first window warms up.
        let window = windows.get(1).context("the plugin saw fewer than two windows")?;
        for plant in plants(&printed) {
            let verdict = judge(&plant, cpus, window);
            wrong += u32::from(verdict.is_err());
            let (Ok(text) | Err(text)) = &verdict;
            out!(
                "{cpus:2} CPUs  {:12} {}  {text}",
                plant.name,
                if verdict.is_ok() { "right" } else { "WRONG" }
            );
        }
        if options.machine.kernel.is_darter() {
            let named = super::names::conflicts(&names, window);
            for name in KERNEL {
                let found = named.iter().find(|(found, _)| found.starts_with(name));
                wrong += u32::from(found.is_none());
                let verdict = if found.is_some() { "right" } else { "WRONG" };
                let text = found.map_or("no line of that name", |(_, sharing)| &sharing.how);
                out!("{cpus:2} CPUs  {name:12} {verdict}  {text}");
            }
        }
        if plants(&printed).count() < 6 + cpus as usize {
            out!("{cpus:2} CPUs  the program did not name its lines: WRONG");
            wrong += 1;
        }
    }
    wrong += u32::from(!refuses_one_thread(options, &paths, &out)?);
    Ok(u8::from(wrong > 0))
}

/// With one host thread for all CPUs, QEMU names the wrong CPU: the plugin must say so instead of counting.
fn refuses_one_thread(options: &Lines, paths: &Tree, out: &Path) -> Result<bool> {
    let mut machine = machine(&options.machine, 2, paths, out, "")?;
    machine.deterministic = true;
    let addition = Addition { source: paths.line_selftest(), destination: PROGRAM.into() };
    let append = [symbols::COUNTED_APPEND.into()];
    capture(&machine, &options.machine.kernel, &append, &[addition], &[PROGRAM.into()], LIMIT)?;
    let why = parse_lines(&std::fs::read_to_string(out)?).err();
    let right = matches!(why, Some(Error::Refused(_)));
    out!(" 2 CPUs  one thread   {}", if right { "right  refused" } else { "WRONG  counted" });
    Ok(right)
}

/// The lines `plant NAME ADDRESS` of the program.
fn plants(printed: &str) -> impl Iterator<Item = Plant<'_>> {
    printed.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        (words.next() == Some("plant")).then_some(())?;
        Some(Plant { name: words.next()?, vaddr: words.next()?.parse().ok()? })
    })
}

fn judge(plant: &Plant<'_>, cpus: u32, window: &LineWindow) -> Result<String, String> {
    let line = window.lines.iter().find(|line| line.vaddr == plant.vaddr);
    let (class, moved) = line.map_or((None, 0), |line| (line.class, line.transfers));
    let expected = match plant.name {
        "shared" | "under-lock" => Some(Class::Shared),
        "atomic" => Some(Class::Atomic),
        "false" => Some(Class::False),
        "lock" => Some(Class::Lock),
        _ => None,
    };
    let most_moves = match plant.name {
        "own" => 0,
        // Once to each reader.
        "read-mostly" => u64::from(cpus),
        _ => u64::MAX,
    };
    let text = format!("class {}, moved {moved} times", class.map_or("none", Class::name));
    if class == expected && moved <= most_moves { Ok(text) } else { Err(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_class_and_a_moving_line_of_ones_own_are_wrong() {
        let window = &parse_lines(
            r#"{"format":"darter-lines/1","mode":"lines","tasks":2,"windows":[{"number":0,"user_accesses":1,"kernel_accesses":1,
            "user_reads":0,"user_writes":0,"kernel_reads":0,"kernel_writes":0,"remote":0,"matrix":[],"lines":[
            {"line":64,"vaddr":64,"class":"lock","transfers":3,"remote":0,"cpus":[],"pairs":[]},
            {"line":128,"vaddr":128,"class":null,"transfers":1,"remote":0,"cpus":[],"pairs":[]}]}]}"#,
        )
        .unwrap()[0];
        let judged = |name, vaddr| judge(&Plant { name, vaddr }, 2, window).is_ok();
        assert!(judged("lock", 64) && !judged("shared", 64) && !judged("own", 64));
        assert!(judged("read-mostly", 128) && !judged("own", 128));
        assert!(judged("own", 192) && !judged("shared", 192));
    }

    #[test]
    fn plants_are_read_from_among_other_output() {
        let found: Vec<_> =
            plants("hello\nplant lock 4096\nplant odd x\n").map(|p| (p.name, p.vaddr)).collect();
        assert_eq!(found, [("lock", 4096)]);
    }
}
