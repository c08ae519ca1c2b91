//! `pgthaw demo`: the work is done in `src/bench/` and `src/report/`.

use std::path::{Path, PathBuf};

use clap::Args;

use super::bench_device::find_bench_device;
use super::demo_acts::{ActArguments, Acts};
use super::finished::print_finished;
use super::store::close_written;
use super::study::{DiskArguments, ScratchArguments, run_study};
use super::{ExitStatus, OutputArguments, StoreArguments};
use crate::bench::Options;
use crate::failure::{Capability, ErrorKind};
use crate::lab::{Place, choose_in_force};
use crate::linux::capability::{HostTarget, check_host, check_programs};
use crate::linux::machine::read_free_bytes;
use crate::linux::memory::read_memory;
use crate::postgres::Programs;
use crate::postgres::pgbench::{Script, Workload};
use crate::study::{Finished, PGTHAW, size};
use crate::verdict::compute_summary;
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
    let acts = arguments.acts()?;
    if !output.json {
        let options = &acts.options[0];
        let checks = terminal::render_capabilities(&check_machine(options));
        let plan = terminal::render_demo_plan(options.scale, size::expected_bytes(options.scale), &options.disk);
        terminal::print_line(&format!("{checks}\n\n{plan}\n"));
    }
    let store = arguments.store.open_for_study(output).await?;
    let finished = run_study(acts.options.clone(), &store, output, |_| Ok(())).await?;
    let report = write_report(&finished, &arguments.output)?;
    print_finished(&finished, report.as_deref(), output)?;
    if !output.json {
        print_end(&finished, report.as_deref(), store.place());
    }
    close_written(store, output).await?;
    let is_interrupted = finished.iter().any(|act| act.is_interrupted);
    Ok(if is_interrupted { ExitStatus::Because(ErrorKind::Interrupted) } else { ExitStatus::Done })
}

impl DemoArguments {
    fn acts(&self) -> anyhow::Result<Acts> {
        let scale = match self.scale {
            Some(scale) => scale,
            None => size::plan_scale(read_memory()?.available_bytes, read_free_bytes(&self.scratch.dir)?),
        };
        let disk = choose_in_force(&self.scratch.dir, self.disk.choose("gp3")?);
        let device = find_bench_device(&disk, &self.scratch.dir);
        self.acts.acts(Options {
            title: None,
            programs: Programs::find(self.scratch.bin_dir.as_deref())?,
            place: Place::Scratch { parent: self.scratch.dir.clone() },
            scale,
            workload: Workload { script: Script::Builtin("select-only"), clients: 8, jobs: 2, seconds: 1, scale },
            repeats: self.acts.repeats,
            strategies: Vec::new(),
            disk,
            seed: rand::random(),
            memory: None,
            shared_buffers: self.scratch.shared_buffers,
            until_steady: false,
            device,
            is_kept: self.scratch.keep,
        })
    }
}

fn check_machine(options: &Options) -> Vec<Capability> {
    let server = match options.programs.version() {
        Ok(version) => {
            let directory = options.programs.bin_dir().display();
            Capability::yes("this machine", "postgresql", format!("{} in {directory}", version.text))
        }
        Err(error) => Capability::failed("this machine", "postgresql", &error),
    };
    let target = HostTarget { data_directory: Some(options.place.directory().to_owned()), ..HostTarget::default() };
    let found = check_host(&target).into_iter().chain(check_programs());
    let found = found.filter(|one| CHECKS.contains(&one.name)).map(|one| Capability { group: "this machine", ..one });
    [server].into_iter().chain(found).collect()
}

/// Writes the report of the acts in which any trial ended.
fn write_report(finished: &[Finished], path: &Path) -> anyhow::Result<Option<PathBuf>> {
    let shown = finished.iter().filter(|act| !act.trials.is_empty()).map(|act| (&act.run, &act.trials[..]));
    let shown: Vec<_> = shown.collect();
    let Some((first, further)) = shown.split_first() else { return Ok(None) };
    let html = report::render_report(*first, further)?;
    report::write_report(path, &html, false)?;
    Ok(Some(path.canonicalize()?))
}

/// Cold and warm side by side, what users got, and where everything is.
fn print_end(finished: &[Finished], report: Option<&Path>, store: &dyn std::fmt::Display) {
    let trials = || finished.iter().flat_map(|act| &act.trials);
    if let Some(shown) = trials().find(|trial| trial.strategy == PGTHAW).or(trials().next()) {
        terminal::print_line(&format!("{}\n", terminal::render_before_and_after(shown)));
    }
    for act in finished {
        let title = act.run.study.title.as_deref().unwrap_or_default();
        terminal::print_line(&terminal::render_served(title, &compute_summary(&act.run, &act.trials)));
    }
    for act in finished {
        terminal::print_line(&terminal::render_where_kept(&act.run.id, store));
    }
    if let Some((act, kept)) = finished.iter().find_map(|act| Some((act, act.kept.as_ref()?))) {
        terminal::print_line(&terminal::render_kept_cluster(kept, act.run.study.database_bytes));
    }
    if let Some(report) = report {
        terminal::print_line(&format!("the report: {}", report.display()));
    }
}
