//! A sheet of paper: rectangles, words, and tips that a pointer brings up.
#![forbid(unsafe_code)]

use std::cell::RefCell;

use anyhow::{Result, anyhow};
use maud::html;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::{FAINT, INK, PAPER};

/// plotters writes a font's size divided by this.
const FONT_SCALE: f64 = 1.24;
/// Of plotters' whole numbers so many are a pixel, or a line that is nearly flat would have steps.
pub const FINE: i32 = 4;

pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Which part of words stands at the place that is given.
#[derive(Clone, Copy)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

/// Words on one line; the place is in the middle of the line's height.
pub struct Words<'a> {
    pub text: &'a str,
    pub at: (i32, i32),
    pub size: f64,
    pub anchor: Anchor,
    pub colour: &'a str,
    /// From below to above.
    pub upright: bool,
}

impl<'a> Words<'a> {
    /// In ink, from the place on.
    pub fn new(text: &'a str, at: (i32, i32), size: f64) -> Self {
        Words { text, at, size, anchor: Anchor::Start, colour: INK, upright: false }
    }
}

/// Where one draws: places and sizes are pixels.
pub struct Sheet<'a> {
    area: Area<'a>,
    tips: RefCell<Vec<Tip>>,
}

struct Tip {
    at: (i32, i32),
    size: (i32, i32),
    text: String,
}

/// The SVG text of what `draw` draws on white.
pub fn picture(size: (u32, u32), draw: impl FnOnce(&Sheet<'_>) -> Result<()>) -> Result<String> {
    let mut text = String::new();
    let tips = {
        let fine = (size.0 * FINE as u32, size.1 * FINE as u32);
        let area = SVGBackend::with_string(&mut text, fine).into_drawing_area();
        let sheet = Sheet { area, tips: RefCell::new(Vec::new()) };
        sheet.area.fill(&colour(PAPER)).map_err(wrong)?;
        draw(&sheet)?;
        sheet.area.present().map_err(wrong)?;
        sheet.tips.into_inner()
    };
    Ok(with_tips(&sized(&text, size), &tips))
}

/// In its size on a screen. Its parts' numbers are those of its viewBox.
fn sized(svg: &str, (width, height): (u32, u32)) -> String {
    let fine = |size: u32| size * FINE as u32;
    let wrong = format!("width=\"{}\" height=\"{}\"", fine(width), fine(height));
    svg.replacen(&wrong, &format!("width=\"{width}\" height=\"{height}\""), 1)
}

impl<'a> Sheet<'a> {
    /// A part of it, in plotters' numbers.
    pub fn part(&self, at: (i32, i32), size: (u32, u32)) -> Area<'a> {
        self.area.clone().shrink(fine(at), (size.0 * FINE as u32, size.1 * FINE as u32))
    }

    pub fn rectangle(&self, at: (i32, i32), size: (i32, i32), fill: &str) -> Result<()> {
        self.area.draw(&Rectangle::new(corners(at, size), colour(fill).filled())).map_err(wrong)
    }

    /// A thin frame.
    pub fn frame(&self, at: (i32, i32), size: (i32, i32)) -> Result<()> {
        self.area
            .draw(&Rectangle::new(corners(at, size), colour(FAINT).stroke_width(FINE as u32)))
            .map_err(wrong)
    }

    pub fn words(&self, words: &Words<'_>) -> Result<()> {
        write(&self.area, words)
    }

    /// What a pointer held over this place shows.
    pub fn tip(&self, at: (i32, i32), size: (i32, i32), text: String) {
        self.tips.borrow_mut().push(Tip { at, size, text });
    }
}

fn corners((x, y): (i32, i32), (width, height): (i32, i32)) -> [(i32, i32); 2] {
    [fine((x, y)), fine((x + width, y + height))]
}

/// A place in plotters' numbers.
fn fine((x, y): (i32, i32)) -> (i32, i32) {
    (x * FINE, y * FINE)
}

/// Words in an area, at a place in pixels.
pub fn write(area: &Area<'_>, words: &Words<'_>) -> Result<()> {
    let horizontal = match words.anchor {
        Anchor::Start => HPos::Left,
        Anchor::Middle => HPos::Center,
        Anchor::End => HPos::Right,
    };
    let style = font(words.size, words.colour, words.upright).pos(Pos::new(horizontal, VPos::Center));
    area.draw(&Text::new(words.text, fine(words.at), style)).map_err(wrong)
}

/// Letters of so many pixels.
pub fn font(size: f64, ink: &str, upright: bool) -> TextStyle<'static> {
    let turn = if upright { FontTransform::Rotate270 } else { FontTransform::None };
    let font = (FontFamily::SansSerif, size * FONT_SCALE * f64::from(FINE)).into_font().transform(turn);
    TextStyle { color: colour(ink).to_backend_color(), ..TextStyle::from(font) }
}

/// Of `#RRGGBB`; black for anything else.
pub fn colour(hex: &str) -> RGBColor {
    let part = |from: usize| hex.get(from..from + 2).and_then(|part| u8::from_str_radix(part, 16).ok());
    RGBColor(part(1).unwrap_or(0), part(3).unwrap_or(0), part(5).unwrap_or(0))
}

pub fn wrong(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("cannot draw: {error}")
}

/// plotters knows no tips: they lie, invisible, above what it drew.
fn with_tips(svg: &str, tips: &[Tip]) -> String {
    let Some(drawn) = svg.trim_end().strip_suffix("</svg>").filter(|_| !tips.is_empty()) else {
        return svg.to_owned();
    };
    let above = html! {
        g fill-opacity="0" {
            @for tip in tips {
                @let (at, size) = (fine(tip.at), fine(tip.size));
                rect x=(at.0) y=(at.1) width=(size.0) height=(size.1) { title { (tip.text) } }
            }
        }
    };
    format!("{drawn}{}</svg>\n", above.into_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tip_lies_above_what_is_drawn_and_its_text_is_escaped() {
        let svg = picture((40, 30), |sheet| {
            sheet.rectangle((1, 2), (10, 10), "#8FC79A")?;
            sheet.words(&Words::new("a<b", (2, 20), 10.0))?;
            sheet.tip((1, 2), (10, 10), "x::LIST<u8>".into());
            Ok(())
        });
        let svg = svg.unwrap();
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"), "{svg}");
        assert!(svg.contains("<title>x::LIST&lt;u8&gt;</title>") && svg.contains("#8FC79A"), "{svg}");
        assert_eq!(crate::plot::layout::read(&svg).words[0].text, "a<b");
    }
}
