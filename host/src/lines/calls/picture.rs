//! The table of calls as an SVG picture: a square for each case in each form, kernels beside each other. Green where nothing is shared,
//! yellow to dark red the more lines are; a pointer held over a square shows what it is and which lines.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use svg::Document;
use svg::node::element::{Group, Rectangle, Text, Title};

use super::{Beside, Column, Run, Shown};

const SIDE: usize = 11;
/// Squares of one row.
const ROW: usize = 48;
const MARGIN: usize = 16;
const TOP: usize = 44;
/// Above the squares of one form.
const HEAD: usize = 26;
const LEGEND: usize = 40;
const FONT: &str = "sans-serif";
/// Names shown of one square.
const NAMES: usize = 12;

/// Lines, and the colour from so many on.
const COLOURS: [(usize, &str); 6] =
    [(0, "#8fc79a"), (1, "#fbe3a1"), (3, "#f7b967"), (10, "#ec7f4c"), (30, "#c6403a"), (100, "#6f0b2a")];
const FAILED: &str = "#cccccc";

type Block = (Option<Beside>, String);

pub fn draw(runs: &[Run], columns: &[Column]) -> String {
    let mut blocks: BTreeMap<Block, Vec<usize>> = BTreeMap::new();
    for (at, run) in runs.iter().enumerate() {
        blocks.entry((run.beside, run.form.clone())).or_default().push(at);
    }
    let (wide, high) = (ROW * SIDE + 2 * MARGIN, height(&blocks));
    let (width, height) = (wide * columns.len(), TOP + high + LEGEND);
    let mut document = Document::new()
        .set("viewBox", (0, 0, width, height))
        .set("width", width)
        .set("height", height)
        .set("font-family", FONT)
        .add(Rectangle::new().set("width", width).set("height", height).set("fill", "white"));
    for (place, column) in columns.iter().enumerate() {
        let group = one(&blocks, runs, column);
        document = document.add(group.set("transform", format!("translate({},0)", place * wide + MARGIN)));
    }
    document.add(legend().set("transform", format!("translate({MARGIN},{})", TOP + high + 14))).to_string()
}

fn height(blocks: &BTreeMap<Block, Vec<usize>>) -> usize {
    blocks.values().map(|places| HEAD + places.len().div_ceil(ROW) * SIDE).sum()
}

fn one(blocks: &BTreeMap<Block, Vec<usize>>, runs: &[Run], column: &Column) -> Group {
    let mut group = Group::new().add(text(0, 24, 18, column.kernel.clone()));
    let mut top = TOP;
    for ((beside, form), places) in blocks {
        let shown: Vec<(&Run, &Shown)> =
            places.iter().filter_map(|&at| runs.get(at).zip(column.shown.get(at))).collect();
        let free =
            shown.iter().filter(|(_, shown)| shown.failed.is_none() && shown.shared.is_empty()).count();
        let beside = beside.map_or_else(String::new, |beside| format!(" beside {}", beside.name()));
        let head = format!("{form}{beside}: {free} of {} share nothing", shown.len());
        group = group.add(text(0, top + HEAD - 8, 12, head));
        top += HEAD;
        for (number, (run, shown)) in shown.iter().enumerate() {
            group = group.add(square(run, shown, number % ROW * SIDE, top + number / ROW * SIDE));
        }
        top += places.len().div_ceil(ROW) * SIDE;
    }
    group
}

fn text(x: usize, y: usize, size: usize, text: String) -> Text {
    Text::new(text).set("x", x).set("y", y).set("font-size", size)
}

fn square(run: &Run, shown: &Shown, x: usize, y: usize) -> Group {
    let mut title = format!("{} ({})", run.key(), run.call);
    if let Some(why) = &shown.failed {
        title.push_str(&format!("\n{why}"));
    } else if !shown.shared.is_empty() {
        title.push_str(&format!("\n{} lines, {:.2} turns an operation", shown.shared.len(), shown.turns));
    }
    for name in shown.shared.keys().take(NAMES) {
        title.push_str(&format!("\n{name}"));
    }
    let more = shown.shared.len().saturating_sub(NAMES);
    if more > 0 {
        title.push_str(&format!("\nand {more} more"));
    }
    let fill = if shown.failed.is_some() { FAILED } else { colour(shown.shared.len()) };
    Group::new().add(Title::new(title)).add(field(x, y, fill))
}

fn field(x: usize, y: usize, fill: &str) -> Rectangle {
    let side = SIDE - 1;
    Rectangle::new().set("x", x).set("y", y).set("width", side).set("height", side).set("fill", fill)
}

fn colour(lines: usize) -> &'static str {
    let reached = COLOURS.iter().rev().find(|(from, _)| lines >= *from);
    reached.map_or(FAILED, |(_, colour)| colour)
}

/// What the colours are.
fn legend() -> Group {
    let mut group = Group::new().add(text(0, 10, 11, "lines that CPUs take from each other:".into()));
    for (at, (from, colour)) in COLOURS.iter().enumerate() {
        let x = 215 + at * 70;
        let label = match COLOURS.get(at + 1) {
            Some((next, _)) if next - from == 1 => from.to_string(),
            Some((next, _)) => format!("{from} to {}", next - 1),
            None => format!("{from} or more"),
        };
        group = group.add(field(x, 1, colour)).add(text(x + SIDE + 4, 10, 11, label));
    }
    group
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::measurer::SharedLine;

    #[test]
    fn each_case_is_a_square_that_says_what_it_shares() {
        let run =
            |case: &str, beside| Run { call: "read".into(), case: case.into(), form: "one".into(), beside };
        let runs = [run("read", None), run("pread", Some(Beside::Idle))];
        let line = SharedLine { turns: 2.5, how: String::new() };
        let shared = [("file.references".to_owned(), line)].into();
        let shares = Shown { shared, turns: 2.5, ..Shown::default() };
        let columns =
            [Column { kernel: "darter".into(), shown: vec![shares, Shown::default()], ..Column::default() }];
        let picture = draw(&runs, &columns);
        assert!(
            picture.contains("read one (read)\n1 lines, 2.50 turns an operation\nfile.references"),
            "{picture}"
        );
        assert!(picture.contains("one beside idle: 1 of 1 share nothing"));
        assert_eq!(picture.matches(colour(1)).count(), 2, "the square, and the legend");
    }

    #[test]
    fn colours_are_told_apart_by_the_number_of_lines() {
        assert_eq!([0, 2, 29, 5000].map(colour), ["#8fc79a", "#fbe3a1", "#ec7f4c", "#6f0b2a"]);
    }
}
