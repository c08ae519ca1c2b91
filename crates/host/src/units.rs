//! Bytes, blocks, pages, forks. A *block* is PostgreSQL's unit (usually 8 kB), a *page* the kernel's (usually 4 KiB);
//! they never share a type.

use std::fmt;
use std::fmt::Display;
use std::iter::Sum;
use std::ops::{Add, AddAssign};
use std::str::FromStr;

use crate::{JsonSchema, TS};
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

/// `1 relation`, `2 relations`
pub fn counted<N: Display + PartialEq + From<u8>>(number: N, word: &str) -> String {
    if number == N::from(1) {
        return format!("1 {word}");
    }
    let ending = if ["ch", "s", "x"].iter().any(|end| word.ends_with(end)) { "es" } else { "s" };
    format!("{number} {word}{ending}")
}

/// `122,588`
pub fn group_digits(number: impl Display) -> String {
    let digits = number.to_string();
    digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect::<Vec<_>>().join(",")
}

/// Control, invisible and direction-changing characters.
pub fn is_treacherous(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Implements `Debug` for structs with fields that lack it.
#[macro_export]
macro_rules! debug_by {
    ($type:ident $(<$lifetime:lifetime>)?: $($field:ident),+) => {
        impl ::std::fmt::Debug for $type $(<$lifetime>)? {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.debug_struct(stringify!($type))$(.field(stringify!($field), &self.$field))+.finish_non_exhaustive()
            }
        }
    };
}

#[macro_export]
macro_rules! named {
    ($type:ident) => {
        impl $type {
            pub fn name(self) -> &'static str {
                self.into()
            }
        }
    };
}

/// Combines two structs: `fieldwise!(Counters, now.saturating_sub(earlier): reads, writes)`.
#[macro_export]
macro_rules! fieldwise {
    ($type:ident, $one:ident.$combine:ident($other:ident): $($field:ident),+) => {
        $type { $($field: $one.$field.$combine($other.$field)),+ }
    };
}

/// Pairs mutable references to fields of one struct with the same fields of another: `field_pairs!(self, other: reads,
/// writes)`.
#[macro_export]
macro_rules! field_pairs {
    ($one:ident, $other:ident: $($field:ident),+) => {
        [$((&mut $one.$field, $other.$field)),+]
    };
}

/// Part of a relation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(Serialize, Deserialize, strum::Display, strum::FromRepr, IntoStaticStr, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "snake_case")]
// PostgreSQL's fork numbers, such as pg_buffercache's `relforknumber`.
#[repr(i16)]
pub enum Fork {
    Main = 0,
    Fsm = 1,
    Vm = 2,
    Init = 3,
}

// These are PostgreSQL's names, which pg_prewarm accepts.
crate::named!(Fork);

impl Fork {
    pub const ALL: [Fork; 4] = [Fork::Main, Fork::Fsm, Fork::Vm, Fork::Init];

    pub fn suffix(self) -> &'static str {
        match self {
            Fork::Main => "",
            Fork::Fsm => "_fsm",
            Fork::Vm => "_vm",
            Fork::Init => "_init",
        }
    }

    pub fn from_name(name: &str) -> Option<Fork> {
        Fork::ALL.into_iter().find(|fork| fork.name() == name)
    }
}

/// PostgreSQL's BlockNumber, 0 to 2³² − 2.
pub type BlockNumber = u32;

/// Blocks `[start, end)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BlockRange {
    pub start: u64,
    pub end: u64,
}

/// Pages `[start, end)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageRange {
    pub start: u64,
    pub end: u64,
}

macro_rules! half_open {
    ($range:ident, $length:ident) => {
        impl $range {
            pub fn new(start: u64, end: u64) -> $range {
                $range { start, end }
            }

            pub fn $length(self) -> u64 {
                self.end.saturating_sub(self.start)
            }

            pub fn is_empty(self) -> bool {
                self.start >= self.end
            }
        }
    };
}

half_open!(BlockRange, blocks);
half_open!(PageRange, pages);

impl PageRange {
    /// Consecutive parts, each of `pages` pages but the last.
    pub fn parts(self, pages: u64) -> impl Iterator<Item = PageRange> {
        let starts = (self.start..self.end).step_by(pages as usize);
        starts.map(move |start| PageRange::new(start, self.end.min(start + pages)))
    }
}

/// Number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema, TS)]
#[serde(transparent)]
pub struct Bytes(pub u64);

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

const SIZE_UNITS: [&str; 6] = ["bytes", "kB", "MB", "GB", "TB", "PB"];

const RATE_UNITS: [&str; 6] = ["B/s", "kB/s", "MB/s", "GB/s", "TB/s", "PB/s"];

impl Bytes {
    pub fn seconds_at(self, bandwidth: Bytes) -> f64 {
        self.0 as f64 / bandwidth.0.max(1) as f64
    }

    pub fn per_second(self) -> String {
        render(self.0, 1000.0, RATE_UNITS)
    }

    /// `125MB` and `125 MB/s` are 125,000,000 bytes/s, `125MiB` 131,072,000.
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

fn parse(text: &str, step: f64) -> Option<Bytes> {
    let end = text.rfind(|one: char| one.is_ascii_digit() || one == '.')? + 1;
    let (number, unit) = (text[..end].trim(), text[end..].trim());
    let (step, power) = match unit {
        "" | "B" | "bytes" => (step, 0),
        "k" | "K" | "kB" | "KB" => (step, 1),
        "M" | "MB" => (step, 2),
        "G" | "GB" => (step, 3),
        "T" | "TB" => (step, 4),
        "KiB" => (1024.0, 1),
        "MiB" => (1024.0, 2),
        "GiB" => (1024.0, 3),
        "TiB" => (1024.0, 4),
        _ => return None,
    };
    let bytes = number.parse::<f64>().ok()? * f64::powi(step, power);
    (bytes.is_finite() && bytes >= 0.0 && bytes < u64::MAX as f64).then(|| Bytes(bytes.round() as u64))
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&render(self.0, 1024.0, SIZE_UNITS))
    }
}

/// Three significant figures: `8 kB`, `1.47 GB`, `1023 MB`.
fn render(bytes: u64, step: f64, units: [&str; 6]) -> String {
    let (mut value, mut unit) = (bytes as f64, 0);
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

/// Saturates, as a hand-edited file may contain any amount.
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
mod counted_tests {
    use super::*;

    #[test]
    fn one_is_no_plural() {
        assert_eq!([0, 1, 2].map(|number| counted(number, "relation")), ["0 relations", "1 relation", "2 relations"]);
        assert_eq!([1_u64, 3].map(|number| counted(number, "branch")), ["1 branch", "3 branches"]);
    }
}

#[cfg(test)]
mod bytes_tests {
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
