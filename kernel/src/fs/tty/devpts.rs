//! devpts: the nodes of pseudo-terminals. There is one instance, so every mount shows the same nodes; only the kernel makes and
//! removes them.
#![forbid(unsafe_code)]

use alloc::string::String;
use alloc::sync::Arc;
use core::fmt::Write;

use crate::lock_order as level;
use sync::level::Held;
use sync::{Mutex, lock_class, try_box};

use crate::errno::{EINVAL, EIO, ENOENT, ENOMEM, ENOSPC, Result};
use crate::fs::file::{File, OpenFlags};
use crate::fs::vfs::access::Cred;
use crate::fs::vfs::cache::Cache;
use crate::fs::vfs::create;
use crate::fs::vfs::dentry::Name;
use crate::fs::vfs::device_number;
use crate::fs::vfs::inode::{Inode, Kind, NewInode};
use crate::fs::vfs::mount::{self, Path};
use crate::fs::vfs::numbers;
use crate::fs::vfs::operations::Plain;
use crate::fs::vfs::parameters::Parameters;
use crate::fs::vfs::remove;
use crate::fs::vfs::superblock::{FsType, Mounting, SuperBlock, new_device};

lock_class! { static DEVPTS_LOCK: LockClass = ("devpts", level::Devpts); }

pub static DEVPTS: FsType =
    FsType { name: "devpts", magic: 0x1cd1, nodev: true, mount: instance, parameters: Parameters::Text };

/// How nodes look, from the options of the first mount.
#[derive(Clone, Copy)]
struct Options {
    mode: u32,
    uid: Option<u32>,
    gid: Option<u32>,
    ptmx: u32,
    /// So many terminals at most have a node.
    most: u32,
}

/// As many terminals as Linux has at most.
const MOST: u32 = 1 << 20;

struct Instance {
    superblock: Arc<SuperBlock>,
    dir: Path,
    options: Options,
}

static INSTANCE: Mutex<Option<Instance>, level::Devpts> = Mutex::new(None, &DEVPTS_LOCK);

/// # Errors
/// EINVAL: a word that is no option, or a value that is no number.
fn parse(text: &[u8]) -> Result<Options> {
    let mut options = Options { mode: 0o600, uid: None, gid: None, ptmx: 0, most: MOST };
    let text = core::str::from_utf8(text).map_err(|_| EINVAL)?;
    for word in text.split(',').filter(|word| !word.is_empty()) {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        let number = |radix| u32::from_str_radix(value, radix).map_err(|_| EINVAL);
        let id = || number(10).and_then(|id| if id == u32::MAX { Err(EINVAL) } else { Ok(Some(id)) });
        match key {
            "mode" => options.mode = number(8)? & 0o777,
            "ptmxmode" => options.ptmx = number(8)? & 0o777,
            "uid" => options.uid = id()?,
            "gid" => options.gid = id()?,
            "max" => options.most = Some(number(10)?).filter(|&n| n <= MOST).ok_or(EINVAL)?,
            // Every mount asks for an instance of its own; there is one for all.
            "newinstance" if value.is_empty() => {}
            _ => return Err(EINVAL),
        }
    }
    Ok(options)
}

fn instance(kind: &'static FsType, asked: &Mounting<'_>) -> Result<Arc<SuperBlock>> {
    let options = parse(asked.options)?;
    let mut instance = INSTANCE.lock();
    let (instance, order) = instance.split();
    if let Some(instance) = &*instance {
        return Ok(instance.superblock.clone());
    }
    let new = NewInode { kind: Kind::Directory, mode: 0o755, uid: 0, gid: 0, rdev: 0 };
    // Programs make and remove nothing here.
    let root = Inode::try_new(numbers::next(), new_device(), &new, try_box(Plain)?)?;
    let superblock = SuperBlock::try_new(kind, Cache::Complete, root.device, root, try_box(Plain)?)?;
    let dir = Path { mount: mount::detached(superblock.clone())?, dentry: superblock.root()? };
    let ptmx = NewInode {
        kind: Kind::Character,
        mode: options.ptmx,
        uid: 0,
        gid: 0,
        rdev: device_number::number(5, 2),
    };
    make(&dir, "ptmx", &ptmx, order)?;
    *instance = Some(Instance { superblock: superblock.clone(), dir, options });
    Ok(superblock)
}

/// The instance is locked: directories come after it.
type Order<'a> = Held<'a, level::Devpts>;

fn make(dir: &Path, name: &str, new: &NewInode, order: &mut Order<'_>) -> Result {
    let inode = Inode::try_new(numbers::next(), dir.dentry.inode.device, new, try_box(Plain)?)?;
    create::enter(dir, &Name::try_new(name.as_bytes())?, inode, order)
}

/// The name of a terminal's node.
///
/// # Errors
/// ENOMEM.
fn name_of(number: u32) -> Result<String> {
    let mut name = String::new();
    name.try_reserve(10).map_err(|_| ENOMEM)?;
    write!(name, "{number}").map_err(|_| ENOMEM)?;
    Ok(name)
}

/// A node for terminal `number`, of the caller. Without a mount there is none, and the terminal is reached by TIOCGPTPEER alone.
pub fn add(number: u32, device: u64) -> Result {
    let mut instance = INSTANCE.lock();
    let (instance, order) = instance.split();
    let Some(Instance { dir, options, .. }) = instance else { return Ok(()) };
    if number >= options.most {
        return Err(ENOSPC);
    }
    let name = name_of(number)?;
    let caller = Cred::current();
    let (uid, gid) = (options.uid.unwrap_or(caller.uid), options.gid.unwrap_or(caller.gid));
    let new = NewInode { kind: Kind::Character, mode: options.mode, uid, gid, rdev: device };
    make(dir, &name, &new, order)
}

fn find(dir: &Path, number: u32, order: &mut Order<'_>) -> Result<Path> {
    let directory = dir.dentry.directory.as_deref().ok_or(ENOENT)?;
    let name = Name::try_new(name_of(number)?.as_bytes())?;
    let node = directory.get(&directory.names.lock_in(order), &name).ok_or(ENOENT)?;
    Ok(Path { mount: dir.mount.clone(), dentry: node.share() })
}

/// Terminal `number` is gone.
pub fn remove(number: u32) {
    let mut instance = INSTANCE.lock();
    let (instance, order) = instance.split();
    let Some(Instance { dir, .. }) = instance else { return };
    let name = name_of(number).and_then(|name| Name::try_new(name.as_bytes()));
    if let Err(error) = name.and_then(|name| remove::withdraw(dir, &name, order)) {
        crate::warn!("devpts: node {number} stays: {error:?}");
    }
}

/// Opens terminal `number`, whose master the caller has.
pub fn open(number: u32, flags: OpenFlags) -> Result<Arc<File>> {
    let path = {
        let mut instance = INSTANCE.lock();
        let (instance, order) = instance.split();
        find(&instance.as_ref().ok_or(EIO)?.dir, number, order)?
    };
    let file = File::try_open(path, flags)?;
    if flags.contains(OpenFlags::DIRECT) { Err(EINVAL) } else { Ok(file) }
}
