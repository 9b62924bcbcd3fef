//! What the kernel says on its console: kept for the last words, shown live if asked for.
#![forbid(unsafe_code)]

use std::io::Write;

/// As much as a long panic needs; the beginning is dropped first.
const KEPT: usize = 64 << 10;
/// Lines shown when a kernel dies without a word that looks like a cause.
const LAST_LINES: usize = 20;
const MOST_LINES: usize = 60;

/// How Darter's reports of stalls begin.
const STALL: &str = "stall: ";
/// How the lines begin in which Darter's audit says what it found. A panic of any length follows them.
const AUDIT: &str = "audit: ";

#[derive(Default)]
pub struct Console {
    text: Vec<u8>,
    /// Show each line on stderr as it comes.
    live: bool,
}

impl Console {
    pub fn new(live: bool) -> Self {
        Self { text: Vec::new(), live }
    }

    pub fn take(&mut self, bytes: &[u8]) {
        if self.live {
            // Nothing can be done when stderr is gone, and the guest goes on.
            let _ = std::io::stderr().write_all(bytes);
        }
        self.text.extend_from_slice(bytes);
        if self.text.len() > 2 * KEPT {
            self.text.drain(..self.text.len() - KEPT);
        }
    }

    /// What the kernel said of stalls, and after.
    pub fn stall(&self) -> Option<String> {
        let has_said = self.text.windows(STALL.len()).any(|part| part == STALL.as_bytes());
        has_said.then(|| self.last_words())
    }

    /// The end of the log, from the first line that tells of the cause if there is one.
    pub fn last_words(&self) -> String {
        let text = String::from_utf8_lossy(&self.text).replace('\r', "");
        let text: String = text.chars().filter(|c| *c == '\n' || *c == '\t' || !c.is_control()).collect();
        let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
        let tells = |line: &&str| {
            let line = line.to_ascii_lowercase();
            ["panic", "init: ", "bug: ", "fatal", "oops", STALL, AUDIT].iter().any(|word| line.contains(word))
        };
        let cause = lines.iter().position(tells).unwrap_or(lines.len());
        let from = cause.min(lines.len().saturating_sub(LAST_LINES));
        let shown = &lines[from..lines.len().min(from + MOST_LINES)];
        shown.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_words_begin_at_the_cause_and_are_plain_text() {
        let mut console = Console::default();
        for i in 0..100 {
            console.take(format!("line {i}\r\n").as_bytes());
        }
        console.take(b"\x1b[31mKernel panic - not syncing: no init\r\n");
        for i in 0..30 {
            console.take(format!("frame {i}\r\n").as_bytes());
        }
        let words = console.last_words();
        assert!(words.starts_with("[31mKernel panic"), "{words}");
        assert!(words.ends_with("frame 29"));
    }

    #[test]
    fn what_an_audit_found_is_told_before_a_long_panic() {
        let mut console = Console::default();
        console.take(b"up\naudit: nothing refers to an object\n\nkernel panic on CPU 1: the audit found 1\n");
        (0..30).for_each(|i| console.take(format!("frame {i}\n").as_bytes()));
        assert!(console.last_words().starts_with("audit: nothing refers to an object\nkernel panic"));
    }

    #[test]
    fn a_kernel_that_dies_silently_leaves_its_last_lines() {
        let mut console = Console::default();
        for i in 0..100 {
            console.take(format!("line {i}\n").as_bytes());
        }
        assert_eq!(console.last_words().lines().count(), LAST_LINES);
        assert_eq!(Console::default().last_words(), "");
        assert_eq!(console.stall(), None);
    }

    #[test]
    fn a_stall_is_told_of_from_its_first_line() {
        let mut console = Console::default();
        console.take(b"up\r\n\r\nstall: CPU 0 has not given way\r\nend of stall\r\n");
        (0..30).for_each(|_| console.take(b"more\r\n"));
        assert!(console.stall().unwrap().starts_with("stall: CPU 0 has not given way\nend of stall\nmore"));
    }
}
