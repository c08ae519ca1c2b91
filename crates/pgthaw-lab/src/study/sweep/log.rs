//! Checkpoints, as the server logs them.

use super::record::{Checkpoint, CheckpointBegun};

/// How the sweep's servers begin a line of their log: seconds since 1970 with milliseconds, and the process.
pub const LOG_LINE_PREFIX: &str = "%n [%p] ";

const STARTING: &str = "LOG:  checkpoint starting: ";
const COMPLETE: &str = "LOG:  checkpoint complete: ";

/// How a line about what autovacuum did goes on.
pub const AUTOVACUUM: [&str; 5] = [
    "automatic vacuum of table ",
    "automatic aggressive vacuum of table ",
    "automatic vacuum to prevent wraparound of table ",
    "automatic aggressive vacuum to prevent wraparound of table ",
    "automatic analyze of table ",
];

/// Is a line of the log of any use? A server may log each of its statements.
pub fn tells_of_trial(line: &str) -> bool {
    [STARTING, COMPLETE].into_iter().chain(AUTOVACUUM).any(|sign| line.contains(sign))
}

/// What a part of a log says of checkpoints, by the clock of a workload that began at `start_unix`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoggedCheckpoints {
    /// Those that ended in it.
    pub ended: Vec<Checkpoint>,
    /// The one that began last and did not end.
    pub begun: Option<CheckpointBegun>,
}

/// Reads the log's lines about checkpoints.
pub fn parse_checkpoints(log: &str, start_unix: i64) -> LoggedCheckpoints {
    let mut checkpoints = LoggedCheckpoints::default();
    for line in log.lines() {
        if let Some((head, why)) = line.split_once(STARTING) {
            let began_after_seconds = logged_after_seconds(head, start_unix);
            let reason = why.trim().to_owned();
            checkpoints.begun =
                began_after_seconds.map(|began_after_seconds| CheckpointBegun { began_after_seconds, reason });
        } else if let Some(mut ended) = parse_complete(line, start_unix) {
            if let Some(begun) = checkpoints.begun.take() {
                ended.reason = begun.reason;
                ended.began_after_seconds = begun.began_after_seconds;
            }
            checkpoints.ended.push(ended);
        }
    }
    checkpoints
}

fn logged_after_seconds(head: &str, start_unix: i64) -> Option<f64> {
    let unix: f64 = head.split_ascii_whitespace().next()?.parse().ok()?;
    Some(unix - start_unix as f64)
}

/// `1763793000.123 [77] LOG:  checkpoint complete: wrote 1040 buffers (6.3%); …; write=1.001 s, sync=0.01 s, total=1.1 s;
/// sync files=9, longest=0.005 s, average=0.001 s; …`; from 18 on the buffers of the SLRU caches come after `buffers`.
fn parse_complete(line: &str, start_unix: i64) -> Option<Checkpoint> {
    let (head, said) = line.split_once(COMPLETE)?;
    let seconds = |name: &str| -> Option<f64> {
        let (_, rest) = said.split_once(&format!("{name}="))?;
        rest.split_once(" s")?.0.parse().ok()
    };
    let (ended_after_seconds, total_seconds) = (logged_after_seconds(head, start_unix)?, seconds("total")?);
    let (_, files) = said.split_once("sync files=")?;
    Some(Checkpoint {
        // Until it is known better.
        began_after_seconds: ended_after_seconds - total_seconds,
        ended_after_seconds,
        reason: String::new(),
        buffers: said.strip_prefix("wrote ")?.split_once(' ')?.0.parse().ok()?,
        write_seconds: seconds("write")?,
        sync_seconds: seconds("sync")?,
        total_seconds,
        sync_files: files.split_once(',')?.0.parse().ok()?,
        longest_sync_seconds: seconds("longest")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_has_the_reason_that_was_logged_before_it() {
        let log = "1000.100 [7] LOG:  checkpoint starting: time\n1000.200 [9] ERROR:  no checkpoint complete\n\
            1003.500 [7] LOG:  checkpoint complete: wrote 1040 buffers (6.3%); 0 WAL file(s) added, 0 removed, 3 recycled; \
            write=3.301 s, sync=0.050 s, total=3.400 s; sync files=9, longest=0.041 s, average=0.001 s; distance=1 kB\n\
            1009.000 [7] LOG:  checkpoint complete: wrote 1 buffers (0.0%), wrote 2 SLRU buffers; 0 WAL file(s) added, 0 \
            removed, 0 recycled; write=0.001 s, sync=0.002 s, total=0.003 s; sync files=1, longest=0.002 s, average=0 s\n";
        let LoggedCheckpoints { ended: checkpoints, begun } = parse_checkpoints(log, 1000);
        assert_eq!(checkpoints.len(), 2);
        assert_eq!(begun, None);
        let first = &checkpoints[0];
        assert_eq!((first.reason.as_str(), first.buffers, first.write_seconds), ("time", 1040, 3.301));
        assert_eq!((first.ended_after_seconds, first.sync_seconds, first.longest_sync_seconds), (3.5, 0.05, 0.041));
        assert!((first.began_after_seconds - 0.1).abs() < 1e-6 && first.sync_files == 9, "{first:?}");
        assert_eq!((checkpoints[1].reason.as_str(), checkpoints[1].buffers), ("", 1));
        assert!((checkpoints[1].began_after_seconds - 8.997).abs() < 1e-6, "{checkpoints:?}");
    }

    #[test]
    fn lines_that_are_read_are_kept_and_no_others() {
        let lines = ["7 [7] LOG:  checkpoint starting: time", "7 [7] LOG:  automatic analyze of table \"b.public.x\""];
        assert!(lines.into_iter().all(tells_of_trial));
        let others = [
            "7 [7] LOG:  statement: SELECT 1",
            "\tpages: 0 removed",
            "7 [7] LOG:  checkpoints are occurring too often",
        ];
        assert!(!others.into_iter().any(tells_of_trial));
    }

    #[test]
    fn a_checkpoint_that_did_not_end_is_known_to_have_begun() {
        let begun = parse_checkpoints("1004.250 [7] LOG:  checkpoint starting: wal\n", 1000).begun;
        assert_eq!(begun, Some(CheckpointBegun { began_after_seconds: 4.25, reason: "wal".into() }));
    }

    #[test]
    fn what_is_no_checkpoint_is_passed_over() {
        let log =
            "LOG:  checkpoint complete: wrote many buffers\n1 [2] LOG:  checkpoint complete: wrote 1 buffers (0%)\n";
        assert_eq!(parse_checkpoints(log, 0), LoggedCheckpoints::default());
    }
}
