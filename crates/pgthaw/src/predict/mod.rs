//! `pgthaw predict`; the models are in `crates/model/src/`.

mod arguments;
mod film;
pub mod job_text;
mod prediction_text;
mod server;

use serde::Serialize;

use super::{ExitStatus, OutputArguments};
use cache::Selected;
use host::linux::machine::count_cores;
use model::{
    Access, ColdRestart, Error, Knees, Numbers, Outlook, PageClass, RoughEstimate, compute_outlook,
    explain_later_restores,
};
use terminal::Canvas;

pub use arguments::PredictArguments;
use prediction_text::{render_knees, render_prediction, render_rough_estimate};
use server::{ServerForecast, plan_warmer};

#[derive(Debug, Serialize, crate::JsonSchema)]
pub struct Prediction {
    assumptions: Vec<String>,
    /// Block accesses per transaction, by class of blocks.
    classes: Vec<Access>,
    /// The snapshot that a restore would use.
    snapshot: Option<Selected>,
    /// When throughput rises most steeply.
    knees: Option<Knees>,
    rough_estimate: RoughEstimate,
    /// Reasons why the server reaches half of the steady throughput later with a restore than without.
    remarks: Vec<String>,
    scenarios: Vec<Outlook>,
}

pub async fn run(mut arguments: PredictArguments, output: OutputArguments) -> anyhow::Result<ExitStatus> {
    arguments.connection = arguments.named();
    arguments.connection.complete_printed_commands();
    let figures: Numbers = arguments.figures().parse().map_err(Error::Figures)?;
    let canvas = Canvas::of_stdout(false);
    if let Some(name) = &arguments.film {
        let prediction = film::predict_job(name, &arguments, &figures).await?;
        terminal::print_answer(&prediction, output.json, || job_text::render_job_prediction(&prediction, canvas))?;
        return Ok(ExitStatus::Done);
    }
    let ServerForecast { restart, snapshot, restore } = match figures.pages.is_empty() {
        true => server::forecast(&arguments, &figures, output.shows_progress()).await?,
        false => {
            let restart = figures.bare_start(count_cores())?;
            ServerForecast { restart, snapshot: None, restore: None }
        }
    };
    let scenarios = restart.scenarios(&arguments.what_if, |scenario| plan_warmer(scenario, restore.as_ref()?))?;
    let outlooks = scenarios.iter().map(compute_outlook).collect::<Result<Vec<_>, _>>()?;
    let ColdRestart { workload, server, assumptions, knees, .. } = restart;
    let prediction = Prediction {
        classes: workload.classes.iter().map(PageClass::access).collect(),
        rough_estimate: RoughEstimate::new(&workload, &server),
        remarks: explain_later_restores(&scenarios, &outlooks, restore.is_some()),
        assumptions,
        snapshot,
        knees,
        scenarios: outlooks,
    };
    terminal::print_answer(&prediction, output.json, || {
        let knees = prediction.knees.map(|knees| render_knees(&knees));
        let rough = render_rough_estimate(&prediction.rough_estimate);
        let beside: Vec<String> = prediction.remarks.iter().cloned().chain(knees).chain([rough]).collect();
        render_prediction(&prediction.scenarios, &beside, &prediction.assumptions, canvas)
    })?;
    Ok(ExitStatus::Done)
}
