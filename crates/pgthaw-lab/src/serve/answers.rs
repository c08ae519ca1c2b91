//! What is answered.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, Uri};
use axum::response::{Html, IntoResponse, Response};
use serde::Deserialize;
use serde_json::json;

use super::live::{LiveTrial, read_live};
use crate::report::{StudyData, TrialData};
use crate::results::{self, Store, StudyLine};
use crate::study::{self, SweepRun};
use crate::verdict::{Selection, Side, SweepComparison, compute_sweep_comparison};
use host::failure::{ErrorKind, Explain};

/// Spans of a trial's curves: about one for each point of a wide screen.
const SPANS_MAX: u32 = 1500;

/// What all answers are made from.
#[derive(Debug)]
pub(super) struct Served {
    pub store: Store,
    pub page: String,
    /// The same where nothing is.
    pub missing: String,
}

type Shared = State<Arc<Served>>;

/// The front end.
pub(super) async fn page(State(served): Shared) -> Html<String> {
    Html(served.page.clone())
}

/// An address that nothing has.
pub(super) async fn missing(State(served): Shared, uri: Uri) -> Response {
    let path = uri.path();
    if path.starts_with("/api/") {
        return Failure::missing(path).into_response();
    }
    (StatusCode::NOT_FOUND, Html(served.missing.clone())).into_response()
}

pub(super) async fn studies(State(served): Shared) -> Result<Json<Vec<StudyLine>>, Failure> {
    Ok(Json(served.store.read_study_lines().await?))
}

pub(super) async fn study(State(served): Shared, Path(id): Path<String>) -> Result<Json<StudyData>, Failure> {
    let sweep = served.store.find_sweep(&id).await?.ok_or_else(|| Failure::missing(&id))?;
    Ok(Json(read_study(&served.store, sweep).await?))
}

/// What a page shows of a study.
pub async fn read_study(store: &Store, sweep: SweepRun) -> Result<StudyData, results::Error> {
    let outlines = store.read_sweep_outlines(&sweep.id).await?;
    let noise = store.read_noise(&sweep).await?;
    let served = store.read_served_seconds(&sweep).await?;
    Ok(StudyData::new(sweep, outlines, noise, &served))
}

pub(super) async fn trial(
    State(served): Shared,
    Path((id, number, repeat)): Path<(String, u32, u32)>,
) -> Result<Json<TrialData>, Failure> {
    let trial = served.store.read_sweep_trial(&id, number, repeat).await?;
    let trial = trial.ok_or_else(|| Failure::missing(&format!("{id}, point {number}, repeat {repeat}")))?;
    Ok(Json(TrialData::new(trial, SPANS_MAX)))
}

/// Two sides and what is compared, as `results compare` takes them.
#[derive(Deserialize)]
pub(super) struct Comparing {
    a: String,
    b: String,
    metric: String,
}

pub(super) async fn compare(
    State(served): Shared,
    Query(asked): Query<Comparing>,
) -> Result<Json<SweepComparison>, Failure> {
    let (a, b): (Selection, Selection) = (asked.a.parse()?, asked.b.parse()?);
    let (run_a, trials_a) = served.store.read_side(&a).await?;
    let (run_b, trials_b) = served.store.read_side(&b).await?;
    let a = Side { selection: &a, run: &run_a, trials: &trials_a };
    let b = Side { selection: &b, run: &run_b, trials: &trials_b };
    Ok(Json(compute_sweep_comparison(a, b, asked.metric.parse()?)?))
}

pub(super) async fn live() -> Json<Vec<LiveTrial>> {
    Json(read_live())
}

/// A failure as an answer.
#[derive(Debug)]
pub(super) struct Failure {
    status: StatusCode,
    message: String,
}

impl Failure {
    fn missing(what: &str) -> Failure {
        Failure { status: StatusCode::NOT_FOUND, message: format!("there is no \"{what}\"") }
    }

    fn of(error: &impl Explain) -> Failure {
        let status = match error.kind() {
            ErrorKind::Usage => StatusCode::NOT_FOUND,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Failure { status, message: error.to_string() }
    }
}

impl From<results::Error> for Failure {
    fn from(error: results::Error) -> Failure {
        Failure::of(&error)
    }
}

impl From<study::Error> for Failure {
    fn from(error: study::Error) -> Failure {
        Failure::of(&error)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        (self.status, Json(json!({ "error": { "message": self.message } }))).into_response()
    }
}
