//! What `--graph` prints: the rooms of each crate from the top to the bottom, what each uses and how often, how many uses go
//! backwards, and what is large. An arrow is a use of one file by another, counted once for each pair.

use crate::arrows::{self, Arrow};
use crate::modules::Tree;
use crate::rules::{Crate, Rules};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Lines from which functions and files are listed.
const LONG_FUNCTION: usize = 100;
const LONG_FILE: usize = 500;

pub fn render(trees: &[Tree], rules: &Rules) -> String {
    let mut out = String::new();
    for (tree, krate) in trees.iter().zip(&rules.crates) {
        // Writing to a string does not fail.
        let _ = of_crate(&mut out, tree, krate);
    }
    out
}

fn of_crate(out: &mut String, tree: &Tree, krate: &Crate) -> std::fmt::Result {
    let arrows = arrows::of(tree);
    let rooms = |arrow: &Arrow| Some((krate.room_of(&arrow.from)?, krate.room_of(&arrow.to)?));
    let between: Vec<(usize, usize, &Arrow)> = arrows
        .iter()
        .filter_map(|a| rooms(a).map(|(from, to)| (from, to, a)))
        .filter(|(f, t, _)| f != t)
        .collect();
    let backwards = between.iter().filter(|(from, to, _)| to < from).count();
    writeln!(
        out,
        "{}: {} arrows between files, {} between rooms, {backwards} of them backwards",
        krate.name,
        arrows.len(),
        between.len()
    )?;
    for (n, room) in krate.rooms.iter().enumerate() {
        let files: std::collections::BTreeSet<&str> = tree
            .modules
            .values()
            .map(|m| tree.local(m))
            .filter(|file| krate.room_of(file) == Some(n))
            .collect();
        let mut counts = BTreeMap::new();
        for (_, to, _) in between.iter().filter(|(from, ..)| *from == n) {
            *counts.entry(*to).or_insert(0) += 1;
        }
        let uses: Vec<String> = counts
            .iter()
            .map(|(to, count)| {
                format!("{}{} {count}", krate.rooms[*to].name, if *to < n { " (backwards)" } else { "" })
            })
            .collect();
        writeln!(out, "  {:<16} {:>3} files  {}", room.name, files.len(), uses.join(", "))?;
    }
    for (from, to, arrow) in between.iter().filter(|(from, to, _)| to < from) {
        let (from, to) = (&krate.rooms[*from].name, &krate.rooms[*to].name);
        writeln!(out, "  backwards: {}:{} ({from}) uses {} ({to})", arrow.from, arrow.line, arrow.to)?;
    }
    let mut lines: BTreeMap<&str, usize> = BTreeMap::new();
    for module in tree.modules.values() {
        for (name, first, last) in &module.functions {
            if last - first >= LONG_FUNCTION {
                writeln!(out, "  long: {}:{first}: {name}, {} lines", module.file, last - first + 1)?;
            }
            let longest = lines.entry(&module.file).or_default();
            *longest = (*longest).max(*last);
        }
    }
    for (file, last) in lines.iter().filter(|(_, last)| **last >= LONG_FILE) {
        writeln!(out, "  long: {file}, {last} lines")?;
    }
    Ok(())
}
