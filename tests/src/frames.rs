//! What the guest's driver writes, taken apart.
//!
//! A frame is a line `@@begin NAME` before a program starts, and, when it is over, a line
//! `@@end NAME STATUS MILLISECONDS LENGTH` followed by LENGTH bytes of what it printed.

/// A program that came to an end.
#[derive(Clone)]
pub struct Ended {
    /// `exit-N`, `signal-N` or `timeout`.
    pub status: String,
    pub seconds: f64,
    pub output: Vec<u8>,
}

impl Ended {
    pub fn same_as(&self, other: &Ended) -> bool {
        self.status == other.status && self.output == other.output
    }
}

/// How a program's turn went.
pub enum Outcome {
    Ended(Ended),
    /// The machine stopped while it ran; its last words.
    Machine(String),
}

impl Outcome {
    pub fn seconds(&self) -> f64 {
        match self {
            Outcome::Ended(ended) => ended.seconds,
            Outcome::Machine(_) => 0.0,
        }
    }
}

/// The programs that ended, by name in their order, and the one that was running when the text stops.
pub fn parse(mut text: &[u8]) -> (Vec<(String, Ended)>, Option<String>) {
    let mut ended = Vec::new();
    let mut running = None;
    while !text.is_empty() {
        let (line, rest) = match text.iter().position(|&byte| byte == b'\n') {
            Some(end) => (text.get(..end).unwrap_or_default(), text.get(end + 1..).unwrap_or_default()),
            None => (text, &[][..]),
        };
        text = rest;
        let line = String::from_utf8_lossy(line);
        let line = line.trim_end_matches('\r');
        if let Some(name) = line.strip_prefix("@@begin ") {
            running = Some(name.to_owned());
        } else if let Some((name, one, length)) = line.strip_prefix("@@end ").and_then(end_line) {
            let Some(output) = text.get(..length) else { break };
            text = text.get(length..).unwrap_or_default();
            ended.push((name, Ended { output: output.to_vec(), ..one }));
            running = None;
        }
    }
    (ended, running)
}

fn end_line(line: &str) -> Option<(String, Ended, usize)> {
    let mut words = line.split(' ');
    let name = words.next()?.to_owned();
    let status = words.next()?.to_owned();
    let milliseconds: f64 = words.next()?.parse().ok()?;
    let length = words.next()?.parse().ok()?;
    Some((name, Ended { status, seconds: milliseconds / 1000.0, output: Vec::new() }, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_apart_and_the_unfinished_one_is_named() {
        let text = b"\n@@begin a\n\n@@end a exit-3 1500 6\n@@end \n\n@@begin b\nsome";
        let (ended, running) = parse(text);
        assert_eq!(ended.len(), 1);
        assert_eq!(ended[0].0, "a");
        assert_eq!(ended[0].1.status, "exit-3");
        assert_eq!(ended[0].1.output, b"@@end ");
        assert_eq!(running.as_deref(), Some("b"));
    }

    #[test]
    fn a_frame_cut_short_is_no_result() {
        let (ended, running) = parse(b"@@begin a\n@@end a exit-0 1 100\nshort");
        assert!(ended.is_empty());
        assert_eq!(running.as_deref(), Some("a"));
    }
}
