//! Folders of this machine in the guest, as `--share DIR[:AT]` and `--rw DIR[:AT]` say, and a live root: devices of 9P2000.L, by which the guest reads what is there now. It
//! changes nothing but what is in a folder of `--rw`.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

/// A folder, and where its files stand in the guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    pub folder: PathBuf,
    pub at: String,
    /// The guest may change what is in it.
    pub writes: bool,
}

/// What the guest calls the device of a live root.
pub const ROOT: &str = "root";

/// What the guest calls the `n`th of them: the tag of its device.
pub fn tag(n: usize) -> String {
    format!("share{n}")
}

impl Share {
    /// For clap. Without AT the folder has the same place in the guest.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (folder, at) = match text.rsplit_once(':') {
            Some((folder, at)) if at.starts_with('/') => (folder, Some(at)),
            Some((_, at)) if !Path::new(text).is_dir() => {
                return Err(format!("'{at}' must be an absolute path in the guest"));
            }
            _ => (text, None),
        };
        let shown = Path::new(folder).display();
        if !Path::new(folder).is_dir() {
            return Err(format!("there is no folder {shown}"));
        }
        let folder = std::path::absolute(folder).map_err(|error| format!("{shown}: {error}"))?;
        let at = match at {
            Some(at) => at.to_owned(),
            None => folder.to_str().ok_or_else(|| format!("{shown} is not UTF-8: give :AT"))?.to_owned(),
        };
        if at.trim_matches('/').is_empty() {
            return Err("a shared folder cannot stand at / of the guest: give :AT".into());
        }
        Ok(Self { folder, at, writes: false })
    }

    /// As [`Self::parse`], for a folder that the guest may change.
    pub fn parse_rw(text: &str) -> Result<Self, String> {
        Ok(Self { writes: true, ..Self::parse(text)? })
    }
}

/// What QEMU does with a folder. Files of other file systems below it get numbers of their own.
pub fn fsdev(folder: &Path, name: &str, writes: bool) -> String {
    // A comma is doubled for QEMU.
    let folder = folder.display().to_string().replace(',', ",,");
    let readonly = if writes { "off" } else { "on" };
    format!("local,id={name},security_model=none,readonly={readonly},multidevs=remap,path={folder}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_stands_where_it_is_said_or_where_it_is() {
        let parent = std::env::temp_dir().join(format!("darter-share-{}", std::process::id()));
        let folder = parent.join("a,b:c");
        std::fs::create_dir_all(&folder).unwrap();
        let name = folder.to_str().unwrap();
        let share = Share::parse(name).unwrap();
        assert_eq!((share.folder.as_path(), share.at.as_str()), (folder.as_path(), name));
        let fsdev = |share: &Share| fsdev(&share.folder, "share0", share.writes);
        assert!(fsdev(&share).ends_with("a,,b:c") && fsdev(&share).contains("readonly=on"));
        assert!(fsdev(&Share::parse_rw(name).unwrap()).contains("readonly=off"));
        assert_eq!(Share::parse(&format!("{name}:/mnt")).unwrap().at, "/mnt");
        assert!(Share::parse(&format!("{name}:mnt")).unwrap_err().contains("absolute path"));
        assert!(Share::parse(&format!("{name}:/")).unwrap_err().contains("at / of the guest"));
        assert!(Share::parse("/:/").unwrap_err().contains("at / of the guest"));
        assert!(Share::parse("/nowhere/at/all").unwrap_err().contains("no folder"));
        std::fs::remove_dir_all(&parent).unwrap();
    }
}
