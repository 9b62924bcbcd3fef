//! Descriptors: results of calls before, and the calls that make one where there is none.
#![forbid(unsafe_code)]

use darter_table::Sort;

use super::{Generator, Made};
use crate::program::{Call, Value};
use crate::table::Resource;

impl Generator {
    pub(super) fn file(&mut self, sort: Sort, calls: &mut Vec<Call>) -> Value {
        if self.rng.chance(4) {
            return Value::Number(self.rng.pick(&[
                0,
                1,
                2,
                3,
                4,
                127,
                128,
                1024,
                u64::MAX,
                -100i64 as u64,
                0x7fff_ffff,
            ]));
        }
        if self.rng.chance(8) {
            return self.result_of(Resource::File(Sort::Any)).unwrap_or(Value::Number(3));
        }
        let have = self.result_of(Resource::File(sort));
        if self.depth < 3 && (have.is_none() || self.rng.chance(20)) {
            self.depth += 1;
            self.make_file(sort, calls);
            self.depth -= 1;
        }
        self.result_of(Resource::File(sort)).unwrap_or(Value::Number(3))
    }

    /// A call that makes a descriptor of the sort.
    pub(super) fn make_file(&mut self, sort: Sort, calls: &mut Vec<Call>) {
        // The options of the call that needs it go on after it.
        let chosen = std::mem::take(&mut self.chosen);
        let (name, path): (&str, &[&str]) = match sort {
            Sort::Regular => ("openat", &["f", "n1", "d/g", "d/n1", "s"]),
            Sort::Directory => ("openat", &[".", "d", "ld", "/proc/self", "/dev"]),
            Sort::Terminal => ("openat", &["/dev/ptmx", "/dev/tty", "/dev/pts/0"]),
            Sort::Pipe => ("pipe2", &[]),
            Sort::EpollFile => ("epoll_create1", &[]),
            Sort::EventFile => ("eventfd2", &[]),
            Sort::TimerFile => ("timerfd_create", &[]),
            Sort::SignalFile => ("signalfd4", &[]),
            Sort::InotifyFile => ("inotify_init1", &[]),
            Sort::MemoryFile => ("memfd_create", &[]),
            Sort::PidFile => ("pidfd_open", &[]),
            Sort::Socket => ("socketpair", &[]),
            Sort::ContextFile => ("fsopen", &[]),
            Sort::TreeFile => ("open_tree", &[]),
            Sort::Memory => ("mmap", &[]),
            Sort::Any => {
                let any = [
                    Sort::Regular,
                    Sort::Directory,
                    Sort::Terminal,
                    Sort::Pipe,
                    Sort::EpollFile,
                    Sort::EventFile,
                    Sort::TimerFile,
                    Sort::SignalFile,
                    Sort::InotifyFile,
                    Sort::MemoryFile,
                ];
                let sort = any.get(self.rng.below(any.len())).copied().unwrap_or(Sort::Regular);
                self.make_file(sort, calls);
                self.chosen = chosen;
                return;
            }
        };
        if path.is_empty() {
            if let Some(row) = darter_table::call(name) {
                self.make(row, calls);
            }
        } else if let Some(row) = darter_table::call(name) {
            let path = self.rng.pick(path);
            // O_RDWR | O_CREAT, O_RDONLY | O_DIRECTORY, O_RDWR | O_NOCTTY or without; O_NONBLOCK, O_APPEND now and then.
            let flags = match sort {
                Sort::Regular => self.rng.pick(&[0o102, 0o102, 0o2102, 0, 1]),
                Sort::Directory => 0o200000,
                _ => self.rng.pick(&[0o2, 0o402, 0o4002]),
            };
            let path = self.string(path.to_owned());
            let id = self.next_id;
            self.next_id += 1;
            let arguments =
                vec![Value::Number(-100i64 as u64), path, Value::Number(flags), Value::Number(0o644)];
            self.made.push(Made { resource: Resource::File(sort), id, part: 0 });
            calls.push(Call { id, number: row.number, arguments, peeks: Vec::new() });
        }
        self.chosen = chosen;
    }
}
