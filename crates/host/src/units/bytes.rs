//! An amount of data.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A number of bytes: a size, or what is moved in a second. A size is printed and read as PostgreSQL does it (`256 MB` is
/// 2²⁸ bytes), a bandwidth as vendors do ([`Bytes::per_second`], [`Bytes::parse_rate`]: 1 MB/s is 10⁶ bytes in a second).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "typescript"), derive(ts_rs::TS))]
#[serde(transparent)]
pub struct Bytes(pub u64);

/// What is wrong with the text of an amount.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ParseBytesError {
    #[error(
        "\"{0}\" is not a size; write a number with kB, MB, GB or TB, such as 256MB (1 GB is 1024 MB, as in PostgreSQL)"
    )]
    Size(String),
    #[error(
        "\"{0}\" is not a rate; write a number with kB, MB, GB, KiB, MiB or GiB, such as 125MiB (1 MB/s is 10^6 bytes/s)"
    )]
    Rate(String),
}

/// 1024 of one are one of the next.
const SIZE_UNITS: [&str; 6] = ["bytes", "kB", "MB", "GB", "TB", "PB"];

/// 1000 of one are one of the next.
const RATE_UNITS: [&str; 6] = ["B/s", "kB/s", "MB/s", "GB/s", "TB/s", "PB/s"];

/// Units that may be written, with the power of 1024 or 1000 that they stand for. Those with an i are always binary.
const READ_UNITS: [(&str, i32); 16] = [
    ("KiB", 1),
    ("MiB", 2),
    ("GiB", 3),
    ("TiB", 4),
    ("bytes", 0),
    ("kB", 1),
    ("KB", 1),
    ("MB", 2),
    ("GB", 3),
    ("TB", 4),
    ("k", 1),
    ("K", 1),
    ("M", 2),
    ("G", 3),
    ("T", 4),
    ("B", 0),
];

impl Bytes {
    /// Seconds that a device of `bandwidth` bytes per second needs for this amount.
    pub fn seconds_at(self, bandwidth: Bytes) -> f64 {
        self.0 as f64 / bandwidth.0.max(1) as f64
    }

    /// As a bandwidth, in decimal units: `131 MB/s`.
    pub fn per_second(self) -> String {
        render(self.0, 1000.0, RATE_UNITS)
    }

    /// Reads a bandwidth: `125MB` and `125 MB/s` are 125,000,000 bytes in a second, `125MiB` is 131,072,000.
    ///
    /// # Errors
    /// When it is none.
    pub fn parse_rate(text: &str) -> Result<Bytes, ParseBytesError> {
        let amount = text.trim().strip_suffix("/s").unwrap_or(text);
        parse(amount, 1000.0).ok_or_else(|| ParseBytesError::Rate(text.to_owned()))
    }
}

impl FromStr for Bytes {
    type Err = ParseBytesError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text, 1024.0).ok_or_else(|| ParseBytesError::Size(text.to_owned()))
    }
}

/// A number with a unit, of which `step` are one of the next.
fn parse(text: &str, step: f64) -> Option<Bytes> {
    let text = text.trim();
    let unit = READ_UNITS.iter().find_map(|(unit, power)| Some((text.strip_suffix(unit)?, *power, unit.contains('i'))));
    let (number, power, is_binary) = unit.unwrap_or((text, 0, false));
    let bytes = number.trim().parse::<f64>().ok()? * if is_binary { 1024.0 } else { step }.powi(power);
    (bytes.is_finite() && bytes >= 0.0 && bytes < u64::MAX as f64).then(|| Bytes(bytes.round() as u64))
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&render(self.0, 1024.0, SIZE_UNITS))
    }
}

/// At least three figures, without the zeros at their end: `8 kB`, `1.47 GB`, `1023 MB`.
fn render(bytes: u64, step: f64, units: [&str; 6]) -> String {
    let (mut value, mut unit) = (bytes as f64, 0);
    // What would be rounded to a whole one of the next unit is one.
    while value >= step - 0.5 && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    let text = match value {
        _ if unit == 0 => bytes.to_string(),
        ..9.995 => format!("{value:.2}"),
        ..99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    };
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text} {}", units[unit])
}

/// Sums end at the greatest amount: a document that somebody edited holds any amounts.
impl Add for Bytes {
    type Output = Bytes;
    fn add(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Bytes) {
        *self = *self + other;
    }
}

impl Sum for Bytes {
    fn sum<I: Iterator<Item = Bytes>>(amounts: I) -> Bytes {
        amounts.fold(Bytes(0), Add::add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_read_as_postgresql_reads_it() {
        assert_eq!("256MB".parse(), Ok(Bytes(1 << 28)));
        assert_eq!("256MiB".parse(), Ok(Bytes(1 << 28)));
        assert_eq!("1.5 GB".parse(), Ok(Bytes(3 << 29)));
        assert_eq!("8192".parse(), Ok(Bytes(8192)));
        assert_eq!("8192 bytes".parse(), Ok(Bytes(8192)));
    }

    #[test]
    fn a_rate_is_read_as_vendors_write_it() {
        assert_eq!(Bytes::parse_rate("125MB"), Ok(Bytes(125_000_000)));
        assert_eq!(Bytes::parse_rate("125 MB/s"), Ok(Bytes(125_000_000)));
        assert_eq!(Bytes::parse_rate("125MiB/s"), Ok(Bytes(125 << 20)));
    }

    #[test]
    fn sums_end_at_the_greatest_amount() {
        let most = Bytes(u64::MAX);
        assert_eq!(most + Bytes(1), most);
        assert_eq!([most, Bytes(1), most].into_iter().sum::<Bytes>(), most);
    }

    #[test]
    fn refuses_what_is_no_amount() {
        for text in ["", "MB", "-1", "NaN", "inf", "1e30TB", "12 parsecs", "1MB/h"] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
            assert!(Bytes::parse_rate(text).is_err(), "{text}");
        }
        assert!("1MB/s".parse::<Bytes>().is_err());
    }

    #[test]
    fn a_size_is_printed_as_postgresql_prints_it() {
        let texts = [0, 1023, 1024, 8192, 1536, 1 << 28, 3 << 29, 12_345_678, (1 << 30) - 1, u64::MAX];
        let texts = texts.map(|bytes| Bytes(bytes).to_string());
        let expected =
            ["0 bytes", "1023 bytes", "1 kB", "8 kB", "1.5 kB", "256 MB", "1.5 GB", "11.8 MB", "1 GB", "16384 PB"];
        assert_eq!(texts, expected);
        let printed = Bytes(1_577_058_304).to_string();
        assert!((printed.parse::<Bytes>().unwrap().0 as f64 / 1_577_058_304.0 - 1.0).abs() < 0.005, "{printed}");
    }

    #[test]
    fn a_rate_is_printed_as_vendors_print_it() {
        let rates = [131_072_000, 125_000_000, 1_530_000_000, 999, 999_999];
        let texts = rates.map(|bytes| Bytes(bytes).per_second());
        assert_eq!(texts, ["131 MB/s", "125 MB/s", "1.53 GB/s", "999 B/s", "1 MB/s"]);
    }
}
