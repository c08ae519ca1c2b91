//! Lengths of time from nanoseconds on, and shares of them.

/// A part of the whole.
pub fn render_share(part_ns: u64, whole_ns: u64) -> String {
    format!("{:.2} %", 100.0 * part_ns as f64 / whole_ns.max(1) as f64)
}

/// Three digits, and the unit that fits.
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
mod tests {
    use super::*;

    #[test]
    fn lengths_have_three_digits() {
        let told =
            [0, 999, 1000, 99_950, 999_499, 999_500, 800_650_000, 3_000_000_000, 12_345_000_000_000].map(render_ns);
        assert_eq!(told, ["0 ns", "999 ns", "1.00 µs", "100 µs", "999 µs", "1.00 ms", "801 ms", "3.00 s", "12345 s"]);
    }
}
