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

/// The window's conflict lines by object and field, each with what is said of the one that moved most often.
pub fn conflicts(names: &Names, window: &LineWindow) -> BTreeMap<String, String> {
    let mut named = BTreeMap::new();
    for line in window.conflicts() {
        for name in names.line(window, line).names() {
            named.entry(name).or_insert_with(|| users(names, line));
        }
    }
    named
}
