//! What the system is called (uname(2)): names that are set, and the kernel's own. One for all processes.
#![forbid(unsafe_code)]

use crate::errno::{Errno, Result};
use crate::lock_order as level;
use sync::{SpinLock, lock_class};

lock_class! { static HOST_NAME: LockClass = ("host name", level::HostName); }

/// Bytes of a name, with the NUL (__NEW_UTS_LEN and one).
pub const LENGTH: usize = 65;

/// A name, NUL padded.
pub type Name = [u8; LENGTH];

/// What uname says of the kernel. Programs test for features by the release, so it is the Linux whose calls Darter has.
pub const RELEASE: &str = "6.12.0-darter";
/// The same for programs that fail where the first number is not 2 (UNAME26): Linux adds 60 to the second, and keeps the rest.
pub const RELEASE_26: &str = "2.6.72-darter";
pub const VERSION: &str = concat!("#1 SMP Darter ", env!("CARGO_PKG_VERSION"));

/// Host and domain name.
static NAMES: SpinLock<(Name, Name), level::HostName> =
    SpinLock::new((padded(b"darter"), padded(b"(none)")), &HOST_NAME);

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

/// The host name and the domain name.
pub fn names() -> (Name, Name) {
    *NAMES.lock()
}

/// Sets the host name. The caller has checked permissions.
///
/// # Errors
/// EINVAL: it is too long.
pub fn set_host_name(text: &[u8]) -> Result {
    let name = checked(text)?;
    NAMES.lock().0 = name;
    Ok(())
}

/// Sets the domain name. The caller has checked permissions.
///
/// # Errors
/// EINVAL: it is too long.
pub fn set_domain_name(text: &[u8]) -> Result {
    let name = checked(text)?;
    NAMES.lock().1 = name;
    Ok(())
}

fn checked(text: &[u8]) -> Result<Name> {
    if text.len() < LENGTH { Ok(padded(text)) } else { Err(Errno::EINVAL) }
}
