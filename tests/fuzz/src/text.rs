//! Programs as text: what a found case is kept as, and what people read and write.
//!
//!     # why it is here
//!     uid 1000
//!     cpus 2                                     (how the machine is to be; for the reader)
//!     shared                                     (all tasks' data is one shared mapping)
//!     task process
//!       #0 openat(0xffffff9c, {"f\x00"}, 0x2, 0x0)
//!       #1 pipe2({..8}, 0x0) -> 0+0:4 0+4:4      results 1 and 2: 4 bytes each of argument 0
//!       #2 write($1.2|0x5, edge{"abc"}, 0x3)     result 2 of call 1; 5 where it has none
//!       #3 futex(at0{4:0x1}, …)                  data at a place that other calls name, too
//!
//! Other values: `code0` to `code4` (handlers), `pid0` (own process), `pid1` (own thread), `pid2`… (tasks). In braces: strings, `..N` bytes
//! left as they are, `SIZE:VALUE`.
#![forbid(unsafe_code)]

use std::fmt::{self, Display, Formatter};

use anyhow::{Context, Result, bail};

use crate::program::{Call, Data, Part, Peek, Place, Program, Task, TaskKind, Value};
use crate::table;

impl Display for Program {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "uid {}", self.uid)?;
        if self.shared {
            writeln!(f, "shared")?;
        }
        for task in &self.tasks {
            writeln!(f, "task {}", task.kind.name())?;
            for call in &task.calls {
                writeln!(f, "  {call}")?;
            }
        }
        Ok(())
    }
}

impl Display for Call {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "#{} {}(", self.id, table::name(self.number))?;
        for (index, argument) in self.arguments.iter().enumerate() {
            write!(f, "{}{argument}", if index > 0 { ", " } else { "" })?;
        }
        write!(f, ")")?;
        for (index, peek) in self.peeks.iter().enumerate() {
            let arrow = if index == 0 { " ->" } else { "" };
            write!(f, "{arrow} {}+{}:{}", peek.argument, peek.offset, peek.size)?;
        }
        Ok(())
    }
}

impl Display for Value {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Value::Number(number) => write!(f, "{number:#x}"),
            Value::Result { id, part, instead } => write!(f, "${id}.{part}|{instead:#x}"),
            Value::Code(which) => write!(f, "code{which}"),
            Value::Pid(which) => write!(f, "pid{which}"),
            Value::Data(data) => {
                match data.place {
                    Place::Anywhere => {}
                    Place::Edge => write!(f, "edge")?,
                    Place::At(offset) => write!(f, "at{offset}")?,
                }
                write!(f, "{{")?;
                for (index, part) in data.parts.iter().enumerate() {
                    write!(f, "{}", if index > 0 { " " } else { "" })?;
                    match part {
                        Part::Bytes(bytes) => write!(f, "\"{}\"", escaped(bytes))?,
                        Part::Room(size) => write!(f, "..{size}")?,
                        Part::Value(size, value) => write!(f, "{size}:{value}")?,
                    }
                }
                write!(f, "}}")
            }
        }
    }
}

fn escaped(bytes: &[u8]) -> String {
    let mut text = String::new();
    for &byte in bytes {
        match byte {
            b'"' | b'\\' => text.extend(['\\', char::from(byte)]),
            0x20..0x7f => text.push(char::from(byte)),
            _ => text.push_str(&format!("\\x{byte:02x}")),
        }
    }
    text
}

/// A program, and the number of CPUs that its text asks for.
pub fn parse(text: &str) -> Result<(Program, Option<u32>)> {
    let (programs, cpus) = parse_all(text)?;
    Ok((programs.into_iter().next().context("no program")?, cpus))
}

/// The programs of a text, each from its `uid` on.
pub fn parse_all(text: &str) -> Result<(Vec<Program>, Option<u32>)> {
    let mut programs: Vec<Program> = Vec::new();
    let mut cpus = None;
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        let context = || format!("line {}: {line}", number + 1);
        let is_call = line.starts_with('#') && line.as_bytes().get(1).is_some_and(u8::is_ascii_digit);
        match line.split_once(' ').unwrap_or((line, "")) {
            _ if is_call => {
                let call = Reader(line.as_bytes()).call().with_context(context)?;
                let task = programs.last_mut().and_then(|program| program.tasks.last_mut());
                task.with_context(context)?.calls.push(call);
            }
            ("uid", uid) => {
                let uid = uid.trim().parse().with_context(context)?;
                programs.push(Program { uid, shared: false, tasks: Vec::new() });
            }
            ("cpus", count) => cpus = Some(count.trim().parse().with_context(context)?),
            ("shared", _) => programs.last_mut().with_context(context)?.shared = true,
            ("task", name) => {
                let kind = TaskKind::ALL.into_iter().find(|kind| kind.name() == name.trim());
                let task = Task { kind: kind.with_context(context)?, calls: Vec::new() };
                programs.last_mut().with_context(context)?.tasks.push(task);
            }
            _ if line.is_empty() || line.starts_with('#') => {}
            _ => bail!("{}: not understood", context()),
        }
    }
    if programs.is_empty() || programs.iter().any(|program| program.tasks.is_empty()) {
        bail!("no program, or one without a task");
    }
    Ok((programs, cpus))
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn peek(&self) -> u8 {
        self.0.first().copied().unwrap_or(0)
    }

    fn take(&mut self) -> u8 {
        let byte = self.peek();
        self.0 = self.0.get(1..).unwrap_or_default();
        byte
    }

    fn spaces(&mut self) {
        while self.peek() == b' ' {
            self.take();
        }
    }

    fn expect(&mut self, text: &str) -> Result<()> {
        if !self.accept(text) {
            bail!("'{text}' expected before '{}'", String::from_utf8_lossy(self.0));
        }
        Ok(())
    }

    fn accept(&mut self, text: &str) -> bool {
        match self.0.strip_prefix(text.as_bytes()) {
            Some(rest) => {
                self.0 = rest;
                true
            }
            None => false,
        }
    }

    fn word(&mut self) -> String {
        let mut word = String::new();
        while self.peek().is_ascii_alphanumeric() || self.peek() == b'_' {
            word.push(char::from(self.take()));
        }
        word
    }

    fn number(&mut self) -> Result<u64> {
        let word = self.word();
        let parsed = match word.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => word.parse(),
        };
        parsed.with_context(|| format!("'{word}' is no number"))
    }

    fn small<T: TryFrom<u64>>(&mut self) -> Result<T> {
        let number = self.number()?;
        T::try_from(number).ok().with_context(|| format!("{number} is too large"))
    }

    fn call(&mut self) -> Result<Call> {
        self.expect("#")?;
        let id = self.small()?;
        self.spaces();
        let name = self.word();
        let number = table::number(&name).with_context(|| format!("no call is named '{name}'"))?;
        self.expect("(")?;
        let (mut arguments, mut peeks) = (Vec::new(), Vec::new());
        self.spaces();
        while !self.accept(")") {
            arguments.push(self.value()?);
            self.spaces();
            if self.accept(",") {
                self.spaces();
            } else if self.peek() != b')' {
                bail!("',' or ')' expected before '{}'", String::from_utf8_lossy(self.0));
            }
        }
        self.spaces();
        if self.accept("->") {
            self.spaces();
            while !self.0.is_empty() {
                let argument = self.small()?;
                self.expect("+")?;
                let offset = self.small()?;
                self.expect(":")?;
                peeks.push(Peek { argument, offset, size: self.small()? });
                self.spaces();
            }
        }
        Ok(Call { id, number, arguments, peeks })
    }

    fn value(&mut self) -> Result<Value> {
        if self.accept("$") {
            let id = self.small()?;
            let part = if self.accept(".") { self.small()? } else { 0 };
            let instead = if self.accept("|") { self.number()? } else { u64::MAX };
            return Ok(Value::Result { id, part, instead });
        }
        if self.accept("code") {
            return Ok(Value::Code(self.small()?));
        }
        if self.accept("pid") {
            return Ok(Value::Pid(self.small()?));
        }
        let place = if self.accept("edge") {
            Place::Edge
        } else if self.accept("at") {
            Place::At(self.small()?)
        } else {
            Place::Anywhere
        };
        if self.accept("{") {
            return Ok(Value::Data(Data { place, parts: self.parts()? }));
        }
        Ok(Value::Number(self.number()?))
    }

    fn parts(&mut self) -> Result<Vec<Part>> {
        let mut parts = Vec::new();
        loop {
            self.spaces();
            if self.accept("}") {
                return Ok(parts);
            }
            parts.push(if self.accept("\"") {
                Part::Bytes(self.string()?)
            } else if self.accept("..") {
                Part::Room(self.small()?)
            } else {
                let size = self.small()?;
                self.expect(":")?;
                Part::Value(size, self.value()?)
            });
        }
    }

    fn string(&mut self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        loop {
            match self.take() {
                0 => bail!("a string does not end"),
                b'"' => return Ok(bytes),
                b'\\' if self.accept("x") => {
                    let digits = [self.take(), self.take()];
                    let digits = std::str::from_utf8(&digits).context("\\x wants two digits")?;
                    bytes.push(u8::from_str_radix(digits, 16).context("\\x wants two digits")?);
                }
                b'\\' => bytes.push(self.take()),
                byte => bytes.push(byte),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::Generator;

    #[test]
    fn a_program_survives_its_text() {
        for seed in 0..300 {
            let program = Generator::new(seed).program();
            let text = program.to_string();
            let (again, _) = parse(&text).unwrap_or_else(|error| panic!("{error:#}\n{text}"));
            assert_eq!(again, program, "{text}");
        }
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for text in [
            "",
            "uid 0",
            "uid x",
            "task what",
            "uid 0\ntask process\n  #0 nothing()",
            "uid 0\ntask process\n  #0 read(0x",
            "speed 3",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
