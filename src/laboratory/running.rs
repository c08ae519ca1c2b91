//! Runs studies, for `bench sweep`, `bench warmup`, `bench forecast` and `demo`: each trial is shown and kept when it ends.

use tokio::sync::mpsc::UnboundedReceiver;

use super::store::{keep, remark_damaged};
use super::study::run_and_hear;
use super::sweep_earlier::{find_earlier, lock_directory};
use super::{ExitStatus, OutputArguments};
use crate::bench::{StudyAsked, SweepFinished, SweepOptions, run_sweeps};
use crate::failure::ErrorKind;
use crate::lab::{Stop, SweepLock};
use crate::laboratory::text::{StudyDisplay, render_kept_cluster, render_where_kept};
use crate::results::Store;
use crate::serve::LiveBoard;
use crate::study::{Event, Events, texts_of};
use crate::terminal;
use crate::units::counted;
use crate::verdict::compute_sweep_verdicts;

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

impl Begin {
    /// As the option `--anew` says.
    pub fn asked(anew: bool) -> Begin {
        if anew { Begin::Anew } else { Begin::WhereItStopped }
    }
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
    for one in finished {
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
