//! Which room uses which, and whether it may.

use crate::Finding;
use crate::modules::Tree;
use crate::rules::{Crate, FILE, Rules};
use std::collections::BTreeSet;

/// One use of a file by another.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Arrow {
    /// Both from the crate's folder.
    pub from: String,
    pub to: String,
    /// The first line that names it, and as what.
    pub line: usize,
    pub path: String,
}

/// Every use of one file by another in a crate, once for each pair.
pub fn of(tree: &Tree) -> Vec<Arrow> {
    let mut seen = BTreeSet::new();
    let mut arrows = Vec::new();
    for module in tree.modules.values() {
        let imports = module.imports.iter().map(|i| (&i.target, i.line));
        let mentions = module.mentions.iter().map(|m| (&m.segments, m.line));
        let paths = imports.chain(mentions).filter_map(|(segments, line)| {
            Some((tree.resolve(module, segments)?, line, segments.join("::")))
        });
        let macros = module.called_macros.iter().filter_map(|(name, line)| {
            let own = module.imports.iter().any(|i| i.name == *name) || module.macros.contains(name);
            let definer = tree.definer_of_macro(name).filter(|_| !own)?;
            Some((definer, *line, format!("{name}!")))
        });
        let mut found: Vec<_> = paths.chain(macros).collect();
        found.sort_by_key(|(_, line, _)| *line);
        for (target, line, path) in found {
            if target.file != module.file && seen.insert((module.file.clone(), target.file.clone())) {
                let (from, to) = (tree.local(module).to_owned(), tree.local(target).to_owned());
                arrows.push(Arrow { from, to, line, path });
            }
        }
    }
    arrows.sort();
    arrows
}

/// The arrows that no rule allows, and the exceptions and rooms that nothing needs.
pub fn check(trees: &[Tree], rules: &Rules) -> Vec<Finding> {
    trees.iter().zip(&rules.crates).flat_map(|(tree, krate)| check_crate(tree, krate)).collect()
}

fn check_crate(tree: &Tree, krate: &Crate) -> Vec<Finding> {
    let mut findings = Vec::new();
    let file_of = |local: &str| format!("{}/{local}", tree.folder);
    for module in tree.modules.values() {
        if krate.room_of(tree.local(module)).is_none() {
            findings.push(Finding::new(&module.file, 1, format!("no room of {FILE} has this file")));
        }
    }
    let mut used = BTreeSet::new();
    let mut needed = BTreeSet::new();
    for arrow in of(tree) {
        let (Some(from), Some(to)) = (krate.room_of(&arrow.from), krate.room_of(&arrow.to)) else { continue };
        if krate.allows(from, to) {
            needed.insert((from, to));
            continue;
        }
        let name = &krate.rooms[to].name;
        if krate.exceptions.iter().any(|e| e.file == arrow.from && e.uses.contains(name)) {
            used.insert((arrow.from.clone(), name.clone()));
            continue;
        }
        let (from, to) = (&krate.rooms[from], &krate.rooms[to]);
        let may = if from.uses.is_empty() { "no other room".to_owned() } else { from.uses.join(", ") };
        let text = format!(
            "room {} of {} uses room {} (`{}`, in {}); it may use {may}",
            from.name, krate.name, to.name, arrow.path, arrow.to
        );
        findings.push(Finding::new(&file_of(&arrow.from), arrow.line, text));
    }
    let excepted =
        krate.exceptions.iter().flat_map(|e| e.uses.iter().map(|room| (e.file.clone(), room.clone())));
    for (file, room) in excepted.filter(|pair| !used.contains(pair)) {
        let text = format!("exception of {}: {file} does not use {room} (any more): remove it", krate.name);
        findings.push(Finding::new(FILE, 1, text));
    }
    for (n, room) in krate.rooms.iter().enumerate() {
        if !tree.modules.values().any(|m| krate.room_of(tree.local(m)) == Some(n)) {
            findings.push(Finding::new(FILE, 1, format!("room {} of {} has no file", room.name, krate.name)));
        }
        for name in room.uses.iter().filter(|name| *name != "*") {
            let target = krate.rooms.iter().position(|r| r.name == *name);
            if target.is_none_or(|target| !needed.contains(&(n, target))) {
                let text =
                    format!("room {} of {} does not use {name} (any more): remove it", room.name, krate.name);
                findings.push(Finding::new(FILE, 1, text));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Files, modules, rules};

    const ROOMS: &str = r#"
        [[crate]]
        name = "k"
        path = "k"
        [[crate.room]]
        name = "top"
        files = ["main.rs", "top/"]
        uses = ["fs"]
        [[crate.room]]
        name = "fs"
        files = ["fs/"]
        uses = ["low"]
        [[crate.room]]
        name = "low"
        files = ["low.rs"]
    "#;

    fn check_with(more: &str, low: &str) -> Vec<Finding> {
        let rules = rules::parse(&format!("{ROOMS}{more}")).unwrap();
        let files: Files = [
            ("k/main.rs", "mod top; mod fs; mod low; fn f() { fs::open() }"),
            ("k/top/mod.rs", ""),
            ("k/fs/mod.rs", "pub use self::file::open; mod file;"),
            ("k/fs/file.rs", "use crate::low;"),
            ("k/low.rs", low),
        ]
        .map(|(name, text)| (name.to_owned(), text.to_owned()))
        .into();
        check(&modules::trees(&files, &rules).unwrap(), &rules)
    }

    #[test]
    fn what_the_rules_allow_is_right() {
        assert_eq!(check_with("", ""), []);
    }

    #[test]
    fn a_wrong_arrow_is_found_with_its_line_and_rule() {
        let found = check_with("", "\nfn f() {\n    m!(crate::fs::open());\n}");
        assert_eq!(found.len(), 1);
        assert_eq!((&*found[0].file, found[0].line), ("k/low.rs", 3));
        assert!(found[0].text.contains("room low of k uses room fs"), "{}", found[0].text);
        assert!(found[0].text.contains("it may use no other room"), "{}", found[0].text);
    }

    #[test]
    fn an_exception_lets_one_file_through_and_goes_when_it_is_not_needed() {
        let exception = "[[crate.exception]]\nfile = \"low.rs\"\nuses = [\"fs\"]\nwhy = \"a hook\"\n";
        assert_eq!(check_with(exception, "use crate::fs::open;"), []);
        let found = check_with(exception, "");
        assert!(found[0].text.contains("remove it"), "{found:?}");
    }

    #[test]
    fn a_use_that_is_allowed_and_not_made_is_found() {
        let found = check_with("[[crate.room]]\nname = \"least\"\nfiles = [\"least.rs\"]\n", "");
        assert!(found[0].text.contains("room least of k has no file"), "{found:?}");
    }
}
