//! Who calls, from where and with which environment: what carries over to a program on a live root.
#![forbid(unsafe_code)]

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::fs::Mode;
use rustix::process::{getegid, geteuid, getgroups, umask};

use super::start;
use crate::cli::MachineOptions;
use crate::root::{Root, User};

/// Folders that are the guest's own on any root.
const OF_THE_GUEST: [&str; 4] = ["/dev", "/proc", "/sys", "/run"];
/// Root's, on every root that has one.
const HOME: &str = "/root";

/// Variables that name what the guest does not have: sockets of the host's processes and the folder they lie in, its displays, its terminals and their
/// programs, a service manager's channels, its name, and the shell's last command.
const OF_THE_HOST: [&str; 34] = [
    "SSH_AUTH_SOCK",
    "SSH_AGENT_PID",
    "SSH_CONNECTION",
    "SSH_CLIENT",
    "SSH_TTY",
    "GPG_AGENT_INFO",
    "GPG_TTY",
    "XDG_RUNTIME_DIR",
    "XDG_SESSION_ID",
    "XDG_SEAT",
    "XDG_VTNR",
    "DBUS_SESSION_BUS_ADDRESS",
    "DBUS_SYSTEM_BUS_ADDRESS",
    "PULSE_SERVER",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "SESSION_MANAGER",
    "WINDOWID",
    "DESKTOP_STARTUP_ID",
    "TMUX",
    "TMUX_PANE",
    "STY",
    "NOTIFY_SOCKET",
    "LISTEN_PID",
    "LISTEN_FDS",
    "LISTEN_FDNAMES",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
    "INVOCATION_ID",
    "JOURNAL_STREAM",
    "SYSTEMD_EXEC_PID",
    "HOSTNAME",
    "_",
];
/// These may name descriptors of a make that calls.
const OF_MAKE: [&str; 3] = ["MAKEFLAGS", "MFLAGS", "CARGO_MAKEFLAGS"];

/// Of a user whom nobody has given another.
const USUAL_MASK: u32 = 0o022;

/// Who a program is, where it starts and what its environment is.
pub struct Identity {
    pub user: Option<User>,
    pub folder: PathBuf,
    pub environment: Vec<OsString>,
}

impl Identity {
    /// # Errors
    /// The user is nobody whom the root knows; the current folder is gone.
    pub fn find(options: &MachineOptions, tty: bool) -> Result<Self> {
        let root = &options.root;
        let caller = (*root == Root::Host).then(user).transpose()?;
        let mask = caller.as_ref().map_or(USUAL_MASK, |user| user.umask);
        let asked = options.user.as_ref().map(|asked| asked.find(root, mask)).transpose()?;
        let (user, named) = asked.map_or((caller, Vec::new()), |found| (Some(found.user), found.variables));
        let folder = folder(root, user.as_ref().is_none_or(|user| user.uid == 0))?;
        let mut environment =
            if *root == Root::Host { environment(&folder) } else { start::environment(tty) };
        start::set(&mut environment, &named);
        start::set(&mut environment, &options.env);
        Ok(Self { user, folder, environment })
    }
}

/// The caller's variables that mean something in the guest, whose program starts in `folder`.
fn environment(folder: &Path) -> Vec<OsString> {
    carried(std::env::vars_os(), folder)
}

fn carried(variables: impl Iterator<Item = (OsString, OsString)>, folder: &Path) -> Vec<OsString> {
    let mut words = Vec::new();
    for (name, value) in variables {
        let is = |names: &[&str]| names.iter().any(|other| *other == name);
        let of_make = is(&OF_MAKE) && value.as_bytes().windows(9).any(|part| part == b"jobserver");
        let elsewhere = is(&["PWD"]) && value != folder.as_os_str();
        if is(&OF_THE_HOST) || of_make || elsewhere {
            continue;
        }
        words.push(word(&name, &value));
    }
    words
}

fn word(name: &OsStr, value: &OsStr) -> OsString {
    OsString::from_vec([name.as_bytes(), b"=", value.as_bytes()].concat())
}

/// The caller's effective ids, groups and mask.
///
/// # Errors
/// The system does not tell the groups.
fn user() -> Result<User> {
    // The mask can only be read by setting it. Nobody else makes files meanwhile: there is one thread.
    let mask = umask(Mode::empty());
    umask(mask);
    Ok(User {
        uid: geteuid().as_raw(),
        gid: getegid().as_raw(),
        groups: getgroups().context("cannot read the own groups")?.iter().map(|gid| gid.as_raw()).collect(),
        umask: mask.bits(),
    })
}

/// The folder in which the program starts: the caller's own where a live root has it, else root's home, or / for others.
///
/// # Errors
/// The current folder or the root is not there.
fn folder(root: &Root, is_superuser: bool) -> Result<PathBuf> {
    let usual = |has_home: bool| PathBuf::from(if is_superuser && has_home { HOME } else { "/" });
    let Some(live) = root.live() else { return Ok(usual(true)) };
    let here = std::env::current_dir().context("cannot find the current folder")?;
    let live = live.canonicalize().with_context(|| format!("cannot find {}", live.display()))?;
    let inside = inside(&live, &here);
    if *root == Root::Host && inside.is_none() {
        note!("darter: {} is not the guest's: the program starts elsewhere", here.display());
    }
    Ok(inside.unwrap_or_else(|| usual(live.join("root").is_dir())))
}

/// A folder of this machine as the guest names it, whose root is `root`; none where it is not below that, or the guest has its own there.
fn inside(root: &Path, folder: &Path) -> Option<PathBuf> {
    let path = Path::new("/").join(folder.strip_prefix(root).ok()?);
    (!OF_THE_GUEST.iter().any(|own| path.starts_with(own))).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_names_the_hosts_own_things_stays_here() {
        let all = [
            ("HOME", "/home/a"),
            ("DISPLAY", ":0"),
            ("SSH_AUTH_SOCK", "/run/x"),
            ("LANG", "C.UTF-8"),
            ("MAKEFLAGS", " -j4 --jobserver-auth=3,4"),
            ("MFLAGS", "-k"),
            ("PWD", "/there"),
            ("_", "/usr/bin/env"),
        ];
        let all = || all.iter().map(|(name, value)| (name.into(), value.into()));
        assert_eq!(carried(all(), Path::new("/here")), ["HOME=/home/a", "LANG=C.UTF-8", "MFLAGS=-k"]);
        assert!(carried(all(), Path::new("/there")).contains(&"PWD=/there".into()));
        let odd = (OsString::from("A"), OsString::from_vec(b"\xff=\n".into()));
        assert_eq!(carried([odd].into_iter(), Path::new("/")), [OsString::from_vec(b"A=\xff=\n".into())]);
    }

    #[test]
    fn a_program_starts_where_its_root_has_the_folder() {
        let at = |root: &str, folder: &str| inside(Path::new(root), Path::new(folder));
        assert_eq!(at("/", "/home/a"), Some("/home/a".into()));
        assert_eq!(at("/srv/root", "/srv/root/etc"), Some("/etc".into()));
        assert_eq!(at("/srv/root", "/srv/root"), Some("/".into()));
        assert_eq!(at("/srv/root", "/srv"), None);
        assert_eq!(at("/", "/run/user/1000"), None);
        assert_eq!(at("/srv/root", "/srv/root/dev/x"), None);
        assert_eq!(at("/", "/device"), Some("/device".into()));
    }

    #[test]
    fn the_readme_names_what_is_not_carried_over() {
        let text = include_str!("../../../README.md");
        let words: Vec<&str> = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect();
        for name in OF_THE_HOST.iter().chain(&OF_MAKE) {
            assert!(words.contains(name), "{name}");
        }
    }

    #[test]
    fn the_mask_is_read_and_stays() {
        assert_eq!(user().unwrap().umask, user().unwrap().umask);
    }
}
