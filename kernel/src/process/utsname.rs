//! What the system is called (uname(2)): names that are set, and the kernel's own. One for all processes. Who asks takes no lock (RCU).
#![forbid(unsafe_code)]

use crate::errno::{Errno, Result};
use sync::rcu::{self, RcuArc, RcuHead};

/// Bytes of a name, with the NUL (__NEW_UTS_LEN and one).
pub const LENGTH: usize = 65;

/// A name, NUL padded.
pub type Name = [u8; LENGTH];

/// What uname says of the kernel. Programs test for features by the release, so it is the Linux whose calls Darter has.
pub const RELEASE: &str = "6.12.0-darter";
/// The same for programs that fail where the first number is not 2 (UNAME26): Linux adds 60 to the second, and keeps the rest.
pub const RELEASE_26: &str = "2.6.72-darter";
pub const VERSION: &str = concat!("#1 SMP Darter ", env!("CARGO_PKG_VERSION"));

/// A name that was set.
struct Set {
    name: Name,
    rcu: RcuHead,
}

sync::rcu_object!(Set);

/// Nothing: as at the boot.
static HOST: RcuArc<Set> = RcuArc::empty();
static DOMAIN: RcuArc<Set> = RcuArc::empty();

/// `text` with NULs behind it; what does not fit is cut off.
#[expect(clippy::arithmetic_side_effects, reason = "the array ends the loop")]
pub const fn padded(text: &[u8]) -> Name {
    let mut name = [0; LENGTH];
    let mut n = 0;
    while n < text.len() && n < LENGTH - 1 {
        name[n] = text[n];
        n += 1;
    }
    name
}

/// What uname says unless something else was set: system, host, release, version, machine, domain.
const FIRST: [Name; 6] = [
    padded(b"Linux"),
    padded(b"darter"),
    padded(RELEASE.as_bytes()),
    padded(VERSION.as_bytes()),
    padded(b"x86_64"),
    padded(b"(none)"),
];

/// What uname says: system, host, release, version, machine, domain.
#[inline]
pub fn names() -> [Name; 6] {
    let mut names = FIRST;
    let [_, host, .., domain] = &mut names;
    let read = rcu::read();
    for (name, set) in [(host, &HOST), (domain, &DOMAIN)] {
        if let Some(set) = set.load(&read) {
            *name = set.name;
        }
    }
    names
}

/// Sets the host name. The caller has checked permissions.
///
/// # Errors
/// EINVAL: it is too long. ENOMEM.
pub fn set_host_name(text: &[u8]) -> Result {
    set(&HOST, text)
}

/// Sets the domain name. The caller has checked permissions.
///
/// # Errors
/// EINVAL: it is too long. ENOMEM.
pub fn set_domain_name(text: &[u8]) -> Result {
    set(&DOMAIN, text)
}

fn set(what: &RcuArc<Set>, text: &[u8]) -> Result {
    let name = checked(text)?;
    what.swap(Some(sync::try_arc(Set { name, rcu: RcuHead::new() })?));
    Ok(())
}

fn checked(text: &[u8]) -> Result<Name> {
    if text.len() < LENGTH { Ok(padded(text)) } else { Err(Errno::EINVAL) }
}
