//! Files that may contain unsafe code, and names that only some rooms may use.

use crate::Finding;
use crate::modules::Tree;
use crate::rules::{Crate, FILE, Rules};
use crate::source::Module;

/// Files with neither `#![forbid(unsafe_code)]` nor a place in the rules, places that nothing needs, and names out of their rooms.
pub fn check(trees: &[Tree], rules: &Rules) -> Vec<Finding> {
    let both = trees.iter().zip(&rules.crates);
    both.flat_map(|(tree, krate)| unsafe_files(tree, krate).into_iter().chain(names(tree, krate))).collect()
}

fn unsafe_files(tree: &Tree, krate: &Crate) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut needed = vec![false; krate.unsafe_files.len()];
    for module in tree.modules.values() {
        let local = tree.local(module);
        let place = krate.unsafe_files.iter().position(|u| fits(&u.path, local));
        // A refusal holds for all modules below.
        let refused = (0..=module.path.len())
            .any(|n| tree.modules.get(&module.path[..n]).is_some_and(|m| m.forbids_unsafe));
        match place {
            Some(n) => needed[n] |= module.first_unsafe.is_some(),
            None if refused || module.denies_unsafe => {}
            // A lint of this file would hold for the files below, of which some may.
            None if module.first_unsafe.is_none() && is_above_unsafe(tree, krate, module) => {}
            None => {
                let line = module.first_unsafe.unwrap_or(1);
                let text =
                    "neither `#![forbid(unsafe_code)]` nor listed as a file that may contain unsafe code";
                findings.push(Finding::new(&module.file, line, format!("{text} in {FILE}")));
            }
        }
    }
    for (unsafe_file, _) in krate.unsafe_files.iter().zip(needed).filter(|(_, needed)| !needed) {
        let text = format!(
            "{}: {} contains no unsafe code (any more): remove it, and forbid it there",
            krate.name, unsafe_file.path
        );
        findings.push(Finding::new(FILE, 1, text));
    }
    findings
}

/// Is there a file below `module` that may contain unsafe code?
fn is_above_unsafe(tree: &Tree, krate: &Crate, module: &Module) -> bool {
    let below = tree
        .modules
        .values()
        .filter(|m| m.path.len() > module.path.len() && m.path.starts_with(&module.path));
    below.into_iter().any(|m| krate.unsafe_files.iter().any(|u| fits(&u.path, tree.local(m))))
}

fn fits(path: &str, file: &str) -> bool {
    file == path || path.ends_with('/') && file.starts_with(path)
}

fn names(tree: &Tree, krate: &Crate) -> Vec<Finding> {
    let mut findings = Vec::new();
    for only in &krate.only {
        for module in tree.modules.values() {
            let room = krate.room_of(tree.local(module)).map(|n| &krate.rooms[n].name);
            if room.is_some_and(|room| only.rooms.contains(room)) {
                continue;
            }
            for name in &only.names {
                if let Some(line) = module.identifiers.get(name) {
                    let text = format!("`{name}` is for {} alone: {}", only.rooms.join(", "), only.why);
                    findings.push(Finding::new(&module.file, *line, text));
                }
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Files, modules, rules};

    fn check_with(listed: &str, files: &[(&str, &str)]) -> Vec<String> {
        let rules = format!(
            "[[crate]]\nname = \"k\"\npath = \"k\"\n{listed}\n\
             [[crate.room]]\nname = \"all\"\nfiles = [\"main.rs\", \"a.rs\", \"a/\"]\n\
             [[crate.only]]\nrooms = [\"arch\"]\nnames = [\"cr2\"]\nwhy = \"a register\"\n"
        );
        let rules = rules::parse(&rules).unwrap();
        let files: Files = files.iter().map(|(n, t)| (format!("k/{n}"), (*t).to_owned())).collect();
        check(&modules::trees(&files, &rules).unwrap(), &rules).into_iter().map(|f| f.text).collect()
    }

    #[test]
    fn a_file_forbids_unsafe_code_or_is_listed() {
        let files = [("main.rs", "mod a;"), ("a.rs", "fn f() { unsafe { g() } }")];
        let listed = "unsafe = [{ path = \"main.rs\", why = \"x\" }, { path = \"a.rs\", why = \"x\" }]";
        let found = check_with(listed, &files);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("main.rs contains no unsafe code"));
        assert_eq!(check_with("", &files).len(), 2);
    }

    #[test]
    fn a_refusal_holds_below() {
        let files = [("main.rs", "#![forbid(unsafe_code)] mod a;"), ("a/mod.rs", "mod b;"), ("a/b.rs", "")];
        assert!(check_with("", &files).is_empty());
    }

    #[test]
    fn a_name_out_of_its_room_is_found() {
        let found = check_with("", &[("main.rs", "#![forbid(unsafe_code)] fn f() { x.cr2 }")]);
        assert_eq!(found, ["`cr2` is for arch alone: a register"]);
    }
}
