//! `pgthaw demo`: the work is done in `src/bench/` and `src/report/`.

use std::path::{Path, PathBuf};

use clap::Args;

use super::finished::print_finished;
use super::study::{DiskArguments, ScratchArguments, TrialArguments, run_study};
use super::{ExitStatus, OutputArguments, StoreArguments};
use crate::bench::{Finished, Options, PGTHAW, Place, size};
use crate::failure::{Capability, ErrorKind};
use crate::linux::capability::{HostTarget, check_host, check_programs};
use crate::linux::machine::read_free_bytes;
use crate::linux::memory::read_memory;
use crate::postgres::Programs;
use crate::postgres::pgbench::{Script, Workload};
use crate::{report, terminal};

/// What of `pgthaw doctor` matters for the demo.
const CHECKS: [&str; 4] = ["memory", "device", "disk-limit", "vmtouch"];

/// See it all on a scratch server of its own: cold and slow, warmed in every way, proven
#[derive(Debug, Args)]
pub struct DemoArguments {
    /// pgbench's scale: about 16 MB each [default: 50, less when memory or disk are short]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    scale: Option<u32>,

    #[command(flatten)]
    trials: TrialArguments,

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
    let options = arguments.options()?;
    if !output.json {
        let checks = terminal::render_doctor(&check_machine(&options));
        let (scale, seconds) = (options.scale, options.workload.seconds);
        let plan = terminal::render_demo_plan(scale, size::expected_bytes(scale), &options.disk, seconds);
        terminal::print_line(&format!("{checks}\n\n{plan}\n"));
    }
    let store = arguments.store.open().await?;
    let finished = run_study(options, &store, output).await?;
    let report = write_report(&finished, &arguments.output)?;
    print_finished(&finished, report.as_deref(), output)?;
    if !output.json {
        print_end(&finished, report.as_deref(), store.path());
    }
    store.close().await;
    Ok(if finished.is_interrupted { ExitStatus::Because(ErrorKind::Interrupted) } else { ExitStatus::Done })
}

impl DemoArguments {
    fn options(&self) -> anyhow::Result<Options> {
        let scale = match self.scale {
            Some(scale) => scale,
            None => size::plan_scale(read_memory()?.available_bytes, read_free_bytes(&self.scratch.dir)?),
        };
        Ok(Options {
            programs: Programs::find(self.scratch.bin_dir.as_deref())?,
            place: Place::Scratch { parent: self.scratch.dir.clone() },
            scale,
            workload: Workload {
                script: Script::Builtin("select-only"),
                clients: 8,
                jobs: 2,
                seconds: self.trials.seconds,
            },
            repeats: self.trials.repeats,
            strategies: self.trials.strategies(),
            disk: self.disk.choose("gp3")?,
            seed: rand::random(),
            shared_buffers: self.scratch.shared_buffers,
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

/// Writes the report, if any trial ended.
fn write_report(finished: &Finished, path: &Path) -> anyhow::Result<Option<PathBuf>> {
    if finished.trials.is_empty() {
        return Ok(None);
    }
    let html = report::render_report(&finished.run, &finished.trials)?;
    report::write_report(path, &html, false)?;
    Ok(Some(path.canonicalize()?))
}

/// Cold and warm side by side, and where everything is.
fn print_end(finished: &Finished, report: Option<&Path>, store: &Path) {
    let trials = &finished.trials;
    if let Some(shown) = trials.iter().find(|trial| trial.strategy == PGTHAW).or(trials.first()) {
        terminal::print_line(&format!("{}\n", terminal::render_before_and_after(shown)));
    }
    terminal::print_line(&terminal::render_where_kept(&finished.run, store));
    if let Some(kept) = &finished.kept {
        terminal::print_line(&terminal::render_kept_cluster(kept, finished.run.study.database_bytes));
    }
    if let Some(report) = report {
        terminal::print_line(&format!("the report: {}", report.display()));
    }
}
