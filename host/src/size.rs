//! Sizes as people write them: 512M, 4G, 1.5G; a bare number is MiB, as in QEMU.
#![forbid(unsafe_code)]

/// Bytes in `text`.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("'{text}' is no size; write for example 512M or 4G");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let scale = match text[digits.len()..].to_ascii_uppercase().trim_end_matches('B').trim_end_matches('I') {
        "K" => 1u64 << 10,
        "" | "M" => 1 << 20,
        "G" => 1 << 30,
        "T" => 1 << 40,
        _ => return Err(wrong()),
    };
    let number: f64 = digits.parse().map_err(|_| wrong())?;
    let bytes = number * scale as f64;
    if !(1.0..=2f64.powi(50)).contains(&bytes) {
        return Err(wrong());
    }
    Ok(bytes as u64)
}

/// A size for people: "1.5 GiB".
pub fn show_bytes(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let (mut value, mut unit) = (bytes as f64, 0);
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    if value.fract() == 0.0 {
        format!("{value} {}", units[unit])
    } else {
        format!("{value:.1} {}", units[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        assert_eq!(parse_bytes("512M"), Ok(512 << 20));
        assert_eq!(parse_bytes("512"), Ok(512 << 20));
        assert_eq!(parse_bytes("4GiB"), Ok(4 << 30));
        assert_eq!(parse_bytes("1.5g"), Ok(3 << 29));
        for wrong in ["", "G", "4X", "-1G", "0", "nanG", "9e99T"] {
            assert!(parse_bytes(wrong).is_err(), "{wrong}");
        }
        assert_eq!(show_bytes(3 << 29), "1.5 GiB");
    }
}
