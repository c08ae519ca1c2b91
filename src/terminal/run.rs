//! What `run` did for a job, in one paragraph.

use super::printable;
use crate::trace::{Attended, Judged, OthersSeen, PutBack, RunReceipt, Way};
use crate::units::{Bytes, counted};

/// The receipt as a paragraph.
pub fn render_run(receipt: &RunReceipt) -> String {
    let mut said = vec![format!("pgthaw: the job took {:.1} s", receipt.seconds)];
    said.push(render_preloaded(receipt));
    said.extend(receipt.judged.as_ref().map(render_judged));
    if let Some(kept) = &receipt.kept {
        let all = Bytes(kept.preloaded_bytes.0 + kept.fetched_bytes.0);
        let preloaded = match kept.preloaded_bytes {
            Bytes(0) => String::new(),
            bytes => format!(", {bytes} of it preloaded"),
        };
        let device = kept.device_reads.map(|reads| format!(" (the device served {})", counted(reads, "read")));
        said.push(format!("its new film has {all}{preloaded}{}", device.unwrap_or_default()));
    }
    said.extend(receipt.attended.as_ref().and_then(render_isolated));
    said.extend(receipt.others.as_ref().map(render_others));
    if receipt.is_left_to_another {
        said.push("another run goes on, and puts back when it ends what was cached before".to_owned());
    }
    said.extend(receipt.put_back.as_ref().map(render_put_back));
    let mut text = format!("{}.", said.join("; "));
    for remark in receipt.remarks.iter().chain(receipt.put_back.iter().flat_map(|done| &done.remarks)) {
        text.push_str(&format!("\nnote: {}", printable(remark)));
    }
    text
}

fn render_preloaded(receipt: &RunReceipt) -> String {
    let reason = printable(&receipt.decision.reason);
    let Some(done) = &receipt.preloaded else { return format!("nothing was preloaded, because {reason}") };
    let order = receipt.decision.way.name();
    let stopped = done.stopped.as_ref().map(|why| format!(", and stopped, for {}", printable(why)));
    let dropped = match done.dropped_bytes {
        Bytes(0) => String::new(),
        bytes => format!(", {bytes} of it let go behind the job"),
    };
    let when = if receipt.decision.way == Way::SetFirst { "before" } else { "meanwhile" };
    format!(
        "{} in {} ({order}) were brought {when}, in {:.1} s{dropped}{}, because {reason} (film {})",
        done.bytes,
        counted(done.reads, "read"),
        done.seconds,
        stopped.unwrap_or_default(),
        printable(receipt.film.as_deref().unwrap_or_default())
    )
}

/// What the forecast was worth.
fn render_judged(judged: &Judged) -> String {
    let Judged { forecast_seconds, took_seconds, error_ratio, saved_seconds } = judged;
    let off = format!("the forecast of {forecast_seconds:.1} s was off by {:+.0} %", error_ratio * 100.0);
    match saved_seconds {
        Some(saved) if *saved >= 0.0 => format!("{saved:.1} s were saved by the forecast without; {off}"),
        Some(saved) => {
            format!("{took_seconds:.1} s in all are {:.1} s more than forecast without; {off}", -saved)
        }
        None => off,
    }
}

/// How it was set apart.
fn render_isolated(attended: &Attended) -> Option<String> {
    let isolated = attended.isolated?;
    if attended.sessions == 0 {
        return Some("no session of the job was found on the server, so nothing was set apart".to_owned());
    }
    let who = counted(attended.sessions as u64, "session");
    let workers = match attended.workers {
        0 => String::new(),
        workers => format!(" with {}", counted(workers as u64, "parallel worker")),
    };
    Some(format!(
        "{who}{workers} had {} of the page cache and {:.0} % of the disk (at least {:.0} %)",
        isolated.cache_bytes,
        isolated.share_mean * 100.0,
        isolated.share_min * 100.0
    ))
}

/// What the others had.
fn render_others(others: &OthersSeen) -> String {
    let during = others.during_tps;
    match others.before_tps {
        Some(before) if before > 0.0 => format!(
            "the server did {during:.0} transactions a second meanwhile, {:.0} % of the {before:.0} before",
            during / before * 100.0
        ),
        _ => format!("the server did {during:.0} transactions a second meanwhile"),
    }
}

/// What was put back.
pub fn render_put_back(done: &PutBack) -> String {
    let PutBack { brought_bytes, stayed_bytes, gone_bytes, back_bytes, .. } = done;
    let dropped = Bytes(brought_bytes.0.saturating_sub(stayed_bytes.0));
    let others = if done.runs > 1 { format!(" for {} runs", done.runs) } else { String::new() };
    let mut said = match *brought_bytes {
        Bytes(0) => format!("nothing that the job brought in had to go{others}"),
        _ => format!("{dropped} of the {brought_bytes} that the job brought in were dropped{others}"),
    };
    said.push_str(&match *gone_bytes {
        Bytes(0) => ", nothing was pushed out".to_owned(),
        _ => format!(", {back_bytes} of the {gone_bytes} that were pushed out are back"),
    });
    if let Some((gone, back)) = done.buffers_gone_bytes.zip(done.buffers_back_bytes).filter(|(gone, _)| gone.0 > 0) {
        said.push_str(&format!(", of shared_buffers {back} of {gone}"));
    }
    let before = done.cached_before_bytes;
    if before > Bytes(0) {
        let there = before.0.saturating_sub(gone_bytes.0.saturating_sub(back_bytes.0)) as f64 / before.0 as f64;
        said.push_str(&format!(", so that {:.1} % of the {before} from before are cached", there * 100.0));
    }
    format!("{said}, measured after {:.1} s", done.seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Isolated;

    #[test]
    fn a_job_without_a_session_was_not_set_apart() {
        let isolated =
            Isolated { cache_bytes: Bytes(64 << 20), share_mean: 0.75, share_min: 0.5, reads: 0, read_bytes: Bytes(0) };
        let of = |sessions| Attended { sessions, isolated: Some(isolated), ..Attended::default() };
        let none = "no session of the job was found on the server, so nothing was set apart";
        assert_eq!(render_isolated(&of(0)).unwrap(), none);
        let one = "1 session had 64 MB of the page cache and 75 % of the disk (at least 50 %)";
        assert_eq!(render_isolated(&of(1)).unwrap(), one);
        assert_eq!(render_isolated(&Attended::default()), None);
    }
}
