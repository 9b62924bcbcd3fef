//! A window's conflict lines by name, for comparing windows and kernels.
#![forbid(unsafe_code)]

use darter_measure::{Class, Line, LineWindow, Names};
use std::collections::BTreeMap;

/// Class, and who writes and who else uses the line: the most frequent pair, or else what two CPUs did first.
pub fn users(names: &Names, line: &Line) -> String {
    let class = line.class.map_or("moved", Class::name);
    let pair = line.pairs.iter().find(|pair| pair.from_pc != 0);
    let (wrote, user, writer) = match pair {
        Some(pair) => (pair.write != 0, pair.pc, pair.from_pc),
        None => {
            let writer = line.cpus.iter().find(|user| user.write_pc != 0);
            let other = line.cpus.iter().find(|user| Some(user.cpu) != writer.map(|writer| writer.cpu));
            let other = other.copied().unwrap_or_default();
            let pc = if other.read_pc == 0 { other.write_pc } else { other.read_pc };
            (other.read_pc == 0, pc, writer.map_or(0, |user| user.write_pc))
        }
    };
    format!(
        "{class}: written in {}, {} by another CPU in {}",
        names.code(writer).text(),
        if wrote { "written" } else { "read" },
        names.code(user).text()
    )
}

/// What all conflict lines of one name did in a window.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sharing {
    /// Of the one that moved most often: class, writer and other user.
    pub how: String,
    pub transfers: u64,
    /// See [`Line::turns`].
    pub turns: u64,
}

/// The window's conflict lines by object and field.
pub fn conflicts(names: &Names, window: &LineWindow) -> BTreeMap<String, Sharing> {
    let mut named: BTreeMap<String, Sharing> = BTreeMap::new();
    for line in window.conflicts() {
        for name in names.line(window, line).names() {
            let sharing = named.entry(name).or_default();
            if sharing.how.is_empty() {
                sharing.how = users(names, line);
            }
            sharing.transfers += line.transfers;
            sharing.turns += line.turns();
        }
    }
    named
}
