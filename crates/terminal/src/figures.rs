use jiff::Timestamp;

use host::units::counted;

pub fn render_age(at: Timestamp) -> String {
    let seconds = Timestamp::now().as_second().saturating_sub(at.as_second()).max(0);
    let (count, unit) = match seconds {
        0..60 => return "just now".to_owned(),
        60..3600 => (seconds / 60, "minute"),
        3600..86_400 => (seconds / 3600, "hour"),
        _ => (seconds / 86_400, "day"),
    };
    format!("{} ago", counted(count, unit))
}

pub fn render_share(share: f64) -> String {
    format!("{:.2} %", 100.0 * share)
}

/// Renders three digits and a unit, such as `1.25 ms`.
pub fn render_ns(ns: u64) -> String {
    let three = |value: f64, unit: &str| match value {
        ..9.995 => format!("{value:.2} {unit}"),
        ..99.95 => format!("{value:.1} {unit}"),
        _ => format!("{value:.0} {unit}"),
    };
    match ns {
        ..1_000 => format!("{ns} ns"),
        1_000..999_500 => three(ns as f64 / 1e3, "µs"),
        999_500..999_500_000 => three(ns as f64 / 1e6, "ms"),
        _ => three(ns as f64 / 1e9, "s"),
    }
}

#[cfg(test)]
mod age_tests {
    use jiff::SignedDuration;

    use super::*;

    #[test]
    fn ages_read_well() {
        let ago = |seconds| render_age(Timestamp::now() - SignedDuration::from_secs(seconds));
        assert_eq!([ago(5), ago(61), ago(7300), ago(90_000)], ["just now", "1 minute ago", "2 hours ago", "1 day ago"]);
    }
}

#[cfg(test)]
mod nanoseconds_tests {
    use super::*;

    #[test]
    fn lengths_have_three_digits() {
        let told =
            [0, 999, 1000, 99_950, 999_499, 999_500, 800_650_000, 3_000_000_000, 12_345_000_000_000].map(render_ns);
        assert_eq!(told, ["0 ns", "999 ns", "1.00 µs", "100 µs", "999 µs", "1.00 ms", "801 ms", "3.00 s", "12345 s"]);
    }
}
