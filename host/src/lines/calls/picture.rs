//! The table of calls as an SVG picture: a square for each case in each form, kernels beside each other. Green where nothing is shared,
//! yellow to dark red the more lines are; a pointer held over a square shows what it is and which lines.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use anyhow::Result;

use super::{Beside, Column, Run, Shown};
use crate::plot::{Sheet, Words, picture};

const SIDE: i32 = 11;
/// Squares of one row.
const ROW: usize = 48;
const MARGIN: i32 = 16;
const TOP: i32 = 44;
/// Above the squares of one form.
const HEAD: i32 = 26;
const LEGEND: i32 = 60;
/// Between the squares of the legend; to the first one's words.
const STEP: i32 = 84;
/// Names shown of one square.
const NAMES: usize = 12;

/// Lines, and the colour from so many on.
const COLOURS: [(usize, &str); 6] =
    [(0, "#8FC79A"), (1, "#FBE3A1"), (3, "#F7B967"), (10, "#EC7F4C"), (30, "#BF3F3A"), (100, "#6F0B2A")];
const FAILED: &str = "#CCCCCC";

type Block = (Option<Beside>, String);

pub fn draw(runs: &[Run], columns: &[Column]) -> Result<String> {
    let mut blocks: BTreeMap<Block, Vec<usize>> = BTreeMap::new();
    for (at, run) in runs.iter().enumerate() {
        blocks.entry((run.beside, run.form.clone())).or_default().push(at);
    }
    let (wide, high) = (ROW as i32 * SIDE + 2 * MARGIN, TOP + height(&blocks));
    let size = (wide * columns.len().max(1) as i32, high + LEGEND);
    picture((size.0 as u32, size.1 as u32), |sheet| {
        for (place, column) in columns.iter().enumerate() {
            one(sheet, &blocks, runs, column, place as i32 * wide + MARGIN)?;
        }
        legend(sheet, high + 14)
    })
}

fn height(blocks: &BTreeMap<Block, Vec<usize>>) -> i32 {
    blocks.values().map(|places| HEAD + rows(places.len())).sum()
}

fn rows(squares: usize) -> i32 {
    squares.div_ceil(ROW) as i32 * SIDE
}

fn one(
    sheet: &Sheet<'_>,
    blocks: &BTreeMap<Block, Vec<usize>>,
    runs: &[Run],
    column: &Column,
    left: i32,
) -> Result<()> {
    sheet.words(&Words::new(&column.kernel, (left, 20), 18.0))?;
    let mut top = TOP;
    for ((beside, form), places) in blocks {
        let shown: Vec<(&Run, &Shown)> =
            places.iter().filter_map(|&at| runs.get(at).zip(column.shown.get(at))).collect();
        let free =
            shown.iter().filter(|(_, shown)| shown.failed.is_none() && shown.shared.is_empty()).count();
        let beside = beside.map_or_else(String::new, |beside| format!(" beside {}", beside.name()));
        let head = format!("{form}{beside}: {free} of {} share nothing", shown.len());
        sheet.words(&Words::new(&head, (left, top + HEAD / 2), 12.0))?;
        top += HEAD;
        for (number, (run, shown)) in shown.iter().enumerate() {
            let x = left + (number % ROW) as i32 * SIDE;
            square(sheet, run, shown, (x, top + (number / ROW) as i32 * SIDE))?;
        }
        top += rows(places.len());
    }
    Ok(())
}

fn square(sheet: &Sheet<'_>, run: &Run, shown: &Shown, at: (i32, i32)) -> Result<()> {
    let mut tip = format!("{} ({})", run.key(), run.call);
    if let Some(why) = &shown.failed {
        tip.push_str(&format!("\n{why}"));
    } else if !shown.shared.is_empty() {
        tip.push_str(&format!("\n{} lines, {:.2} turns an operation", shown.shared.len(), shown.turns));
    }
    for name in shown.shared.keys().take(NAMES) {
        tip.push_str(&format!("\n{name}"));
    }
    let more = shown.shared.len().saturating_sub(NAMES);
    if more > 0 {
        tip.push_str(&format!("\nand {more} more"));
    }
    let fill = if shown.failed.is_some() { FAILED } else { colour(shown.shared.len()) };
    field(sheet, at, fill)?;
    sheet.tip(at, (SIDE - 1, SIDE - 1), tip);
    Ok(())
}

fn field(sheet: &Sheet<'_>, at: (i32, i32), fill: &str) -> Result<()> {
    sheet.rectangle(at, (SIDE - 1, SIDE - 1), fill)
}

fn colour(lines: usize) -> &'static str {
    let reached = COLOURS.iter().rev().find(|(from, _)| lines >= *from);
    reached.map_or(FAILED, |(_, colour)| colour)
}

/// What the colours are, below each other: the words, and the squares.
fn legend(sheet: &Sheet<'_>, top: i32) -> Result<()> {
    sheet.words(&Words::new("lines that CPUs take from each other:", (MARGIN, top), 11.0))?;
    for (at, (from, colour)) in COLOURS.iter().enumerate() {
        let label = match COLOURS.get(at + 1) {
            Some((next, _)) if next - from == 1 => from.to_string(),
            Some((next, _)) => format!("{from} to {}", next - 1),
            None => format!("{from} or more"),
        };
        let (x, y) = (MARGIN + at as i32 * STEP, top + 16);
        field(sheet, (x, y), colour)?;
        sheet.words(&Words::new(&label, (x + SIDE + 4, y + SIDE / 2), 11.0))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::measurer::SharedLine;
    use crate::plot::layout;

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
        let picture = draw(&runs, &columns).unwrap();
        layout::check(&picture).unwrap();
        assert!(
            picture.contains("read one (read)\n1 lines, 2.50 turns an operation\nfile.references"),
            "{picture}"
        );
        assert!(picture.contains("one beside idle: 1 of 1 share nothing"));
        assert_eq!(picture.matches(colour(1)).count(), 2, "the square, and the legend");
    }

    #[test]
    fn colours_are_told_apart_by_the_number_of_lines() {
        assert_eq!([0, 2, 29, 5000].map(colour), ["#8FC79A", "#FBE3A1", "#EC7F4C", "#6F0B2A"]);
    }
}
