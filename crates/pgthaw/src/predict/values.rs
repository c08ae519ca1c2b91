//! Values as they are typed.

use crate::restore::positive_bytes;
use host::units::Bytes;

/// The least that PostgreSQL takes for shared_buffers is 128 kB; below a megabyte there is no page cache to speak of.
const MEMORY_MIN: Bytes = Bytes(1 << 20);

/// Seconds of a text with a unit: `4.7ms`, `220us`, `1s`; without one it is seconds.
pub fn parse_seconds(text: &str) -> Result<f64, String> {
    let units = [("ms", 1e-3), ("us", 1e-6), ("µs", 1e-6), ("s", 1.0), ("", 1.0)];
    let found = units.iter().find_map(|(unit, factor)| text.trim().strip_suffix(unit).map(|number| (number, factor)));
    let (number, factor) = found.unwrap_or((text, &1.0));
    match number.trim().parse::<f64>() {
        Ok(value) if value.is_finite() && value > 0.0 => Ok(value * factor),
        _ => Err("write a time above 0 with its unit, such as 0.22ms".to_owned()),
    }
}

/// A number above 0.
pub fn positive_number(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number > 0.0 => Ok(number),
        _ => Err("must be a number above 0".to_owned()),
    }
}

/// A number above 0 that is at least `least` and at most `most`: beyond them a forecast says nothing.
fn parse_between(text: &str, least: f64, most: f64, what: &str) -> Result<f64, String> {
    let number = positive_number(text)?;
    let is_sound = (least..=most).contains(&number);
    is_sound.then_some(number).ok_or_else(|| format!("write {what} from {least} to {most}"))
}

/// Random reads in a second that there are devices for.
pub fn parse_reads(text: &str) -> Result<f64, String> {
    parse_between(text, 0.01, 1e8, "reads in a second")
}

/// Blocks of a relation: PostgreSQL numbers them with 32 bits (`MaxBlockNumber` in block.h).
pub fn parse_blocks(text: &str) -> Result<f64, String> {
    parse_between(text, 1.0, 4_294_967_295.0, "blocks")
}

/// Blocks that one transaction may ask for.
pub fn parse_accesses(text: &str) -> Result<f64, String> {
    parse_between(text, 0.001, 1e6, "blocks")
}

/// Transactions in a second that a server may do.
pub fn parse_tps(text: &str) -> Result<f64, String> {
    parse_between(text, 0.001, 1e9, "transactions per second")
}

/// Memory that a server can run in.
pub fn parse_memory(text: &str) -> Result<Bytes, String> {
    let memory = positive_bytes(text)?;
    (memory >= MEMORY_MIN).then_some(memory).ok_or_else(|| format!("write {MEMORY_MIN} or more"))
}

/// Processors that there are machines with.
pub fn parse_cores(text: &str) -> Result<f64, String> {
    parse_between(text, 0.01, 100_000.0, "processors")
}

/// What a transaction of one row may take, cached or not.
pub fn parse_hit(text: &str) -> Result<f64, String> {
    let seconds = parse_seconds(text)?;
    let is_sound = (1e-9..=3600.0).contains(&seconds);
    is_sound.then_some(seconds).ok_or_else(|| "write a time from 0.001us to 3600s".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        for (text, seconds) in [("4.7ms", 4.7e-3), ("220us", 220e-6), ("1 s", 1.0), ("0.5", 0.5)] {
            assert!((parse_seconds(text).unwrap() / seconds - 1.0).abs() < 1e-12, "{text}");
        }
        for text in ["", "fast", "0ms", "-1s", "nan", "inf"] {
            assert!(parse_seconds(text).is_err(), "{text}");
        }
    }

    #[test]
    fn figures_that_nothing_has_are_refused() {
        assert!(parse_memory("1MB").is_ok() && parse_memory("1").unwrap_err().contains("1 MB or more"));
        for (parse, good, bad) in [
            (parse_blocks as fn(&str) -> Result<f64, String>, "4294967295", ["4294967296", "0.5"]),
            (parse_accesses, "2", ["1e300", "1e-9"]),
            (parse_tps, "50000", ["1e10", "1e-300"]),
            (parse_cores, "0.5", ["1e9", "1e-9"]),
            (parse_reads, "3000", ["1e9", "0.001"]),
            (parse_hit, "0.2ms", ["1e300", "4000s"]),
        ] {
            assert!(parse(good).is_ok(), "{good}");
            for text in bad {
                let told = parse(text).unwrap_err();
                assert!(told.starts_with("write ") && told.contains(" to "), "{text}: {told}");
            }
        }
    }
}
