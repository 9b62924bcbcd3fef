//! /proc/sys/user: how many namespaces and watches a user may have (namespaces(7)). There is one namespace of each kind but for mounts, and no call makes another.
#![forbid(unsafe_code)]

use crate::account::limits;
use crate::procfs::entry::{Entry, Setting};
use crate::procfs::knobs::kernel::{line, set_at_least, setting, shown};

pub static USER: &[Entry] = &[
    shown!("max_cgroup_namespaces", 0),
    setting(
        "max_inotify_instances",
        &Setting {
            read: |out| line(out, limits::INOTIFY_INSTANCES.get()),
            write: Some(|data| set_at_least(&limits::INOTIFY_INSTANCES, data, 0)),
        },
    ),
    setting("max_inotify_watches", &super::fs::INOTIFY_WATCHES),
    shown!("max_ipc_namespaces", 0),
    shown!("max_net_namespaces", 0),
    shown!("max_pid_namespaces", 0),
    shown!("max_time_namespaces", 0),
    shown!("max_user_namespaces", 0),
    shown!("max_uts_namespaces", 0),
];
