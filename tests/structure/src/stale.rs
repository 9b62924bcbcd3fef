//! Paths in documents and comments that lead nowhere: to files and folders, and, between backticks, to things of Rust.
//!
//! A word is taken for the path of a file if it ends as one (`x.rs`), ends in a slash, or begins with a folder at the root of the
//! repository. It has to be the end of some file's or folder's path; a bare name in a crate's sources that of a file of that crate.

use crate::modules::Tree;
use crate::rules::{FILE, Rules};
use crate::text::{self, Line};
use crate::{Files, Finding};
use std::collections::BTreeSet;

const ENDINGS: [&str; 8] = ["rs", "c", "h", "S", "ld", "sh", "toml", "md"];

pub fn check(files: &Files, rules: &Rules, trees: &[Tree]) -> Vec<Finding> {
    let places = Places::of(files);
    let names = Names { trees };
    let mut findings = Vec::new();
    let mut needed = BTreeSet::new();
    let foreign: BTreeSet<&str> =
        rules.foreign.iter().flat_map(|f| f.words.iter().map(String::as_str)).collect();
    for (file, text) in files.iter().filter(|(file, _)| !file.starts_with("tests/structure/")) {
        // `known` is the word as the rules have it.
        let mut stale = |line: &Line, word: &str, known: &str, what: &str| {
            if let Some(known) = foreign.get(known) {
                needed.insert(*known);
            } else {
                findings.push(Finding::new(file, line.number, format!("`{word}` {what}")));
            }
        };
        for line in text::lines(file, text) {
            for word in words(&line.text) {
                if !places.has(word, file) {
                    stale(&line, word, word, "is no file or folder of the repository");
                }
            }
            // Comments of other crates speak of their own items, which are not read.
            let of_crates = file.ends_with(".md") || trees.iter().any(|tree| file.starts_with(&tree.folder));
            for path in rust_paths(&line.text).filter(|_| of_crates) {
                let first = path.split("::").next().unwrap_or_default();
                if !names.has(path) {
                    stale(&line, path, first, "is no module or item of the kernel, vm or sync");
                }
            }
        }
    }
    for word in foreign.difference(&needed) {
        findings.push(Finding::new(
            FILE,
            1,
            format!("foreign word `{word}` stands nowhere (any more): remove it"),
        ));
    }
    findings
}

/// The files and folders of the repository.
struct Places {
    /// Paths with a slash before and, for folders, one behind.
    all: BTreeSet<String>,
    roots: BTreeSet<String>,
}

impl Places {
    fn of(files: &Files) -> Self {
        let (mut all, mut roots) = (BTreeSet::new(), BTreeSet::new());
        for file in files.keys() {
            all.insert(format!("/{file}"));
            for (at, _) in file.match_indices('/') {
                all.insert(format!("/{}/", &file[..at]));
            }
            if let Some((root, _)) = file.split_once('/') {
                roots.insert(root.to_owned());
            }
        }
        Self { all, roots }
    }

    /// Is `word`, in `file`, no path of a file at all, or one that exists?
    fn has(&self, word: &str, file: &str) -> bool {
        let word = word.strip_prefix("./").unwrap_or(word);
        let (root, rest) = word.split_once('/').unwrap_or((word, ""));
        let ends = word.rsplit('/').next().and_then(|last| last.rsplit_once('.'));
        let is_file = ends.is_some_and(|(stem, ending)| !stem.is_empty() && ENDINGS.contains(&ending));
        let is_folder = word.ends_with('/') && !root.is_empty();
        let rooted = !rest.is_empty() && self.roots.contains(root);
        if !(is_file || is_folder || rooted) || root == "target" {
            return true;
        }
        let near = |place: &str| {
            let bare = !word.contains('/');
            let crate_of = |path: &str| path.split_once('/').map(|(first, _)| first.to_owned());
            let (own, other) = (crate_of(file), crate_of(&place[1..]));
            !bare || own.is_none() || other.is_none() || own == other
        };
        self.all.iter().any(|place| {
            let same = |place: &str| ends_with(place, &format!("/{word}"));
            (same(place) || place.strip_suffix('/').is_some_and(same)) && near(place)
        })
    }
}

/// Does `place` end with `end`, in which a star stands for any characters but a slash?
fn ends_with(place: &str, end: &str) -> bool {
    let Some((before, behind)) = end.rsplit_once('*') else { return place.ends_with(end) };
    let Some(rest) = place.strip_suffix(behind) else { return false };
    let shortest = rest.rfind('/').unwrap_or(0);
    (shortest..=rest.len()).any(|n| rest.is_char_boundary(n) && ends_with(&rest[..n], before))
}

/// The words of a line that could be paths.
fn words(line: &str) -> impl Iterator<Item = &str> {
    let of_path = |c: char| c.is_ascii_alphanumeric() || "_./*-".contains(c);
    line.split(|c: char| c.is_whitespace())
        // An address, an option with a value, a variable of a shell.
        .filter(|word| !word.contains("://") && !word.contains('$') && !word.contains('~'))
        .flat_map(move |word| word.split(move |c| !of_path(c)))
        .map(|word| word.trim_end_matches('.'))
        .filter(|word| {
            !word.is_empty() && !word.starts_with('/') && !word.starts_with("../") && !word.contains("//")
        })
}

/// Paths of Rust between backticks: `a::b`, `a::B::c()`, `a::m!`.
fn rust_paths(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2).filter_map(|quoted| {
        let path = quoted.trim_end_matches("()").trim_end_matches('!');
        let is_name = |s: &str| {
            s.chars().next().is_some_and(|c| c.is_alphabetic() || c == '_')
                && s.chars().all(|c| c.is_alphanumeric() || c == '_')
        };
        (path.contains("::") && path.split("::").all(is_name)).then_some(path)
    })
}

/// What is defined in the crates.
struct Names<'a> {
    trees: &'a [Tree],
}

impl Names<'_> {
    /// Does `path` lead to something? Its beginning is the end of a module's path, or something that is defined; what follows is
    /// defined or named there.
    fn has(&self, path: &str) -> bool {
        let segments: Vec<&str> =
            path.split("::").filter(|s| !["crate", "self", "super"].contains(s)).collect();
        let modules = || {
            self.trees
                .iter()
                .flat_map(|tree| tree.modules.values().chain(&tree.tests).map(move |m| (tree, m)))
        };
        let named = |name: &str| modules().any(|(_, m)| m.identifiers.contains_key(name));
        let defined = |name: &str| modules().any(|(_, m)| m.items.contains(name) || m.macros.contains(name));
        let mut longest = 0;
        let mut found = false;
        for (tree, module) in modules() {
            let full: Vec<&str> =
                std::iter::once(&*tree.name).chain(module.path.iter().map(String::as_str)).collect();
            let same = (0..full.len())
                .filter(|n| segments.starts_with(&full[*n..]))
                .map(|n| full.len() - n)
                .max()
                .unwrap_or(0);
            if same == 0 || same < longest {
                continue;
            }
            let here = |name: &str| {
                module.items.contains(name)
                    || module.macros.contains(name)
                    // `#[macro_export]` puts a macro at the root.
                    || module.path.is_empty() && tree.definer_of_macro(name).is_some()
                    || module.imports.iter().any(|i| i.name == name || i.name == "*")
            };
            let ok = match segments.get(same..).unwrap_or_default() {
                [] => true,
                [item, rest @ ..] => here(item) && rest.iter().all(|name| named(name)),
            };
            found = ok || found && same == longest;
            longest = same;
        }
        if longest > 0 {
            return found;
        }
        match segments.split_first() {
            None => true,
            Some((first, rest)) => defined(first) && rest.iter().all(|name| named(name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{modules, rules};

    fn check_with(text: &str, foreign: &str) -> Vec<(String, usize)> {
        let rules = format!("[[crate]]\nname = \"vm\"\npath = \"vm/src\"\n{foreign}");
        let rules = rules::parse(&rules).unwrap();
        let files: Files = [
            ("README.md", text),
            ("host/src/main.rs", ""),
            ("vm/src/lib.rs", "mod op;\npub struct Space; impl Space { fn fault() {} }"),
            ("vm/src/op/mod.rs", "mod fault;"),
            ("vm/src/op/fault.rs", "//! see map.rs, main.rs\nfn walk() {}"),
            ("vm/src/op/map.rs", ""),
        ]
        .map(|(name, text)| (name.to_owned(), text.to_owned()))
        .into();
        let trees = modules::trees(&files, &rules).unwrap();
        check(&files, &rules, &trees).into_iter().map(|f| (f.text, f.line)).collect()
    }

    fn stale(text: &str) -> Vec<String> {
        // The second word of a comment above is always wrong: main.rs is another crate's.
        let found = check_with(text, "[[foreign]]\nwords = [\"main.rs\"]\nwhy = \"x\"\n");
        found.into_iter().map(|(text, _)| text.split('`').nth(1).unwrap_or_default().to_owned()).collect()
    }

    #[test]
    fn a_bare_name_is_looked_for_in_its_crate() {
        let found = check_with("", "");
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].0.starts_with("`main.rs` is no file"));
    }

    #[test]
    fn files_and_folders_are_looked_for_by_their_ends() {
        let good = "vm/src/op/fault.rs op/fault.rs fault.rs. vm/src/op/ (op/) vm/src vm/src/op/*.rs *.rs";
        assert_eq!(stale(good), [""; 0]);
        let other = "read/write /proc/self x.y and/or https://a/b.rs $HOME/a.rs target/x.rs";
        assert_eq!(stale(other), [""; 0]);
        assert_eq!(
            stale("vm/src/walk.rs op/walk.rs walk.rs walk/ vm/walk"),
            ["vm/src/walk.rs", "op/walk.rs", "walk.rs", "walk/", "vm/walk"]
        );
    }

    #[test]
    fn paths_of_rust_are_looked_for_by_name() {
        assert_eq!(stale("`vm::op::fault` `op::fault::walk` `Space::fault()` `vm::Space`"), [""; 0]);
        assert_eq!(
            stale("`op::gone` `vm::op::fault::gone` `Gone::fault` `Space::gone`"),
            ["op::gone", "vm::op::fault::gone", "Gone::fault", "Space::gone"]
        );
    }

    #[test]
    fn a_foreign_word_that_stands_nowhere_is_found() {
        let found = check_with("", "[[foreign]]\nwords = [\"main.rs\", \"other.c\"]\nwhy = \"x\"\n");
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].0.contains("`other.c` stands nowhere"));
    }
}
