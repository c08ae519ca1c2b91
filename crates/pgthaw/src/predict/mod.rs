//! `pgthaw predict`: the work is done in `crates/model/src/`.

mod arguments;
mod bare;
mod base;
mod change;
mod film;
mod hardware;
pub mod job_text;
mod known;
mod live;
mod page;
pub mod prediction_text;
mod reads;
mod restore_plan;
mod scenarios;
mod stopped;
mod values;

pub use self::arguments::PredictArguments;
pub use self::values::{parse_hit, parse_reads};

use self::base::{Base, Prediction, RoughEstimate};
use super::{ExitStatus, OutputArguments, Target};
use crate::predict::job_text::render_job_prediction;
use crate::predict::prediction_text::{render_prediction, render_rough_estimate};
use command::document;
use model::{Error, PageClass, compute_outlook};
use terminal::Canvas;

/// Runs the command.
pub async fn run(arguments: PredictArguments, output: OutputArguments) -> anyhow::Result<ExitStatus> {
    if let Some(name) = &arguments.film {
        let prediction = film::predict_job(name, &arguments).await?;
        match output.json {
            true => terminal::print_json(&prediction)?,
            false => {
                let canvas = Canvas::of_stdout(arguments.ascii);
                terminal::print_line(&render_job_prediction(&prediction, canvas));
            }
        }
        return Ok(ExitStatus::Done);
    }
    let base = if arguments.pages.is_empty() {
        make_base_of_server(&arguments, output.shows_progress()).await?
    } else {
        bare::make_base(&arguments)?
    };
    let scenarios = scenarios::make_scenarios(&base, &arguments.what_if)?;
    let outlooks = scenarios.iter().map(compute_outlook).collect::<Result<Vec<_>, _>>()?;
    let rough_estimate = RoughEstimate::new(&base.workload, &base.server);
    let classes = base.workload.classes.iter().map(PageClass::access).collect();
    let remarks = scenarios::explain_later_restores(&scenarios, &outlooks, base.restore.is_some());
    let Base { assumptions, snapshot, knees, .. } = base;
    let prediction = Prediction { assumptions, classes, snapshot, knees, rough_estimate, remarks, scenarios: outlooks };
    if let Some(path) = &arguments.html {
        let told = [&prediction.remarks[..], &prediction.assumptions].concat();
        let page = page::render_forecast(&prediction.scenarios, &told)?;
        document::write_report(path, &page, arguments.force)?;
    }
    if output.json {
        terminal::print_json(&prediction)?;
    } else {
        let canvas = Canvas::of_stdout(arguments.ascii);
        let knees = prediction.knees.map(|knees| knees.render());
        let RoughEstimate { pages, read_seconds, seconds } = rough_estimate;
        let rough = render_rough_estimate(pages, read_seconds, seconds);
        let beside: Vec<String> = prediction.remarks.iter().cloned().chain(knees).chain([rough]).collect();
        let text = render_prediction(&prediction.scenarios, &beside, &prediction.assumptions, canvas);
        terminal::print_line(&text);
    }
    Ok(ExitStatus::Done)
}

/// The server that is connected to, or the one whose directory is named.
async fn make_base_of_server(arguments: &PredictArguments, shows_progress: bool) -> anyhow::Result<Base> {
    let target = Target::open(&arguments.connection).await?;
    match (&target.server, &target.data_directory) {
        (Some(server), _) => live::make_base(arguments, &target, server, shows_progress).await,
        (None, Some(directory)) => stopped::make_base(arguments, &target, directory).await,
        (None, None) => anyhow::bail!(Error::NoServer),
    }
}
