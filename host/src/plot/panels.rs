//! Several charts on one picture, below words that say what they have in common.
#![forbid(unsafe_code)]

use anyhow::Result;

use super::chart::Chart;
use super::labels::{line, wrap};
use super::sheet::{Words, picture};

const PANEL: (u32, u32) = (520, 310);
const COLUMNS: usize = 2;
const EDGE: i32 = 12;
/// Pixels of letters: of the first words, of the others.
const SIZES: [f64; 2] = [15.0, 11.0];

pub fn panels(title: &str, subtitle: &str, charts: &[Chart]) -> Result<String> {
    let columns = charts.len().clamp(1, COLUMNS);
    let wide = PANEL.0 * columns as u32;
    let most = f64::from(wide) - 2.0 * f64::from(EDGE);
    let heads: Vec<(String, f64)> = [title, subtitle]
        .into_iter()
        .zip(SIZES)
        .flat_map(|(text, size)| wrap(text, size, most).into_iter().map(move |line| (line, size)))
        .collect();
    let head = heads.iter().map(|(_, size)| line(*size)).sum::<f64>() as i32 + 2 * EDGE;
    let high = head as u32 + PANEL.1 * charts.len().div_ceil(columns) as u32;
    picture((wide, high), |sheet| {
        let mut y = f64::from(EDGE);
        for (text, size) in &heads {
            sheet.words(&Words::new(text, (EDGE, (y + line(*size) / 2.0) as i32), *size))?;
            y += line(*size);
        }
        for (number, chart) in charts.iter().enumerate() {
            let (x, y) = ((number % columns) as u32 * PANEL.0, (number / columns) as u32 * PANEL.1);
            chart.draw(&sheet.part((x as i32, head + y as i32), PANEL))?;
        }
        Ok(())
    })
}
