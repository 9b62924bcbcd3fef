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
        let mut screen = Self { terminal, view, command, scrolled: 0, total, cpus, _raw: raw };
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
        while let Some((key, len)) = key(rest) {
            rest = rest.get(len..).unwrap_or_default();
            match key {
                Key::Quit => return true,
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
        let Self { terminal, view, command, scrolled, total, cpus, .. } = self;
        let _ = terminal.draw(|frame| {
            let (width, height) = (frame.area().width.into(), usize::from(frame.area().height));
            let shown = view.of(cpus);
            *scrolled = (*scrolled).min(shown.len().saturating_sub(height.saturating_sub(ABOVE)));
            let order = if view.reversed { " reversed" } else { "" };
            let title = format!("darter top, by {}{order}: {command}", view.sort.title());
            let mut text = vec![Line::raw(title)];
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

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Key {
    Quit,
    Up(usize),
    Down(usize),
    Column(isize),
    Reverse,
    Busy,
    Other,
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
        [0x1b, b'[' | b'O', b'A', ..] => (Key::Up(1), 3),
        [0x1b, b'[' | b'O', b'B', ..] => (Key::Down(1), 3),
        [0x1b, b'[' | b'O', b'C', ..] => (Key::Column(1), 3),
        [0x1b, b'[' | b'O', b'D', ..] => (Key::Column(-1), 3),
        [0x1b, b'[', b'5', b'~', ..] => (Key::Up(PAGE), 4),
        [0x1b, b'[', b'6', b'~', ..] => (Key::Down(PAGE), 4),
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
        let mut rest: &[u8] = b"r\x1b[A\x1bOB\x1b[6~\x1b[Dxq";
        let mut keys = Vec::new();
        while let Some((found, len)) = key(rest) {
            keys.push(found);
            rest = &rest[len..];
        }
        let wanted =
            [Key::Reverse, Key::Up(1), Key::Down(1), Key::Down(16), Key::Column(-1), Key::Other, Key::Quit];
        assert_eq!(keys, wanted);
    }

    #[test]
    fn columns_go_round() {
        assert_eq!(beside(Column::Cpu, 1), Column::Timer);
        assert_eq!(beside(Column::Cpu, -1), Column::Remote);
        assert_eq!(beside(Column::Remote, 1), Column::Cpu);
    }
}
