//! The text by which /proc shows an open file.
#![forbid(unsafe_code)]

use alloc::vec::Vec;
use core::fmt::Write;

use sync::TryVec;
use sync::heap::Text;

use super::{File, Place, mapped};
use crate::errno::{ENOMEM, Result};
use crate::fs::vfs::mount::{self, Path};

/// A path as seen from `root`; what has lost its name says so.
pub fn path(path: &Path, root: &Path) -> Result<Vec<u8>> {
    let (mut text, _) = mount::text_of(path, root)?;
    if path.dentry.is_removed() {
        text.try_extend_from_slice(b" (deleted)")?;
    }
    Ok(text)
}

pub fn file(file: &File, root: &Path) -> Result<Vec<u8>> {
    match &file.place {
        Place::Named(place) => path(place, root),
        Place::Anonymous(inode, name) => {
            let mut text = Vec::new();
            // A memory file's own.
            if let Some(own) = inode.object().and_then(|object| mapped::find(&object)) {
                own.name().iter().try_for_each(|part| text.try_extend_from_slice(part))?;
                return Ok(text);
            }
            let written = match *name {
                "pipe" | "socket" => write!(Text(&mut text), "{name}:[{}]", inode.number),
                name => write!(Text(&mut text), "{name}"),
            };
            written.map_err(|_| ENOMEM)?;
            Ok(text)
        }
    }
}
