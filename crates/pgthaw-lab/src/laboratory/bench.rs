use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use jiff::Timestamp;
use serde_json::json;
use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::report::read_in_page;
use super::results::show_sweeps;
use super::store::{close_written, keep, remark_damaged};
use super::{
    ConnectionArguments, ExitStatus, LabArguments, OutputArguments, StoreArguments, Target, require_lab_server,
};
use crate::bench::{Earlier, StudyAsked, SweepFinished, SweepOptions, describe_cold_start, run_sweeps};
use crate::lab::{Place, Stop, SweepLock, choose_in_force, read_file_system_remarks, read_setting_remarks};
use crate::laboratory::text::{
    StudyDisplay, render_before_and_after, render_demo_plan, render_judged_forecasts, render_served, render_sweep_plan,
    render_written_forecast,
};
use crate::report;
use crate::results::{self, Store};
use crate::serve::LiveBoard;
use crate::study::{
    AUTO, BUILT_IN_STUDIES, Calibration, Disk, Error, Event, Events, PGTHAW, Sweep, check_room, expected_bytes,
    parse_sweep, plan_scale, plan_sweep, read_study_text, set_keys, texts_of,
};
use crate::verdict::{WrittenForecast, compute_outline_summary, compute_sweep_verdicts, judge_forecast};
use cache::warm;
use command::workload::make_classes;
use command::{document, find_profile, find_successor, hear_signals, read_device_with};
use host::failure::{Capability, ErrorKind};
use host::files::directory_of;
use host::linux::block_device::{DEFAULT_READ_AHEAD, read_block_device};
use host::linux::capability::{HostTarget, check_host, check_programs};
use host::linux::machine::{read_free_bytes, read_machine, read_memory};
use host::units::counted;
use model::{Device, PageClass, Popularity, compute_outlook};
use postgres::{Programs, hurry_clusters};
use terminal::Canvas;

/// Checks of `pgthaw doctor` that matter for the demo.
const CHECKS: [&str; 4] = ["memory", "device", "disk-limit", "vmtouch"];

const DEMO: &str = "demo";

const DEMO_PAGE: &str = "pgthaw-demo.html";

/// Measure warmers, settings, disks and scales in a study
///
/// pgthaw verifies start states, repeats trials, and measures in random order.
///
/// Built-in studies: `warmup` compares warmers of a cold server while pgbench runs. `residency` measures how long warmers of an idle
/// server take until every block of a snapshot is cached. `forecast` forecasts a cold start, then measures one. `demo` is two short
/// studies with a report. Any other study is a file (docs/study-file.md). An interrupted study continues at the next run.
#[derive(Debug, Args)]
pub struct BenchArguments {
    /// warmup, residency, forecast, demo, or a study file
    study: String,

    /// Keys of the study: scale=10 clients=1,8 disk=gp3
    ///
    /// Further examples: strategy=nothing,cat settings.work_mem=64MB disks.san=20000,1GiB. An empty value removes a key. `--print` shows the study's
    /// keys.
    #[arg(value_name = "KEY=VALUE")]
    keys: Vec<String>,

    /// Print the study as a file; measure nothing
    ///
    /// Use the file as a template for your own study.
    #[arg(long)]
    print: bool,

    /// Print plan and expected time; measure nothing
    ///
    /// The plan lists the points, their order and the disk space.
    #[arg(long)]
    dry_run: bool,

    /// Start from the beginning, even if a run of this study was interrupted
    #[arg(long, hide_short_help = true)]
    anew: bool,

    /// Measure every point twice, as sides A and A'; their difference is the noise (`pgthaw results compare`)
    #[arg(long, hide_short_help = true)]
    aa: bool,

    /// Write a report to this file
    ///
    /// Without this option, only the study `demo` writes a report: pgthaw-demo.html in the working directory.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Directory for the scratch cluster, on the disk to measure
    #[arg(long, value_name = "DIRECTORY", default_value = "/var/tmp", hide_short_help = true)]
    dir: PathBuf,

    /// Directory of PostgreSQL's programs [default: from pg_config, or the newest in /usr/lib/postgresql]
    #[arg(long, value_name = "DIRECTORY", env = "PGTHAW_BIN_DIR", hide_short_help = true)]
    bin_dir: Option<PathBuf>,

    /// Keep the cluster afterwards
    #[arg(long, hide_short_help = true)]
    keep: bool,

    /// Data directory of the lab server to measure on
    ///
    /// The cluster's settings apply.
    ///
    /// pgthaw stops the server for the study and starts it again afterwards. It creates a database pgthaw_bench in the cluster, and drops
    /// it.
    #[arg(short = 'D', long, value_name = "DIRECTORY", conflicts_with = "dir", hide_short_help = true)]
    data_dir: Option<PathBuf>,

    #[command(flatten)]
    lab: LabArguments,

    #[command(flatten)]
    store: StoreArguments,
}

pub async fn run(arguments: BenchArguments, output: OutputArguments) -> anyhow::Result<ExitStatus> {
    let texts = arguments.read_texts()?;
    if arguments.print {
        terminal::print_verbatim(texts.join("\n").trim_end());
        return Ok(ExitStatus::Done);
    }
    let sweeps = texts.iter().map(|text| arguments.parse(text)).collect::<anyhow::Result<Vec<Sweep>>>()?;
    if arguments.dry_run {
        return dry_run(&arguments, &sweeps, output);
    }
    let page: Option<PathBuf> = arguments.output.clone().or((arguments.study == DEMO).then(|| DEMO_PAGE.into()));
    page.iter().try_for_each(|page| document::check_report_place(page, false))?;
    let (programs, place) = arguments.choose_place(&sweeps).await?;
    let asked = |sweep: Sweep| StudyAsked {
        device: find_device(&sweep, place.directory()),
        programs: programs.clone(),
        place: place.clone(),
        sweep,
        is_kept: arguments.keep,
    };
    let studies: Vec<StudyAsked> = sweeps.into_iter().map(asked).collect();
    if arguments.study == DEMO && !output.json {
        print_demo_plan(&studies[0]);
    }
    let store = arguments.store.open_for_study().await?;
    if let [asked] = studies.as_slice()
        && let Some(popularity) = &asked.sweep.popularity
    {
        return run_forecast(asked, popularity, store, output).await;
    }
    let begin = if arguments.anew { Begin::Anew } else { Begin::WhereItStopped };
    let finished = run_studies(studies, begin, &store, output, |_| Ok(())).await?;
    let page = match page {
        Some(page) => write_page(&finished, &store, &page, output).await?,
        None => None,
    };
    show_sweeps(&store, &finished, page.as_deref(), output).await?;
    if finished.len() > 1 && !output.json {
        print_acts(&finished, &store).await?;
    }
    if !output.json {
        tell_where_kept(&finished, &store);
        page.iter().for_each(|page| terminal::print_line(&format!("the report: {}", page.display())));
    }
    close_written(store).await?;
    Ok(status_of(&finished))
}

impl BenchArguments {
    fn built_in(&self) -> Option<&'static [&'static str]> {
        BUILT_IN_STUDIES.iter().find(|(name, _)| *name == self.study).map(|(_, texts)| *texts)
    }

    fn read_texts(&self) -> anyhow::Result<Vec<String>> {
        let keys: Vec<&str> = self.keys.iter().map(String::as_str).collect();
        let Some(built_in) = self.built_in() else {
            let text = read_study_text(Path::new(&self.study)).map_err(|error| self.explain_missing(error))?;
            return Ok(vec![self.set_keys(&text, &keys)?]);
        };
        // A lab server's cluster keeps its settings, except requested ones.
        let keys = if self.data_dir.is_some() { [&["settings="], keys.as_slice()].concat() } else { keys };
        built_in.iter().map(|text| self.set_keys(text, &keys)).collect()
    }

    fn set_keys(&self, text: &str, keys: &[&str]) -> anyhow::Result<String> {
        Ok(set_keys(text, keys).map_err(|problem| self.wrong(problem))?)
    }

    fn parse(&self, text: &str) -> anyhow::Result<Sweep> {
        let directory = if self.built_in().is_some() { Path::new(".") } else { directory_of(Path::new(&self.study)) };
        let text = self.settle_scale(text)?;
        let sweep = parse_sweep(&text, directory, self.aa).map_err(|problem| self.wrong(problem))?;
        if let Some(popularity) = &sweep.popularity {
            popularity
                .parse::<Popularity>()
                .map_err(|problem| self.wrong(format!("popularity: {popularity:?}: {problem}")))?;
        }
        Ok(sweep)
    }

    fn settle_scale(&self, text: &str) -> anyhow::Result<String> {
        let study: toml::Table = text.parse()?;
        if study.get("points").and_then(|points| points.get("scale")?.as_str()) != Some(AUTO) {
            return Ok(text.to_owned());
        }
        let scale = plan_scale(read_memory()?.available_bytes, read_free_bytes(&self.dir)?);
        self.set_keys(text, &[&format!("points.scale={scale}")])
    }

    fn wrong(&self, problem: String) -> Error {
        Error::Spec { path: PathBuf::from(&self.study), problem }
    }

    fn explain_missing(&self, error: Error) -> anyhow::Error {
        if self.study.contains(['/', '.']) || Path::new(&self.study).exists() {
            return error.into();
        }
        let words: Vec<String> =
            ["bench", &self.study].into_iter().map(str::to_owned).chain(self.keys.clone()).collect();
        if let Some(gone) = find_successor(&words, None) {
            return gone.into();
        }
        let names = BUILT_IN_STUDIES.map(|(name, _)| name).join(", ");
        let problem = format!("no study is called {:?}", self.study);
        Error::Unfit { problem, remedy: format!("use one of {names}, or a file such as study.toml") }.into()
    }

    async fn choose_place(&self, sweeps: &[Sweep]) -> anyhow::Result<(Programs, Place)> {
        let bin_dir = self.bin_dir.as_deref();
        if self.data_dir.is_none() {
            return Ok((Programs::find(bin_dir)?, Place::Scratch { parent: self.dir.clone() }));
        }
        sweeps.iter().try_for_each(Sweep::check_lendable)?;
        let connection = ConnectionArguments { data_dir: self.data_dir.clone(), ..ConnectionArguments::default() };
        let target = Target::open(&connection).await?;
        require_lab_server(&target, &self.lab, "a study")?;
        let data_directory = target.data_directory.context("the data directory cannot be read")?;
        let programs = Programs::find_version(bin_dir, data_directory.version_major)?;
        Ok((programs, Place::Borrowed { data_directory }))
    }
}

fn dry_run(arguments: &BenchArguments, sweeps: &[Sweep], output: OutputArguments) -> anyhow::Result<ExitStatus> {
    let plan = |sweep: &Sweep| {
        let mut plan = plan_sweep(sweep, &arguments.dir)?;
        plan.remarks.extend(read_setting_remarks(sweep, Programs::find(arguments.bin_dir.as_deref()))?);
        plan.remarks.extend(read_file_system_remarks(sweep));
        anyhow::Ok(plan)
    };
    let plans = sweeps.iter().map(plan).collect::<anyhow::Result<Vec<_>>>()?;
    let answer = json!({ "plan": plans.first(), "further": plans.get(1..) });
    let width = Canvas::of_stdout(false).width;
    let text = || plans.iter().map(|plan| render_sweep_plan(plan, width)).collect::<Vec<_>>().join("\n\n");
    terminal::print_answer(&answer, output.json, text)?;
    plans.iter().try_for_each(|plan| check_room(plan.needed_bytes, plan.free_bytes, &arguments.dir))?;
    Ok(ExitStatus::Done)
}

async fn write_page(
    finished: &[SweepFinished],
    store: &Store,
    path: &Path,
    output: OutputArguments,
) -> anyhow::Result<Option<PathBuf>> {
    let mut studies = Vec::new();
    for one in finished {
        studies.push(read_in_page(store, &one.run.id, output).await?);
    }
    studies.retain(|one| !one.study.trials.is_empty());
    if studies.is_empty() {
        return Ok(None);
    }
    document::write_report(path, &report::render_report(&studies)?, false)?;
    Ok(Some(path.canonicalize()?))
}

fn print_demo_plan(asked: &StudyAsked) {
    let server = match asked.programs.version() {
        Ok(version) => {
            let directory = asked.programs.bin_dir().display();
            Capability::yes("this machine", "postgresql", format!("{} in {directory}", version.text))
        }
        Err(error) => Capability::failed("this machine", "postgresql", &error),
    };
    let directory = asked.place.directory();
    let target = HostTarget { data_directory: Some(directory.to_owned()), ..HostTarget::default() };
    let found = check_host(&target).into_iter().chain(check_programs()).filter(|one| CHECKS.contains(&one.name));
    let found = found.map(|one| Capability { group: "this machine", ..one });
    let checks: Vec<Capability> = [server].into_iter().chain(found).collect();
    let point = asked.sweep.point(0);
    let disk = choose_in_force(directory, asked.sweep.disk(&point), false);
    let plan = render_demo_plan(point.scale, expected_bytes(point.scale), &disk);
    terminal::print_line(&format!("{}\n\n{plan}\n", terminal::render_capabilities(&checks)));
}

async fn print_acts(finished: &[SweepFinished], store: &Store) -> anyhow::Result<()> {
    let mut acts = Vec::new();
    for act in finished {
        acts.push((&act.run, store.read_sweep_outlines(&act.run.id).await?));
    }
    acts.retain(|(_, trials)| !trials.is_empty());
    let trials = || acts.iter().flat_map(|(run, trials)| trials.iter().map(move |trial| (run, trial)));
    if let Some((run, shown)) = trials().find(|(_, trial)| trial.point.strategy == PGTHAW).or(trials().next())
        && let Some(trial) = store.read_sweep_trial(&run.id, shown.number, shown.repeat).await?
    {
        terminal::print_line(&format!("{}\n", render_before_and_after(&trial)));
    }
    for (run, trials) in &acts {
        terminal::print_line(&render_served(&run.question, &compute_outline_summary(run, trials)));
    }
    Ok(())
}

async fn run_forecast(
    asked: &StudyAsked,
    popularity: &str,
    store: Store,
    output: OutputArguments,
) -> anyhow::Result<ExitStatus> {
    let mut written = None;
    let finished = run_studies(vec![asked.clone()], Begin::Once, &store, output, |event| {
        if let Event::Calibrated(calibration) = event {
            let forecast = write_forecast(calibration, asked, popularity)?;
            if !output.json {
                terminal::print_line(&render_written_forecast(&forecast));
            }
            written = Some(forecast);
        }
        Ok(())
    })
    .await?;
    let one = finished.first().context("the study stored no result")?;
    let trial = store.read_sweep_trial(&one.run.id, 0, 1).await?;
    close_written(store).await?;
    if one.is_interrupted {
        return Ok(ExitStatus::Because(ErrorKind::Interrupted));
    }
    let trial = trial.filter(|trial| trial.failure.is_none()).context("the trial stored no result")?;
    let written = written.context("no forecast was written")?;
    let name = if one.run.question.is_empty() { "forecast" } else { &one.run.question };
    let judged = judge_forecast(name.to_owned(), written, &one.run, &trial);
    terminal::print_answer(&judged, output.json, || render_judged_forecasts(std::slice::from_ref(&judged)))?;
    Ok(ExitStatus::Done)
}

/// Uses only facts known before the trial.
fn write_forecast(calibration: &Calibration, asked: &StudyAsked, popularity: &str) -> anyhow::Result<WrittenForecast> {
    let calibration_tps = calibration.tps.ok_or(model::Error::IdleServer)?;
    let directory = asked.place.directory();
    let disk = choose_in_force(directory, asked.sweep.disk(&asked.sweep.point(0)), false);
    let (device, described) = read_device(&disk, directory)?;
    let chosen: Popularity = popularity.parse().map_err(anyhow::Error::msg)?;
    let made = make_classes(&calibration.activity, None, Some(&chosen))?;
    let mut assumptions = made.describe();
    let own = read_block_device(directory).map_or(DEFAULT_READ_AHEAD, |device| device.read_ahead_bytes);
    let read_ahead = disk.read_ahead_in_force(own);
    let scenario = describe_cold_start(&asked.sweep, calibration, &device, read_ahead, made.classes)?;
    let outlook = compute_outlook(&scenario)?;
    assumptions.extend([described, format!("the kernel reads ahead by up to {read_ahead}")]);
    Ok(WrittenForecast {
        written_at: Timestamp::now(),
        calibration_tps,
        popularity: popularity.to_owned(),
        classes: scenario.workload.classes.iter().map(PageClass::access).collect(),
        assumptions,
        to_50_seconds: outlook.to_50_seconds.map(|span| span.seconds),
        warm_after_seconds: outlook.warm_after_seconds.map(|span| span.seconds),
        steady_tps: outlook.steady_tps,
    })
}

/// Returns limits in force, the latency from `doctor --probe` or of a common cloud volume, and a description.
fn read_device(disk: &Disk, directory: &Path) -> Result<(Device, String), warm::Error> {
    let riops = disk.riops.filter(|_| disk.not_enforced.is_none());
    let rbps = disk.rbps.filter(|_| disk.not_enforced.is_none());
    read_device_with(riops.map(|riops| riops as f64), rbps, Some(directory), None)
}

/// Returns `None` unless this is a warm-up study with limits in force or figures from `doctor --probe`.
fn find_device(sweep: &Sweep, directory: &Path) -> Option<Device> {
    let disk = sweep.is_warmup.then(|| choose_in_force(directory, sweep.disk(&sweep.point(0)), false))?;
    let is_limited = disk.not_enforced.is_none() && (disk.riops.is_some() || disk.rbps.is_some());
    let is_known = is_limited || matches!(find_profile(directory, None), Ok(Some(_)));
    is_known.then(|| read_device(&disk, directory).ok()).flatten().map(|(device, _)| device)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begin {
    WhereItStopped,
    /// Starts a new run, which a later invocation may resume.
    Anew,
    /// Starts a new run that cannot be resumed.
    Once,
}

/// A signal or an error of `hear` ends the studies cleanly.
async fn run_studies(
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
    let stop = Stop::default();
    let (signal, signalled) = (hear_signals()?, stop.clone());
    let signals = tokio::spawn(async move {
        signal.await;
        signalled.request();
        hurry_clusters();
    });
    let (sender, events) = unbounded_channel();
    let (runtime, study_stop) = (Handle::current(), stop.clone());
    // A study blocks, so it runs on its own thread.
    let study = move || runtime.block_on(run_sweeps(&all, &Events(sender), &study_stop));
    let study = tokio::task::spawn_blocking(study);
    let heard = keep_and_show(events, store, output, hear).await;
    if heard.is_err() {
        stop.request();
    }
    let finished = study.await;
    signals.abort();
    heard?;
    let mut finished = finished??;
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

async fn begin_study(
    asked: StudyAsked,
    begin: Begin,
    store: &Store,
    output: OutputArguments,
) -> anyhow::Result<(SweepLock, SweepOptions)> {
    let (sweep, directory) = (&asked.sweep, asked.place.directory());
    let earlier = if begin == Begin::WhereItStopped { find_earlier(store, sweep, directory).await? } else { None };
    if let (Some((_, earlier)), true) = (&earlier, output.shows_progress()) {
        let (id, done, all) = (&earlier.run.id, earlier.finished.len(), counted(sweep.trials(), "trial"));
        terminal::print_remark(&format!("resuming {id}, which has {done} of {all}"));
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
            Event::SweepOpened { run, kept } => {
                store.open_sweep(run).await?;
                // If the sweep was stopped, nothing receives this.
                let _ = kept.try_send(());
                opened = Some(run.id.clone());
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
    // The sweep cannot be resumed, because it removed its files.
    if let Some(id) = opened {
        store.drop_sweep(&id).await?;
    }
    Ok(())
}

fn tell_where_kept(finished: &[SweepFinished], store: &Store) {
    for one in finished.iter().filter(|one| one.trials > 0 || one.run.ended_at.is_some()) {
        let (id, place) = (&one.run.id, store.place());
        terminal::print_line(&format!("stored as {id} in {place}; to see its curves: `pgthaw report {id}`"));
        one.kept.iter().for_each(|kept| terminal::print_line(&format!("the cluster stays in {}", kept.display())));
    }
}

fn status_of(finished: &[SweepFinished]) -> ExitStatus {
    match finished {
        _ if finished.iter().any(|one| one.is_interrupted) => ExitStatus::Because(ErrorKind::Interrupted),
        _ if finished.iter().any(|one| one.failed > 0) => ExitStatus::Because(ErrorKind::Failed),
        _ => ExitStatus::Done,
    }
}

/// `parent` contains the study's clusters.
async fn find_earlier(store: &Store, sweep: &Sweep, parent: &Path) -> anyhow::Result<Option<(SweepLock, Earlier)>> {
    let hostname = read_machine()?.hostname;
    let Some(run) = store.find_unfinished_sweep(&sweep.digest(), &hostname).await? else { return Ok(None) };
    let lock = SweepLock::take(&lock_directory(store), &run.id, parent)?;
    // The former holder of the lock may have ended the run meanwhile.
    let Some(run) = store.find_sweep(&run.id).await?.filter(|run| run.ended_at.is_none()) else { return Ok(None) };
    let finished = store.read_finished(&run.id).await?;
    Ok(Some((lock, Earlier { run, finished })))
}

fn lock_directory(store: &Store) -> PathBuf {
    match store.place() {
        results::Place::File(file) => directory_of(file).to_owned(),
        results::Place::Server(_) => PathBuf::from("."),
    }
}
