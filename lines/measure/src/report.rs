//! A window in words: figures per operation, the code that moves lines, and the worst lines by name.

use crate::{Class, CodeName, Line, LineName, LineWindow, Names};
use serde::Serialize;
use std::collections::HashMap;
use std::fmt::Write as _;

/// A line with names for everything, as JSON has it.
#[derive(Clone, Debug, Serialize)]
pub struct NamedLine {
    /// The same in every run and on any number of CPUs.
    pub name: String,
    pub line: LineName,
    pub class: Option<&'static str>,
    pub transfers: u64,
    pub remote: u64,
    /// What each CPU did: where it first read and first wrote the line.
    pub users: Vec<NamedUser>,
    /// The most frequent first.
    pub pairs: Vec<NamedPair>,
}

#[derive(Clone, Debug, Serialize)]
pub struct NamedUser {
    pub cpu: u32,
    pub read: Option<CodeName>,
    pub write: Option<CodeName>,
}

/// A kind of transfer.
#[derive(Clone, Debug, Serialize)]
pub struct NamedPair {
    pub write: bool,
    pub at: CodeName,
    /// Where another CPU wrote it last; none: a reader held it.
    pub written_at: Option<CodeName>,
    pub count: u64,
}

/// Kinds of transfer shown of each line.
const PAIRS: usize = 2;

impl LineWindow {
    /// The window's worst `top` lines with names: those that moved, the most often moved first, then those that only conflict.
    pub fn named(&self, names: &Names, top: usize) -> Vec<NamedLine> {
        let still = self.conflicts().filter(|line| line.transfers == 0);
        let moved = self.lines.iter().filter(|line| line.transfers > 0);
        moved.chain(still).take(top).map(|line| self.named_line(line, names)).collect()
    }

    /// One of the window's lines with names.
    pub fn named_line(&self, line: &Line, names: &Names) -> NamedLine {
        let code = |pc: u64| (pc != 0).then(|| names.code(pc));
        let name = names.line(self, line);
        NamedLine {
            name: name.stable(),
            line: name,
            class: line.class.map(Class::name),
            transfers: line.transfers,
            remote: line.remote,
            users: line
                .cpus
                .iter()
                .map(|user| NamedUser { cpu: user.cpu, read: code(user.read_pc), write: code(user.write_pc) })
                .collect(),
            pairs: line
                .pairs
                .iter()
                .map(|pair| NamedPair {
                    write: pair.write != 0,
                    at: names.code(pair.pc),
                    written_at: code(pair.from_pc),
                    count: pair.count,
                })
                .collect(),
        }
    }

    /// The figures of the window for `ops` operations, and its `top` lines with the code that moved them, as text.
    pub fn report(&self, ops: u64, names: &Names, top: usize) -> String {
        let each = |count: u64| count as f64 / ops.max(1) as f64;
        let mut text = format!(
            "transfers per operation {:.3} (kernel {:.3}, user {:.3}, between nodes {:.3}), conflict lines {}\n",
            each(self.transfers()),
            each(self.kernel_reads + self.kernel_writes),
            each(self.user_reads + self.user_writes),
            each(self.remote),
            self.conflicts().count()
        );
        self.report_code(&mut text, ops, names, top);
        for line in self.named(names, top) {
            let class = line.class.unwrap_or("-");
            let _ = writeln!(text, "{:10.3}  {class:6}  {}", each(line.transfers), line.line.text());
            for pair in line.pairs.iter().take(PAIRS) {
                let _ = writeln!(text, "{:>18}  {}", pair.count, pair.text());
            }
            if line.pairs.is_empty() {
                for user in line.users.iter().take(PAIRS) {
                    let _ = writeln!(text, "{:18}  {}", "", user.text());
                }
            }
        }
        text
    }

    /// Transfers by the functions at both ends, all lines together: thousands of lines that move once each have one cause.
    fn report_code(&self, text: &mut String, ops: u64, names: &Names, top: usize) {
        // Transfers, lines, and the last of these lines.
        let mut causes: HashMap<(u64, u64), (u64, usize, u64)> = HashMap::new();
        for line in &self.lines {
            for pair in &line.pairs {
                let cause = causes.entry((pair.pc, pair.from_pc)).or_default();
                cause.0 += pair.count;
                if cause.1 == 0 || cause.2 != line.physical {
                    (cause.1, cause.2) = (cause.1 + 1, line.physical);
                }
            }
        }
        // Several instructions may be at one place.
        let mut places: HashMap<(String, String), (u64, usize)> = HashMap::new();
        for ((to, from), (count, lines, _)) in causes {
            let from = if from == 0 { "a reader".into() } else { names.code(from).text() };
            let place = places.entry((names.code(to).text(), from)).or_default();
            *place = (place.0 + count, place.1.max(lines));
        }
        let mut places: Vec<_> = places.into_iter().collect();
        places.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        for ((to, from), (count, lines)) in places.iter().take(top) {
            let each = *count as f64 / ops.max(1) as f64;
            let _ = writeln!(text, "{each:10.3}  {to} <- {from} ({lines} lines)");
        }
        text.push('\n');
    }
}

impl NamedPair {
    /// `write at … <- …`: who took the line, and who had written it.
    pub fn text(&self) -> String {
        let how = if self.write { "write" } else { "read" };
        let from = self.written_at.as_ref().map_or("a reader".into(), CodeName::text);
        format!("{how} {} <- {from}", self.at.text())
    }
}

impl NamedUser {
    /// `CPU n: read …, write …`
    pub fn text(&self) -> String {
        let mut text = format!("CPU {}:", self.cpu);
        for (how, code) in [(" read", &self.read), (" write", &self.write)] {
            if let Some(code) = code {
                let comma = if text.ends_with(':') { "" } else { "," };
                let _ = write!(text, "{comma}{how} {}", code.text());
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::tests::FILE;
    use crate::parse_lines;

    #[test]
    fn the_report_names_lines_and_code() {
        let window = &parse_lines(FILE).unwrap()[0];
        let names = Names::new(b"ffffffff81000000 T grab\nffffffff81000180 D counter\n").unwrap();
        let text = window.report(2, &names, 10);
        assert!(text.starts_with("transfers per operation 2.000 (kernel 1.500, user 0.500"), "{text}");
        assert!(
            text.contains("1.500  lock    counter+0x40\n                 3  write grab <- a reader\n"),
            "{text}"
        );
        assert!(text.contains("1  read the program <- the program\n"), "{text}");
        assert!(text.contains("0.000  false   program memory at 0x280\n"), "{text}");
        assert!(text.contains("CPU 0: read the program, write the program\n"), "{text}");
        assert!(text.contains("1.500  grab <- a reader (1 lines)\n"), "{text}");
        assert_eq!(window.report(2, &names, 1).lines().count(), 5);
    }

    #[test]
    fn json_has_the_stable_name_and_both_places() {
        let window = &parse_lines(FILE).unwrap()[0];
        let names = Names::new(b"ffffffff81000000 T grab\nffffffff81000180 D counter\n").unwrap();
        let named = serde_json::to_value(window.named(&names, 1)).unwrap();
        assert_eq!(named[0]["name"], "counter+0x40");
        assert_eq!(named[0]["users"][1]["write"]["function"], "grab");
        assert_eq!(named[0]["pairs"][0]["written_at"], serde_json::Value::Null);
    }
}
