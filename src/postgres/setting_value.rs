//! What a setting's value means, as people write it: with a unit, with another word for on, with blanks.
//!
//! As guc.c has it: an amount is rounded to whole ones of the next smaller unit, then to the setting's own.

use super::SettingState;

/// Units of the same kind, the largest first, in bytes.
const MEMORY_UNITS: [(&str, f64); 5] =
    [("TB", 1_099_511_627_776.0), ("GB", 1_073_741_824.0), ("MB", 1_048_576.0), ("kB", 1024.0), ("B", 1.0)];

/// Units of time, in milliseconds.
const TIME_UNITS: [(&str, f64); 6] =
    [("d", 86_400_000.0), ("h", 3_600_000.0), ("min", 60_000.0), ("s", 1000.0), ("ms", 1.0), ("us", 0.001)];

/// What `on` of wal_compression is called since 15.
const ON_BY_ANOTHER_NAME: &str = "pglz";

/// The server prints settings that are no whole numbers with six digits.
const PRINTED: f64 = 1e-5;

/// The number that `text` is to a setting that counts in `unit` (`8kB`, `ms`; `None`: in nothing). `None`: it is no number,
/// or one that is written in another way (`1e3`, `0x10`).
pub fn parse_setting_number(text: &str, unit: Option<&str>) -> Option<f64> {
    let (number, given) = split_number(text.trim());
    let (number, given) = (parse_number(number)?, given.trim());
    if given.is_empty() {
        return Some(number);
    }
    // `8kB` is eight of a unit.
    let (count, base) = split_number(unit?);
    let count: f64 = if count.is_empty() { 1.0 } else { count.parse().ok()? };
    let units = [MEMORY_UNITS.as_slice(), &TIME_UNITS].into_iter().find(|units| find_unit(units, base).is_some())?;
    let (given, base) = (find_unit(units, given)?, find_unit(units, base)?);
    let amount = number * units[given].1;
    let amount = units.get(given + 1).map_or(amount, |(_, smaller)| (amount / smaller).round() * smaller);
    Some(amount / (count * units[base].1))
}

fn find_unit(units: &[(&str, f64)], name: &str) -> Option<usize> {
    units.iter().position(|(known, _)| *known == name)
}

fn split_number(text: &str) -> (&str, &str) {
    let is_part = |one: char| one.is_ascii_digit() || "+-.".contains(one);
    text.split_at(text.find(|one: char| !is_part(one)).unwrap_or(text.len()))
}

/// A leading 0 makes it octal, as files' modes are written.
fn parse_number(text: &str) -> Option<f64> {
    let octal = text.strip_prefix('0').filter(|rest| !rest.is_empty() && !rest.contains('.'));
    match octal {
        Some(octal) => u32::from_str_radix(octal, 8).ok().map(f64::from),
        None => text.parse().ok(),
    }
}

/// `on`, `off`, `true`, `false`, `yes`, `no`, `1`, `0`, and what they begin with as far as it is unique.
fn parse_switch(text: &str) -> Option<bool> {
    let text = text.trim().to_ascii_lowercase();
    match text.as_str() {
        "" | "o" => None,
        "1" | "on" => Some(true),
        "0" | "of" | "off" => Some(false),
        _ if "true".starts_with(&text) || "yes".starts_with(&text) => Some(true),
        _ if "false".starts_with(&text) || "no".starts_with(&text) => Some(false),
        _ => None,
    }
}

/// Names and lists mean the same with other blanks, quotes and letters, and without the schema where everything is found.
fn simplify(text: &str) -> String {
    let letters = text.chars().filter(|one| !one.is_whitespace() && *one != '"');
    let simple: String = letters.flat_map(char::to_lowercase).collect();
    simple.trim_start_matches("pg_catalog.").to_owned()
}

impl SettingState {
    /// Do new sessions begin with this value, as people write it? `None`: that cannot be told.
    pub fn holds(&self, asked: &str) -> Option<bool> {
        // What the client of this session has asked for hides what others begin with.
        let value = self.value.as_deref().filter(|_| self.source != "client")?;
        match self.kind.as_str() {
            "bool" => Some(parse_switch(asked)? == parse_switch(value)?),
            "integer" => self.compare_number(asked, |asked, value| (asked - value).abs() <= 0.5),
            "real" => self.compare_number(asked, |asked, value| (asked - value).abs() <= PRINTED * asked.abs()),
            "enum" => self.compare_word(&simplify(asked), &simplify(value)),
            _ => Some(simplify(asked) == simplify(value)),
        }
    }

    fn compare_word(&self, asked: &str, value: &str) -> Option<bool> {
        match (parse_switch(asked), parse_switch(value)) {
            _ if asked == value => Some(true),
            (Some(asked), Some(value)) => Some(asked == value),
            (Some(true), None) if value == ON_BY_ANOTHER_NAME => Some(true),
            // Of a word that the server takes and does not list it is not known what it means to it.
            _ => self.allowed.iter().flatten().any(|known| simplify(known) == asked).then_some(false),
        }
    }

    fn compare_number(&self, asked: &str, is_same: impl Fn(f64, f64) -> bool) -> Option<bool> {
        let asked = parse_setting_number(asked, self.unit.as_deref())?;
        Some(is_same(asked, self.value.as_deref()?.parse().ok()?))
    }

    /// Was it left to the server, which puts its own number in the place of 0 or -1?
    pub fn is_left_to_server(&self, asked: &str) -> bool {
        self.source == "override" && parse_setting_number(asked, None).is_some_and(|asked| asked <= 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(kind: &str, unit: Option<&str>, value: &str) -> SettingState {
        SettingState {
            name: "one".into(),
            context: "user".into(),
            source: "configuration file".into(),
            pending_restart: false,
            kind: kind.into(),
            unit: unit.map(str::to_owned),
            allowed: Some(["off", "local", "on"].map(str::to_owned).to_vec()),
            value: Some(value.into()),
        }
    }

    #[test]
    fn amounts_are_rounded_as_the_server_does() {
        let number = |text, unit| parse_setting_number(text, Some(unit));
        assert_eq!(number("256MB", "8kB"), Some(32_768.0));
        assert_eq!(number(" 1.5 GB ", "kB"), Some(1_572_864.0));
        assert_eq!(number("0.3GB", "kB"), Some(307.0 * 1024.0));
        assert_eq!(number("90s", "ms"), Some(90_000.0));
        assert_eq!(number("1.5min", "s"), Some(90.0));
        assert_eq!(number("1d", "min"), Some(1440.0));
        assert_eq!(number("100us", "ms"), Some(0.1));
        assert_eq!((number("64", "MB"), parse_setting_number("-1", None)), (Some(64.0), Some(-1.0)));
        assert_eq!(parse_setting_number("0640", None), Some(416.0));
        for strange in ["1s", "1mb", "MB", "", "a lot"] {
            assert_eq!(number(strange, "kB"), None, "{strange}");
        }
        assert_eq!(parse_setting_number("1MB", None), None);
    }

    #[test]
    fn another_way_to_write_a_value_is_the_same_value() {
        let holds = |kind, unit, value, asked| state(kind, unit, value).holds(asked);
        assert_eq!(holds("integer", Some("8kB"), "32768", "256MB"), Some(true));
        assert_eq!(holds("integer", Some("8kB"), "16384", "256MB"), Some(false));
        assert_eq!(holds("integer", Some("8kB"), "12", "100kB"), Some(true));
        assert_eq!(holds("real", Some("ms"), "1.5", "1500us"), Some(true));
        assert_eq!(holds("real", None, "1.5", "4"), Some(false));
        assert_eq!([holds("bool", None, "on", "TRUE"), holds("bool", None, "on", "of")], [Some(true), Some(false)]);
        assert_eq!(holds("enum", None, "local", "Local"), Some(true));
        assert_eq!(holds("enum", None, "local", "off"), Some(false));
        assert_eq!([holds("enum", None, "on", "yes"), holds("enum", None, "off", "1")], [Some(true), Some(false)]);
        assert_eq!([holds("enum", None, "local", "nearby"), holds("enum", None, "local", "yes")], [None, None]);
        assert_eq!([holds("enum", None, "pglz", "1"), holds("enum", None, "local", "on")], [Some(true), Some(false)]);
        assert_eq!(holds("string", None, "\"$user\", public", "\"$user\",public"), Some(true));
        assert_eq!(holds("string", None, "pg_catalog.english", "english"), Some(true));
        assert_eq!(holds("string", None, "a", "b"), Some(false));
        let of_client = SettingState { source: "client".into(), ..state("string", None, "UTC") };
        assert_eq!(of_client.holds("Europe/Berlin"), None);
        let chosen = SettingState { source: "override".into(), ..state("integer", Some("8kB"), "512") };
        assert!(chosen.is_left_to_server("-1") && !chosen.is_left_to_server("16MB"));
    }
}
