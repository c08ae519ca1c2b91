//! Runs studies: each trial is shown and kept when it ends, and a signal ends them tidily.

use std::path::{Path, PathBuf};

use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::store::{keep, remark_damaged};
use super::{ExitStatus, OutputArguments};
use crate::bench::{Earlier, StudyAsked, SweepFinished, SweepOptions, run_sweeps};
use crate::lab::{Error, Stop, SweepLock};
use crate::laboratory::text::{StudyDisplay, render_kept_cluster, render_where_kept};
use crate::results::{Place, Store};
use crate::serve::LiveBoard;
use crate::study::{Event, Events, Sweep, texts_of};
use command::hear_signals;
use host::failure::ErrorKind;
use host::linux::machine::read_machine;
use postgres::hurry_clusters;

use crate::verdict::compute_sweep_verdicts;
use host::units::counted;

/// How studies begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// Where a run of the same study was interrupted.
    WhereItStopped,
    /// Anew; the next one goes on with it when it is interrupted.
    Anew,
    /// Anew, and nobody goes on with it.
    Once,
}

/// Runs studies one after the other with a live display. Ctrl-C ends them tidily, with what there is. `hear` is told each event
/// too; its failure ends them.
pub async fn run_studies(
    asked: Vec<StudyAsked>,
    begin: Begin,
    store: &Store,
    output: OutputArguments,
    hear: impl FnMut(&Event) -> anyhow::Result<()>,
) -> anyhow::Result<Vec<SweepFinished>> {
    remark_damaged(&store.read_damaged_sweeps().await?);
    let (mut all, mut locks) = (Vec::new(), Vec::new());
    for study in asked {
        let (lock, options) = begin_study(study, begin, store, output).await?;
        locks.push(lock);
        all.push(options);
    }
    let studies = async move |events: Events, stop: Stop| run_sweeps(&all, &events, &stop).await;
    let mut finished = run_and_hear(studies, |events| keep_and_show(events, store, output, hear)).await?;
    for one in &mut finished {
        if one.run.ended_at.is_some() {
            let trials = store.read_sweep_outcomes(&one.run.id).await?;
            one.run.verdicts.extend(compute_sweep_verdicts(&one.run, &trials));
            one.run.warnings = texts_of(&one.run.verdicts);
        }
        store.save_sweep(&one.run).await?;
    }
    Ok(finished)
}

/// Whoever holds the lock may run it.
async fn begin_study(
    asked: StudyAsked,
    begin: Begin,
    store: &Store,
    output: OutputArguments,
) -> anyhow::Result<(SweepLock, SweepOptions)> {
    let (sweep, directory) = (&asked.sweep, asked.place.directory());
    let earlier = match begin {
        Begin::WhereItStopped => find_earlier(store, sweep, directory).await?,
        Begin::Anew | Begin::Once => None,
    };
    if let (Some((_, earlier)), true) = (&earlier, output.shows_progress()) {
        let (done, all) = (earlier.finished.len(), sweep.trials());
        terminal::print_remark(&format!(
            "going on with {}, which has {done} of {}",
            earlier.run.id,
            counted(all, "trial")
        ));
    }
    let (lock, earlier) = match earlier {
        Some((lock, earlier)) => (lock, Some(earlier)),
        None => (SweepLock::of_new(&lock_directory(store), directory)?, None),
    };
    let (id, unfinished) = (lock.id().to_owned(), store.read_unfinished_sweeps().await?);
    Ok((lock, SweepOptions { id, asked, earlier, unfinished, goes_on: begin != Begin::Once }))
}

async fn keep_and_show(
    mut events: UnboundedReceiver<Event>,
    store: &Store,
    output: OutputArguments,
    mut hear: impl FnMut(&Event) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut display = StudyDisplay::new(output.shows_progress());
    let (mut board, mut opened): (LiveBoard, Option<String>) = (LiveBoard::default(), None);
    while let Some(event) = events.recv().await {
        match &event {
            Event::SweepOpened(sweep) => {
                store.open_sweep(&sweep.run).await?;
                sweep.note_kept();
                opened = Some(sweep.run.id.clone());
            }
            Event::SweepStarted(run) => {
                store.save_sweep(run).await?;
                opened = None;
            }
            Event::SweepTrialEnded(trial) => keep(store, store.save_sweep_trial(trial)).await?,
            _ => {}
        }
        hear(&event)?;
        board.hear(&event);
        display.show(&event);
    }
    display.finish();
    // It ended before its first trial, and took away what it had made: nobody goes on with it.
    if let Some(id) = opened {
        store.drop_sweep(&id).await?;
    }
    Ok(())
}

/// Where each study is, how to draw it, and the clusters that were kept.
pub fn tell_where_kept(finished: &[SweepFinished], store: &Store) {
    for one in finished.iter().filter(|one| one.trials > 0 || one.run.ended_at.is_some()) {
        terminal::print_line(&render_where_kept(&one.run.id, store.place()));
        if let Some(kept) = &one.kept {
            terminal::print_line(&render_kept_cluster(kept));
        }
    }
}

/// The first that matters: interrupted, then failed.
pub fn status_of(finished: &[SweepFinished]) -> ExitStatus {
    match finished {
        _ if finished.iter().any(|one| one.is_interrupted) => ExitStatus::Because(ErrorKind::Interrupted),
        _ if finished.iter().any(|one| one.failed > 0) => ExitStatus::Because(ErrorKind::Failed),
        _ => ExitStatus::Done,
    }
}

/// A run of the same study on this host that did not get to its end, and that no other process runs. Its clusters lie, or will, below
/// `parent`.
async fn find_earlier(store: &Store, sweep: &Sweep, parent: &Path) -> anyhow::Result<Option<(SweepLock, Earlier)>> {
    let hostname = read_machine()?.hostname;
    let Some(run) = store.find_unfinished_sweep(&sweep.digest(), &hostname).await? else { return Ok(None) };
    let lock = SweepLock::take(&lock_directory(store), &run.id, parent)?;
    // Whoever had it may have ended the sweep a moment ago.
    let Some(run) = store.find_sweep(&run.id).await?.filter(|run| run.ended_at.is_none()) else { return Ok(None) };
    let finished = store.read_finished(&run.id).await?;
    Ok(Some((lock, Earlier { run, finished })))
}

/// Where the locks of its sweeps are: beside the file that keeps them.
fn lock_directory(store: &Store) -> PathBuf {
    let parent = match store.place() {
        Place::File(file) => file.parent().filter(|parent| !parent.as_os_str().is_empty()),
        Place::Server(_) => None,
    };
    parent.unwrap_or(Path::new(".")).to_owned()
}

/// Runs a study to its end while `hear` takes its events. A signal ends it tidily, and so does a failure of `hear`.
async fn run_and_hear<T: Send + 'static, Ran, Heard>(
    study: impl FnOnce(Events, Stop) -> Ran + Send + 'static,
    hear: impl FnOnce(UnboundedReceiver<Event>) -> Heard,
) -> anyhow::Result<T>
where
    Ran: Future<Output = Result<T, Error>>,
    Heard: Future<Output = anyhow::Result<()>>,
{
    let stop = Stop::default();
    let signals = tokio::spawn(request_on_signal(stop.clone())?);
    let (sender, events) = unbounded_channel();
    let (runtime, study_stop) = (Handle::current(), stop.clone());
    // A thread of its own, for a study waits for processes as much as for the server.
    let study = tokio::task::spawn_blocking(move || runtime.block_on(study(Events::to(sender), study_stop)));
    let heard = hear(events).await;
    if heard.is_err() {
        stop.request();
    }
    let finished = study.await;
    signals.abort();
    heard?;
    Ok(finished??)
}

/// Waits for a signal that means "end". The first one asks the study to stop; it needs some seconds to tidy up.
fn request_on_signal(stop: Stop) -> std::io::Result<impl Future<Output = ()>> {
    let heard = hear_signals()?;
    Ok(async move {
        heard.await;
        stop.request();
        hurry_clusters();
    })
}
