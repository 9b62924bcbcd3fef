//! The script that runs benchmarks one after another in a guest, and what is read off its output.
//!
//! Each command stands between a line `@begin NUMBER` and a line `@end NUMBER STATUS`; a benchmark's closing line
//! (`bench=… key=value …`) is its result, and everything else it prints is kept beside it, or is why it failed.
#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};

/// A benchmark's closing line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    pub ops: u64,
    pub seconds: f64,
    /// Operations a second, all tasks together.
    pub rate: f64,
    pub min_per_task: u64,
    pub max_per_task: u64,
    pub user: f64,
    pub sys: f64,
    /// What else it printed, line by line.
    #[serde(skip)]
    pub said: Vec<String>,
}

#[derive(Debug, PartialEq)]
pub enum Event {
    /// This command (its place in the script) has begun.
    Begun(usize),
    Ended(usize, Result<Measured, String>),
}

pub struct Command {
    /// The line for the shell.
    pub line: String,
    /// Transparent huge pages for this one; none for the others.
    pub huge_pages: bool,
}

/// What the window is called that command `number` of a script opens.
pub fn window(number: usize) -> u64 {
    number as u64 + 1
}

const HUGE_PAGES: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

/// `settle`: seconds to wait until the guest is quiet. `limit`: seconds that one command may take. `undisturbed`: each benchmark has to
/// see to that itself, asleep; busybox's timeout wakes every second to look whether the command is still there.
pub fn script(commands: &[Command], settle: f64, limit: u32, undisturbed: bool) -> String {
    let bounded = if undisturbed { format!("BENCH_LIMIT={limit}") } else { format!("timeout {limit}") };
    let mut script = format!("sleep {settle}\n");
    for (number, command) in commands.iter().enumerate() {
        let window = window(number);
        let setting = if command.huge_pages { "always" } else { "never" };
        script.push_str(&format!("[ ! -e {HUGE_PAGES} ] || echo {setting} >{HUGE_PAGES}\n"));
        script.push_str(&format!("echo @begin {number}\n"));
        script.push_str(&format!("BENCH_WINDOW={window:04} {bounded} {} </dev/null 2>&1\n", command.line));
        script.push_str(&format!("echo @end {number} $?\n"));
    }
    script
}

/// Reads a guest's output as it comes.
#[derive(Default)]
pub struct Reader {
    line: Vec<u8>,
    current: Option<usize>,
    measured: Option<Measured>,
    said: Vec<String>,
}

impl Reader {
    pub fn take(&mut self, bytes: &[u8], events: &mut Vec<Event>) {
        for byte in bytes {
            if *byte == b'\n' {
                let line = String::from_utf8_lossy(&std::mem::take(&mut self.line)).into_owned();
                events.extend(self.take_line(line.trim_end()));
            } else {
                self.line.push(*byte);
            }
        }
    }

    /// The command that runs now and what it has said, for when the machine fails under it.
    pub fn current(&self) -> Option<usize> {
        self.current
    }

    fn take_line(&mut self, line: &str) -> Option<Event> {
        let mut words = line.split(' ');
        match words.next()? {
            "@begin" => {
                self.current = words.next()?.parse().ok();
                self.measured = None;
                self.said.clear();
                self.current.map(Event::Begun)
            }
            "@end" => {
                let number = words.next()?.parse().ok()?;
                let status: i32 = words.next()?.parse().ok()?;
                self.current = None;
                let said = std::mem::take(&mut self.said);
                let result = match (status, self.measured.take()) {
                    (0, Some(measured)) => Ok(Measured { said, ..measured }),
                    (0, None) => Err(format!("it printed no result: {}", said.join("; "))),
                    // SIGTERM from timeout, or SIGALRM.
                    (124 | 142 | 143, _) => Err("it did not end in time".into()),
                    (status, _) if said.is_empty() => Err(format!("status {status}")),
                    (status, _) => Err(format!("status {status}: {}", said.join("; "))),
                };
                Some(Event::Ended(number, result))
            }
            first if first.starts_with("bench=") => {
                self.measured = parse(line);
                None
            }
            _ => {
                self.said.push(line.to_owned());
                None
            }
        }
    }
}

fn parse(line: &str) -> Option<Measured> {
    let value = |key: &str| {
        line.split(' ')
            .find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
            .filter(|text| !text.is_empty())
    };
    Some(Measured {
        ops: value("ops")?.parse().ok()?,
        seconds: value("seconds")?.parse().ok()?,
        rate: value("rate")?.parse().ok()?,
        min_per_task: value("min_per_task")?.parse().ok()?,
        max_per_task: value("max_per_task")?.parse().ok()?,
        user: value("user")?.parse().ok()?,
        sys: value("sys")?.parse().ok()?,
        said: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLOSING: &str = "bench=mmap cpus=2 ops=616 seconds=1.051558 rate=585.80 min_per_task=298 max_per_task=318 user=0.306 sys=1.722";

    #[test]
    fn results_are_read_however_the_output_is_cut() {
        let output =
            format!("@begin 0\n{CLOSING}\n@end 0 0\n@begin 1\nmmap: no memory\n@end 1 1\n@begin 2\n");
        let (mut reader, mut events) = (Reader::default(), Vec::new());
        for piece in output.as_bytes().chunks(7) {
            reader.take(piece, &mut events);
        }
        assert_eq!(events.len(), 5);
        let Event::Ended(0, Ok(measured)) = &events[1] else { panic!("{events:?}") };
        assert_eq!((measured.ops, measured.rate), (616, 585.80));
        assert_eq!(events[3], Event::Ended(1, Err("status 1: mmap: no memory".into())));
        assert_eq!(reader.current(), Some(2));
    }

    #[test]
    fn nothing_wakes_beside_an_undisturbed_command() {
        let commands = [Command { line: "faultzf 2".into(), huge_pages: false }];
        let begins = |undisturbed| format!("\nBENCH_WINDOW=0001 {undisturbed} faultzf 2 </dev/null");
        assert!(script(&commands, 0.5, 9, false).contains(&begins("timeout 9")));
        assert!(script(&commands, 0.5, 9, true).contains(&begins("BENCH_LIMIT=9")));
    }

    #[test]
    fn a_benchmark_without_a_result_has_failed() {
        let (mut reader, mut events) = (Reader::default(), Vec::new());
        reader.take(b"@begin 3\n@end 3 0\n@begin 4\nbench=x ops=1\n@end 4 0\n", &mut events);
        assert!(matches!(events[1], Event::Ended(3, Err(_))));
        assert!(matches!(events[3], Event::Ended(4, Err(_))));
    }
}
