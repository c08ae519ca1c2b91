//! Checkpoints, as the server logs them.

use super::record::Checkpoint;

/// How the sweep's servers begin a line of their log: seconds since 1970 with milliseconds, and the process.
pub const LOG_LINE_PREFIX: &str = "%n [%p] ";

const STARTING: &str = "LOG:  checkpoint starting: ";
const COMPLETE: &str = "LOG:  checkpoint complete: ";

/// The checkpoints that ended in this part of a log, by the clock of a workload that began at `start_unix`.
pub fn parse_checkpoints(log: &str, start_unix: i64) -> Vec<Checkpoint> {
    let mut reason = String::new();
    let mut checkpoints = Vec::new();
    for line in log.lines() {
        if let Some((_, why)) = line.split_once(STARTING) {
            reason = why.trim().to_owned();
        } else if let Some(mut ended) = parse_complete(line, start_unix) {
            ended.reason = std::mem::take(&mut reason);
            checkpoints.push(ended);
        }
    }
    checkpoints
}

/// `1763793000.123 [77] LOG:  checkpoint complete: wrote 1040 buffers (6.3%); …; write=1.001 s, sync=0.01 s, total=1.1 s;
/// sync files=9, longest=0.005 s, average=0.001 s; …`; from 18 on the buffers of the SLRU caches come after `buffers`.
fn parse_complete(line: &str, start_unix: i64) -> Option<Checkpoint> {
    let (head, said) = line.split_once(COMPLETE)?;
    let seconds = |name: &str| -> Option<f64> {
        let (_, rest) = said.split_once(&format!("{name}="))?;
        rest.split_once(" s")?.0.parse().ok()
    };
    let ended_unix: f64 = head.split_ascii_whitespace().next()?.parse().ok()?;
    Some(Checkpoint {
        ended_after_seconds: ended_unix - start_unix as f64,
        reason: String::new(),
        buffers: said.strip_prefix("wrote ")?.split_once(' ')?.0.parse().ok()?,
        write_seconds: seconds("write")?,
        sync_seconds: seconds("sync")?,
        total_seconds: seconds("total")?,
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
        let checkpoints = parse_checkpoints(log, 1000);
        assert_eq!(checkpoints.len(), 2);
        let first = &checkpoints[0];
        assert_eq!((first.reason.as_str(), first.buffers, first.write_seconds), ("time", 1040, 3.301));
        assert_eq!((first.ended_after_seconds, first.sync_seconds, first.longest_sync_seconds), (3.5, 0.05, 0.041));
        assert_eq!((checkpoints[1].reason.as_str(), checkpoints[1].buffers), ("", 1));
    }

    #[test]
    fn what_is_no_checkpoint_is_passed_over() {
        let log =
            "LOG:  checkpoint complete: wrote many buffers\n1 [2] LOG:  checkpoint complete: wrote 1 buffers (0%)\n";
        assert_eq!(parse_checkpoints(log, 0), []);
    }
}
