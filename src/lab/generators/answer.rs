//! What a host's script says. Other lines, such as those that a login prints, are passed over.

/// A line that is meant for us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The line in which its pgbench names itself.
    Version(String),
    /// The machine's boot, and the namespace of its processes.
    Machine {
        boot: String,
        processes: String,
    },
    /// It waits for being told what to do.
    Ready,
    /// Nanoseconds since 1970 by its clock.
    Clock(i64),
    /// The process that becomes pgbench.
    Process(u32),
    /// pgbench ended, with this status of a shell; when, and when it was begun, if it was, by its clock in nanoseconds.
    Ended {
        status: i32,
        begun_ns: Option<i64>,
    },
    /// So many bytes of a file follow.
    File {
        bytes: u64,
        is_report: bool,
    },
    Done,
    /// It cannot do it, and why.
    Failed(String),
}

/// Understands a line; `None` when it is none of ours.
pub fn parse_answer(line: &str) -> Option<Answer> {
    let (word, rest) = line.strip_prefix("pgthaw ")?.split_once(' ').unwrap_or((line.strip_prefix("pgthaw ")?, ""));
    let mut words = rest.split_ascii_whitespace();
    Some(match word {
        "version" => Answer::Version(rest.to_owned()),
        "machine" => Answer::Machine { boot: words.next()?.to_owned(), processes: words.next()?.to_owned() },
        "ready" => Answer::Ready,
        "clock" => match rest.parse() {
            Ok(ns) => Answer::Clock(ns),
            Err(_) => Answer::Failed(format!("its date knows no nanoseconds, and says {rest}")),
        },
        "process" => Answer::Process(rest.parse().ok()?),
        "ended" => {
            let (status, _ended) = (words.next()?.parse().ok()?, words.next()?);
            Answer::Ended { status, begun_ns: words.next().and_then(|begun| begun.parse().ok()) }
        }
        "file" => Answer::File { bytes: words.next()?.parse().ok()?, is_report: words.next()? == "report" },
        "done" => Answer::Done,
        "failed" => Answer::Failed(rest.to_owned()),
        _ => return None,
    })
}

/// How pgbench ended, for people; `None` when all is well.
pub fn describe_status(status: i32) -> Option<String> {
    match status {
        0 => None,
        // As a shell has it.
        signal if signal > 128 => Some(format!("it was ended by signal {}", signal - 128)),
        status => Some(format!("it ended with status {status}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_understood_and_a_login_s_greeting_is_passed_over() {
        for (line, answer) in [
            ("pgthaw version pgbench (PostgreSQL) 15.18", Answer::Version("pgbench (PostgreSQL) 15.18".into())),
            ("pgthaw machine 4b83 pid:[7]", Answer::Machine { boot: "4b83".into(), processes: "pid:[7]".into() }),
            ("pgthaw ready", Answer::Ready),
            ("pgthaw clock 1795351021361891628", Answer::Clock(1_795_351_021_361_891_628)),
            ("pgthaw process 77", Answer::Process(77)),
            ("pgthaw ended 137 20 10", Answer::Ended { status: 137, begun_ns: Some(10) }),
            ("pgthaw ended 143 20 ", Answer::Ended { status: 143, begun_ns: None }),
            ("pgthaw file 12 report", Answer::File { bytes: 12, is_report: true }),
            ("pgthaw file  7 log.123.1", Answer::File { bytes: 7, is_report: false }),
            ("pgthaw done", Answer::Done),
            ("pgthaw failed there is no pgbench", Answer::Failed("there is no pgbench".into())),
        ] {
            assert_eq!(parse_answer(line), Some(answer), "{line}");
        }
        assert!(matches!(parse_answer("pgthaw clock 17953510213N"), Some(Answer::Failed(_))));
        for other in ["Welcome to bench1", "pgthaw", "pgthaw dance", "pgthaw process -1", "pgthaw ended"] {
            assert_eq!(parse_answer(other), None, "{other}");
        }
    }

    #[test]
    fn a_status_says_which_signal_it_was() {
        assert_eq!(describe_status(0), None);
        assert_eq!(describe_status(137).as_deref(), Some("it was ended by signal 9"));
        assert_eq!(describe_status(2).as_deref(), Some("it ended with status 2"));
    }
}
