//! The grid as an SVG picture: a square per pair, white where nothing is shared, darker the more is; a pointer held over a
//! square shows the names of its lines.
#![forbid(unsafe_code)]

use anyhow::Result;

use super::{Cell, Grid};
use crate::plot::{Anchor, INK, PAPER, Sheet, Words, cut, picture};

const SIDE: i32 = 34;
/// Room for names of operations, left and below.
const MARGIN: i32 = 160;
const TOP: i32 = 62;
const GAP: i32 = 30;
/// What the lines above the grid take.
const TITLE: i32 = 500;
/// Names shown of one square.
const NAMES: usize = 24;

/// The grids beside each other.
pub fn draw(grids: &[Grid]) -> Result<String> {
    let wide = |grid: &Grid| (MARGIN + side(grid) + GAP).max(TITLE);
    let width = grids.iter().map(wide).sum::<i32>().max(1);
    let height = grids.iter().map(|grid| TOP + side(grid) + MARGIN).max().unwrap_or(1);
    picture((width as u32, height as u32), |sheet| {
        let mut left = 0;
        for grid in grids {
            one(sheet, grid, left)?;
            left += wide(grid);
        }
        Ok(())
    })
}

fn side(grid: &Grid) -> i32 {
    i32::try_from(grid.operations.len()).unwrap_or(0) * SIDE
}

fn one(sheet: &Sheet<'_>, grid: &Grid, left: i32) -> Result<()> {
    sheet.words(&Words::new(&grid.kernel, (left + GAP, 20), 18.0))?;
    let free = grid.cells.iter().filter(|cell| cell.lines == Some(0)).count();
    let said =
        format!("lines that two operations side by side share; {free} of {} pairs: none", grid.cells.len());
    sheet.words(&Words::new(&said, (left + GAP, 44), 11.0))?;
    let (x, below) = (left + MARGIN, TOP + side(grid));
    for (number, name) in grid.operations.iter().enumerate() {
        let at = number as i32 * SIDE;
        let middle = at + SIDE / 2;
        let name = cut(name, 12.0, f64::from(MARGIN - 12));
        let words = Words { anchor: Anchor::End, ..Words::new(&name, (x - 6, TOP + middle), 12.0) };
        sheet.words(&words)?;
        sheet.words(&Words { at: (x + middle, below + 6), upright: true, ..words })?;
        for column in 0..=number {
            if let Some(cell) = grid.cell(number, column) {
                square(sheet, cell, (x + column as i32 * SIDE, TOP + at))?;
            }
        }
    }
    Ok(())
}

fn square(sheet: &Sheet<'_>, cell: &Cell, at: (i32, i32)) -> Result<()> {
    let (fill, colour) = colours(cell.lines);
    let mut tip = format!("{} beside {}", cell.pair[0], cell.pair[1]);
    for name in cell.names.keys().take(NAMES) {
        tip.push_str(&format!("\n{name}"));
    }
    if cell.names.len() > NAMES {
        tip.push_str(&format!("\nand {} more", cell.names.len() - NAMES));
    }
    tip.push_str(&cell.failed.as_deref().map(|why| format!("\n{why}")).unwrap_or_default());
    sheet.rectangle(at, (SIDE, SIDE), fill)?;
    sheet.frame(at, (SIDE, SIDE))?;
    if cell.lines != Some(0) {
        let middle = (at.0 + SIDE / 2, at.1 + SIDE / 2);
        let text = cell.text();
        // A number of five digits still stands in its square.
        let size = if text.len() > 3 { 9.0 } else { 11.0 };
        sheet.words(&Words { anchor: Anchor::Middle, colour, ..Words::new(&text, middle, size) })?;
    }
    sheet.tip(at, (SIDE, SIDE), tip);
    Ok(())
}

/// Of a square and of the number in it: a step for each factor of about three.
fn colours(lines: Option<usize>) -> (&'static str, &'static str) {
    match lines {
        None => ("#DDDDDD", INK),
        Some(0) => (PAPER, INK),
        Some(1..=2) => ("#FDE0C5", "#000000"),
        Some(3..=9) => ("#F8B58B", "#000000"),
        Some(10..=29) => ("#EB7F5A", "#000000"),
        Some(30..=99) => ("#C23B36", "#FEFEFE"),
        Some(_) => ("#7A0C2E", "#FEFEFE"),
    }
}
