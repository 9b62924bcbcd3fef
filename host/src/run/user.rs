//! Who the program is, as `--user NAME|UID[:GID]` says; names are those of the root's own /etc/passwd and /etc/group.
#![forbid(unsafe_code)]

use anyhow::{Context, Result};

use crate::exit::usage;
use crate::root::{Root, User};

/// What stands on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    Name(String),
    Ids { uid: u32, gid: Option<u32> },
}

/// The user, and the variables that name him.
#[derive(Debug, PartialEq, Eq)]
pub struct Found {
    pub user: User,
    pub variables: Vec<String>,
}

impl Asked {
    /// For clap.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (user, group) = text.split_once(':').map_or((text, None), |(user, group)| (user, Some(group)));
        let gid =
            group.map(str::parse).transpose().map_err(|_| format!("'{text}' has no number behind :"))?;
        match (user.parse(), gid) {
            // -1 stands for none in setuid's kin.
            (Ok(u32::MAX), _) | (_, Some(u32::MAX)) => Err(format!("'{text}' names nobody")),
            (Ok(uid), gid) => Ok(Asked::Ids { uid, gid }),
            (Err(_), None) if !user.is_empty() => Ok(Asked::Name(user.into())),
            (Err(_), _) => Err(format!("'{text}' is neither NAME nor UID nor UID:GID")),
        }
    }

    /// # Errors
    /// The root has no such name, or is packed and cannot be asked for names.
    pub fn find(&self, root: &Root, umask: u32) -> Result<Found> {
        let read = |name: &str| match root.live() {
            Some(live) => std::fs::read_to_string(live.join(name)).with_context(|| name.to_owned()),
            None => Ok(String::new()),
        };
        if let (Asked::Name(name), None) = (self, root.live()) {
            return Err(usage(format!(
                "--user {name}: give a number; only --root host and --root DIR are asked for names"
            )));
        }
        // A folder without these has numbers all the same.
        let (users, groups) = (read("etc/passwd").unwrap_or_default(), read("etc/group").unwrap_or_default());
        self.among(&users, &groups, umask)
    }

    fn among(&self, users: &str, groups: &str, umask: u32) -> Result<Found> {
        let mut entries = users.lines().filter_map(Entry::parse);
        let entry = entries.find(|entry| match self {
            Asked::Name(name) => entry.name == name,
            Asked::Ids { uid, .. } => entry.uid == *uid,
        });
        let (uid, gid) = match (self, &entry) {
            (Asked::Ids { uid, gid }, entry) => {
                (*uid, gid.or(entry.as_ref().map(|entry| entry.gid)).unwrap_or(*uid))
            }
            (Asked::Name(_), Some(entry)) => (entry.uid, entry.gid),
            (Asked::Name(name), None) => {
                return Err(usage(format!("--user {name}: the root's /etc/passwd has no such name")));
            }
        };
        let mut user = User { uid, gid, groups: vec![gid], umask };
        let Some(entry) = entry else {
            let variables = vec!["HOME=/".into(), format!("USER={uid}"), format!("LOGNAME={uid}")];
            return Ok(Found { user, variables });
        };
        user.groups
            .extend(groups.lines().filter_map(|line| member(line, entry.name)).filter(|other| *other != gid));
        let variables =
            [("HOME", entry.home), ("USER", entry.name), ("LOGNAME", entry.name), ("SHELL", entry.shell)];
        let variables = variables.into_iter().filter(|(_, value)| !value.is_empty());
        Ok(Found { user, variables: variables.map(|(name, value)| format!("{name}={value}")).collect() })
    }
}

/// A line of passwd(5).
struct Entry<'a> {
    name: &'a str,
    uid: u32,
    gid: u32,
    home: &'a str,
    shell: &'a str,
}

impl<'a> Entry<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut fields = line.split(':');
        let (name, _password) = (fields.next()?, fields.next()?);
        let (uid, gid) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        let (_full, home) = (fields.next()?, fields.next()?);
        Some(Self { name, uid, gid, home, shell: fields.next().unwrap_or_default() })
    }
}

/// The number of the group in a line of group(5), if `name` is a member.
fn member(line: &str, name: &str) -> Option<u32> {
    let mut fields = line.split(':');
    let gid = fields.nth(2)?.parse().ok()?;
    fields.next()?.split(',').any(|member| member == name).then_some(gid)
}

#[cfg(test)]
mod tests {
    use super::*;

    const USERS: &str =
        "root:x:0:0:root:/root:/bin/bash\n# odd\nann:x:1000:100::/home/ann:/bin/sh\nbad:x:y\n";
    const GROUPS: &str = "root:x:0:\nusers:x:100:ann\nwheel:x:10:bob,ann\nannex:x:11:anna\n";

    fn found(text: &str) -> Result<Found> {
        Asked::parse(text).unwrap().among(USERS, GROUPS, 0o22)
    }

    #[test]
    fn a_name_is_the_roots_own_with_its_groups_and_home() {
        let ann = found("ann").unwrap();
        assert_eq!(ann.user, User { uid: 1000, gid: 100, groups: vec![100, 10], umask: 0o22 });
        assert_eq!(ann.variables, ["HOME=/home/ann", "USER=ann", "LOGNAME=ann", "SHELL=/bin/sh"]);
        assert_eq!(found("1000").unwrap(), ann);
        assert_eq!(crate::exit::status_of(&found("bob").unwrap_err()), crate::exit::USAGE);
    }

    #[test]
    fn a_number_needs_no_name() {
        let user = |uid, gid| User { uid, gid, groups: vec![gid], umask: 0o22 };
        let seven = found("7").unwrap();
        assert_eq!((seven.user, seven.variables.join(" ")), (user(7, 7), "HOME=/ USER=7 LOGNAME=7".into()));
        assert_eq!(found("7:8").unwrap().user, user(7, 8));
        assert_eq!(found("0:8").unwrap().user, user(0, 8));
        for wrong in ["", "ann:8", "7:b", "4294967295", "7:4294967295", ":"] {
            assert!(Asked::parse(wrong).is_err(), "{wrong}");
        }
        let name = Asked::Name("ann".into());
        assert!(name.find(&Root::Busybox, 0).unwrap_err().to_string().contains("give a number"));
    }
}
