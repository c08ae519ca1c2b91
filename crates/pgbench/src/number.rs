//! Numbers as programs and people write them.

/// A number with a point or, in some locales, a comma before its decimals. `nan` in any spelling is a number here.
pub fn parse_number(text: &str) -> Option<f64> {
    let text = text.trim();
    text.parse().ok().or_else(|| {
        let is_nan = matches!(text.trim_start_matches('-').to_ascii_lowercase().as_str(), "nan" | "");
        // More than one comma groups thousands, which is not ours to guess.
        match text.matches(',').count() {
            _ if is_nan && !text.is_empty() => Some(f64::NAN),
            1 if !text.contains('.') => text.replace(',', ".").parse().ok(),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_points_and_commas() {
        assert_eq!(parse_number("4711.5"), Some(4711.5));
        assert_eq!(parse_number(" 4711,5 "), Some(4711.5));
        assert_eq!(parse_number("1,234,567"), None);
        assert_eq!(parse_number("1,234.5"), None);
        assert_eq!(parse_number(""), None);
        assert!(parse_number("-nan").unwrap().is_nan() && parse_number("NaN").unwrap().is_nan());
    }
}
