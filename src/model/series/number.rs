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

/// A number, or a time of day as seconds since 1970.
pub fn parse_time(text: &str) -> Option<f64> {
    let text = text.trim();
    let of_day = || {
        let at = text.parse::<jiff::Timestamp>().ok().or_else(|| {
            let local: jiff::civil::DateTime = text.parse().ok()?;
            local.to_zoned(jiff::tz::TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
        })?;
        Some(at.as_millisecond() as f64 / 1000.0)
    };
    parse_number(text).or_else(of_day)
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

    #[test]
    fn reads_times_of_day() {
        assert_eq!(parse_time("1970-01-01T00:01:00Z"), Some(60.0));
        assert_eq!(parse_time("1970-01-01 00:01:00.5"), Some(60.5));
        assert_eq!(parse_time("soon"), None);
    }
}
