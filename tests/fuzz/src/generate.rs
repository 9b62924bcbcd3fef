//! New programs, from the rows of the table.
//!
//! Most arguments are what the table says they should be, some lie at the edge of it, few are wild: a call that fails at its first
//! argument shows little of the kernel. Descriptors, processes, timers and mappings come from calls before.
#![forbid(unsafe_code)]

use darter_table::{CALLS, Call as Row, Kind, Opt, Set, Sort, Struct};

use crate::encode::FIXED_BYTES;
use crate::hopeless;
use crate::paths::{HERE, MACHINE, NEW, TEXTS};
use crate::program::{Call, Data, MOST_CALLS, MOST_TASKS, Part, Peek, Place, Program, Task, TaskKind, Value};
use crate::rng::Rng;
use crate::table::{self, Resource};

/// The free addresses of a program (guest/executor.c).
const WINDOW: u64 = 0x2000_0000;
const DATA: u64 = 0x1000_0000;
const PAGE: u64 = 0x1000;
const WILD: &[u64] = &[
    0,
    1,
    0xfff,
    0x1000,
    u64::MAX,
    u64::MAX - 0xfff,
    0x7fff_ffff_ffff,
    0x7fff_ffff_f000,
    0x8000_0000_0000,
    0xdead_0000_0000_0000,
    0xffff_8000_0000_0000,
    0xffff_ffff_8020_0000,
    i64::MAX as u64,
    1 << 63,
    0xffff_ffff_ff60_0000,
    0x8000_0000,
    0xffff_ffff,
    0x7fff_ffff,
];
const LENGTHS: &[u64] = &[
    0,
    1,
    0xfff,
    PAGE,
    PAGE + 1,
    2 * PAGE,
    4 * PAGE,
    16 * PAGE,
    64 * PAGE,
    0x20_0000,
    0x40_0000,
    1 << 30,
    1 << 40,
    1 << 47,
    u64::MAX,
    u64::MAX - 0xfff,
    0x7fff_f000,
    i64::MAX as u64,
    3,
    100,
    511,
];
const OFFSETS: &[u64] = &[
    0,
    1,
    5,
    10,
    36,
    4095,
    PAGE,
    PAGE + 1,
    0x1_0000,
    0x20_0000,
    1 << 31,
    1 << 32,
    1 << 42,
    i64::MAX as u64,
    u64::MAX,
    1 << 63,
    i64::MAX as u64 - 0xfff,
    i64::MAX as u64 & !0xfff,
];

/// A result of an earlier call.
#[derive(Clone, Copy, Debug)]
struct Made {
    resource: Resource,
    id: u32,
    part: u8,
}

pub struct Generator {
    pub rng: Rng,
    made: Vec<Made>,
    next_id: u32,
    /// Of the row whose arguments are being made: the options chosen so far, for what they take.
    chosen: Vec<&'static Opt>,
    depth: usize,
    /// Programs that are to do the same on two kernels: one task, nothing that depends on time or chance.
    pub alone: bool,
}

impl Generator {
    pub fn new(seed: u64) -> Generator {
        Generator {
            rng: Rng::new(seed),
            made: Vec::new(),
            next_id: 0,
            chosen: Vec::new(),
            depth: 0,
            alone: false,
        }
    }

    pub fn program(&mut self) -> Program {
        self.made.clear();
        self.next_id = 0;
        let rng = &mut self.rng;
        let uid = if rng.chance(50) { 1000 } else { 0 };
        let shared = rng.chance(30);
        let count = if self.alone || rng.chance(35) { 1 } else { 2 + rng.below(MOST_TASKS - 1) };
        let mut program = Program { uid, shared, tasks: Vec::new() };
        // A few calls that lie near each other meet more often than any two of four hundred.
        let theme = self.theme();
        for _ in 0..count {
            let calls = self.calls(&theme, count);
            program.tasks.push(Task { kind: self.kind(), calls });
        }
        hopeless::tame(&mut program);
        program
    }

    pub fn kind(&mut self) -> TaskKind {
        TaskKind::ALL.get(self.rng.below(4)).copied().unwrap_or(TaskKind::Process)
    }

    /// Goes on with a program that is there: its results are known, its ids are taken.
    pub fn adopt(&mut self, program: &Program) {
        self.made.clear();
        self.next_id = program.next_id();
        for call in program.calls() {
            self.remember(call);
        }
    }

    fn remember(&mut self, call: &Call) {
        let Some(row) = CALLS.iter().find(|row| row.number == call.number) else { return };
        let (returned, left) = table::results(row.name, row.makes);
        let left = left.iter().zip(1u8..).map(|(&(.., resource), part)| (resource, part));
        for (resource, part) in returned.map(|resource| (resource, 0)).into_iter().chain(left) {
            self.made.push(Made { resource, id: call.id, part });
        }
    }

    /// Rows that share kinds of descriptors, memory, signals, names; or any.
    fn theme(&mut self) -> Vec<&'static Row> {
        let there: Vec<&Row> = CALLS.iter().filter(|row| row.there).collect();
        if self.rng.chance(40) {
            return there;
        }
        let words: &[&[&str]] = &[
            &[
                "map", "mprotect", "madvise", "brk", "fork", "mlock", "msync", "mincore", "clone", "exec",
                "exit",
            ],
            &[
                "signal", "sig", "kill", "timer", "wait", "fork", "clone", "pause", "alarm", "sleep", "exit",
                "sid",
            ],
            &[
                "futex",
                "clone",
                "sched",
                "exit",
                "robust",
                "membarrier",
                "rseq",
                "kill",
                "tid",
                "yield",
                "mprotect",
                "mmap",
            ],
            &[
                "poll", "select", "pipe", "eventfd", "dup", "close", "read", "write", "fcntl", "signalfd",
                "timerfd",
            ],
            &[
                "open", "link", "rename", "mkdir", "rmdir", "mount", "chdir", "root", "getdents", "stat",
                "mknod", "chmod", "close", "xattr",
            ],
            &[
                "splice",
                "tee",
                "pipe",
                "sendfile",
                "copy",
                "read",
                "write",
                "memfd",
                "truncate",
                "fallocate",
                "seek",
                "mmap",
            ],
            &[
                "wait", "fork", "clone", "exit", "kill", "pgid", "sid", "prctl", "exec", "rlimit", "uid",
                "gid", "cap",
            ],
            &["ioctl", "open", "vhangup", "setsid", "read", "write", "poll", "close", "dup", "kill"],
            &["flock", "fcntl", "open", "close", "dup", "fork", "memfd", "truncate"],
        ];
        let chosen = words.get(self.rng.below(words.len())).copied().unwrap_or_default();
        there.into_iter().filter(|row| chosen.iter().any(|word| row.name.contains(word))).collect()
    }

    fn calls(&mut self, theme: &[&'static Row], tasks: usize) -> Vec<Call> {
        let most = if tasks == 1 { 20 } else { 10 };
        let wanted = 2 + self.rng.below(most);
        let mut calls = Vec::new();
        while calls.len() < wanted {
            self.call_into(theme, &mut calls);
        }
        calls
    }

    /// One more call, and before it those that make what it takes.
    pub fn call_into(&mut self, theme: &[&'static Row], calls: &mut Vec<Call>) {
        let row = if self.rng.chance(96) && !theme.is_empty() {
            theme.get(self.rng.below(theme.len())).copied()
        } else {
            CALLS.get(self.rng.below(CALLS.len()))
        };
        if let Some(row) = row {
            self.make(row, calls);
        }
    }

    pub fn any_call(&mut self, calls: &mut Vec<Call>) {
        let theme = self.theme();
        self.call_into(&theme, calls);
    }

    /// The arguments of a row anew.
    pub fn again(&mut self, number: usize, calls: &mut Vec<Call>) {
        match CALLS.iter().find(|row| row.number == number) {
            Some(row) => self.make(row, calls),
            None => self.any_call(calls),
        }
    }

    fn make(&mut self, row: &'static Row, calls: &mut Vec<Call>) {
        if usize::try_from(self.next_id).unwrap_or(MOST_CALLS) >= MOST_CALLS
            || (self.alone && !comparable(row.name))
        {
            return;
        }
        let mut arguments = vec![Value::Number(0); row.arguments.len()];
        self.chosen.clear();
        // Options first, for they say what others are; lengths last, for they follow buffers.
        for round in 0..3 {
            for (index, argument) in row.arguments.iter().enumerate() {
                let turn = match argument.kind {
                    Kind::Options(_) => 0,
                    Kind::Size => 2,
                    _ => 1,
                };
                if turn == round {
                    let value = if turn == 2 {
                        self.size_for(row, index, &arguments)
                    } else {
                        self.value(&argument.kind, calls)
                    };
                    if let Some(place) = arguments.get_mut(index) {
                        *place = value;
                    }
                }
            }
        }
        if row.name == "clone" {
            self.stack_for_clone(&mut arguments);
        }
        let peeks = table::results(row.name, row.makes)
            .1
            .iter()
            .map(|&(argument, offset, size, _)| Peek { argument, offset, size })
            .collect();
        let id = self.next_id;
        self.next_id += 1;
        let call = Call { id, number: row.number, arguments, peeks };
        self.remember(&call);
        calls.push(call);
    }

    /// A child with its parent's memory has to have a stack, or both are lost; sometimes it has none.
    fn stack_for_clone(&mut self, arguments: &mut [Value]) {
        let stack = if self.rng.chance(80) { WINDOW + PAGE * (1 + self.rng.below(15) as u64) } else { 0 };
        if let [flags, place, ..] = arguments
            && matches!(flags, Value::Number(flags) if *flags & 0x100 != 0 || self.rng.chance(20))
        {
            *place = Value::Number(stack);
        }
    }

    fn value(&mut self, kind: &Kind, calls: &mut Vec<Call>) -> Value {
        if !self.alone && self.rng.chance(2) {
            return self.wild();
        }
        match kind {
            Kind::Fd(sort) => self.file(*sort, calls),
            Kind::DirFd => {
                if self.rng.chance(75) {
                    Value::Number(-100i64 as u64)
                } else {
                    self.file(Sort::Directory, calls)
                }
            }
            Kind::Path => self.path(),
            Kind::Text => {
                let text = self.rng.pick(TEXTS).to_owned();
                self.string(text)
            }
            Kind::Texts => self.texts(),
            Kind::InBytes(_) => {
                let size = self.buffer_size();
                self.bytes(size)
            }
            Kind::OutBytes(_) => {
                let size = self.buffer_size();
                self.pointer(vec![Part::Room(size)])
            }
            Kind::InVector(_) => self.vector(true),
            Kind::OutVector(_) => self.vector(false),
            Kind::In(shape) | Kind::InOut(shape) => self.structure(shape, 1, calls),
            Kind::Out(shape) => {
                if self.rng.chance(15) {
                    Value::Number(0)
                } else {
                    self.pointer(vec![Part::Room(shape.size)])
                }
            }
            Kind::InMany(shape, _) | Kind::InOutMany(shape, _) => {
                let count = self.rng.below(5);
                self.structure(shape, count, calls)
            }
            Kind::OutMany(shape, _) => {
                let count = self.rng.pick(&[0, 1, 1, 2, 8, 64]);
                self.pointer(vec![Part::Room(shape.size * count)])
            }
            Kind::Size | Kind::Len => Value::Number(self.length()),
            Kind::Offset => Value::Number(self.near(OFFSETS)),
            Kind::Addr => self.address(),
            Kind::Options(set) => self.options(set),
            Kind::Extra(which) => {
                let kind = self.chosen.last().and_then(|option| option.takes.get(*which));
                match kind {
                    Some(kind) => self.value(kind, calls),
                    None if self.rng.chance(70) => Value::Number(0),
                    None => self.wild(),
                }
            }
            Kind::Mode => Value::Number(self.rng.pick(&[
                0o644,
                0o755,
                0o777,
                0o700,
                0,
                0o111,
                0o444,
                0o4755,
                0o2755,
                0o1777,
                0o7777,
                u64::MAX,
            ])),
            Kind::Device => Value::Number(self.rng.pick(&[
                0x103,
                0x105,
                0x107,
                0x109,
                0x500,
                0x502,
                0x8800,
                0,
                0xffff_ffff,
            ])),
            Kind::Pid => self.process(),
            Kind::Uid | Kind::Gid => Value::Number(self.rng.pick(&[
                0,
                1000,
                1000,
                1001,
                65534,
                u64::MAX,
                0xffff_ffff,
                0x7fff_ffff,
            ])),
            Kind::Signal => Value::Number(self.rng.pick(&[
                0,
                1,
                2,
                3,
                6,
                10,
                12,
                13,
                14,
                15,
                17,
                17,
                18,
                19,
                20,
                21,
                22,
                23,
                28,
                32,
                33,
                34,
                40,
                63,
                64,
                65,
                9,
                11,
                7,
                u64::MAX,
            ])),
            Kind::Timer => match self.result_of(Resource::Timer) {
                Some(value) if self.rng.chance(85) => value,
                _ => Value::Number(self.rng.pick(&[0, 1, 2, u64::MAX])),
            },
            Kind::Int(list) => Value::Number(self.number(list)),
            Kind::Unused => Value::Number(0),
        }
    }

    fn wild(&mut self) -> Value {
        if self.rng.chance(20) {
            return Value::Number(self.rng.word());
        }
        Value::Number(self.rng.pick(WILD))
    }

    fn number(&mut self, list: &[i64]) -> u64 {
        let word = self.rng.pick(list) as u64;
        match self.rng.below(20) {
            0 => word.wrapping_add(1),
            1 => word.wrapping_sub(1),
            2 if !self.alone => self.rng.pick(WILD),
            3 => self.rng.below(64) as u64,
            _ => word,
        }
    }

    fn near(&mut self, list: &[u64]) -> u64 {
        let word = self.rng.pick(list);
        match self.rng.below(12) {
            0 => word.wrapping_add(1),
            1 => word.wrapping_sub(1),
            2 => self.rng.below(0x8000) as u64,
            _ => word,
        }
    }

    /// Mostly small: what is large takes its time.
    fn length(&mut self) -> u64 {
        if self.rng.chance(65) { PAGE * (1 + self.rng.below(16) as u64) } else { self.near(LENGTHS) }
    }

    fn buffer_size(&mut self) -> usize {
        match self.rng.below(10) {
            0 => 0,
            1 => 1,
            2 => 4096,
            3 => 8 + self.rng.below(0x3000),
            4..=6 => 8,
            _ => self.rng.below(128),
        }
    }

    fn bytes(&mut self, size: usize) -> Value {
        let byte = self.rng.pick(&[0, b'a', 0xff]);
        let bytes = match self.rng.below(4) {
            0 => (0..size).map(|_| self.rng.word() as u8).collect(),
            1 => {
                let mut bytes = 1u64.to_le_bytes().to_vec();
                bytes.resize(size, byte);
                bytes
            }
            _ => vec![byte; size],
        };
        self.pointer(vec![Part::Bytes(bytes)])
    }

    fn pointer(&mut self, parts: Vec<Part>) -> Value {
        let size: usize = parts.iter().map(Part::size).sum();
        let place = match self.rng.below(20) {
            0 => Place::Edge,
            1..=4 if size <= 64 => Place::At(self.rng.below(FIXED_BYTES / 64) * 64),
            _ => Place::Anywhere,
        };
        Value::Data(Data { place, parts })
    }

    fn string(&mut self, text: String) -> Value {
        let mut bytes = text.into_bytes();
        bytes.push(0);
        self.pointer(vec![Part::Bytes(bytes)])
    }

    fn path(&mut self) -> Value {
        let text = match self.rng.below(20) {
            0..=8 => self.rng.pick(HERE).to_owned(),
            9..=13 => self.rng.pick(NEW).to_owned(),
            14..=17 => self.rng.pick(if self.alone { HERE } else { MACHINE }).to_owned(),
            18 => "a".repeat(self.rng.pick(&[254, 255, 256, 4094, 4095, 4096])),
            _ => "d/".repeat(self.rng.pick(&[2, 100, 2047, 2048])),
        };
        self.string(text)
    }

    fn texts(&mut self) -> Value {
        let mut parts: Vec<Part> = [&b"@exit\0"[..], b"A=b\0", b"\0"]
            .iter()
            .take(1 + self.rng.below(3))
            .map(|text| Part::Value(8, Value::Data(Data::bytes(*text))))
            .collect();
        if self.rng.chance(5) {
            let word = self.wild();
            parts.push(Part::Value(8, word));
        }
        if self.rng.chance(95) {
            parts.push(Part::Bytes(vec![0; 8]));
        }
        if self.rng.chance(10) { Value::Number(0) } else { self.pointer(parts) }
    }

    fn vector(&mut self, filled: bool) -> Value {
        let count = self.rng.pick(&[0, 1, 1, 2, 3, 4, 8]);
        let mut parts = Vec::new();
        for _ in 0..count {
            let size = self.buffer_size().min(0x1000);
            let buffer = match self.rng.below(20) {
                0 => self.wild(),
                1 => self.address(),
                _ if filled => self.bytes(size),
                _ => self.pointer(vec![Part::Room(size)]),
            };
            let length = if self.rng.chance(92) { size as u64 } else { self.near(LENGTHS) };
            parts.push(Part::Value(8, buffer));
            parts.push(Part::Value(8, Value::Number(length)));
        }
        self.pointer(parts)
    }

    /// The length or count of the buffer that names this argument.
    fn size_for(&mut self, row: &Row, index: usize, arguments: &[Value]) -> Value {
        let buffer = row.arguments.iter().zip(arguments).find_map(|(argument, value)| {
            let each = match argument.kind {
                Kind::InBytes(n) | Kind::OutBytes(n) if n == index => 1,
                Kind::InVector(n) | Kind::OutVector(n) if n == index => 16,
                Kind::InMany(shape, n) | Kind::OutMany(shape, n) | Kind::InOutMany(shape, n)
                    if n == index =>
                {
                    shape.size.max(1)
                }
                _ => return None,
            };
            match value {
                Value::Data(data) => Some(data.size() / each),
                _ => None,
            }
        });
        let Some(size) = buffer else { return Value::Number(self.rng.pick(&[0, 1, 8, 64, 4096])) };
        let size = size as u64;
        Value::Number(match self.rng.below(25) {
            0 => size + 1,
            1 => size.wrapping_sub(1),
            2 => 0,
            3 if !self.alone => self.near(LENGTHS),
            4 if !self.alone => self.rng.pick(WILD),
            _ => size,
        })
    }

    fn structure(&mut self, shape: &'static Struct, count: usize, calls: &mut Vec<Call>) -> Value {
        match self.rng.below(40) {
            0..=2 => return Value::Number(0),
            3 if !self.alone => return self.address(),
            4 if !self.alone => return self.bytes(shape.size * count),
            _ => {}
        }
        self.depth += 1;
        let mut parts = Vec::new();
        for _ in 0..count {
            let mut at = 0;
            let mut fields: Vec<_> = shape.fields.iter().collect();
            fields.sort_by_key(|field| field.offset);
            for field in fields {
                if field.offset < at {
                    continue;
                }
                if field.offset > at {
                    parts.push(Part::Bytes(vec![0; field.offset - at]));
                }
                let value = self.field(shape, field, calls);
                parts.push(Part::Value(field.size, value));
                at = field.offset + field.size;
            }
            if at < shape.size {
                parts.push(Part::Bytes(vec![0; shape.size - at]));
            }
        }
        self.depth -= 1;
        self.pointer(parts)
    }

    fn field(&mut self, shape: &Struct, field: &'static darter_table::Field, calls: &mut Vec<Call>) -> Value {
        let name = field.name;
        if name.contains("handler") {
            return if self.rng.chance(60) {
                Value::Code(1 + self.rng.below(3) as u8)
            } else {
                Value::Number(self.rng.below(3) as u64)
            };
        }
        if name.contains("restorer") {
            return if self.rng.chance(95) { Value::Code(0) } else { self.wild() };
        }
        if shape.name.contains("sigaction") && name.contains("flags") {
            // SA_RESTORER, or there is no way back.
            return match self.value(&field.kind, calls) {
                Value::Number(flags) if self.rng.chance(95) => Value::Number(flags | 0x0400_0000),
                other => other,
            };
        }
        // Structures that lead to structures do so to a depth.
        if self.depth > 2 {
            return Value::Number(0);
        }
        if matches!(field.kind, Kind::Size) {
            return Value::Number(self.rng.pick(&[0, 8, 64, 4096]));
        }
        self.value(&field.kind, calls)
    }

    fn address(&mut self) -> Value {
        match self.rng.below(20) {
            0..=9 => Value::Number(WINDOW + PAGE * self.rng.below(64) as u64),
            10 => Value::Number(WINDOW + self.rng.below(0x10_0000) as u64),
            11 => Value::Number(DATA + PAGE * self.rng.below(16) as u64),
            12..=14 => self.result_of(Resource::Memory).unwrap_or(Value::Number(0)),
            15 | 16 => Value::Number(0),
            17 => Value::Number(WINDOW + 0x20_0000 * self.rng.below(8) as u64),
            18 => Value::Number((1 << 30) * (4 + self.rng.below(600) as u64)),
            _ => self.wild(),
        }
    }

    fn options(&mut self, set: &'static Set) -> Value {
        let mut word = 0;
        if !set.choices.is_empty()
            && let Some(choice) = set.choices.get(self.rng.below(set.choices.len()))
        {
            word = choice.value;
            self.chosen.push(choice);
        }
        if !set.flags.is_empty() {
            let most = self.rng.pick(&[0, 1, 1, 2, 2, 3, 5]);
            for _ in 0..most {
                if let Some(flag) = set.flags.get(self.rng.below(set.flags.len())) {
                    word |= flag.value;
                }
            }
        }
        match self.rng.below(40) {
            0 => word ^= 1 << self.rng.below(32),
            1 if !self.alone => word = self.rng.pick(WILD),
            2 => word ^= 1 << self.rng.below(64),
            _ => {}
        }
        // Memory that is used has to be there to be used.
        if set.name.contains("map") && self.rng.chance(80) {
            word |= 0x20;
        }
        Value::Number(word)
    }

    fn process(&mut self) -> Value {
        match self.rng.below(20) {
            0..=5 => Value::Pid(self.rng.below(2) as u8),
            6..=9 if !self.alone => Value::Pid(2 + self.rng.below(4) as u8),
            10..=14 => self.result_of(Resource::Process).unwrap_or(Value::Pid(0)),
            15 => Value::Number(1),
            16 => Value::Number(u64::MAX),
            17 => Value::Number(self.rng.pick(&[0x7fff_ffff, 0x40_0000, 0x8000_0000, 99_999_999])),
            _ => Value::Number(0),
        }
    }

    fn result_of(&mut self, resource: Resource) -> Option<Value> {
        let fitting: Vec<Made> = self
            .made
            .iter()
            .copied()
            .filter(|made| match (made.resource, resource) {
                (Resource::File(_), Resource::File(Sort::Any)) => true,
                // What a call may have made of any sort is worth a try where nothing fits better.
                (Resource::File(Sort::Any), Resource::File(_)) => self.next_id.is_multiple_of(3),
                (have, want) => have == want,
            })
            .collect();
        let made = fitting.get(self.rng.below(fitting.len()))?;
        Some(Value::Result {
            id: made.id,
            part: made.part,
            instead: self.rng.pick(&[0, 1, 3, 4, 5, u64::MAX]),
        })
    }

    fn file(&mut self, sort: Sort, calls: &mut Vec<Call>) -> Value {
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
    fn make_file(&mut self, sort: Sort, calls: &mut Vec<Call>) {
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
            Sort::MemoryFile => ("memfd_create", &[]),
            Sort::PidFile => ("pidfd_open", &[]),
            Sort::Socket => ("socketpair", &[]),
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

/// Does the call do the same each time, whatever the time, the number of the process and what else runs?
fn comparable(name: &str) -> bool {
    const NOT: &[&str] = &[
        "fork",
        "vfork",
        "clone",
        "clone3",
        "exit",
        "exit_group",
        "pause",
        "getrandom",
        "times",
        "time",
        "clock_gettime",
        "gettimeofday",
        "getrusage",
        "sysinfo",
        "uname",
        "syslog",
        "getcpu",
        "sched_yield",
        "rt_sigreturn",
        "rt_sigsuspend",
        "vhangup",
        "execve",
        "execveat",
        "reboot",
        "restart_syscall",
        "sync",
        "kill",
        "tkill",
        "tgkill",
    ];
    !NOT.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_that_is_there_is_made() {
        let mut seen = std::collections::HashSet::new();
        for seed in 0..4000 {
            seen.extend(Generator::new(seed).program().calls().map(|call| call.number));
        }
        for row in CALLS.iter().filter(|row| row.there) {
            assert!(seen.contains(&row.number), "{}", row.name);
        }
    }

    #[test]
    fn a_program_is_within_its_bounds() {
        for seed in 0..1000 {
            let program = Generator::new(seed).program();
            assert!((1..=MOST_TASKS).contains(&program.tasks.len()));
            assert!(program.count() <= MOST_CALLS);
            assert!(program.calls().all(|call| call.arguments.len() <= 6));
        }
    }

    #[test]
    fn descriptors_come_from_calls_before() {
        let uses = |program: &Program| {
            program
                .calls()
                .flat_map(|call| &call.arguments)
                .filter(|value| matches!(value, Value::Result { .. }))
                .count()
        };
        let used: usize = (0..200).map(|seed| uses(&Generator::new(seed).program())).sum();
        assert!(used > 400, "{used}");
    }
}
