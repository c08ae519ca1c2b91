use cache::trace::{Attended, KeptFilm, OthersSeen, PutBack, RunReceipt, Way};
use host::units::{Bytes, counted};
use terminal::printable;

/// `unread_bytes` and `buffers_unwritten_bytes` below this size or a tenth of `brought_bytes` are not reported.
const TOLD_MIN: u64 = 1 << 20;

/// pgthaw samples sessions every 25 ms, too rarely for jobs shorter than this.
const ASKED_SECONDS_MIN: f64 = 0.5;

const SHOWN_MIN: f64 = 0.05;

pub fn render_run(receipt: &RunReceipt) -> String {
    let mut said = vec![render_seconds(receipt)];
    said.extend(render_saved(receipt));
    said.push(render_preloaded(receipt));
    said.extend(receipt.attended.as_ref().and_then(render_isolated));
    said.extend(receipt.others.as_ref().and_then(render_others));
    if receipt.is_left_to_another {
        said.push("another `pgthaw run` is still active and will restore the cache at its end".to_owned());
    } else {
        said.extend(receipt.put_back.as_ref().map(render_found));
    }
    said.extend(receipt.put_back.as_ref().and_then(render_stayed));
    let mut text = format!("{}.", said.join("; "));
    for remark in receipt.remarks.iter().chain(receipt.put_back.iter().flat_map(|done| &done.remarks)) {
        text.push_str(&format!("\nnote: {}", printable(remark)));
    }
    text
}

fn render_seconds(receipt: &RunReceipt) -> String {
    let RunReceipt { wall_seconds: wall, before_seconds: before, seconds: job, after_seconds: after, .. } = receipt;
    match before + after < SHOWN_MIN {
        true => format!("pgthaw: the job took {job:.2} s"),
        false => format!(
            "pgthaw: {wall:.2} s in total: {before:.2} s before the job, {job:.2} s for the job, {after:.2} s after it"
        ),
    }
}

fn render_saved(receipt: &RunReceipt) -> Option<String> {
    let judged = receipt.judged?;
    Some(match judged.saved_seconds {
        Some(saved) if saved.abs() < SHOWN_MIN => "the same as forecast without pgthaw".to_owned(),
        Some(saved) => {
            let (saved, than) = (saved.abs(), if saved < 0.0 { "more" } else { "less" });
            format!("{saved:.1} s {than} than forecast without pgthaw")
        }
        None => format!("{:.1} s forecast for the job", judged.forecast_seconds),
    })
}

fn render_preloaded(receipt: &RunReceipt) -> String {
    let reason = printable(&receipt.decision.reason);
    let Some(done) = &receipt.preloaded else { return format!("nothing was preloaded: {reason}") };
    let stopped = done.stopped.as_ref().map(|why| format!(", then stopped because {}", printable(why)));
    let when = if receipt.decision.way == Way::SetFirst { "before the job" } else { "while it ran" };
    let reads = counted(done.reads, "read");
    let own = receipt.kept.as_ref().map_or_else(String::new, |kept| render_own(kept, done.bytes));
    let attended = receipt.attended.as_ref().filter(|_| receipt.seconds >= ASKED_SECONDS_MIN);
    let unasked = attended.and_then(|attended| render_unasked(attended, done.bytes));
    format!(
        "{} were preloaded {when} in {reads}{own}{}{}",
        done.bytes,
        unasked.unwrap_or_default(),
        stopped.unwrap_or_default()
    )
}

fn render_unasked(attended: &Attended, brought: Bytes) -> Option<String> {
    attended.requested_little(brought).map(|bytes| format!(", but the job requested only {bytes}"))
}

/// Preloaded bytes in the new film, which has only blocks that the job requested.
fn render_own(kept: &KeptFilm, brought: Bytes) -> String {
    let own = kept.preloaded_bytes;
    match own < brought && own.to_string() != brought.to_string() {
        true => format!(" ({own} of them in the new film, which holds only blocks that the job requested)"),
        false => String::new(),
    }
}

fn render_found(done: &PutBack) -> String {
    let buffers = render_buffers(done).map(|back| format!(", and {back}"));
    let found = match done.cached_before_bytes {
        Bytes(0) => "nothing was in the page cache before the job".to_owned(),
        before => format!("{} of the {before} cached before the job are cached again", render_there(done)),
    };
    let unseen = done.buffers_gone_bytes.is_none().then_some(", and evictions from shared_buffers were not visible");
    format!("{found}{}", buffers.as_deref().or(unseen).unwrap_or_default())
}

fn render_buffers(done: &PutBack) -> Option<String> {
    let (gone, back) = done.buffers_gone_bytes.zip(done.buffers_back_bytes).filter(|(gone, _)| gone.0 > 0)?;
    Some(format!("{back} of the {gone} evicted from shared_buffers are cached again"))
}

fn render_stayed(done: &PutBack) -> Option<String> {
    let PutBack { brought_bytes, stayed_bytes, unwritten_bytes, unread_bytes, .. } = done;
    let why = match *unwritten_bytes {
        Bytes(0) => "because other processes use them".to_owned(),
        all if all >= *stayed_bytes => "because they are not yet written".to_owned(),
        some => format!("because {some} are not yet written and other processes use the rest"),
    };
    let stayed = (*stayed_bytes > Bytes(0))
        .then(|| format!("{stayed_bytes} of the {brought_bytes} that the job loaded are still cached, {why}"));
    let is_told = |bytes: &Bytes| bytes.0 >= TOLD_MIN.max(brought_bytes.0 / 10);
    let in_buffers = done.buffers_unwritten_bytes.filter(is_told).map(|dirty| {
        format!("{dirty} that the job loaded are dirty in shared_buffers; the page cache will hold them once written")
    });
    let unread = is_told(unread_bytes).then(|| {
        format!(
            "{unread_bytes} more that the job loaded stay cached, because it wrote them or other processes may use them"
        )
    });
    let said: Vec<String> = [stayed, in_buffers, unread].into_iter().flatten().collect();
    (!said.is_empty()).then(|| said.join("; "))
}

/// Share of the previously cached pages that are cached now, rounded down: 100 % means all.
fn render_there(done: &PutBack) -> String {
    let before = done.cached_before_bytes.0;
    let there = before.saturating_sub(done.gone_bytes.0.saturating_sub(done.back_bytes.0)) as f64 / before as f64;
    format!("{:.1} %", (1000.0 * there).floor() / 10.0)
}

fn render_isolated(attended: &Attended) -> Option<String> {
    let isolated = attended.isolated?;
    if attended.sessions == 0 {
        return Some(
            "no session of the job was found on the server, so the job's use of disk and page cache was not limited"
                .to_owned(),
        );
    }
    let who = counted(attended.sessions as u64, "session");
    let workers = match attended.workers {
        0 => String::new(),
        workers => format!(" with {}", counted(workers as u64, "parallel worker")),
    };
    let (cache, unbounded) = match isolated.cache_bytes {
        Some(most) => (format!("at most {most} of the page cache, and "), ""),
        None => (
            String::new(),
            "; its page cache was not limited (cgroups version 1, or Linux before 5.19): evicted pages are restored after the job",
        ),
    };
    let (mean, least) = (isolated.share_mean * 100.0, isolated.share_min * 100.0);
    Some(format!(
        "{who} of the job{workers} could use {cache}{mean:.0} % of the disk's read capacity on average (never less than {least:.0} %){unbounded}"
    ))
}

/// `None` if no client was active before the job: all transactions may be the job's.
fn render_others(others: &OthersSeen) -> Option<String> {
    let during = others.during_tps;
    // Shares of tiny rates are meaningless.
    let before = others.before_tps.filter(|before| *before >= 1.0)?;
    let part = during / before * 100.0;
    Some(format!(
        "during the job, the server did {during:.0} transactions/s (the job's included), {part:.0} % of the {before:.0} transactions/s before it"
    ))
}

/// Reports the clean-up after killed runs, which reloads pages and evicts none.
pub fn render_put_back(done: &PutBack) -> String {
    let others = if done.runs > 1 { format!(" for {} runs", done.runs) } else { String::new() };
    let back = match done.gone_bytes {
        Bytes(0) => "nothing had been evicted".to_owned(),
        gone => format!("{} of the {gone} evicted are cached again", done.back_bytes),
    };
    format!("{back}{others}, measured after {:.1} s", done.seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cache::trace::{Decision, Isolated, Judged, Preloaded};

    fn receipt(way: Way) -> RunReceipt {
        let decision = Decision { way, ..Decision::nothing("there is no film named nightly") };
        let film = Some("nightly".to_owned());
        RunReceipt { wall_seconds: 6.0, seconds: 6.0, film, decision, ..RunReceipt::default() }
    }

    #[test]
    fn a_receipt_is_a_short_paragraph() {
        let judged = Judged { forecast_seconds: 7.0, took_seconds: 8.0, error_ratio: 0.1, saved_seconds: Some(4.0) };
        let put_back = PutBack {
            cached_before_bytes: Bytes(1000 << 20),
            gone_bytes: Bytes(200 << 20),
            back_bytes: Bytes(180 << 20),
            buffers_gone_bytes: Some(Bytes(2 << 20)),
            buffers_back_bytes: Some(Bytes(1 << 20)),
            ..PutBack::default()
        };
        let receipt = RunReceipt {
            preloaded: Some(Preloaded { bytes: Bytes(512 << 20), reads: 1203, seconds: 2.0, ..Preloaded::default() }),
            judged: Some(judged),
            others: Some(OthersSeen { before_tps: Some(840.0), during_tps: 798.0 }),
            put_back: Some(put_back),
            wall_seconds: 8.3,
            before_seconds: 2.1,
            after_seconds: 0.2,
            ..receipt(Way::SetFirst)
        };
        assert_eq!(
            render_run(&receipt),
            "pgthaw: 8.30 s in total: 2.10 s before the job, 6.00 s for the job, 0.20 s after it; 4.0 s less than forecast without pgthaw; 512 MB were preloaded before the job in 1203 reads; during the job, the server did 798 transactions/s (the job's included), 95 % of the 840 transactions/s before it; 98.0 % of the 1000 MB cached before the job are cached again, and 1 MB of the 2 MB evicted from shared_buffers are cached again."
        );
        let put_back = PutBack {
            buffers_gone_bytes: Some(Bytes(728 << 10)),
            buffers_back_bytes: Some(Bytes(728 << 10)),
            ..PutBack::default()
        };
        let lost = "728 kB of the 728 kB evicted from shared_buffers are cached again";
        assert_eq!(render_found(&put_back), format!("nothing was in the page cache before the job, and {lost}"));
        let killed = PutBack { runs: 2, gone_bytes: Bytes(9 << 20), back_bytes: Bytes(8 << 20), ..PutBack::default() };
        let told = "8 MB of the 9 MB evicted are cached again for 2 runs, measured after 0.0 s";
        assert_eq!(render_put_back(&killed), told);
    }

    #[test]
    fn figures_that_are_shown_do_not_contradict_the_words() {
        let asked = |sessions, requested_bytes| Attended { sessions, requested_bytes, ..Attended::default() };
        assert_eq!(
            render_unasked(&asked(1, Bytes(1 << 20)), Bytes(90 << 20)).unwrap(),
            ", but the job requested only 1 MB"
        );
        assert_eq!(render_unasked(&asked(1, Bytes(80 << 20)), Bytes(90 << 20)), None);
        assert_eq!(render_unasked(&asked(0, Bytes(0)), Bytes(90 << 20)), None, "nobody knows what it asked for");
        let of_seconds = |seconds| {
            let preloaded = Some(Preloaded { bytes: Bytes(90 << 20), reads: 1, ..Preloaded::default() });
            let attended = Some(asked(1, Bytes(1 << 20)));
            render_run(&RunReceipt { seconds, preloaded, attended, ..receipt(Way::Sorted) })
        };
        assert!(of_seconds(2.0).contains("the job requested") && !of_seconds(0.1).contains("the job requested"));
        for before_tps in [None, Some(0.4)] {
            assert_eq!(render_others(&OthersSeen { before_tps, during_tps: 6.0 }), None, "it is the job's");
        }
        let judged = Judged { forecast_seconds: 7.0, took_seconds: 6.02, error_ratio: 0.0, saved_seconds: Some(-0.01) };
        let preloaded = Some(Preloaded { bytes: Bytes(1 << 20), reads: 1, ..Preloaded::default() });
        let text = render_run(&RunReceipt { judged: Some(judged), preloaded, ..receipt(Way::SetFirst) });
        assert!(text.starts_with("pgthaw: the job took 6.00 s; the same as forecast without pgthaw; "), "{text}");
        let (before, gone) = (Bytes(1 << 30), Bytes(1 << 13));
        let put_back = PutBack { cached_before_bytes: before, gone_bytes: gone, ..PutBack::default() };
        assert!(render_found(&put_back).starts_with("99.9 % of"), "{}", render_found(&put_back));
    }

    #[test]
    fn what_was_read_over_is_told_beside_what_the_film_has() {
        let of = |own: u64| {
            let kept = KeptFilm {
                path: "f".into(),
                totals: Default::default(),
                fetched_bytes: Bytes(0),
                preloaded_bytes: Bytes(own << 20),
                device_reads: None,
                device_bytes: None,
                lost_events: 0,
            };
            let preloaded = Some(Preloaded { bytes: Bytes(512 << 20), reads: 1203, ..Preloaded::default() });
            render_preloaded(&RunReceipt { preloaded, kept: Some(kept), ..receipt(Way::Sorted) })
        };
        let plain = "512 MB were preloaded while it ran in 1203 reads";
        assert_eq!((of(512), of(513)), (plain.to_owned(), plain.to_owned()), "some of it was counted for its pages");
        let own = "480 MB of them in the new film, which holds only blocks that the job requested";
        assert_eq!(of(480), format!("{plain} ({own})"));
    }

    #[test]
    fn a_job_that_nothing_was_done_for_says_why() {
        let plain = "pgthaw: the job took 6.00 s; nothing was preloaded: there is no film named nightly.";
        assert_eq!(render_run(&receipt(Way::Nothing)), plain);
        let judged = Judged { forecast_seconds: 7.0, took_seconds: 6.0, error_ratio: -0.1, saved_seconds: None };
        let text = render_run(&RunReceipt { judged: Some(judged), ..receipt(Way::Nothing) });
        assert!(text.starts_with("pgthaw: the job took 6.00 s; 7.0 s forecast for the job; nothing"), "{text}");
    }

    #[test]
    fn what_stays_of_what_a_job_brought_is_told_with_the_reason() {
        let of = |stayed, unwritten, dirty: Option<u64>| {
            let megabytes = |megabytes: u64| Bytes(megabytes << 20);
            render_stayed(&PutBack {
                brought_bytes: megabytes(40),
                stayed_bytes: megabytes(stayed),
                unwritten_bytes: megabytes(unwritten),
                buffers_unwritten_bytes: dirty.map(megabytes),
                ..PutBack::default()
            })
        };
        assert_eq!((of(0, 0, None), of(0, 0, Some(3))), (None, None));
        let stayed = "32 MB of the 40 MB that the job loaded are still cached, because";
        assert_eq!(of(32, 32, None).unwrap(), format!("{stayed} they are not yet written"));
        assert_eq!(of(32, 0, None).unwrap(), format!("{stayed} other processes use them"));
        assert_eq!(
            of(32, 2, None).unwrap(),
            format!("{stayed} 2 MB are not yet written and other processes use the rest")
        );
        let dirty = "20 MB that the job loaded are dirty in shared_buffers; the page cache will hold them once written";
        assert_eq!(of(0, 0, Some(20)).unwrap(), dirty);
        let made = PutBack { unread_bytes: Bytes(223 << 20), brought_bytes: Bytes(8 << 20), ..PutBack::default() };
        assert_eq!(
            render_stayed(&made).unwrap(),
            "223 MB more that the job loaded stay cached, because it wrote them or other processes may use them"
        );
        assert_eq!(render_stayed(&PutBack { unread_bytes: Bytes(1 << 19), ..PutBack::default() }), None);
        assert_eq!(of(32, 32, Some(20)).unwrap(), format!("{stayed} they are not yet written; {dirty}"));
        let put_back =
            Some(PutBack { brought_bytes: Bytes(9 << 20), stayed_bytes: Bytes(8 << 20), ..PutBack::default() });
        assert!(
            render_run(&RunReceipt { put_back, ..receipt(Way::Nothing) }).contains("8 MB of the 9 MB that the job")
        );
    }

    #[test]
    fn a_job_without_a_session_was_not_set_apart() {
        let cache_bytes = Some(Bytes(64 << 20));
        let isolated = Isolated { cache_bytes, share_mean: 0.75, share_min: 0.5, reads: 0, read_bytes: Bytes(0) };
        let of = |sessions| Attended { sessions, isolated: Some(isolated), ..Attended::default() };
        let none =
            "no session of the job was found on the server, so the job's use of disk and page cache was not limited";
        assert_eq!(render_isolated(&of(0)).unwrap(), none);
        let one = "1 session of the job could use at most 64 MB of the page cache, and 75 % of the disk's read capacity on average (never less than 50 %)";
        assert_eq!(render_isolated(&of(1)).unwrap(), one);
        let unbounded = Isolated { cache_bytes: None, ..isolated };
        let unbounded = Attended { sessions: 1, isolated: Some(unbounded), ..Attended::default() };
        let told = "1 session of the job could use 75 % of the disk's read capacity on average (never less than 50 %); its page cache was not limited";
        assert!(render_isolated(&unbounded).unwrap().starts_with(told));
        assert_eq!(render_isolated(&Attended::default()), None);
    }
}
