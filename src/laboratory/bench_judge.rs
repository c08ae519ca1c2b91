//! `pgthaw bench judge`: the work is done in `src/verdict/judged.rs`.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use serde::Serialize;

use super::{ExitStatus, OutputArguments};
use crate::files::read_text_at_most;
use crate::laboratory::text::{render_judged_forecasts, render_sweep_verdict};
use crate::terminal;
use crate::verdict::{JudgedForecast, SweepVerdict, judge_sweep};

/// How far off the forecasts of a sweep were: of files that `bench forecast --json` wrote
#[derive(Debug, Args)]
pub struct JudgeArguments {
    #[arg(required = true)]
    files: Vec<PathBuf>,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Document {
    verdict: SweepVerdict,
    points: Vec<JudgedForecast>,
}

/// Bytes that a forecast may have.
const FORECAST_BYTES_MAX: u64 = 64 << 20;

/// Runs the command.
pub fn run(arguments: &JudgeArguments, output: OutputArguments) -> anyhow::Result<ExitStatus> {
    let read = |path: &PathBuf| -> anyhow::Result<JudgedForecast> {
        let text =
            read_text_at_most(path, FORECAST_BYTES_MAX).with_context(|| format!("cannot read {}", path.display()))?;
        let kept: JudgedForecast =
            serde_json::from_str(&text).with_context(|| format!("{} is no judged forecast", path.display()))?;
        Ok(kept.judged_again())
    };
    let points = arguments.files.iter().map(read).collect::<anyhow::Result<Vec<_>>>()?;
    let verdict = judge_sweep(&points);
    if output.json {
        terminal::print_json(&Document { verdict, points })?;
    } else {
        terminal::print_line(&render_judged_forecasts(&points));
        terminal::print_line(&render_sweep_verdict(&verdict));
    }
    Ok(ExitStatus::Done)
}
