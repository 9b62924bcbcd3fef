//! rooms.toml. Its head says what each entry means.

use serde::Deserialize;

/// Where the rules are, from the root of the repository.
pub const FILE: &str = "tests/structure/rooms.toml";

#[derive(Deserialize, Debug, Default)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    #[serde(default, rename = "crate")]
    pub crates: Vec<Crate>,
    #[serde(default)]
    pub foreign: Vec<Foreign>,
}

#[derive(Deserialize, Debug, Default)]
#[serde(deny_unknown_fields)]
pub struct Crate {
    pub name: String,
    /// The folder of its sources.
    pub path: String,
    #[serde(default, rename = "room")]
    pub rooms: Vec<Room>,
    #[serde(default, rename = "exception")]
    pub exceptions: Vec<Exception>,
    #[serde(default, rename = "unsafe")]
    pub unsafe_files: Vec<UnsafeFile>,
    #[serde(default, rename = "only")]
    pub only: Vec<Only>,
}

#[derive(Deserialize, Debug, Default)]
#[serde(deny_unknown_fields)]
pub struct Room {
    pub name: String,
    /// Its files and folders (with a slash); the longest that fits decides.
    pub files: Vec<String>,
    /// The rooms that it uses; `*`: all below it.
    #[serde(default)]
    pub uses: Vec<String>,
    /// All rooms above may use it without saying so.
    #[serde(default)]
    pub common: bool,
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Exception {
    /// A file of the room that may do it.
    pub file: String,
    /// The rooms that it uses.
    pub uses: Vec<String>,
    pub why: String,
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct UnsafeFile {
    /// A file or folder.
    pub path: String,
    pub why: String,
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Only {
    pub rooms: Vec<String>,
    pub names: Vec<String>,
    pub why: String,
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Foreign {
    pub words: Vec<String>,
    pub why: String,
}

/// # Errors
/// The rules cannot be read, or contradict themselves.
pub fn parse(text: &str) -> Result<Rules, String> {
    let rules: Rules = toml::from_str(text).map_err(|e| format!("{FILE}: {e}"))?;
    for krate in &rules.crates {
        for (n, room) in krate.rooms.iter().enumerate() {
            let (above, below) = (&krate.rooms[..n], &krate.rooms[n + 1..]);
            let is = |rooms: &[Room], name: &str| rooms.iter().any(|r| r.name == name);
            if is(above, &room.name) {
                return Err(format!("{FILE}: {} has two rooms {}", krate.name, room.name));
            }
            if let Some(up) = room.uses.iter().find(|used| *used != "*" && !is(below, used)) {
                return Err(format!(
                    "{FILE}: {}: room {} may not use {up}: no room below it has that name",
                    krate.name, room.name
                ));
            }
        }
        let reasons = krate.exceptions.iter().map(|e| (&e.file, &e.why));
        let reasons = reasons.chain(krate.unsafe_files.iter().map(|u| (&u.path, &u.why)));
        for (what, why) in reasons {
            if why.trim().is_empty() {
                return Err(format!("{FILE}: {}: no reason is given for {what}", krate.name));
            }
        }
    }
    if let Some(foreign) = rules.foreign.iter().find(|foreign| foreign.why.trim().is_empty()) {
        return Err(format!("{FILE}: no reason is given for {:?}", foreign.words));
    }
    Ok(rules)
}

impl Crate {
    /// Index of the room that has `file`, a path from the crate's folder.
    pub fn room_of(&self, file: &str) -> Option<usize> {
        let fits = |prefix: &str| file == prefix || prefix.ends_with('/') && file.starts_with(prefix);
        let longest = |room: &Room| room.files.iter().filter(|p| fits(p)).map(|p| p.len()).max();
        (0..self.rooms.len())
            .filter_map(|n| longest(&self.rooms[n]).map(|len| (len, n)))
            .max()
            .map(|(_, n)| n)
    }

    /// May room `from` use room `to`, exceptions apart?
    pub fn allows(&self, from: usize, to: usize) -> bool {
        let uses = &self.rooms[from].uses;
        let below = to > from && (self.rooms[to].common || uses.iter().any(|u| u == "*"));
        from == to || uses.contains(&self.rooms[to].name) || below
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rooms(text: &str) -> Result<Rules, String> {
        parse(&format!("[[crate]]\nname = \"k\"\npath = \"k/src\"\n{text}"))
    }

    #[test]
    fn a_room_may_only_use_rooms_below_it() {
        let up = "[[crate.room]]\nname = \"a\"\nfiles = [\"a/\"]\n\
                  [[crate.room]]\nname = \"b\"\nfiles = [\"b/\"]\nuses = [\"a\"]\n";
        assert!(rooms(up).unwrap_err().contains("b may not use a"));
    }

    #[test]
    fn an_exception_needs_a_reason() {
        let text = "[[crate.exception]]\nfile = \"a.rs\"\nuses = [\"b\"]\nwhy = \" \"\n";
        assert!(rooms(text).unwrap_err().contains("no reason"));
    }

    #[test]
    fn the_longest_prefix_names_the_room() {
        let rules = rooms(
            "[[crate.room]]\nname = \"fs\"\nfiles = [\"fs/\"]\nuses = [\"*\"]\n\
             [[crate.room]]\nname = \"vfs\"\nfiles = [\"fs/vfs/\"]\n",
        )
        .unwrap();
        let krate = &rules.crates[0];
        assert_eq!(krate.room_of("fs/mod.rs"), Some(0));
        assert_eq!(krate.room_of("fs/vfs/lookup.rs"), Some(1));
        assert_eq!(krate.room_of("main.rs"), None);
        assert!(krate.allows(0, 1) && !krate.allows(1, 0));
    }

    #[test]
    fn a_common_room_is_for_all_above() {
        let rules = rooms(
            "[[crate.room]]\nname = \"a\"\nfiles = [\"a/\"]\n\
             [[crate.room]]\nname = \"b\"\nfiles = [\"b/\"]\ncommon = true\n\
             [[crate.room]]\nname = \"c\"\nfiles = [\"c/\"]\n",
        )
        .unwrap();
        let krate = &rules.crates[0];
        assert!(krate.allows(0, 1) && !krate.allows(1, 0) && !krate.allows(2, 1) && !krate.allows(0, 2));
    }
}
