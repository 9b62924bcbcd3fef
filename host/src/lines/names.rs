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

/// Does the kernel's code have a part in it? Of the most frequent transfer, or else of what the CPUs did first.
pub fn is_of_kernel(line: &Line) -> bool {
    let kernel = |pc: u64| pc >> 63 != 0;
    match line.pairs.iter().find(|pair| pair.from_pc != 0) {
        Some(pair) => kernel(pair.pc) || kernel(pair.from_pc),
        None => line.cpus.iter().any(|user| kernel(user.read_pc) || kernel(user.write_pc)),
    }
}

/// The window's conflict lines by object and field.
pub fn conflicts(names: &Names, window: &LineWindow) -> BTreeMap<String, Sharing> {
    conflicts_where(names, window, |_| true)
}

/// Those of the window's conflict lines that are `wanted`, by object and field.
pub fn conflicts_where(
    names: &Names,
    window: &LineWindow,
    wanted: impl Fn(&Line) -> bool,
) -> BTreeMap<String, Sharing> {
    let mut named: BTreeMap<String, Sharing> = BTreeMap::new();
    for line in window.conflicts().filter(|line| wanted(line)) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use darter_measure::{Pair, User};

    #[test]
    fn a_line_that_only_programs_pass_on_is_not_the_kernels() {
        let kernel = 0xffff_ffff_8000_0000;
        let line = |pairs: &[(u64, u64)], first: u64| Line {
            physical: 64,
            vaddr: 64,
            class: Some(Class::Shared),
            transfers: 1,
            remote: 0,
            cpus: vec![User { cpu: 0, write_pc: first, ..User::default() }],
            pairs: pairs.iter().map(|&(pc, from_pc)| Pair { write: 1, pc, from_pc, count: 1 }).collect(),
        };
        assert!(!is_of_kernel(&line(&[(4096, 4100), (kernel, 4100)], kernel)));
        assert!(is_of_kernel(&line(&[(4096, kernel)], 4096)));
        assert!(is_of_kernel(&line(&[(4096, 0)], kernel)));
        assert!(!is_of_kernel(&line(&[], 4096)));
    }
}
