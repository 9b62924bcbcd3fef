//! What a terminal makes of the keys that are struck: a screen for the echo, and reads.

use super::*;
use crate::testing::check;
use proptest::prelude::*;
use std::string::String;
use std::vec;

/// A terminal's input with its settings, and all that came out of it.
struct Typed {
    input: Input,
    settings: Termios,
    echo: Vec<u8>,
    signals: Vec<u32>,
    stops: Vec<bool>,
}

fn cooked() -> Typed {
    let (echo, signals, stops) = (Vec::new(), Vec::new(), Vec::new());
    Typed { input: Input::new(), settings: Termios::DEFAULT, echo, signals, stops }
}

fn raw() -> Typed {
    let mut typed = cooked();
    typed.settings.local &= !(ICANON | ECHO | ISIG);
    typed.settings.input = 0;
    typed
}

impl Typed {
    fn keys(&mut self, keys: &[u8]) -> &mut Self {
        for &key in keys {
            let mut effects = Effects::default();
            self.input.receive(key, &self.settings, &mut effects);
            self.echo.extend(&effects.echo);
            self.signals.extend(effects.signal);
            self.stops.extend(effects.stop);
        }
        self
    }

    fn read(&mut self, len: usize) -> Vec<u8> {
        let mut buffer = vec![0; len];
        let n = self.input.take(&mut buffer, self.settings.local(ICANON));
        buffer.truncate(n);
        buffer
    }

    fn line(&mut self) -> String {
        assert!(self.input.has_line(), "no line is complete");
        String::from_utf8(self.read(4096)).unwrap()
    }

    /// What the echo leaves on one line of a screen.
    fn screen(&self) -> String {
        let (mut cells, mut at) = (Vec::new(), 0);
        for &byte in &self.echo {
            match byte {
                8 => at -= 1,
                byte => {
                    cells.resize(cells.len().max(at + 1), b' ');
                    cells[at] = byte;
                    at += 1;
                }
            }
        }
        String::from_utf8(cells).unwrap().trim_end().into()
    }
}

#[test]
fn a_line_is_read_when_it_is_complete() {
    let mut typed = cooked();
    typed.keys(b"echo hi");
    assert!(!typed.input.has_line());
    assert_eq!(typed.read(10), b"");
    typed.keys(b"\r");
    assert_eq!(typed.line(), "echo hi\n");
    assert_eq!(typed.screen(), "echo hi");
}

#[test]
fn a_read_ends_with_its_line_and_goes_on_where_the_last_one_ended() {
    let mut typed = cooked();
    typed.keys(b"one\ntwo\n");
    assert_eq!(typed.read(2), b"on");
    assert_eq!(typed.input.available(true), 2);
    assert_eq!(typed.read(9), b"e\n");
    assert_eq!(typed.read(9), b"two\n");
    assert!(!typed.input.has_line());
}

#[test]
fn erase_takes_back_a_character_and_cleans_the_screen() {
    let mut typed = cooked();
    typed.keys(b"ab\x7fc\x01\x7f\x7fd");
    assert_eq!(typed.screen(), "ad");
    assert_eq!(typed.keys(b"\n").line(), "ad\n");
    // Not past the beginning of the line, be there another before it.
    assert_eq!(cooked().keys(b"x\n\x7fy\x7f\x7f\x7fz\n").keys(b"").line(), "x\n");
}

#[test]
fn erase_takes_a_whole_character_only_of_a_terminal_for_utf_8() {
    let mut bytes = cooked();
    assert_eq!(bytes.keys("é\x7f\x7fa\n".as_bytes()).line(), "a\n");
    let mut bytes = cooked();
    bytes.keys("aé\x7f\n".as_bytes());
    assert_eq!(bytes.read(9), b"a\xc3\n");
    let mut characters = cooked();
    characters.settings.input |= IUTF8;
    assert_eq!(characters.keys("aé€\x7f\x7f\n".as_bytes()).line(), "a\n");
}

#[test]
fn word_erase_takes_what_stands_behind_the_word_too() {
    let mut typed = cooked();
    typed.keys(b"rm -rf my_file  \x17");
    assert_eq!(typed.screen(), "rm -rf");
    assert_eq!(typed.keys(b"\n").line(), "rm -rf \n");
}

#[test]
fn kill_takes_the_line_and_the_screen_shows_how() {
    let mut clean = cooked();
    clean.keys(b"secret\x15");
    assert_eq!(clean.screen(), "");
    assert_eq!(clean.keys(b"x\n").line(), "x\n");
    let mut plain = cooked();
    plain.settings.local &= !ECHOKE;
    plain.keys(b"ab\x15");
    assert_eq!(plain.echo, b"ab^U\n");
    assert_eq!(plain.keys(b"\n").line(), "\n");
}

#[test]
fn end_of_file_ends_the_line_without_a_character() {
    let mut typed = cooked();
    typed.keys(b"abc\x04");
    assert_eq!(typed.line(), "abc");
    typed.keys(b"\x04");
    assert!(typed.input.has_line());
    assert_eq!(typed.read(10), b"", "an empty read is the end of the file");
    assert!(!typed.input.has_line(), "once");
    assert!(!typed.echo.contains(&4), "it is not echoed");
}

#[test]
fn a_further_end_of_line_ends_it_too() {
    let mut typed = cooked();
    typed.settings.chars[VEOL] = b';';
    assert_eq!(typed.keys(b"a;b").line(), "a;");
}

#[test]
fn the_next_character_is_taken_as_it_is() {
    let mut typed = cooked();
    typed.keys(b"a\x16\x03\x16\x7f\n");
    assert_eq!(typed.signals, []);
    assert_eq!(typed.line(), "a\x03\x7f\n");
    assert_eq!(typed.screen().trim_end(), "a^C^?");
}

#[test]
fn signals_come_from_their_characters_and_flush_the_line() {
    let mut typed = cooked();
    typed.keys(b"one\nhalf\x03\x1c\x1a");
    assert_eq!(typed.signals, [2, 3, 20]);
    assert!(!typed.input.has_line(), "complete lines go, too");
    assert_eq!(typed.keys(b"\n").line(), "\n");
    let mut kept = cooked();
    kept.settings.local |= NOFLSH;
    assert_eq!(kept.keys(b"a\x03b\n").line(), "ab\n");
    let mut off = cooked();
    off.settings.local &= !ISIG;
    assert_eq!(off.keys(b"a\x03\n").line(), "a\x03\n");
    assert_eq!(off.signals, []);
}

#[test]
fn output_is_stopped_and_goes_on() {
    let mut typed = cooked();
    typed.keys(b"a\x13b\x11");
    assert_eq!(typed.stops, [true, false]);
    assert_eq!(typed.keys(b"\n").line(), "ab\n");
    typed.settings.input |= IXANY;
    typed.keys(b"\x13x");
    assert_eq!(typed.stops[2..], [true, false]);
}

#[test]
fn carriage_returns_become_what_the_settings_say() {
    let with = |input: u32| {
        let mut typed = raw();
        typed.settings.input = input;
        typed.keys(b"\r\n").read(9)
    };
    assert_eq!(with(0), b"\r\n");
    assert_eq!(with(ICRNL), b"\n\n");
    assert_eq!(with(IGNCR), b"\n");
    assert_eq!(with(INLCR), b"\r\r");
}

#[test]
fn bits_and_cases_are_stripped() {
    let mut typed = raw();
    typed.settings.input = ISTRIP | IUCLC;
    assert_eq!(typed.keys(b"A\xc2").read(9), b"ab");
}

#[test]
fn echo_follows_its_flags() {
    let echo = |flags: u32, keys: &[u8]| {
        let mut typed = cooked();
        typed.settings.local = ICANON | flags;
        typed.keys(keys).echo.clone()
    };
    assert_eq!(echo(0, b"ab\n"), b"");
    assert_eq!(echo(ECHONL, b"ab\n"), b"\n");
    assert_eq!(echo(ECHO, b"a\x01\n"), b"a\x01\n");
    assert_eq!(echo(ECHO | ECHOCTL, b"a\x01\t\n"), b"a^A\t\n");
    assert_eq!(echo(ECHO, b"ab\x7f"), b"ab\x7f");
}

#[test]
fn reprint_shows_the_line_again() {
    let mut typed = cooked();
    typed.keys(b"ab\x12");
    assert_eq!(typed.echo, b"ab^R\nab");
    assert_eq!(typed.keys(b"\n").line(), "ab\n");
}

#[test]
fn a_line_that_is_too_long_loses_its_end() {
    let mut typed = cooked();
    typed.settings.input |= IMAXBEL;
    typed.keys(&[b'x'; LINE_MAX + 5]).keys(b"\n");
    assert_eq!(typed.echo.iter().filter(|byte| **byte == 7).count(), 5);
    assert_eq!(typed.line().len(), LINE_MAX + 1);
}

#[test]
fn raw_bytes_are_readable_at_once_and_the_room_ends() {
    let mut typed = raw();
    typed.keys(b"\x04\x7f\x03\n");
    assert_eq!(typed.input.available(false), 4);
    assert_eq!(typed.read(3), b"\x04\x7f\x03");
    typed.keys(&vec![1; ROOM]);
    assert_eq!(typed.input.pending(), ROOM);
}

#[test]
fn a_change_of_mode_keeps_what_was_typed() {
    let mut typed = cooked();
    typed.keys(b"line\nhalf");
    typed.settings.local &= !ICANON;
    typed.input.set_canonical(false);
    assert_eq!(typed.read(99), b"line\nhalf");
    typed.settings.local &= !ECHO;
    typed.keys(b"more");
    typed.settings.local |= ICANON;
    typed.input.set_canonical(true);
    assert_eq!(typed.line(), "more");
}

/// The plainest line editor: what is left of the keys, by lines.
fn edited(keys: &[u8]) -> Vec<Vec<u8>> {
    let (mut lines, mut line) = (Vec::new(), Vec::new());
    for &key in keys {
        match key {
            0x7f => drop(line.pop()),
            0x15 => line.clear(),
            4 => lines.push(std::mem::take(&mut line)),
            b'\n' => {
                line.push(key);
                lines.push(std::mem::take(&mut line));
            }
            key => line.push(key),
        }
    }
    lines
}

#[test]
fn whatever_is_typed_the_lines_are_what_is_left_and_the_screen_shows_the_last() {
    let key = prop_oneof![8 => b'a'..=b'e', 1 => Just(b'\n'), 1 => Just(4), 3 => Just(0x7f), 1 => Just(0x15)];
    check(400, &prop::collection::vec(key, 0..60), |keys| {
        let mut typed = cooked();
        typed.keys(&keys);
        for line in edited(&keys) {
            assert!(typed.input.has_line());
            assert_eq!(typed.read(100), line);
        }
        assert!(!typed.input.has_line());
        let last = keys.iter().rposition(|key| *key == b'\n').map_or(0, |at| at + 1);
        if !keys[last..].contains(&4) {
            let left = typed.input.line.clone();
            let shown = typed.echo.rsplit(|byte| *byte == b'\n').next().unwrap().to_vec();
            typed.echo = shown;
            assert_eq!(typed.screen().as_bytes(), left);
        }
    });
}

#[test]
fn no_bytes_and_settings_do_harm() {
    let settings = (any::<u32>(), any::<u32>(), any::<[u8; 19]>());
    let keys = prop::collection::vec(any::<u8>(), 0..200);
    check(300, &(settings, keys), |((input, local, chars), keys)| {
        let mut typed = cooked();
        typed.settings = Termios { input, local, chars, ..Termios::DEFAULT };
        typed.keys(&keys);
        let lines: usize = typed.input.lines.iter().sum();
        assert!(!typed.settings.local(ICANON) || lines == typed.input.ready.len());
        while typed.input.has_line() {
            typed.read(7);
        }
    });
}
