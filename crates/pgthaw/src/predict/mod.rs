//! `pgthaw predict`: the work is done in `crates/model/src/`.

mod film;
mod job_text;
mod prediction_text;
mod server;

use clap::Args;
use serde::Serialize;

use super::{ConnectionArguments, ExitStatus, OutputArguments, SnapshotsArguments};
use cache::Selected;
use host::linux::machine::count_cores;
use model::{
    Access, ColdRestart, Error, Knees, Numbers, Outlook, PageClass, RoughEstimate, compute_outlook,
    explain_later_restores,
};
use terminal::Canvas;

use prediction_text::{render_knees, render_prediction, render_rough_estimate};
use server::{ServerForecast, plan_warmer};

/// Unlike other commands a forecast is never of the whole cluster: a workload is one database's.
const DATABASE_HELP: &str = "The database whose clients are watched: the forecast is of one [default: the one that psql would \
                             connect to]. Or a connection string or URI: 'host=db user=app', postgresql://app@db/shop";

/// How long a warm-up will take, before it happens
///
/// For a running server: watches what the clients of the database (-d) ask for, takes the device from `doctor --probe` and popularity from the
/// snapshot that `restore` would take; while it is idle, the time of a transaction from pg_stat_statements. For one that does not run (-D):
/// relations and popularity from that snapshot, sizes from its files. Or from bare figures, without a server: pages, hit, and miss or riops.
/// Or how long a recorded job takes with other memory (--film).
#[derive(Debug, Args)]
#[command(mut_arg("databases", |argument| argument.help(DATABASE_HELP)))]
pub struct PredictArguments {
    #[command(flatten)]
    pub connection: ConnectionArguments,

    #[command(flatten)]
    snapshots: SnapshotsArguments,

    /// Figures that are known, instead of what is found out:
    ///   pages=163968     without a server: blocks of a relation of which
    ///                    each transaction reads one; again for each relation
    ///   hit=0.22ms       a transaction of one client when all is cached
    ///   tps=5000         instead: what the server does when it is warm
    ///   miss=4.7ms       a transaction of one client that reads one block
    ///   clients=8        clients that wait for each answer
    ///   accesses=2       of a stopped server: blocks that a transaction reads
    ///   cores=4          processors that server and clients share
    ///   riops=3000       random reads that the device serves in a second
    ///   rbps=125MiB      bytes that it delivers in a second
    ///   read_ahead=128KiB  how far the kernel reads ahead
    ///   memory=16GiB     for all that is cached, shared_buffers included
    ///   popularity=WHICH   of rows: uniform, zipfian:1.07, permuted:1.07,
    ///                    gaussian:5, exponential:10, newest:0.1:0.99
    #[arg(value_name = "KEY=VALUE", verbatim_doc_comment)]
    figures: Vec<String>,

    /// A job instead, by its film: with so much memory, how many of its requests miss, how many reads that is and how long it takes.
    /// `newest`, the name that it was kept under, the beginning of one that `film list` shows, or a file
    #[arg(long, value_name = "FILM")]
    film: Option<String>,

    /// Watch the server's clients for so long
    #[arg(long, value_name = "SECONDS", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,

    /// What would be if: riops, rbps, memory, shared_buffers (a part of the memory), clients, cores, hit; changes of one case are joined by
    /// commas (riops=10000,memory=8GiB), several cases repeat the option. Of a film: memory
    #[arg(long, value_name = "KEY=VALUE", value_parser = Numbers::parse_changes)]
    what_if: Vec<Numbers>,
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Prediction {
    assumptions: Vec<String>,
    /// What a transaction asks for.
    classes: Vec<Access>,
    /// What popularity and the restore are of; `None` without one.
    snapshot: Option<Selected>,
    /// Knees of the closed form, for one client and uniform popularity.
    knees: Option<Knees>,
    /// What the forecast is to be held against.
    rough_estimate: RoughEstimate,
    /// Why a restore is later than nothing, where one is.
    remarks: Vec<String>,
    scenarios: Vec<Outlook>,
}

/// Runs the command.
pub async fn run(arguments: PredictArguments, output: OutputArguments) -> anyhow::Result<ExitStatus> {
    let figures: Numbers = arguments.figures.join(",").parse().map_err(Error::Figures)?;
    let canvas = Canvas::of_stdout(false);
    if let Some(name) = &arguments.film {
        let prediction = film::predict_job(name, &arguments, &figures).await?;
        match output.json {
            true => terminal::print_json(&prediction)?,
            false => terminal::print_line(&job_text::render_job_prediction(&prediction, canvas)),
        }
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
    if output.json {
        terminal::print_json(&prediction)?;
    } else {
        let knees = prediction.knees.map(|knees| render_knees(&knees));
        let rough = render_rough_estimate(&prediction.rough_estimate);
        let beside: Vec<String> = prediction.remarks.iter().cloned().chain(knees).chain([rough]).collect();
        let text = render_prediction(&prediction.scenarios, &beside, &prediction.assumptions, canvas);
        terminal::print_line(&text);
    }
    Ok(ExitStatus::Done)
}
