//! Instants of a run in words, the same in every place that tells of one.

/// What is so from its beginning on: the run began there, in its first second.
pub const AT_ONCE: &str = "at once";

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

fn tell(word: &str, seconds: f64, shown: &str) -> String {
    if is_at_once(seconds) { AT_ONCE.to_owned() } else { format!("{word} {shown}") }
}
