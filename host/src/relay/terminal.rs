//! The user's terminal: raw while a guest program owns it, as it was before whatever happens then.
#![forbid(unsafe_code)]

use std::io::IsTerminal;

use anyhow::{Context, Result};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// All three streams are one person's terminal; only then the program gets a terminal too (as ssh and docker decide).
pub fn is_interactive() -> bool {
    std::io::stdin().is_terminal() && std::io::stdout().is_terminal() && std::io::stderr().is_terminal()
}

/// Raw mode for as long as this lives, a panic's unwinding included.
pub struct Raw {
    before: Termios,
}

impl Raw {
    pub fn enter() -> Result<Self> {
        let stdin = rustix::stdio::stdin();
        let before = tcgetattr(stdin).context("cannot read the terminal's settings")?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(stdin, OptionalActions::Now, &raw).context("cannot set the terminal to raw mode")?;
        Ok(Self { before })
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // A terminal that has gone away (hang-up) cannot be restored and need not be.
        let _ = tcsetattr(rustix::stdio::stdin(), OptionalActions::Flush, &self.before);
    }
}

/// Rows and columns; 24 × 80 where the terminal does not know.
pub fn window_size() -> (u16, u16) {
    match tcgetwinsize(rustix::stdio::stdin()) {
        Ok(size) if size.ws_row > 0 && size.ws_col > 0 => (size.ws_row, size.ws_col),
        _ => (24, 80),
    }
}
