//! For tests: what a drawn picture says where, as far as that can be told without a font.
#![forbid(unsafe_code)]

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use super::labels::width;

pub struct Box {
    pub text: String,
    pub left: f64,
    pub right: f64,
    pub top: f64,
    pub bottom: f64,
}

#[derive(Default)]
pub struct Layout {
    pub size: (f64, f64),
    pub words: Vec<Box>,
    pub circles: usize,
    pub titles: usize,
}

/// Panics where the picture is not well-formed XML.
pub fn read(svg: &str) -> Layout {
    let mut reader = Reader::from_str(svg);
    let mut layout = Layout::default();
    let mut open: Option<(BytesStart<'_>, String)> = None;
    loop {
        match reader.read_event().unwrap_or_else(|error| panic!("{error} in {svg}")) {
            Event::Eof => return layout,
            Event::Start(tag) if tag.name().as_ref() == b"text" => open = Some((tag, String::new())),
            Event::Start(tag) | Event::Empty(tag) => match tag.name().as_ref() {
                b"svg" => layout.size = size(&tag),
                b"circle" => layout.circles += 1,
                b"title" => layout.titles += 1,
                _ => {}
            },
            Event::Text(text) => {
                if let Some((_, words)) = &mut open {
                    words.push_str(&text.decode().unwrap());
                }
            }
            Event::GeneralRef(name) => {
                if let Some((_, words)) = &mut open {
                    let escape = format!("&{};", name.decode().unwrap());
                    words.push_str(&quick_xml::escape::unescape(&escape).unwrap());
                }
            }
            Event::End(tag) if tag.name().as_ref() == b"text" => {
                let (tag, words) = open.take().unwrap();
                layout.words.push(place(&tag, words.trim()));
            }
            _ => {}
        }
    }
}

/// All words inside, and no two over each other.
pub fn check(svg: &str) -> Result<(), String> {
    let Layout { size, words, .. } = read(svg);
    for (at, one) in words.iter().enumerate() {
        if one.left < 0.0 || one.top < 0.0 || one.right > size.0 || one.bottom > size.1 {
            return Err(format!(
                "'{}' leaves the picture: {} to {}, {} to {} of {size:?}",
                one.text, one.left, one.right, one.top, one.bottom
            ));
        }
        for other in &words[at + 1..] {
            let apart = one.right <= other.left
                || other.right <= one.left
                || one.bottom <= other.top
                || other.bottom <= one.top;
            if !apart {
                return Err(format!("'{}' and '{}' overlap", one.text, other.text));
            }
        }
    }
    Ok(())
}

fn place(tag: &BytesStart<'_>, text: &str) -> Box {
    let (x, y, size) = (number(tag, "x"), number(tag, "y"), number(tag, "font-size"));
    let long = width(text, size);
    let (before, after) = match attribute(tag, "text-anchor").as_str() {
        "middle" => (long / 2.0, long / 2.0),
        "end" => (long, 0.0),
        _ => (0.0, long),
    };
    // What letters take above and below the place, which is before they are moved down or up.
    let (above, below) = match attribute(tag, "dy").as_str() {
        "0.76em" => (0.0, size),
        "0.5ex" => (size / 2.0, size / 2.0),
        _ => (size, 0.0),
    };
    let text = text.to_owned();
    if attribute(tag, "transform").starts_with("rotate(270") {
        return Box { text, left: x - above, right: x + below, top: y - after, bottom: y + before };
    }
    Box { text, left: x - before, right: x + after, top: y - above, bottom: y + below }
}

/// In the numbers of its parts.
fn size(tag: &BytesStart<'_>) -> (f64, f64) {
    let numbers: Vec<f64> =
        attribute(tag, "viewBox").split(' ').map(|number| number.parse().unwrap()).collect();
    (numbers[2], numbers[3])
}

fn attribute(tag: &BytesStart<'_>, name: &str) -> String {
    let found = tag.try_get_attribute(name).unwrap();
    found.map(|value| String::from_utf8_lossy(&value.value).into_owned()).unwrap_or_default()
}

fn number(tag: &BytesStart<'_>, name: &str) -> f64 {
    attribute(tag, name).parse().unwrap_or_else(|_| panic!("no number in {name} of {tag:?}"))
}
