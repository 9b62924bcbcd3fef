//! The screen of `top`: a heading, all CPUs together, and as many CPUs as there is room for, which scroll.
#![forbid(unsafe_code)]

use std::io::Stdout;

use anyhow::{Context, Result};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

use super::figures::{Column, Figures};
use super::lines::{self, View};
use crate::relay::terminal::Raw;

/// Lines above the CPUs: what runs, the titles, all together.
const ABOVE: usize = 3;

/// The terminal in raw mode with another screen, until this is dropped.
pub struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    view: View,
    command: String,
    /// A text to filter by is being typed.
    asks: bool,
    /// CPUs above the first one that is shown.
    scrolled: usize,
    total: Figures,
    cpus: Vec<Figures>,
    /// Dropped last.
    _raw: Raw,
}

impl Screen {
    /// # Errors
    /// It is no terminal that can be set so.
    pub fn enter(view: View, command: String) -> Result<Self> {
        let raw = Raw::enter()?;
        execute!(std::io::stdout(), EnterAlternateScreen).context("cannot change to another screen")?;
        let terminal = Terminal::new(CrosstermBackend::new(std::io::stdout()));
        let terminal = terminal.context("cannot draw on this terminal")?;
        let (total, cpus) = (Figures::default(), Vec::new());
        let mut screen = Self { terminal, view, command, asks: false, scrolled: 0, total, cpus, _raw: raw };
        screen.draw();
        Ok(screen)
    }

    /// Shows what the CPUs did.
    pub fn show(&mut self, total: Figures, cpus: Vec<Figures>) {
        (self.total, self.cpus) = (total, cpus);
        self.draw();
    }

    /// Takes keys. True: it is to end.
    pub fn take(&mut self, typed: &[u8]) -> bool {
        let mut rest = typed;
        loop {
            let found = if self.asks { typing(rest) } else { key(rest) };
            let Some((key, len)) = found else { break };
            rest = rest.get(len..).unwrap_or_default();
            match key {
                Key::Quit => return true,
                Key::Ask => self.asks = true,
                Key::Done => self.asks = false,
                Key::Clear => {
                    self.asks = false;
                    self.view.filter.clear();
                }
                Key::Erase => drop(self.view.filter.pop()),
                Key::EraseAll => self.view.filter.clear(),
                Key::Text(letter) => self.view.filter.push(letter),
                Key::Up(lines) => self.scrolled = self.scrolled.saturating_sub(lines),
                Key::Down(lines) => self.scrolled = self.scrolled.saturating_add(lines),
                Key::Column(step) => self.view.sort = beside(self.view.sort, step),
                Key::Reverse => self.view.reversed = !self.view.reversed,
                Key::Busy => self.view.busy = !self.view.busy,
                Key::Other => {}
            }
        }
        self.draw();
        false
    }

    /// A terminal that has gone away shows nothing; the program goes on.
    fn draw(&mut self) {
        let Self { terminal, view, command, asks, scrolled, total, cpus, .. } = self;
        let _ = terminal.draw(|frame| {
            let (width, height) = (frame.area().width.into(), usize::from(frame.area().height));
            let shown = view.of(cpus);
            *scrolled = (*scrolled).min(shown.len().saturating_sub(height.saturating_sub(ABOVE)));
            let mut text = vec![Line::raw(title(view, *asks, command))];
            text.push(Line::styled(lines::heading(width), Style::new().add_modifier(Modifier::REVERSED)));
            text.push(Line::styled(lines::line(total, width), Style::new().add_modifier(Modifier::BOLD)));
            text.extend(shown.into_iter().skip(*scrolled).map(|cpu| Line::raw(lines::line(cpu, width))));
            frame.render_widget(Paragraph::new(text), frame.area());
        });
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // The terminal may be gone.
        let _ = self.terminal.show_cursor();
        let _ = execute!(std::io::stdout(), LeaveAlternateScreen);
    }
}

/// The first line; `asks`: with a mark where the next letter of the filter goes.
fn title(view: &View, asks: bool, command: &str) -> String {
    let order = if view.reversed { " reversed" } else { "" };
    let filter = match (asks, view.filter.as_str()) {
        (false, "") => String::new(),
        (false, text) => format!(", /{text}"),
        (true, text) => format!(", /{text}_"),
    };
    format!("darter top, by {}{order}{filter}: {command}", view.sort.title())
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Key {
    Quit,
    Up(usize),
    Down(usize),
    Column(isize),
    Reverse,
    Busy,
    /// A text to filter by is to be typed; it has been; there is to be none.
    Ask,
    Done,
    Clear,
    /// A letter of that text.
    Text(char),
    Erase,
    EraseAll,
    Other,
}

/// As [`key`], while a text is typed.
fn typing(typed: &[u8]) -> Option<(Key, usize)> {
    Some(match typed {
        [] => return None,
        [3, ..] => (Key::Quit, 1),
        [b'\r' | b'\n', ..] => (Key::Done, 1),
        [0x7f | 8, ..] => (Key::Erase, 1),
        // Ctrl-U.
        [0x15, ..] => (Key::EraseAll, 1),
        [0x1b, ..] => return key(typed),
        [first, ..] if *first < 0x20 => (Key::Other, 1),
        _ => letter(typed),
    })
}

/// The first letter of a text, or a byte that is none.
fn letter(typed: &[u8]) -> (Key, usize) {
    let longest = typed.get(..typed.len().min(4)).unwrap_or_default();
    let valid = match std::str::from_utf8(longest) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&longest[..error.valid_up_to()]).unwrap_or_default(),
    };
    valid.chars().next().map_or((Key::Other, 1), |letter| (Key::Text(letter), letter.len_utf8()))
}

/// The first key of what was typed, and how many bytes it is.
fn key(typed: &[u8]) -> Option<(Key, usize)> {
    const PAGE: usize = 16;
    Some(match typed {
        [] => return None,
        // Ctrl-C is a byte in raw mode.
        [b'q' | 3, ..] => (Key::Quit, 1),
        [b'r', ..] => (Key::Reverse, 1),
        [b'b', ..] => (Key::Busy, 1),
        [b'/', ..] => (Key::Ask, 1),
        [0x1b, b'[' | b'O', b'A', ..] => (Key::Up(1), 3),
        [0x1b, b'[' | b'O', b'B', ..] => (Key::Down(1), 3),
        [0x1b, b'[' | b'O', b'C', ..] => (Key::Column(1), 3),
        [0x1b, b'[' | b'O', b'D', ..] => (Key::Column(-1), 3),
        [0x1b, b'[', b'5', b'~', ..] => (Key::Up(PAGE), 4),
        [0x1b, b'[', b'6', b'~', ..] => (Key::Down(PAGE), 4),
        [0x1b, b'O', _, ..] => (Key::Other, 3),
        // Any other key that sends more than a byte (ECMA-48: a control sequence and its final byte).
        [0x1b, b'[', rest @ ..] => {
            let end = rest.iter().position(|byte| (0x40..0x7f).contains(byte));
            (Key::Other, 2 + end.map_or(rest.len(), |at| at + 1))
        }
        [0x1b, ..] => (Key::Clear, 1),
        _ => (Key::Other, 1),
    })
}

/// The column so many further on.
fn beside(column: Column, step: isize) -> Column {
    let all = Column::ALL;
    let at = all.iter().position(|other| *other == column).unwrap_or(0);
    all[(at as isize + step).rem_euclid(all.len() as isize) as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_told_apart() {
        let wanted =
            [Key::Reverse, Key::Up(1), Key::Down(1), Key::Down(16), Key::Column(-1), Key::Other, Key::Quit];
        assert_eq!(all(b"r\x1b[A\x1bOB\x1b[6~\x1b[Dxq", key), wanted);
        assert_eq!(all(b"/\x1b", key), [Key::Ask, Key::Clear]);
        assert_eq!(all(b"\x1b[3~\x1b[1;5Ab", key), [Key::Other, Key::Other, Key::Busy]);
    }

    fn all(mut rest: &[u8], first: impl Fn(&[u8]) -> Option<(Key, usize)>) -> Vec<Key> {
        let mut keys = Vec::new();
        while let Some((found, len)) = first(rest) {
            keys.push(found);
            rest = &rest[len..];
        }
        keys
    }

    #[test]
    fn letters_are_typed_where_keys_were() {
        let wanted = [
            Key::Text('q'),
            Key::Text('/'),
            Key::Text('é'),
            Key::Text('x'),
            Key::Other,
            Key::Erase,
            Key::EraseAll,
        ];
        assert_eq!(all("q/éx\t\x7f\x15".as_bytes(), typing), wanted);
        assert_eq!(all(b"\xff\xc3", typing), [Key::Other, Key::Other], "what is no text is none");
        assert_eq!(all(b"\x1b[B\r", typing), [Key::Down(1), Key::Done]);
        assert_eq!((all(b"\x1b", typing), all(b"\x03", typing)), (vec![Key::Clear], vec![Key::Quit]));
    }

    #[test]
    fn the_first_line_says_what_is_left_out() {
        let view =
            |filter: &str| View { sort: Column::Cpu, reversed: true, busy: false, filter: filter.into() };
        assert_eq!(title(&view(""), false, "ls"), "darter top, by cpu reversed: ls");
        assert_eq!(title(&view("pi"), true, "ls"), "darter top, by cpu reversed, /pi_: ls");
        assert_eq!(title(&view("pipe"), false, "ls"), "darter top, by cpu reversed, /pipe: ls");
    }

    #[test]
    fn columns_go_round() {
        assert_eq!(beside(Column::Cpu, 1), Column::Timer);
        assert_eq!(beside(Column::Cpu, -1), Column::Remote);
        assert_eq!(beside(Column::Remote, 1), Column::Cpu);
    }
}
