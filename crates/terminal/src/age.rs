//! How long ago something was.

use jiff::Timestamp;

/// How long ago something was: `3 hours ago`.
pub fn render_age(at: Timestamp) -> String {
    let seconds = Timestamp::now().as_second().saturating_sub(at.as_second()).max(0);
    let (count, unit) = match seconds {
        0..60 => return "just now".to_owned(),
        60..3600 => (seconds / 60, "minute"),
        3600..86_400 => (seconds / 3600, "hour"),
        _ => (seconds / 86_400, "day"),
    };
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {unit}{plural} ago")
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    #[test]
    fn ages_read_well() {
        let ago = |seconds| render_age(Timestamp::now() - SignedDuration::from_secs(seconds));
        assert_eq!([ago(5), ago(61), ago(7300), ago(90_000)], ["just now", "1 minute ago", "2 hours ago", "1 day ago"]);
    }
}
