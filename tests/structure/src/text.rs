//! What people read: documents, and the comments of sources.

/// A line of a document or a comment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub number: usize,
    pub text: String,
}

/// The lines of `file` that are meant for people.
pub fn lines(file: &str, text: &str) -> Vec<Line> {
    match file.rsplit_once('.').map_or("", |(_, extension)| extension) {
        "md" => whole(text),
        "rs" | "c" | "h" | "S" | "ld" => slashes(text),
        "sh" | "toml" => hashes(text),
        _ if file.ends_with("Makefile") || text.starts_with("#!") => hashes(text),
        _ => Vec::new(),
    }
}

fn whole(text: &str) -> Vec<Line> {
    text.lines().zip(1..).map(|(text, number)| Line { number, text: text.to_owned() }).collect()
}

/// What stands behind a `#` at the beginning of a line or a word.
fn hashes(text: &str) -> Vec<Line> {
    let comment = |line: &str| {
        let at = if line.starts_with('#') { Some(0) } else { line.find(" #").map(|n| n + 1) };
        at.and_then(|at| line.get(at + 1..)).map(str::to_owned)
    };
    whole(text)
        .into_iter()
        .filter_map(|line| comment(&line.text).map(|text| Line { number: line.number, text }))
        .collect()
}

/// What stands behind `//` and between `/*` and `*/`, outside strings.
fn slashes(text: &str) -> Vec<Line> {
    #[derive(PartialEq)]
    enum State {
        Code,
        /// The number of `#` of a raw string, or none.
        Text(Option<usize>),
        Line,
        Block(usize),
    }
    let mut lines: Vec<Line> = Vec::new();
    let mut add = |number: usize, c: char| match lines.last_mut() {
        Some(line) if line.number == number => line.text.push(c),
        _ => lines.push(Line { number, text: String::from(c) }),
    };
    let chars: Vec<char> = text.chars().collect();
    let (mut state, mut number, mut at) = (State::Code, 1, 0);
    while let Some(&c) = chars.get(at) {
        let next = chars.get(at + 1).copied().unwrap_or('\n');
        let mut length = 1;
        match state {
            State::Code if c == '/' && next == '/' => (state, length) = (State::Line, 2),
            State::Code if c == '/' && next == '*' => (state, length) = (State::Block(1), 2),
            State::Code if c == '"' => state = State::Text(None),
            State::Code if c == 'r' && (next == '#' || next == '"') && !word_before(&chars, at) => {
                let hashes = chars[at + 1..].iter().take_while(|c| **c == '#').count();
                if chars.get(at + 1 + hashes) == Some(&'"') {
                    (state, length) = (State::Text(Some(hashes)), hashes + 2);
                }
            }
            // A character, not a lifetime.
            State::Code if c == '\'' && next == '\\' => {
                length = 3 + chars[at + 3..].iter().take_while(|c| **c != '\'' && **c != '\n').count();
            }
            State::Code if c == '\'' && chars.get(at + 2) == Some(&'\'') => length = 3,
            State::Text(None) if c == '\\' => {
                length = 2;
                number += usize::from(next == '\n');
            }
            State::Text(None) if c == '"' => state = State::Code,
            State::Text(Some(hashes)) if c == '"' && followed_by(&chars[at + 1..], hashes) => {
                (state, length) = (State::Code, hashes + 1);
            }
            State::Line if c == '\n' => state = State::Code,
            State::Block(depth) if c == '/' && next == '*' => (state, length) = (State::Block(depth + 1), 2),
            State::Block(depth) if c == '*' && next == '/' => {
                length = 2;
                state = if depth > 1 { State::Block(depth - 1) } else { State::Code };
            }
            State::Line | State::Block(_) if c != '\n' => add(number, c),
            _ => {}
        }
        number += usize::from(c == '\n');
        at += length;
    }
    lines
}

/// Do so many `#` follow?
fn followed_by(chars: &[char], hashes: usize) -> bool {
    chars.iter().take(hashes).filter(|c| **c == '#').count() == hashes
}

fn word_before(chars: &[char], at: usize) -> bool {
    at > 0 && (chars[at - 1].is_alphanumeric() || chars[at - 1] == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(file: &str, text: &str) -> Vec<(usize, String)> {
        lines(file, text).into_iter().map(|l| (l.number, l.text.trim().to_owned())).collect()
    }

    #[test]
    fn comments_of_rust_and_c() {
        let text = "//! a\nlet x = \"// b\"; // c\nlet c = '\"'; /* d\ne */ r#\"\n// f\"#;\n'\\''; // g";
        let found = texts("a.rs", text);
        assert_eq!(
            found,
            [(1, "! a".into()), (2, "c".into()), (3, "d".into()), (4, "e".into()), (6, "g".into())]
        );
    }

    #[test]
    fn comments_of_scripts() {
        assert_eq!(texts("a.sh", "# a\nb # c\n$#d"), [(1, "a".into()), (2, "c".into())]);
        assert_eq!(texts("Makefile", "x: ## y"), [(1, "# y".into())]);
        assert_eq!(texts("a.md", "a\nb"), [(1, "a".into()), (2, "b".into())]);
    }
}
