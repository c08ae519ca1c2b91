//! `pgthaw demo`: the work is done in `src/bench/` and `src/report/`.

use std::path::{Path, PathBuf};

use clap::Args;

use super::demo_acts::{ActArguments, write_script};
use super::report::read_in_page;
use super::results::show_sweeps;
use super::running::{Begin, run_studies, status_of};
use super::store::close_written;
use super::study::{DiskArguments, ScratchArguments};
use super::{ExitStatus, OutputArguments, StoreArguments};
use crate::bench::{StudyAsked, SweepFinished};
use crate::command::document;
use crate::failure::Capability;
use crate::lab::choose_in_force;
use crate::laboratory::text::{
    render_before_and_after, render_demo_plan, render_kept_cluster, render_served, render_where_kept,
};
use crate::linux::capability::{HostTarget, check_host, check_programs};
use crate::linux::machine::read_free_bytes;
use crate::linux::memory::read_memory;
use crate::results::Store;
use crate::study::{PGTHAW, size};
use crate::verdict::compute_outline_summary;
use crate::{report, terminal};

/// What of `pgthaw doctor` matters for the demo.
const CHECKS: [&str; 4] = ["memory", "device", "disk-limit", "vmtouch"];

/// See it all on a scratch server of its own, in two acts: everything is needed, and a hot newest tenth
#[derive(Debug, Args)]
pub struct DemoArguments {
    /// pgbench's scale: about 16 MB each [default: 50, less when memory or disk are short]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    scale: Option<u32>,

    #[command(flatten)]
    acts: ActArguments,

    /// The report's file [default: pgthaw-demo.html here]
    #[arg(short, long, value_name = "FILE", default_value = "pgthaw-demo.html", hide_default_value = true)]
    output: PathBuf,

    #[command(flatten)]
    disk: DiskArguments,

    #[command(flatten)]
    scratch: ScratchArguments,

    #[command(flatten)]
    store: StoreArguments,
}

/// Runs the command.
pub async fn run(arguments: DemoArguments, output: OutputArguments) -> anyhow::Result<ExitStatus> {
    // Not after minutes of work.
    document::check_report_place(&arguments.output, false)?;
    let scale = arguments.choose_scale()?;
    let (disk, script) = (arguments.disk.choose("gp3")?, write_script(scale)?);
    let acts = arguments.acts.studies(scale, &disk, script.path(), &arguments.scratch)?;
    if !output.json {
        let checks = terminal::render_capabilities(&check_machine(&acts[0]));
        let disk = choose_in_force(&arguments.scratch.dir, disk);
        let plan = render_demo_plan(scale, size::expected_bytes(scale), &disk);
        terminal::print_line(&format!("{checks}\n\n{plan}\n"));
    }
    let store = arguments.store.open_for_study().await?;
    let played = run_studies(acts, Begin::Once, &store, output, |_| Ok(())).await?;
    let report = write_report(&played, &store, &arguments.output, output).await?;
    show_sweeps(&store, &played, report.as_deref(), output).await?;
    if !output.json {
        print_end(&played, report.as_deref(), &store).await?;
    }
    close_written(store).await?;
    Ok(status_of(&played))
}

impl DemoArguments {
    fn choose_scale(&self) -> anyhow::Result<u32> {
        Ok(match self.scale {
            Some(scale) => scale,
            None => size::plan_scale(read_memory()?.available_bytes, read_free_bytes(&self.scratch.dir)?),
        })
    }
}

fn check_machine(asked: &StudyAsked) -> Vec<Capability> {
    let server = match asked.programs.version() {
        Ok(version) => {
            let directory = asked.programs.bin_dir().display();
            Capability::yes("this machine", "postgresql", format!("{} in {directory}", version.text))
        }
        Err(error) => Capability::failed("this machine", "postgresql", &error),
    };
    let target = HostTarget { data_directory: Some(asked.place.directory().to_owned()), ..HostTarget::default() };
    let found = check_host(&target).into_iter().chain(check_programs());
    let found = found.filter(|one| CHECKS.contains(&one.name)).map(|one| Capability { group: "this machine", ..one });
    [server].into_iter().chain(found).collect()
}

/// Writes the report of the acts in which any trial ended.
async fn write_report(
    played: &[SweepFinished],
    store: &Store,
    path: &Path,
    output: OutputArguments,
) -> anyhow::Result<Option<PathBuf>> {
    let mut studies = Vec::new();
    for act in played.iter().filter(|act| act.trials > 0) {
        studies.push(read_in_page(store, &act.run.id, output).await?);
    }
    if studies.is_empty() {
        return Ok(None);
    }
    document::write_report(path, &report::render_report(&studies)?, false)?;
    Ok(Some(path.canonicalize()?))
}

/// Cold and warm side by side, what users got, and where everything is.
async fn print_end(played: &[SweepFinished], report: Option<&Path>, store: &Store) -> anyhow::Result<()> {
    let mut acts = Vec::new();
    for act in played.iter().filter(|act| act.trials > 0) {
        acts.push((&act.run, store.read_sweep_outlines(&act.run.id).await?));
    }
    let trials = || acts.iter().flat_map(|(run, trials)| trials.iter().map(move |trial| (run, trial)));
    if let Some((run, shown)) = trials().find(|(_, trial)| trial.point.strategy == PGTHAW).or(trials().next())
        && let Some(trial) = store.read_sweep_trial(&run.id, shown.number, shown.repeat).await?
    {
        terminal::print_line(&format!("{}\n", render_before_and_after(&trial)));
    }
    for (run, trials) in &acts {
        terminal::print_line(&render_served(&run.question, &compute_outline_summary(run, trials)));
    }
    for (run, _) in &acts {
        terminal::print_line(&render_where_kept(&run.id, store.place()));
    }
    if let Some(kept) = played.iter().find_map(|act| act.kept.as_ref()) {
        terminal::print_line(&render_kept_cluster(kept));
    }
    if let Some(report) = report {
        terminal::print_line(&format!("the report: {}", report.display()));
    }
    Ok(())
}
