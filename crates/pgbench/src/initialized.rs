//! What `pgbench -i` says when its tables are made.

use super::parse_number;

/// A step, and the seconds that it took.
pub type Step = (String, f64);

/// The steps of `done in 0.35 s (drop tables 0.00 s, create tables 0.01 s, client-side generate 0.20 s, …).`, as every version since 13
/// ends; `None` of any other line.
pub fn parse_initialized(line: &str) -> Option<Vec<Step>> {
    let (_, said) = line.strip_prefix("done in ")?.split_once(" s (")?;
    let (steps, _) = said.split_once(')')?;
    steps.split(", ").map(parse_step).collect()
}

/// `client-side generate 0.20 s`
fn parse_step(text: &str) -> Option<Step> {
    let (name, seconds) = text.strip_suffix(" s")?.rsplit_once(' ')?;
    let seconds = parse_number(seconds).filter(|seconds| seconds.is_finite() && *seconds >= 0.0)?;
    Some((name.to_owned(), seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_have_their_seconds() {
        let line = "done in 0.35 s (drop tables 0.00 s, create tables 0.01 s, client-side generate 0.20 s, vacuum 0.05 s, primary keys 0.08 s).";
        let steps = parse_initialized(line).unwrap();
        assert_eq!(steps.len(), 5);
        assert_eq!(steps[2], ("client-side generate".to_owned(), 0.2));
        // By the locale.
        assert_eq!(parse_initialized("done in 1,5 s (vacuum 1,50 s).").unwrap(), [("vacuum".to_owned(), 1.5)]);
        for other in
            ["done.", "vacuuming...", "done in 0.35 s", "done in 0.35 s (vacuum)", "done in 0.35 s (vacuum nan s)"]
        {
            assert_eq!(parse_initialized(other), None, "{other}");
        }
    }
}
