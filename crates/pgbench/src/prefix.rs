//! Prefix that a log collector adds, such as a host name or timestamp.

const BEGINNINGS: [&str; 3] = ["progress: ", "transaction type: ", "pgbench ("];

/// Length of the prefix in words: its number of characters may vary.
#[derive(Clone, Copy, Debug, Default)]
pub struct Prefix {
    words: usize,
}

impl Prefix {
    /// Strips the prefix, which the first line with a known beginning determines.
    pub fn strip<'a>(&mut self, line: &'a str) -> &'a str {
        if self.words == 0 {
            let found = BEGINNINGS.iter().find_map(|beginning| line.split_once(beginning));
            let before = found.map(|(before, _)| before).filter(|before| before.ends_with(char::is_whitespace));
            self.words = before.map_or(0, |before| before.split_whitespace().count());
        }
        // Lines without the prefix are from another program, or older than the log collector.
        if BEGINNINGS.iter().any(|beginning| line.starts_with(beginning)) {
            return line;
        }
        (0..self.words)
            .fold(line, |rest, _| rest.trim_start().split_once(char::is_whitespace).map_or("", |(_, rest)| rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_learnt_from_one_line_and_taken_from_all() {
        let mut prefix = Prefix::default();
        for (line, bare) in [
            ("scaling factor: 10", "scaling factor: 10"),
            ("2026-11-22 03:00:01 pgbench[7]: progress: 10.0 s, 33.4 tps", "progress: 10.0 s, 33.4 tps"),
            ("2026-11-22 03:00:09 pgbench[7]: number of clients: 8", "number of clients: 8"),
            ("2026-11-22 03:00:09 pgbench[7]:  - weight: 1", " - weight: 1"),
            ("progress: 20.0 s, 33.4 tps", "progress: 20.0 s, 33.4 tps"),
            ("", ""),
        ] {
            assert_eq!(prefix.strip(line), bare);
        }
        let script = " - 5000 transactions (50.0% of total, tps = 812.3)";
        assert_eq!(Prefix::default().strip(script), script);
        let progress = "  progress: 10.0 s, 33.4 tps";
        assert_eq!(Prefix::default().strip(progress), progress);
    }
}
