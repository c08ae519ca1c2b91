//! Times as programs and people write them.

use crate::pgbench::parse_number;

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
    fn reads_times_of_day() {
        assert_eq!(parse_time("1970-01-01T00:01:00Z"), Some(60.0));
        assert_eq!(parse_time("1970-01-01 00:01:00.5"), Some(60.5));
        assert_eq!(parse_time("soon"), None);
    }
}
