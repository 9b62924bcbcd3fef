//! tmpfs: files in memory. The name cache is the directory and a file's object is the file, so what is left for this
//! module is to make inodes, to count links, and to hold what there is against the mount's limits. It serves as the root file system, as
//! tmpfs, and under devtmpfs.
//!
//! Pages and inodes are counted in the instance's `vm::Budget`, per CPU while limits are far. As on Linux each further name of a file counts as an
//! inode, so names are limited with them, and a long symbolic link as a page. Files stop growing before that where little memory is left
//! for programs.
//!
//! No locks but those of extended attributes: names change under those of their directories, which the VFS holds.
#![forbid(unsafe_code)]

pub mod options;

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use sync::{Mutex, TryVec, lock_class, slab_box, try_box};
use vm::{Budget, BudgetKind, BudgetOwner, BudgetRef, Object, ObjectOwner, ObjectRef, slab_type};

use self::options::{Options, Shown};
use crate::errno::{EINVAL, ENOSPC, Errno, Result};
use crate::fs::vfs::attributes::Changes;
use crate::fs::vfs::cache::Cache;
use crate::fs::vfs::inode::{Inode, Kind, NewInode};
use crate::fs::vfs::numbers;
use crate::fs::vfs::operations::{InodeOps, Moving, SuperOps, Writing};
use crate::fs::vfs::parameters::Parameters;
use crate::fs::vfs::superblock::{FsType, Mounting, StatFs, SuperBlock, new_device};
use crate::fs::vfs::xattr::store::Xattrs;
use crate::lock_order as level;

lock_class! { static OPTIONS: LockClass = ("tmpfs options", level::TmpfsOptions); }

pub const MAGIC: u64 = 0x0102_1994;
/// Of a mount's root.
const MODE: u32 = 0o1777;
/// A symbolic link with as many bytes has a page.
const LONG_LINK: usize = 128;

pub static TMPFS: FsType =
    FsType { name: "tmpfs", magic: MAGIC, nodev: true, mount, parameters: Parameters::Each(options::check) };

pub static ROOTFS: FsType = FsType {
    name: "rootfs",
    magic: 0x8584_58f6,
    nodev: true,
    mount: mount_root,
    parameters: Parameters::Never,
};

/// Pages and inodes of an instance for which nothing else was asked, as on Linux: half of memory.
fn default_limit() -> u64 {
    vm::frame::total_frames() / 2
}

fn mount(kind: &'static FsType, asked: &Mounting<'_>) -> Result<Arc<SuperBlock>> {
    let options = Options::parse(asked.options)?;
    let mode = options.mode.unwrap_or(MODE);
    let (uid, gid) = (options.uid.unwrap_or(0), options.gid.unwrap_or(0));
    let shown = Shown { blocks: None, inodes: None, mode, uid, gid };
    let root = NewInode { kind: Kind::Directory, mode, uid, gid, rdev: 0 };
    let limits = |asked: Option<u64>| match asked {
        Some(0) => None,
        Some(n) => Some(n),
        None => Some(default_limit()),
    };
    make(kind, &root, limits(options.blocks), limits(options.inodes), shown)
}

/// The file system that everything begins with, and which holds all that the machine was started with, however much. Once that is there
/// (`limit_root`) it grows by half of the memory that is left.
fn mount_root(kind: &'static FsType, _: &Mounting<'_>) -> Result<Arc<SuperBlock>> {
    let root = NewInode { kind: Kind::Directory, mode: 0o755, uid: 0, gid: 0, rdev: 0 };
    make(kind, &root, None, None, Shown { blocks: None, inodes: None, mode: MODE, uid: 0, gid: 0 })
}

/// The root file system has what the machine was started with: from here on it is limited.
pub fn limit_root(superblock: &SuperBlock) {
    if let Some(instance) = superblock.ops_as::<Instance>() {
        let more = vm::frame::free_frames() / 2;
        for what in [BudgetKind::Pages, BudgetKind::Files] {
            instance.budget.set_limit(what, Some(instance.budget.used(what).saturating_add(more)));
        }
    }
}

/// A new instance with that root, and the default limits.
pub fn instance(kind: &'static FsType, root: &NewInode) -> Result<Arc<SuperBlock>> {
    let limit = Some(default_limit());
    make(kind, root, limit, limit, Shown { blocks: None, inodes: None, mode: MODE, uid: 0, gid: 0 })
}

fn make(
    kind: &'static FsType,
    root: &NewInode,
    blocks: Option<u64>,
    inodes: Option<u64>,
    shown: Shown,
) -> Result<Arc<SuperBlock>> {
    let budget = Budget::try_new()?;
    budget.set_limit(BudgetKind::Pages, blocks);
    budget.set_limit(BudgetKind::Files, inodes);
    let device = new_device();
    let root = inode(device, root, &[], Some(&budget.share()))?;
    let instance = Instance { budget, shown, changes: Mutex::new((), &OPTIONS) };
    SuperBlock::try_new(kind, Cache::Complete, device, root, try_box(instance)?)
}

/// One mounted tmpfs.
struct Instance {
    budget: BudgetOwner,
    shown: Shown,
    /// Held by a remount.
    changes: Mutex<(), level::TmpfsOptions>,
}

impl Instance {
    /// May the limit be set to `asked` (0: none)? One that does not exist is not made later, and what is used stays within it.
    fn may_limit(
        &self,
        what: BudgetKind,
        asked: Option<u64>,
        [late, short]: [&'static str; 2],
    ) -> core::result::Result<(), (Errno, &'static str)> {
        match asked {
            None | Some(0) => Ok(()),
            Some(_) if self.budget.limit(what).is_none() => Err((EINVAL, late)),
            Some(n) if self.budget.used(what) > n => Err((EINVAL, short)),
            Some(_) => Ok(()),
        }
    }
}

impl SuperOps for Instance {
    fn statfs(&self, _: &SuperBlock) -> Result<StatFs> {
        let of = |what| {
            let limit = self.budget.limit(what);
            limit.map_or((0, 0), |limit| (limit, limit.saturating_sub(self.budget.used(what))))
        };
        let (blocks, free) = of(BudgetKind::Pages);
        let (files, files_free) = of(BudgetKind::Files);
        Ok(StatFs { blocks, free, reserved: 0, files, files_free })
    }

    fn has_handles(&self, _: &SuperBlock) -> bool {
        true
    }

    fn remount(
        &self,
        _: &SuperBlock,
        asked: &Mounting<'_>,
    ) -> core::result::Result<(), (Errno, &'static str)> {
        const BLOCKS: [&str; 2] = ["Cannot retroactively limit size", "Too small a size for current use"];
        const INODES: [&str; 2] = ["Cannot retroactively limit inodes", "Too few inodes for current use"];
        // Owner and mode of the root are for the first mount, as on Linux.
        let options = Options::parse(asked.options).map_err(|error| (error, ""))?;
        let _one = self.changes.lock();
        self.may_limit(BudgetKind::Pages, options.blocks, BLOCKS)?;
        self.may_limit(BudgetKind::Files, options.inodes, INODES)?;
        for (what, asked) in [(BudgetKind::Pages, options.blocks), (BudgetKind::Files, options.inodes)] {
            if let Some(n) = asked {
                self.budget.set_limit(what, (n != 0).then_some(n));
            }
        }
        Ok(())
    }

    fn show_options(&self, superblock: &SuperBlock, out: &mut Vec<u8>) -> Result {
        if superblock.kind.name != TMPFS.name {
            return Ok(());
        }
        let other = |what| Some(self.budget.limit(what).unwrap_or(0)).filter(|n| *n != default_limit());
        Shown { blocks: other(BudgetKind::Pages), inodes: other(BudgetKind::Files), ..self.shown }.text(out)
    }
}

/// What an inode that is no regular file counts as, until it is gone, and its attributes.
struct Counted {
    budget: Option<BudgetRef>,
    xattrs: Xattrs,
}

impl Counted {
    fn xattrs(&self) -> Option<(&Xattrs, Option<&BudgetRef>)> {
        Some((&self.xattrs, self.budget.as_ref()))
    }

    fn charge(&self, what: BudgetKind) -> Result {
        if let Some(budget) = &self.budget {
            budget.charge(what, 1)?;
        }
        Ok(())
    }

    fn give_back(&self, what: BudgetKind) {
        if let Some(budget) = &self.budget {
            budget.give_back(what, 1);
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.give_back(BudgetKind::Files);
    }
}

/// A new inode of any kind, counted in `budget`.
pub fn inode(device: u64, new: &NewInode, target: &[u8], budget: Option<&BudgetRef>) -> Result<Arc<Inode>> {
    numbered(numbers::next(), device, new, target, budget)
}

/// The same, with a number that the caller gives it.
pub fn numbered(
    number: u64,
    device: u64,
    new: &NewInode,
    target: &[u8],
    budget: Option<&BudgetRef>,
) -> Result<Arc<Inode>> {
    if !vm::may_grow() {
        return Err(ENOSPC);
    }
    if let Some(budget) = budget {
        budget.charge(BudgetKind::Files, 1)?;
    }
    // From here on it is given back by whoever drops it.
    let counted = || Counted { budget: budget.cloned(), xattrs: Xattrs::new() };
    let ops: Box<dyn InodeOps> = match new.kind {
        Kind::Directory => try_box(Dir(counted()))?,
        Kind::Regular => slab_box(Contents::try_new(number, budget)?)?,
        Kind::Symlink => try_box(Link::try_new(target, counted())?)?,
        Kind::Fifo | Kind::Character | Kind::Block | Kind::Socket | Kind::Anonymous => {
            try_box(Special(counted()))?
        }
    };
    Inode::try_new(number, device, new, ops)
}

struct Dir(Counted);

impl Dir {
    fn make(&self, dir: &Inode, new: &NewInode, target: &[u8]) -> Result<Arc<Inode>> {
        let made = inode(dir.device, new, target, self.0.budget.as_ref())?;
        dir.touch_modified();
        Ok(made)
    }

    /// A file loses a name. Its last one counts as long as the file does.
    fn lose_name(&self, file: &Inode) {
        if file.links() > 1 {
            self.0.give_back(BudgetKind::Files);
        }
        file.drop_link();
    }
}

impl InodeOps for Dir {
    fn create(&self, dir: &Inode, _: &[u8], new: &NewInode) -> Result<Arc<Inode>> {
        self.make(dir, new, &[])
    }

    fn mkdir(&self, dir: &Inode, _: &[u8], new: &NewInode) -> Result<Arc<Inode>> {
        let made = self.make(dir, new, &[])?;
        dir.add_link();
        Ok(made)
    }

    fn mknod(&self, dir: &Inode, _: &[u8], new: &NewInode) -> Result<Arc<Inode>> {
        self.make(dir, new, &[])
    }

    fn symlink(&self, dir: &Inode, _: &[u8], new: &NewInode, target: &[u8]) -> Result<Arc<Inode>> {
        self.make(dir, new, target)
    }

    fn make_unnamed(&self, dir: &Inode, new: &NewInode) -> Result<Arc<Inode>> {
        let made = inode(dir.device, new, &[], self.0.budget.as_ref())?;
        made.set_links(0);
        Ok(made)
    }

    fn link(&self, dir: &Inode, _: &[u8], inode: &Inode) -> Result {
        // The first name of a file that had none is counted with it.
        if inode.links() > 0 {
            self.0.charge(BudgetKind::Files)?;
        }
        inode.add_link();
        dir.touch_modified();
        Ok(())
    }

    fn unlink(&self, dir: &Inode, _: &[u8], victim: &Inode) -> Result {
        self.lose_name(victim);
        dir.touch_modified();
        Ok(())
    }

    fn rmdir(&self, dir: &Inode, _: &[u8], victim: &Inode) -> Result {
        victim.set_links(0);
        victim.touch_changed();
        dir.drop_link();
        dir.touch_modified();
        Ok(())
    }

    fn leaves_marks(&self) -> bool {
        true
    }

    fn rename(&self, moving: &Moving<'_>) -> Result {
        let (from, to) = (moving.old_dir, moving.new_dir);
        if moving.old.is_dir() {
            from.drop_link();
            to.add_link();
        }
        moving.old.touch_changed();
        match moving.target {
            Some(other) if moving.exchange => {
                if other.is_dir() {
                    to.drop_link();
                    from.add_link();
                }
                other.touch_changed();
            }
            Some(replaced) if replaced.is_dir() => {
                replaced.set_links(0);
                to.drop_link();
            }
            Some(replaced) => self.lose_name(replaced),
            None => {}
        }
        from.touch_modified();
        to.touch_modified();
        Ok(())
    }

    fn xattrs(&self) -> Option<(&Xattrs, Option<&BudgetRef>)> {
        self.0.xattrs()
    }

    fn keeps_acls(&self) -> bool {
        true
    }

    /// As tmpfs on Linux counts it: 20 bytes a name would need the lock; one page is what stat shows of a directory elsewhere.
    fn size(&self, _: &Inode) -> u64 {
        4096
    }
}

struct Contents {
    object: ObjectOwner,
    xattrs: Xattrs,
}

impl Contents {
    /// A file that is counted in `budget` already. Its object refers to that in any case.
    fn try_new(number: u64, budget: Option<&BudgetRef>) -> Result<Contents> {
        let object = Object::try_owned_in(number as usize, budget.cloned());
        if let (Err(_), Some(budget)) = (&object, budget) {
            budget.give_back(BudgetKind::Files, 1);
        }
        Ok(Contents { object: object?, xattrs: Xattrs::new() })
    }
}

impl Drop for Contents {
    fn drop(&mut self) {
        if let Some(budget) = self.object.budget() {
            budget.give_back(BudgetKind::Files, 1);
        }
    }
}

slab_type!(Contents, "tmpfs-file", Box);

impl InodeOps for Contents {
    fn size(&self, _: &Inode) -> u64 {
        self.object.size()
    }

    fn blocks(&self, _: &Inode) -> u64 {
        self.object.resident_pages().saturating_mul(8)
    }

    fn object(&self) -> Option<ObjectRef> {
        Some(self.object.share())
    }

    fn xattrs(&self) -> Option<(&Xattrs, Option<&BudgetRef>)> {
        Some((&self.xattrs, self.object.budget()))
    }

    fn keeps_acls(&self) -> bool {
        true
    }

    fn set_attributes(&self, inode: &Inode, changes: &Changes, _: Writing<'_>) -> Result {
        if let Some(size) = changes.size {
            self.object.set_size(size)?;
            inode.touch_modified();
        }
        inode.apply(changes);
        Ok(())
    }
}

/// A device node, a fifo or a socket: the VFS opens it.
struct Special(Counted);

impl InodeOps for Special {
    fn xattrs(&self) -> Option<(&Xattrs, Option<&BudgetRef>)> {
        self.0.xattrs()
    }

    fn keeps_acls(&self) -> bool {
        true
    }
}

struct Link {
    text: Box<[u8]>,
    counted: Counted,
}

impl Link {
    fn try_new(target: &[u8], counted: Counted) -> Result<Link> {
        let text = Vec::try_from_slice(target)?.into_boxed_slice();
        if text.len() >= LONG_LINK {
            counted.charge(BudgetKind::Pages)?;
        }
        Ok(Link { text, counted })
    }

    fn pages(&self) -> u64 {
        u64::from(self.text.len() >= LONG_LINK)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if self.pages() > 0 {
            self.counted.give_back(BudgetKind::Pages);
        }
    }
}

impl InodeOps for Link {
    fn xattrs(&self) -> Option<(&Xattrs, Option<&BudgetRef>)> {
        self.counted.xattrs()
    }

    fn read_link(&self, _: &Inode) -> Result<Vec<u8>> {
        Ok(Vec::try_from_slice(&self.text)?)
    }

    fn size(&self, _: &Inode) -> u64 {
        self.text.len() as u64
    }

    fn blocks(&self, _: &Inode) -> u64 {
        self.pages().saturating_mul(8)
    }
}
