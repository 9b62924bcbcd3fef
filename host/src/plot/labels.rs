//! How much room words take, and where names stand so that they do not overlap.
#![forbid(unsafe_code)]

/// Of a letter of a sans-serif font, in parts of the font's size: what the widest usual ones (DejaVu Sans, Verdana) take on average.
const LETTER: f64 = 0.63;
/// Of a line of words.
const LINE: f64 = 1.25;

/// Pixels that words are wide; on the safe side.
pub fn width(words: &str, size: f64) -> f64 {
    words.chars().count() as f64 * size * LETTER
}

/// Pixels from one line of words to the next.
pub fn line(size: f64) -> f64 {
    size * LINE
}

/// Words in lines no wider than `width`; a single word that is wider is cut.
pub fn wrap(words: &str, size: f64, most: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in words.split_whitespace() {
        let word = cut(word, size, most);
        match lines.last_mut() {
            Some(line) if width(&format!("{line} {word}"), size) <= most => {
                line.push(' ');
                line.push_str(&word);
            }
            _ => lines.push(word),
        }
    }
    lines
}

/// The end of a name that is too long says more than its beginning: it may be a file's.
pub fn cut(name: &str, size: f64, most: f64) -> String {
    let letters = name.chars().count();
    let room = (most / (size * LETTER)).floor().max(1.0) as usize;
    if letters <= room {
        return name.to_owned();
    }
    let kept: String = name.chars().skip(letters - (room - 1)).collect();
    format!("…{kept}")
}

/// Moves `places` apart until each two are `gap` from each other, within `low` and `high`, in their order and by as little as that takes;
/// closer together where there is no room for all.
pub fn spread(places: &[f64], gap: f64, low: f64, high: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..places.len()).collect();
    order.sort_by(|&one, &other| places[one].total_cmp(&places[other]));
    let steps = places.len().saturating_sub(1).max(1) as f64;
    let gap = gap.min((high - low).max(0.0) / steps);
    let mut spread = places.to_vec();
    let mut least = low;
    for &at in &order {
        spread[at] = spread[at].max(least);
        least = spread[at] + gap;
    }
    let mut most = high;
    for &at in order.iter().rev() {
        spread[at] = spread[at].min(most);
        most = spread[at] - gap;
    }
    spread
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_moved_apart_and_stay_inside() {
        assert_eq!(spread(&[50.0, 52.0], 10.0, 0.0, 100.0), [50.0, 60.0]);
        assert_eq!(spread(&[99.0, 98.0, 10.0], 10.0, 0.0, 100.0), [100.0, 90.0, 10.0]);
        assert_eq!(spread(&[5.0; 3], 100.0, 0.0, 20.0), [0.0, 10.0, 20.0]);
        assert!(spread(&[], 10.0, 0.0, 1.0).is_empty());
    }

    #[test]
    fn long_words_are_wrapped_or_cut() {
        assert_eq!(wrap("one two three", 10.0, 50.0), ["one two", "three"]);
        assert_eq!(cut("/a/long/name", 10.0, 40.0), "…/name");
        assert!(wrap("", 10.0, 50.0).is_empty());
    }
}
