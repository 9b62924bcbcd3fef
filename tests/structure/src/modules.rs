//! The modules of a crate, and what a path leads to.

use crate::Files;
use crate::rules::Rules;
use crate::source::{self, Module};
use std::collections::{BTreeMap, BTreeSet};

/// A crate: its modules by their paths from its root.
pub struct Tree {
    pub name: String,
    /// The folder of its sources, from the root of the repository, without a slash at the end.
    pub folder: String,
    pub modules: BTreeMap<Vec<String>, Module>,
    /// Those of tests in files of their own: they may use what they like, and documents may speak of them.
    pub tests: Vec<Module>,
}

/// Reads the crates of the rules.
///
/// # Errors
/// A file is no Rust.
pub fn trees(files: &Files, rules: &Rules) -> Result<Vec<Tree>, String> {
    rules.crates.iter().map(|krate| Tree::read(&krate.name, &krate.path, files)).collect()
}

/// The path of the module in `file`, which is a path from the crate's folder.
fn path_of(file: &str) -> Vec<String> {
    let stem = file.strip_suffix(".rs").unwrap_or(file);
    let mut path: Vec<String> = stem.split('/').map(str::to_owned).collect();
    if path.last().is_some_and(|last| last == "mod") || path == ["main"] || path == ["lib"] {
        path.pop();
    }
    path
}

impl Tree {
    pub fn read(name: &str, folder: &str, files: &Files) -> Result<Self, String> {
        let mut modules = BTreeMap::new();
        let inside = format!("{folder}/");
        for (file, text) in files.range(inside.clone()..).take_while(|(file, _)| file.starts_with(&inside)) {
            let Some(local) = file.strip_prefix(&inside).filter(|local| local.ends_with(".rs")) else {
                continue;
            };
            for module in source::read(file, &path_of(local), text)? {
                modules.insert(module.path.clone(), module);
            }
        }
        let mut tree = Self { name: name.to_owned(), folder: folder.to_owned(), modules, tests: Vec::new() };
        tree.part_tests();
        Ok(tree)
    }

    /// Parts the tests from the rest.
    fn part_tests(&mut self) {
        let tests: BTreeSet<Vec<String>> = self
            .modules
            .values()
            .flat_map(|m| m.test_modules.iter().map(|t| m.path.iter().cloned().chain([t.clone()]).collect()))
            .collect();
        let is_test = |path: &[String]| (0..=path.len()).any(|n| tests.contains(&path[..n]));
        let all = std::mem::take(&mut self.modules);
        let (parted, kept): (Vec<_>, Vec<_>) = all.into_iter().partition(|(path, _)| is_test(path));
        self.tests = parted.into_iter().map(|(_, module)| module).collect();
        self.modules = kept.into_iter().collect();
    }

    /// The file of a module, from the crate's folder.
    pub fn local<'a>(&self, module: &'a Module) -> &'a str {
        module.file.strip_prefix(&self.folder).map_or(&*module.file, |rest| rest.trim_start_matches('/'))
    }

    /// The module that `segments`, a path named in `from`, leads into: where its last segment is defined. A path through a module
    /// that hands on what its own children define leads to the child; what it hands on from elsewhere is its own. None: the path
    /// leaves the crate.
    pub fn resolve(&self, from: &Module, segments: &[String]) -> Option<&Module> {
        self.find(&self.absolute(from, segments, 0)?, 0)
    }

    /// `segments` as a path from the crate's root.
    fn absolute(&self, from: &Module, segments: &[String], depth: usize) -> Option<Vec<String>> {
        let (first, rest) = segments.split_first()?;
        let mut base = match first.as_str() {
            "crate" => Vec::new(),
            "self" => from.path.clone(),
            "super" => from.path.get(..from.path.len().checked_sub(1)?)?.to_vec(),
            name => {
                let mut child = from.path.clone();
                child.push(name.to_owned());
                if self.modules.contains_key(&child) {
                    child
                } else {
                    let import = from.imports.iter().find(|i| i.name == name && i.target != segments)?;
                    if depth > 8 || import.target.first().is_some_and(|t| t == name) {
                        return None;
                    }
                    self.absolute(from, &import.target, depth + 1)?
                }
            }
        };
        for segment in rest {
            if segment == "super" {
                base.pop();
            } else if segment != "self" {
                base.push(segment.clone());
            }
        }
        Some(base)
    }

    fn find(&self, path: &[String], depth: usize) -> Option<&Module> {
        let mut module = self.modules.get(&[][..])?;
        for (n, segment) in path.iter().enumerate() {
            let mut child = module.path.clone();
            child.push(segment.clone());
            if let Some(found) = self.modules.get(&child) {
                module = found;
                continue;
            }
            if module.items.contains(segment) || depth > 8 {
                return Some(module);
            }
            if let Some(mut target) = self.handed_on(module, segment) {
                target.extend_from_slice(&path[n + 1..]);
                return self.find(&target, depth + 1);
            }
            // What is handed on from another crate.
            if let Some(import) = module.imports.iter().find(|i| i.name == *segment)
                && self.absolute(module, &import.target, 1).is_none()
            {
                return None;
            }
            // `#[macro_export]` and `#[macro_use]` put macros at the root.
            if module.path.is_empty()
                && let Some(definer) = self.definer_of_macro(segment)
            {
                return Some(definer);
            }
            return Some(module);
        }
        Some(module)
    }

    /// Where `name` leads that `module` hands on from one of its own children.
    fn handed_on(&self, module: &Module, name: &str) -> Option<Vec<String>> {
        let below =
            |target: &Vec<String>| target.len() > module.path.len() && target.starts_with(&module.path);
        for import in &module.imports {
            if import.name == name {
                return self.absolute(module, &import.target, 1).filter(below);
            }
            if import.name != "*" {
                continue;
            }
            let Some(mut target) = self.absolute(module, &import.target, 1).filter(below) else { continue };
            let Some(child) = self.modules.get(&target) else { continue };
            target.push(name.to_owned());
            if child.items.contains(name)
                || self.modules.contains_key(&target)
                || child.imports.iter().any(|i| i.name == name)
            {
                return Some(target);
            }
        }
        None
    }

    /// The module that defines the macro `name`.
    pub fn definer_of_macro(&self, name: &str) -> Option<&Module> {
        self.modules.values().find(|m| m.macros.contains(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A crate `k` of these files.
    pub fn tree(files: &[(&str, &str)]) -> Tree {
        let files = files.iter().map(|(name, text)| (format!("k/{name}"), (*text).to_owned())).collect();
        Tree::read("k", "k", &files).unwrap()
    }

    fn leads(tree: &Tree, from: &[&str], path: &str) -> Option<String> {
        let from: Vec<String> = from.iter().map(|s| (*s).to_owned()).collect();
        let segments: Vec<String> = path.split("::").map(str::to_owned).collect();
        tree.resolve(&tree.modules[&from], &segments).map(|m| m.file.clone())
    }

    #[test]
    fn paths_lead_to_the_file_that_defines_their_end() {
        let tree = tree(&[
            ("main.rs", "mod a; mod b; use core::mem;"),
            ("a/mod.rs", "pub mod x; pub use x::Shared; pub use crate::b::Other; pub struct Own;"),
            ("a/x.rs", "pub struct Shared; use super::Own;"),
            ("b.rs", "use crate::a::{self, x as y}; pub struct Other;"),
        ]);
        assert_eq!(leads(&tree, &[], "crate::a::Own"), Some("k/a/mod.rs".into()));
        // Handed on from a child: the child's.
        assert_eq!(leads(&tree, &["b"], "a::Shared"), Some("k/a/x.rs".into()));
        // Handed on from elsewhere: whoever hands it on answers for it.
        assert_eq!(leads(&tree, &["b"], "crate::a::Other::new"), Some("k/a/mod.rs".into()));
        assert_eq!(leads(&tree, &["b"], "y::Shared::new"), Some("k/a/x.rs".into()));
        assert_eq!(leads(&tree, &["a", "x"], "super::super::b::Other"), Some("k/b.rs".into()));
        assert_eq!(leads(&tree, &["b"], "core::mem::swap"), None);
        assert_eq!(leads(&tree, &["b"], "crate::mem::swap"), None);
        assert_eq!(leads(&tree, &["b"], "Shared::new"), None);
    }

    #[test]
    fn all_of_a_child_may_be_handed_on() {
        let tree = tree(&[
            ("main.rs", "mod arch;"),
            ("arch/mod.rs", "mod x86; pub use x86::*;"),
            ("arch/x86/mod.rs", "pub mod time; mod trap; pub use trap::Regs;"),
            ("arch/x86/time.rs", ""),
            ("arch/x86/trap.rs", "pub struct Regs;"),
        ]);
        assert_eq!(leads(&tree, &[], "crate::arch::time::now"), Some("k/arch/x86/time.rs".into()));
        assert_eq!(leads(&tree, &[], "crate::arch::Regs"), Some("k/arch/x86/trap.rs".into()));
    }

    #[test]
    fn tests_in_files_of_their_own_are_no_part_of_it() {
        let tree = tree(&[("lib.rs", "#[cfg(test)] mod tests;"), ("tests.rs", "use crate::x;")]);
        assert_eq!((tree.modules.len(), tree.tests.len()), (1, 1));
    }
}
