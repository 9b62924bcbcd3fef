//! A fuzz program: tasks, their calls, and what the calls are given.
#![forbid(unsafe_code)]

/// Calls of one program; the executor has room for the results of so many.
pub const MOST_CALLS: usize = 240;
pub const MOST_TASKS: usize = 6;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// 0 or 1000.
    pub uid: u32,
    /// The data of all tasks is one shared mapping: calls of one find what calls of another left.
    pub shared: bool,
    pub tasks: Vec<Task>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    pub kind: TaskKind,
    pub calls: Vec<Call>,
}

/// What a task has in common with the first one. (The first one's own kind means nothing.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskKind {
    Process,
    Thread,
    SharedMemory,
    SharedFiles,
}

impl TaskKind {
    pub const ALL: [TaskKind; 4] =
        [TaskKind::Process, TaskKind::Thread, TaskKind::SharedMemory, TaskKind::SharedFiles];

    pub fn name(self) -> &'static str {
        match self {
            TaskKind::Process => "process",
            TaskKind::Thread => "thread",
            TaskKind::SharedMemory => "shared-memory",
            TaskKind::SharedFiles => "shared-files",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// By which other calls name its results; unique in its program.
    pub id: u32,
    pub number: usize,
    pub arguments: Vec<Value>,
    /// What it leaves in memory for other calls: results 1, 2, … (0 is what it returns).
    pub peeks: Vec<Peek>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peek {
    /// The argument that is a `Value::Data`.
    pub argument: usize,
    pub offset: usize,
    pub size: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Number(u64),
    /// Result `part` of call `id`; where there is none, `instead`.
    Result {
        id: u32,
        part: u8,
        instead: u64,
    },
    /// An address of the executor's code (`code_address` in guest/program.c).
    Code(u8),
    /// 0: the caller's process; 1: the caller; 2 to 5: the task of that number.
    Pid(u8),
    Data(Data),
}

/// Bytes in the program's data, and the pointer to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Data {
    pub place: Place,
    pub parts: Vec<Part>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Wherever there is room.
    Anywhere,
    /// So that the byte after it is not mapped.
    Edge,
    /// At this offset: several calls, of several tasks, mean the same bytes.
    At(usize),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    Bytes(Vec<u8>),
    /// So many bytes, left as they are.
    Room(usize),
    /// A number of 1, 2, 4 or 8 bytes.
    Value(usize, Value),
}

impl Part {
    pub fn size(&self) -> usize {
        match self {
            Part::Bytes(bytes) => bytes.len(),
            Part::Room(size) | Part::Value(size, _) => *size,
        }
    }
}

impl Data {
    pub fn size(&self) -> usize {
        self.parts.iter().map(Part::size).sum()
    }

    pub fn bytes(bytes: impl Into<Vec<u8>>) -> Data {
        Data { place: Place::Anywhere, parts: vec![Part::Bytes(bytes.into())] }
    }
}

impl Program {
    pub fn calls(&self) -> impl Iterator<Item = &Call> {
        self.tasks.iter().flat_map(|task| &task.calls)
    }

    pub fn count(&self) -> usize {
        self.calls().count()
    }

    /// An id that no call has.
    pub fn next_id(&self) -> u32 {
        self.calls().map(|call| call.id).max().map_or(0, |id| id.saturating_add(1))
    }
}
