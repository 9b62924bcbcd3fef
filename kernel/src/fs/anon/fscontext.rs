//! The file of fsopen(2) and fspick(2): a file system that is being set up. What went wrong is read from it, a message at a time.
//!
//! Lock order: the configuration → a super block's changes, the mounts, and what a file system takes as it is made or changed. No program's memory is copied under it.
#![forbid(unsafe_code)]

use alloc::sync::Arc;
use core::any::Any;

use sync::{Mutex, lock_class, try_box};

use crate::errno::{EFAULT, Result};
use crate::fs::file::buffer::Output;
use crate::fs::file::{File, FileOps, OpenFlags, Order};
use crate::fs::vfs::configuration::Configuration;
use crate::lock_order as level;

lock_class! { static CONTEXT: LockClass = ("file system context", level::FsConfiguration); }

pub struct Context {
    pub configuration: Mutex<Configuration, level::FsConfiguration>,
}

/// # Errors
/// ENFILE, ENOMEM.
pub fn try_new(configuration: Configuration) -> Result<Arc<File>> {
    let context = Context { configuration: Mutex::new(configuration, &CONTEXT) };
    File::try_anonymous(
        super::nameless()?,
        "anon_inode:[fscontext]",
        try_box(context)?,
        OpenFlags::READ_WRITE,
    )
}

impl FileOps for Context {
    /// Each segment takes a message.
    fn read(&self, _: &File, _: u64, out: &mut Output<'_>, _: Order<'_>) -> Result<usize> {
        let mut done = 0usize;
        loop {
            let room = out.next_segment();
            let message = self.configuration.lock().take_message(room);
            // One that cannot be put is lost, as on Linux.
            let put = message.and_then(|message| {
                if out.put(&message) < message.len() { Err(EFAULT) } else { Ok(message.len()) }
            });
            match put {
                Err(error) if done == 0 => return Err(error),
                Err(_) => return Ok(done),
                Ok(n) => {
                    done = done.saturating_add(n);
                    if n < room || out.left() == 0 {
                        return Ok(done);
                    }
                }
            }
        }
    }

    fn can_write(&self) -> bool {
        false
    }

    fn splices(&self) -> bool {
        false
    }

    /// Each segment is read by itself.
    fn takes_flags(&self, _: bool) -> bool {
        false
    }

    fn can_be_watched(&self) -> bool {
        false
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
