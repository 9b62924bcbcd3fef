//! Where things lie in the source tree: the kernel image, what the Makefile builds, the caches.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The source tree that this program was built from.
pub struct Tree {
    root: PathBuf,
}

impl Tree {
    /// `DARTER_ROOT`, or the tree in which this program lies (target/release/darter), or the one it was built in.
    pub fn find() -> Self {
        let root = std::env::var_os("DARTER_ROOT").map(PathBuf::from).or_else(|| {
            let exe = std::env::current_exe().ok()?;
            exe.ancestors().find(|at| is_root(at)).map(Path::to_owned)
        });
        let built_in = Path::new(env!("CARGO_MANIFEST_DIR"));
        Self { root: root.unwrap_or_else(|| built_in.parent().unwrap_or(built_in).to_owned()) }
    }

    /// A tree elsewhere, as in a guest.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn darter_kernel(&self) -> PathBuf {
        self.root.join("target/x86_64-unknown-none/kernel/darter-kernel")
    }

    pub fn linux_kernel(&self) -> PathBuf {
        self.root.join(".cache/linux/vmlinuz")
    }

    /// The modules of that Linux with which it runs machines under KVM, and has disks and folders of this machine.
    pub fn linux_modules(&self) -> PathBuf {
        self.root.join(".cache/linux/modules")
    }

    pub fn guest_init(&self) -> PathBuf {
        self.root.join("target/guest/init")
    }

    /// Operations between marks that a hypervisor sees.
    pub fn exits(&self) -> PathBuf {
        self.root.join("target/guest/exits")
    }

    /// A program with lines planted in known ways.
    pub fn line_selftest(&self) -> PathBuf {
        self.root.join("target/guest/line-selftest")
    }

    /// The benchmarks, static and dynamic ones (bench/Makefile).
    pub fn benchmarks(&self) -> PathBuf {
        self.root.join("target/bench")
    }

    /// Folders of this machine that benchmarks with -l have as a live root.
    pub fn live(&self) -> PathBuf {
        self.root.join("target/live")
    }

    /// The programs of bench/sched, which no other guest has.
    pub fn sched(&self) -> PathBuf {
        self.root.join("target/sched")
    }

    /// The programs of bench/allocators, which no other guest has.
    pub fn allocators(&self) -> PathBuf {
        self.root.join("target/allocators")
    }

    /// Debian's jemalloc and mimalloc, as `make allocators` fetched them.
    pub fn allocator_libraries(&self) -> PathBuf {
        self.root.join(".cache/allocators")
    }

    /// The programs of bench/builds, which run on this machine's files.
    pub fn builds(&self) -> PathBuf {
        self.root.join("target/builds")
    }

    /// What they build, and tcc, as `make builds` fetched it.
    pub fn build_trees(&self) -> PathBuf {
        self.root.join(".cache/builds")
    }

    pub fn lines_plugin(&self) -> PathBuf {
        self.root.join("target/release/libdarter_lines.so")
    }

    /// A folder of the cache, made if it is not there.
    pub fn cache(&self, name: &str) -> Result<PathBuf> {
        let path = self.root.join(".cache").join(name);
        std::fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(path)
    }
}

/// A program of this machine, found as a shell finds it.
pub fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

fn is_root(at: &Path) -> bool {
    at.join("Cargo.toml").is_file() && at.join("host/guest/init.c").is_file()
}
