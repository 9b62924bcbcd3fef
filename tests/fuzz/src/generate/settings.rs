//! Files of /proc: what is written to those that take something, and all that can be read, of the program's own processes and of others.
#![forbid(unsafe_code)]

use super::{Generator, Made};
use crate::paths::{OF_PROCESS, RESTORED};
use crate::program::{Call, Data, Part, Value};
use crate::table::Resource;
use darter_table::Sort;

/// What the files of a process take, in their places below /proc/PID; what fits, and what lies at an edge.
const OWN: &[(&str, &[&str])] = &[
    ("oom_score_adj", &["0", "1", "-1", "500", "1000", "-1000", "1001", "-1001", "9223372036854775808"]),
    ("oom_adj", &["0", "15", "-16", "-17", "16", "-18"]),
    ("coredump_filter", &["0", "0x33", "33", "ff", "0x1ff", "0xffffffff", "0x100000000"]),
    ("comm", &["a", "fifteen letters", "sixteen letters.", "with\nline", "\u{1}\u{ff}", "%s%n"]),
    ("timerslack_ns", &["0", "1", "50000", "4000000000", "18446744073709551615", "18446744073709551616"]),
];
/// What the settings of the machine take.
const NUMBERS: &[&str] =
    &["0", "1", "2", "3", "50", "4096", "65536", "1048576", "2147483648", "18446744073709551615"];
/// What nothing takes, or only some.
const WILD: &[&str] = &[
    "",
    "\n",
    " ",
    "-1",
    "+1",
    "0x",
    "0x10",
    "010",
    "1 2",
    "1\n",
    " 7 ",
    "nonsense",
    "1\u{0}2",
    "99999999999999999999999",
];

impl Generator {
    /// Opens a file of /proc and reads or writes it, more than once at times.
    pub(super) fn setting(&mut self, calls: &mut Vec<Call>) {
        let (path, fitting): (String, &[&str]) = if self.rng.chance(30) {
            (self.rng.pick(RESTORED).to_owned(), NUMBERS)
        } else if self.rng.chance(60) {
            let (name, fitting) = OWN.get(self.rng.below(OWN.len())).copied().unwrap_or(("comm", &[]));
            (format!("{}/{name}", self.process_folder()), fitting)
        } else {
            let name = self.rng.pick(OF_PROCESS);
            // What the supervisor and the first program have open is their line to the host.
            let own = name.starts_with("fd/");
            let folder = if own { "/proc/self".to_owned() } else { self.process_folder() };
            (format!("{folder}/{name}"), NUMBERS)
        };
        // Read and written, written, read.
        let flags = self.rng.pick(&[2, 2, 1, 0]);
        let path = self.string(path);
        let id = self.next_id;
        self.next_id += 1;
        let Some(open) = darter_table::call("openat") else { return };
        let arguments = vec![Value::Number(-100i64 as u64), path, Value::Number(flags), Value::Number(0)];
        self.made.push(Made { resource: Resource::File(Sort::Regular), id, part: 0 });
        calls.push(Call { id, number: open.number, arguments, peeks: Vec::new() });
        for _ in 0..1 + self.rng.below(3) {
            let reads = flags == 0 || (flags == 2 && self.rng.chance(40));
            self.transfer(id, reads, fitting, calls);
        }
    }

    /// The folder of the program's own process, of the first one, or of some other, which may be there.
    fn process_folder(&mut self) -> String {
        match self.rng.below(8) {
            0..=3 => "/proc/self".to_owned(),
            4 => "/proc/thread-self".to_owned(),
            5 => "/proc/1".to_owned(),
            _ => format!("/proc/{}", 2 + self.rng.below(600)),
        }
    }

    fn transfer(&mut self, id: u32, reads: bool, fitting: &[&str], calls: &mut Vec<Call>) {
        let data = if reads {
            let size = self.rng.pick(&[1, 64, 4096, 4096]);
            self.pointer(vec![Part::Room(size)])
        } else {
            let from = if self.rng.chance(70) { fitting } else { WILD };
            let text = self.rng.pick(from);
            Value::Data(Data::bytes(text.as_bytes()))
        };
        let size = match &data {
            Value::Data(data) => data.size() as u64,
            _ => 0,
        };
        let at = self.rng.pick(&[0, 0, 0, 1, 4095, 4096, u64::MAX]);
        let (name, position) = match (reads, self.rng.chance(80)) {
            (true, true) => ("read", None),
            (true, false) => ("pread64", Some(at)),
            (false, true) => ("write", None),
            (false, false) => ("pwrite64", Some(at)),
        };
        let Some(row) = darter_table::call(name) else { return };
        let mut arguments = vec![Value::Result { id, part: 0, instead: 3 }, data, Value::Number(size)];
        arguments.extend(position.map(Value::Number));
        let id = self.next_id;
        self.next_id += 1;
        calls.push(Call { id, number: row.number, arguments, peeks: Vec::new() });
    }
}
