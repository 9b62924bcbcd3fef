//! What a live root's initramfs has for it: files that init copies into the overlay (host/guest/live.h).
#![forbid(unsafe_code)]

use std::path::Path;

use anyhow::Result;

use super::sources::{Addition, text};
use super::tree::{Entry, Tree};

/// Takes the place of what stands in the root.
const ADD: &str = "/.darter/add";
/// Is copied where nothing stands.
const MISSING: &str = "/.darter/missing";

/// A file or folder that is added; `libraries`: with what a program needs, if the root lacks it.
pub fn add(tree: &mut Tree, addition: &Addition, libraries: bool) -> Result<()> {
    addition.insert_alone(tree, Path::new(ADD))?;
    if libraries {
        for (there, here) in addition.dependencies()? {
            tree.insert_missing(&format!("{MISSING}{}", text(&there)?), Entry::program(&here))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_takes_its_place_and_its_libraries_only_one_that_is_free() {
        let source = std::env::current_exe().unwrap();
        let addition = Addition { source, destination: "/bin/a".into() };
        let mut tree = Tree::default();
        add(&mut tree, &addition, false).unwrap();
        assert!(tree.contains(".darter/add/bin/a") && !tree.contains(".darter/missing"));
        add(&mut tree, &addition, true).unwrap();
        assert!(tree.contains(".darter/missing/lib64/ld-linux-x86-64.so.2"));
    }
}
