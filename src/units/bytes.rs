//! An amount of data.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A number of bytes. Printed with decimal units (`1.5 GB`), as device makers and DESIGN.md's figures count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bytes(pub u64);

/// What is wrong with the text of an amount.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("\"{0}\" is not an amount of data; write a number with kB, MB, GB, TB, KiB, MiB, GiB or TiB, such as 125MiB")]
pub struct ParseBytesError(pub String);

const UNITS: [(&str, u64); 13] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("kB", 1_000),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("k", 1_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
    ("B", 1),
];

impl Bytes {
    /// Seconds that a device of `bandwidth` bytes per second needs for this amount.
    pub fn seconds_at(self, bandwidth: Bytes) -> f64 {
        self.0 as f64 / bandwidth.0.max(1) as f64
    }
}

impl FromStr for Bytes {
    type Err = ParseBytesError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || ParseBytesError(text.to_owned());
        let trimmed = text.trim();
        let (number, factor) = UNITS
            .iter()
            .find_map(|(unit, factor)| trimmed.strip_suffix(unit).map(|number| (number, *factor)))
            .unwrap_or((trimmed, 1));
        let number: f64 = number.trim().parse().map_err(|_| wrong())?;
        let bytes = number * factor as f64;
        if !bytes.is_finite() || bytes < 0.0 || bytes >= u64::MAX as f64 {
            return Err(wrong());
        }
        Ok(Bytes(bytes.round() as u64))
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, factor) = match self.0 {
            0..=999 => return f.pad(&format!("{} B", self.0)),
            1_000..=999_999 => ("kB", 1e3),
            1_000_000..=999_999_999 => ("MB", 1e6),
            1_000_000_000..=999_999_999_999 => ("GB", 1e9),
            _ => ("TB", 1e12),
        };
        let value = self.0 as f64 / factor;
        let text = if value < 9.995 { format!("{value:.2} {unit}") } else { format!("{value:.0} {unit}") };
        f.pad(&text)
    }
}

impl Add for Bytes {
    type Output = Bytes;
    fn add(self, other: Bytes) -> Bytes {
        Bytes(self.0 + other.0)
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Bytes) {
        self.0 += other.0;
    }
}

impl Sum for Bytes {
    fn sum<I: Iterator<Item = Bytes>>(amounts: I) -> Bytes {
        Bytes(amounts.map(|amount| amount.0).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_decimal_and_binary_units() {
        assert_eq!("125MiB".parse(), Ok(Bytes(131_072_000)));
        assert_eq!("1.5 GB".parse(), Ok(Bytes(1_500_000_000)));
        assert_eq!("8192".parse(), Ok(Bytes(8192)));
    }

    #[test]
    fn refuses_what_is_no_amount() {
        for text in ["", "MB", "-1", "NaN", "inf", "1e30TB", "12 parsecs"] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
    }

    #[test]
    fn prints_three_figures() {
        assert_eq!(Bytes(999).to_string(), "999 B");
        assert_eq!(Bytes(1_536_000_000).to_string(), "1.54 GB");
        assert_eq!(Bytes(125_000_000).to_string(), "125 MB");
    }
}
