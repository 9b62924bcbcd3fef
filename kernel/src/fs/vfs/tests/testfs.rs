//! A file system for tests: a tree in memory (`tree`) behind the whole interface, that is slow, fails and changes behind the kernel's back as the
//! test says.
//!
//! Slow: an operation that meets a [`Gate`] stops there, before it does anything (`Before`) or with its answer on the way (`After`), until
//! the test opens the gate; a fatal signal ends the wait. Failing: [`TestFs::fail`] names an operation that is to fail, and from which call on.
//! Changing: [`TestFs::elsewhere`] shows the tree itself. What was called is counted and can be asked for.

use std::boxed::Box;
use std::string::String;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::vec::Vec;

use super::super::attributes::Changes;
use super::super::cache::Cache;
use super::super::cache::inodes::InodeTable;
use super::super::inode::{Attributes, Inode, Kind, NewInode};
use super::super::operations::{DirEntry, InodeOps, Moving, SuperOps, Validity, Writing, XattrMode};
use super::super::parameters::Parameters;
use super::super::superblock::{FsType, StatFs, SuperBlock, new_device};
use super::tree::{ROOT, Tree};
use crate::errno::*;
use crate::sched::{Sleep, WaitQueue};
use vm::frame::OwnedFrame;
use vm::{Asked, Pager, VmError};

static TESTFS: FsType = FsType {
    name: "testfs",
    magic: 0x7e57,
    nodev: true,
    mount: |_, _| Err(EINVAL),
    parameters: Parameters::None,
};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    Before,
    After,
}

/// Where an operation on a name stops.
pub struct Gate {
    op: &'static str,
    name: String,
    when: When,
    state: Mutex<(u32, bool)>,
    moved: WaitQueue,
}

impl Gate {
    /// How many have stopped here.
    pub fn arrived(&self) -> u32 {
        lock(&self.state).0
    }

    pub fn open(&self) {
        lock(&self.state).1 = true;
        self.moved.wake_all();
    }

    fn pass(&self) -> Result {
        lock(&self.state).0 += 1;
        let open = || lock(&self.state).1.then_some(());
        self.moved.wait_shared(Sleep::Killable, None, open).map_err(|_| EINTR)
    }
}

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Fault {
    op: &'static str,
    /// Calls that go well before.
    after: u32,
    error: Errno,
}

pub struct TestFs {
    me: Weak<TestFs>,
    device: u64,
    tree: Arc<Mutex<Tree>>,
    inodes: Arc<InodeTable>,
    gates: Mutex<Vec<Arc<Gate>>>,
    faults: Mutex<Vec<Fault>>,
    calls: Mutex<Vec<(&'static str, String)>>,
    /// Nanoseconds for which an answer is believed.
    pub lifetime: Mutex<u64>,
}

impl TestFs {
    pub fn mount(cache: Cache) -> (Arc<TestFs>, Arc<SuperBlock>) {
        TestFs::over(cache, Arc::new(Mutex::new(Tree::new())))
    }

    fn over(cache: Cache, tree: Arc<Mutex<Tree>>) -> (Arc<TestFs>, Arc<SuperBlock>) {
        let device = new_device();
        let inodes = InodeTable::try_new().unwrap();
        let fs = Arc::new_cyclic(|me| TestFs {
            me: me.clone(),
            device,
            tree,
            inodes: inodes.clone(),
            gates: Mutex::default(),
            faults: Mutex::default(),
            calls: Mutex::default(),
            lifetime: Mutex::new(0),
        });
        let root = fs.inode(ROOT).unwrap();
        let ops = Box::new(Whole(fs.clone()));
        let superblock = match cache {
            Cache::Cached | Cache::Revalidated => {
                SuperBlock::try_cached(&TESTFS, cache, device, inodes, root, ops)
            }
            _ => SuperBlock::try_new(&TESTFS, cache, device, root, ops),
        };
        (fs, superblock.unwrap())
    }

    /// A second super block on the same tree, with names and inodes of its own.
    pub fn again(&self) -> Arc<SuperBlock> {
        let (fs, superblock) = TestFs::over(Cache::Revalidated, self.tree.clone());
        drop(fs);
        superblock
    }

    /// The tree, to be changed behind the kernel's back.
    pub fn elsewhere<R>(&self, f: impl FnOnce(&mut Tree) -> R) -> R {
        f(&mut lock(&self.tree))
    }

    /// Operations `op` on `name` stop from now on, until the gate is opened.
    pub fn gate(&self, op: &'static str, name: &str, when: When) -> Arc<Gate> {
        let state = Mutex::new((0, false));
        let gate = Arc::new(Gate { op, name: name.into(), when, state, moved: WaitQueue::new() });
        lock(&self.gates).push(gate.clone());
        gate
    }

    /// After `after` calls of `op` (empty: of any operation) the next one fails.
    pub fn fail(&self, op: &'static str, after: u32, error: Errno) {
        lock(&self.faults).push(Fault { op, after, error });
    }

    /// How often `op` was called on `name`.
    pub fn calls(&self, op: &str, name: &str) -> usize {
        lock(&self.calls).iter().filter(|(o, n)| *o == op && n == name).count()
    }

    pub fn forget_calls(&self) {
        lock(&self.calls).clear();
    }

    fn stop(&self, op: &str, name: &str, when: When) -> Result {
        let met = |g: &&Arc<Gate>| g.op == op && g.name == name && g.when == when;
        let gate = lock(&self.gates).iter().find(met).cloned();
        gate.map_or(Ok(()), |gate| gate.pass())
    }

    /// Does `f` as operation `op` on `name`.
    fn run<R>(&self, op: &'static str, name: &[u8], f: impl FnOnce(&mut Tree) -> Result<R>) -> Result<R> {
        let name = String::from_utf8_lossy(name).into_owned();
        lock(&self.calls).push((op, name.clone()));
        self.stop(op, &name, When::Before)?;
        {
            let mut faults = lock(&self.faults);
            if let Some(i) = faults.iter().position(|f| f.op == op || f.op.is_empty()) {
                if faults[i].after == 0 {
                    return Err(faults.remove(i).error);
                }
                faults[i].after -= 1;
            }
        }
        let result = f(&mut lock(&self.tree));
        self.stop(op, &name, When::After)?;
        result
    }

    /// The inode of a number, with the attributes that the tree has.
    fn inode(&self, number: u64) -> Result<Arc<Inode>> {
        let inode = self.inodes.get(number, || {
            let fs = self.me.upgrade().ok_or(EIO)?;
            let (kind, mode, rdev) = {
                let mut tree = lock(&self.tree);
                let node = tree.at(number)?;
                (node.kind, node.mode, node.rdev)
            };
            let new = NewInode { kind, mode, uid: 0, gid: 0, rdev };
            Inode::try_with(number, self.device, &new, Box::new(One(fs)), Attributes::Elsewhere)
        })?;
        self.update(&inode);
        Ok(inode)
    }

    fn update(&self, inode: &Inode) {
        if let Ok(node) = lock(&self.tree).at(inode.number) {
            inode.set_links(node.links);
            inode.apply(&Changes { mode: Some(node.mode), ..Changes::default() });
        }
    }

    fn make(
        &self,
        op: &'static str,
        dir: &Inode,
        name: &[u8],
        new: &NewInode,
        target: &[u8],
    ) -> Result<Arc<Inode>> {
        let number = self.run(op, name, |tree| {
            let number = tree.node(new.kind, new.mode, new.rdev, target);
            tree.enter(dir.number, name, number).map(|()| number)
        })?;
        self.update(dir);
        self.inode(number)
    }
}

/// The operations of every inode.
struct One(Arc<TestFs>);

impl InodeOps for One {
    fn size(&self, inode: &Inode) -> u64 {
        lock(&self.0.tree).at(inode.number).map_or(0, |n| n.size)
    }

    fn refresh(&self, inode: &Inode) -> Result {
        self.0.run("refresh", &[], |_| Ok(()))?;
        self.0.update(inode);
        Ok(())
    }

    fn set_attributes(&self, inode: &Inode, changes: &Changes, _: Writing<'_>) -> Result {
        self.0.run("set_attributes", &[], |tree| {
            let node = tree.at(inode.number)?;
            node.size = changes.size.unwrap_or(node.size);
            node.mode = changes.mode.unwrap_or(node.mode);
            Ok(())
        })?;
        inode.apply(changes);
        Ok(())
    }

    fn get_xattr(&self, inode: &Inode, name: &[u8], out: &mut Vec<u8>) -> Result {
        self.0.run("get_xattr", name, |tree| {
            out.extend(tree.at(inode.number)?.xattrs.get(name).ok_or(ENODATA)?);
            Ok(())
        })
    }

    fn set_xattr(&self, inode: &Inode, name: &[u8], value: &[u8], mode: XattrMode) -> Result {
        self.0.run("set_xattr", name, |tree| {
            let xattrs = &mut tree.at(inode.number)?.xattrs;
            match (mode, xattrs.contains_key(name)) {
                (XattrMode::Create, true) => return Err(EEXIST),
                (XattrMode::Replace, false) => return Err(ENODATA),
                _ => xattrs.insert(name.to_vec(), value.to_vec()),
            };
            Ok(())
        })
    }

    fn list_xattr(&self, inode: &Inode, _: bool, out: &mut Vec<u8>) -> Result<usize> {
        self.0.run("list_xattr", &[], |tree| {
            for name in tree.at(inode.number)?.xattrs.keys() {
                out.extend(name);
                out.push(0);
            }
            Ok(out.len())
        })
    }

    fn remove_xattr(&self, inode: &Inode, name: &[u8]) -> Result {
        self.0.run("remove_xattr", name, |tree| {
            tree.at(inode.number)?.xattrs.remove(name).map(drop).ok_or(ENODATA)
        })
    }

    fn lookup(&self, dir: &Inode, name: &[u8]) -> Result<Arc<Inode>> {
        let number = self.0.run("lookup", name, |tree| tree.find(dir.number, name))?;
        self.0.inode(number)
    }

    fn revalidate(&self, dir: &Inode, name: &[u8], child: Option<&Inode>) -> Result<Validity> {
        let now = self.0.run("revalidate", name, |tree| Ok(tree.find(dir.number, name).ok()))?;
        if let Some(child) = child {
            self.0.update(child);
        }
        Ok(if now == child.map(|c| c.number) { Validity::Valid } else { Validity::Stale })
    }

    fn lifetime(&self, _: &Inode, _: Option<&Inode>) -> u64 {
        *lock(&self.0.lifetime)
    }

    fn read_dir(&self, dir: &Inode, position: u64, emit: &mut dyn FnMut(&DirEntry<'_>) -> bool) -> Result {
        let mut entries: Vec<(u64, Vec<u8>, u64, Kind)> = self.0.run("read_dir", &[], |tree| {
            let names = tree.at(dir.number)?.names.clone();
            let entry = |(name, (number, cookie)): (Vec<u8>, (u64, u64))| {
                Ok((cookie, name, number, tree.at(number)?.kind))
            };
            names.into_iter().map(entry).collect()
        })?;
        entries.sort_by_key(|entry| entry.0);
        for (cookie, name, number, kind) in entries.into_iter().filter(|e| e.0 >= position) {
            if !emit(&DirEntry { name: &name, number, kind, next: cookie + 1 }) {
                break;
            }
        }
        Ok(())
    }

    fn create(&self, dir: &Inode, name: &[u8], new: &NewInode) -> Result<Arc<Inode>> {
        self.0.make("create", dir, name, new, &[])
    }

    fn mkdir(&self, dir: &Inode, name: &[u8], new: &NewInode) -> Result<Arc<Inode>> {
        self.0.make("mkdir", dir, name, new, &[])
    }

    fn mknod(&self, dir: &Inode, name: &[u8], new: &NewInode) -> Result<Arc<Inode>> {
        self.0.make("mknod", dir, name, new, &[])
    }

    fn symlink(&self, dir: &Inode, name: &[u8], new: &NewInode, target: &[u8]) -> Result<Arc<Inode>> {
        self.0.make("symlink", dir, name, new, target)
    }

    fn make_unnamed(&self, _: &Inode, new: &NewInode) -> Result<Arc<Inode>> {
        let number = self.0.run("make_unnamed", &[], |tree| {
            let number = tree.node(new.kind, new.mode, 0, &[]);
            tree.at(number)?.links = 0;
            Ok(number)
        })?;
        self.0.inode(number)
    }

    fn link(&self, dir: &Inode, name: &[u8], inode: &Inode) -> Result {
        self.0.run("link", name, |tree| {
            tree.enter(dir.number, name, inode.number)?;
            tree.at(inode.number)?.links += 1;
            Ok(())
        })?;
        self.0.update(inode);
        Ok(())
    }

    fn unlink(&self, dir: &Inode, name: &[u8], victim: &Inode) -> Result {
        self.0.run("unlink", name, |tree| tree.remove(dir.number, name))?;
        self.0.update(victim);
        Ok(())
    }

    fn rmdir(&self, dir: &Inode, name: &[u8], victim: &Inode) -> Result {
        self.0.run("rmdir", name, |tree| {
            let number = tree.find(dir.number, name)?;
            if !tree.at(number)?.names.is_empty() {
                return Err(ENOTEMPTY);
            }
            tree.remove(dir.number, name)
        })?;
        self.0.update(victim);
        self.0.update(dir);
        Ok(())
    }

    fn rename(&self, moving: &Moving<'_>) -> Result {
        self.0.run("rename", moving.old_name, |tree| {
            if moving.no_replace && tree.find(moving.new_dir.number, moving.new_name).is_ok() {
                return Err(EEXIST);
            }
            let from = (moving.old_dir.number, moving.old_name);
            tree.rename(from, (moving.new_dir.number, moving.new_name), moving.exchange)
        })?;
        for inode in [Some(moving.old_dir), Some(moving.new_dir), Some(moving.old), moving.target]
            .into_iter()
            .flatten()
        {
            self.0.update(inode);
        }
        Ok(())
    }

    fn read_link(&self, inode: &Inode) -> Result<Vec<u8>> {
        self.0.run("read_link", &[], |tree| Ok(tree.at(inode.number)?.target.clone()))
    }

    fn pager(&self) -> Result<Option<Box<dyn Pager>>> {
        Ok(Some(Box::new(Pages(self.0.clone()))))
    }

    fn can_lie_below(&self) -> bool {
        true
    }

    fn fsync(&self, _: &Inode, data_only: bool) -> Result {
        self.0.run("fsync", if data_only { b"data" } else { b"all" }, |_| Ok(()))
    }
}

/// What the tree's files have in them: bytes of `FILL`.
struct Pages(Arc<TestFs>);

pub const FILL: u8 = b'x';

impl Pager for Pages {
    fn read(
        &self,
        _: u64,
        count: usize,
        give: &mut dyn FnMut(OwnedFrame),
    ) -> core::result::Result<Asked, VmError> {
        self.0.run("read", &[], |_| Ok(())).map_err(|_| VmError::Io)?;
        for _ in 0..count {
            let mut page = vm::frame::alloc_zeroed().ok_or(VmError::NoMemory)?;
            page.bytes().fill(FILL);
            give(page);
        }
        Ok(Asked::Read)
    }
}

/// The operations of the whole.
struct Whole(Arc<TestFs>);

impl SuperOps for Whole {
    fn statfs(&self, _: &SuperBlock) -> Result<StatFs> {
        self.0.run("statfs", &[], |tree| Ok(StatFs { files: tree.nodes.len() as u64, ..StatFs::default() }))
    }

    fn sync(&self, _: &SuperBlock, wait: bool) -> Result {
        self.0.run("sync", if wait { b"wait" } else { b"start" }, |_| Ok(()))
    }
}
