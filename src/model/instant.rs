//! Instants of a run in words, the same in every place that tells of one.

/// What is so from its beginning on: the run began there, in its first second.
pub const AT_ONCE: &str = "at once";

/// What is computed to be so very soon, and is not so from its beginning on.
pub const VERY_SOON: &str = "<0.1 s";

/// Is it the beginning, as instants are shown?
pub fn is_at_once(seconds: f64) -> bool {
    seconds < 0.05
}

/// `after 3.0 s`, with the instant as it is `shown`; or at once.
pub fn tell_after(seconds: f64, shown: &str) -> String {
    tell("after", seconds, shown)
}

/// `from 3.0 s`, or at once.
pub fn tell_from(seconds: f64, shown: &str) -> String {
    tell("from", seconds, shown)
}

/// A computed instant, as it is `shown`. Beside it stands what is computed of the very beginning, so that alone is at once.
pub fn show_computed(seconds: f64, shown: String) -> String {
    match seconds {
        ..=0.0 => AT_ONCE.to_owned(),
        _ if is_at_once(seconds) => VERY_SOON.to_owned(),
        _ => shown,
    }
}

/// The same in a sentence: `after 3.0 s`, within the first moment, or at once.
pub fn tell_computed_after(seconds: f64, shown: &str) -> String {
    match seconds {
        ..=0.0 => AT_ONCE.to_owned(),
        _ if is_at_once(seconds) => "within 0.1 s".to_owned(),
        _ => format!("after {shown}"),
    }
}

fn tell(word: &str, seconds: f64, shown: &str) -> String {
    if is_at_once(seconds) { AT_ONCE.to_owned() } else { format!("{word} {shown}") }
}
