//! What the ABI programs have shown: which calls they made, with which options, and with which outcome. A machine that boots with
//! `strace=shown` tells it (kernel/src/syscall/trace.rs); `Record::take_line` reads a line of its log.
//!
//! The record is kept in tests/table/shown, a line each: call, argument, option, outcome (`ok` or an error), programs. A call as such
//! has `-` for argument and option. The argument of a structure is `argument.field`; one that belongs to a command has the command's name. Bits
//! that no option names are an option in hexadecimal.
#![forbid(unsafe_code)]

use crate::{CALLS, Call, Kind, Opt, Set, Struct};
use std::collections::{BTreeMap, BTreeSet};

/// What was shown.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Fact {
    pub call: String,
    pub argument: String,
    pub option: String,
    pub outcome: String,
}

/// What was shown, and by which programs.
#[derive(Default, PartialEq, Eq, Debug)]
pub struct Record(pub BTreeMap<Fact, BTreeSet<String>>);

/// As a line of the log tells an argument: nothing, a word, or a word that is the address of these two.
type Told = Option<(u64, Option<[u64; 2]>)>;

/// Programs whose name in the kernel is this are all called so.
const NAME_MAX: usize = 15;

impl Record {
    /// Takes a line of a machine's log, if it is one of `programs` that called.
    pub fn take_line(&mut self, line: &str, programs: &[String]) {
        let Some((_, shown)) = line.split_once("shown: ") else { return };
        let Some((program, number, told, error)) = parse(shown) else { return };
        let Some(program) = programs.iter().find(|name| name.get(..NAME_MAX).unwrap_or(name) == program)
        else {
            return;
        };
        let Some(call) = CALLS.iter().find(|call| call.number == number) else { return };
        let outcome = if error == 0 { "ok".to_owned() } else { error_name(error) };
        let mut add = |argument: &str, option: &str| {
            let fact = Fact {
                call: call.name.to_owned(),
                argument: argument.to_owned(),
                option: option.to_owned(),
                outcome: outcome.clone(),
            };
            self.0.entry(fact).or_default().insert(program.clone());
        };
        add("-", "-");
        asked_for(call, &told, &mut add);
    }

    pub fn parse(text: &str) -> Record {
        let mut record = Record::default();
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let [call, argument, option, outcome, programs] = words[..] else { continue };
            let [call, argument, option, outcome] = [call, argument, option, outcome].map(str::to_owned);
            let programs = programs.split(',').map(str::to_owned).collect();
            record.0.insert(Fact { call, argument, option, outcome }, programs);
        }
        record
    }

    pub fn text(&self) -> String {
        let line = |(fact, programs): (&Fact, &BTreeSet<String>)| {
            let programs: Vec<&str> = programs.iter().map(String::as_str).collect();
            let Fact { call, argument, option, outcome } = fact;
            format!("{call} {argument} {option} {outcome} {}\n", programs.join(","))
        };
        self.0.iter().map(line).collect()
    }

    /// The programs that have shown it.
    pub fn programs(
        &self,
        call: &str,
        argument: &str,
        option: &str,
        outcome: &str,
    ) -> Option<&BTreeSet<String>> {
        let [call, argument, option, outcome] = [call, argument, option, outcome].map(str::to_owned);
        self.0.get(&Fact { call, argument, option, outcome })
    }
}

fn parse(line: &str) -> Option<(&str, usize, Vec<Told>, i32)> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let [program, number, arguments @ .., error] = &words[..] else { return None };
    let hex = |word: &str| u64::from_str_radix(word, 16).ok();
    let mut told = Vec::new();
    for word in arguments {
        told.push(match word.split_once('@') {
            None => hex(word).map(|word| (word, None)),
            Some((address, words)) => {
                let (first, second) = words.split_once(':')?;
                Some((hex(address)?, Some([hex(first)?, hex(second)?])))
            }
        });
    }
    Some((program, number.parse().ok()?, told, error.parse().ok()?))
}

fn asked_for(call: &'static Call, told: &[Told], add: &mut dyn FnMut(&str, &str)) {
    let mut command: Option<&'static Opt> = None;
    for (argument, told) in call.arguments.iter().zip(told) {
        let Some((word, structure)) = *told else { continue };
        let (name, kind) = match (&argument.kind, command) {
            (Kind::Extra(n), Some(command)) => match command.takes.get(*n) {
                Some(kind) => (command.name, kind),
                None => continue,
            },
            (kind, _) => (argument.name, kind),
        };
        match kind {
            Kind::Options(set) => {
                options(name, set, word, add);
                command = command
                    .or(set.parts(word).find(|option| set.choices.iter().any(|c| std::ptr::eq(c, *option))));
            }
            Kind::In(known) | Kind::InOut(known) | Kind::InMany(known, _) | Kind::InOutMany(known, _) => {
                if let Some(words) = structure {
                    fields(name, known, words, add);
                }
            }
            _ => {}
        }
    }
}

fn options(argument: &str, set: &'static Set, value: u64, add: &mut dyn FnMut(&str, &str)) {
    let value = value & set.mask();
    let mut known = 0;
    for option in set.parts(value) {
        known |= option.value;
        add(argument, option.name);
    }
    let rest = value & !known & set.mask();
    if rest != 0 {
        add(argument, &format!("{rest:#x}"));
    }
}

fn fields(argument: &str, known: &'static Struct, words: [u64; 2], add: &mut dyn FnMut(&str, &str)) {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    for field in known.fields {
        let (Kind::Options(set), Some(bytes)) =
            (&field.kind, bytes.get(field.offset..field.offset + field.size))
        else {
            continue;
        };
        let value = bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte));
        options(&format!("{argument}.{}", field.name), set, value, add);
    }
}

macro_rules! errors {
    ($($name:ident)*) => {
        /// `ENOENT`, of its number.
        fn error_name(error: i32) -> String {
            $(if error.cast_unsigned() == linux_raw_sys::errno::$name {
                return stringify!($name).to_owned();
            })*
            format!("E{error}")
        }
    };
}
errors! {
    EPERM ENOENT ESRCH EINTR EIO ENXIO E2BIG ENOEXEC EBADF ECHILD EAGAIN ENOMEM EACCES EFAULT ENOTBLK EBUSY EEXIST EXDEV ENODEV ENOTDIR EISDIR
    EINVAL ENFILE EMFILE ENOTTY ETXTBSY EFBIG ENOSPC ESPIPE EROFS EMLINK EPIPE EDOM ERANGE EDEADLK ENAMETOOLONG ENOLCK ENOSYS ENOTEMPTY ELOOP
    ENODATA EOVERFLOW EOPNOTSUPP ETIMEDOUT EALREADY ECANCELED EOWNERDEAD ENOTRECOVERABLE ENOTSOCK EMSGSIZE EPROTOTYPE ENOPROTOOPT
    EPROTONOSUPPORT ESOCKTNOSUPPORT EAFNOSUPPORT EADDRINUSE ECONNRESET EISCONN ENOTCONN ETOOMANYREFS ECONNREFUSED
}

#[cfg(test)]
mod tests {
    use super::Record;

    #[test]
    fn a_line_of_the_log_is_taken_apart() {
        let programs = ["files".to_owned(), "sigcontext-of-all".to_owned()];
        let mut record = Record::default();
        record.take_line("[1.2] shown: files 257 - - 80041 - - - 0", &programs);
        record.take_line("shown: files 72 - 4 800 - - - 0", &programs);
        record.take_line("shown: files 72 - 6 7ffe@1:0 - - - 11", &programs);
        record.take_line("shown: sigcontext-of-a 13 - 7ff0@1:4 - - - - 22", &programs);
        record.take_line("shown: stranger 39 - - - - - - 0", &programs);
        let text = "fcntl - - EAGAIN files\nfcntl - - ok files\nfcntl F_SETFL O_NONBLOCK ok files\nfcntl F_SETFL O_RDONLY ok files\n\
            fcntl F_SETLK.kind F_WRLCK EAGAIN files\nfcntl F_SETLK.whence SEEK_SET EAGAIN files\nfcntl command F_SETFL ok files\n\
            fcntl command F_SETLK EAGAIN files\nopenat - - ok files\nopenat flags O_CLOEXEC ok files\nopenat flags O_CREAT ok files\n\
            openat flags O_WRONLY ok files\nrt_sigaction - - EINVAL sigcontext-of-all\n\
            rt_sigaction new.flags SA_SIGINFO EINVAL sigcontext-of-all\n";
        assert_eq!(record.text(), text);
        assert_eq!(Record::parse(text), record);
        assert_eq!(record.programs("openat", "flags", "O_CREAT", "ok").map(|p| p.len()), Some(1));
    }
}
