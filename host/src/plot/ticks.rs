//! Where ticks stand, and what is written at them.
#![forbid(unsafe_code)]

/// From 0 to the first round number that is not below `most`, in about five steps of 1, 2 or 5 times a power of ten.
pub fn round(most: f64) -> Vec<f64> {
    let most = if most.is_finite() && most > 0.0 { most } else { 1.0 };
    let least = most / 5.0;
    let unit = 10f64.powf(least.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * unit).into_iter().find(|step| *step >= least);
    let step = step.unwrap_or(least);
    // A hair's breadth for what a division leaves.
    let steps = (most / step - 1e-9).ceil().max(1.0) as u32;
    (0..=steps).map(|number| f64::from(number) * step).collect()
}

/// Of values that stand at `places`, ascending, and whose words are as wide as `widths`: those between which a gap stays. The last one
/// and the first one are there in any case but when they are too close to each other.
pub fn apart(places: &[f64], widths: &[f64], gap: f64) -> Vec<usize> {
    let mut kept: Vec<usize> = Vec::new();
    let fits = |one: usize, other: usize| {
        (places[one] - places[other]).abs() >= (widths[one] + widths[other]) / 2.0 + gap
    };
    let last = places.len().checked_sub(1);
    // The ends, then the others from the larger ones on: what is large is what a picture is looked at for.
    for at in last.into_iter().chain(0..1).chain((1..places.len().max(1) - 1).rev()) {
        if at < places.len() && kept.iter().all(|&other| other != at && fits(at, other)) {
            kept.push(at);
        }
    }
    kept.sort_unstable();
    kept
}

/// At most three digits and a power of a thousand: 250 k, 1.5 M; as many digits behind the point as a small one has.
pub fn short(value: f64) -> String {
    let (value, unit) = match value.abs() {
        size if size >= 1e9 => (value / 1e9, " G"),
        size if size >= 1e6 => (value / 1e6, " M"),
        size if size >= 1e3 => (value / 1e3, " k"),
        _ => (value, ""),
    };
    let digits = (0..6).find(|&digits| {
        let shown = format!("{value:.digits$}").parse().unwrap_or(0.0f64);
        (shown - value).abs() <= value.abs() * 1e-3
    });
    format!("{value:.*}{unit}", digits.unwrap_or(6))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_reach_beyond_the_largest_value() {
        assert_eq!(round(3_750_001.0), [0.0, 1e6, 2e6, 3e6, 4e6]);
        assert_eq!(round(5.0), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(round(0.0), round(1.0));
        assert_eq!(round(f64::NAN).len(), round(1.0).len());
        let mut value = 1e-7;
        while value < 1e12 {
            let ticks = round(value);
            assert!((2..=6).contains(&ticks.len()), "{value}: {ticks:?}");
            assert!(*ticks.last().unwrap() >= value * (1.0 - 1e-8), "{value}: {ticks:?}");
            let first = format!("{:.0e}", ticks[1]).chars().next().unwrap();
            assert!("125".contains(first), "{value}: {ticks:?}");
            value *= 1.37;
        }
    }

    #[test]
    fn ticks_that_would_overlap_are_left_out_but_the_ends_stay() {
        assert_eq!(apart(&[0.0, 4.0, 12.0, 60.0, 200.0], &[8.0; 5], 4.0), [0, 2, 3, 4]);
        assert_eq!(apart(&[0.0, 3.0], &[8.0; 2], 4.0), [1]);
        assert_eq!(apart(&[7.0], &[8.0], 4.0), [0]);
        assert!(apart(&[], &[], 4.0).is_empty());
    }

    #[test]
    fn numbers_are_short() {
        let shown = [0.0, 0.25, 5.0, 1500.0, 250_000.0, 4e6, 2e9].map(short);
        assert_eq!(shown, ["0", "0.25", "5", "1.5 k", "250 k", "4 M", "2 G"]);
    }
}
