#[cfg(fuzzing)]
pub mod fuzzing;
pub mod live;
#[cfg(test)]
mod record_tests;

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path, Query, Request, State};
use axum::http::{StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router, middleware};
use hyper_util::service::TowerToHyperService;
use serde::Deserialize;
use serde_json::json;
use tokio::time::timeout;

use crate::report::{StudyData, TrialData, render_page};
use crate::results::{self, Store, StudyLine};
use crate::study::SweepRun;
use crate::verdict::{Selection, Side, SweepComparison, compute_sweep_comparison};

pub use live::LiveBoard;
use live::read_live;

use command::document;
use command::http::{Listener, Token, add_headers, refuse};
use host::failure::{ErrorKind, Explain};

const GRACE: Duration = Duration::from_millis(500);

/// Answers requests until `end`, waits briefly for open ones, and closes the store.
pub async fn serve(listener: Listener, store: Store, end: impl Future<Output = ()>) -> Result<(), document::Error> {
    let page = render_page("served", "studies", &[])?;
    let missing = render_page("missing", "nothing is here", &[])?;
    let served = Arc::new(Served { store, page, missing });
    let router = routes(Arc::clone(&served), listener.token);
    listener.answer_all(TowerToHyperService::new(router), end).await;
    if let Some(served) = Arc::into_inner(served) {
        let _ = timeout(GRACE, served.store.close()).await;
    }
    Ok(())
}

fn routes(served: Arc<Served>, token: Option<Token>) -> Router {
    Router::new()
        .route("/", get(|State(served): Shared| async move { Html(served.page.clone()) }))
        .route("/api/studies", get(studies))
        .route("/api/studies/{id}", get(study))
        .route("/api/studies/{id}/trials/{number}/{repeat}", get(trial))
        .route("/api/compare", get(compare))
        .route("/api/live", get(|| async { Json(read_live()) }))
        .fallback(missing)
        .with_state(served)
        .layer(middleware::from_fn_with_state(token, guard))
}

async fn guard(State(token): State<Option<Token>>, request: Request, next: Next) -> Response {
    let mut response = match refuse(token, request.uri(), request.headers()) {
        Some(refusal) => refusal.map(Body::from),
        None => next.run(request).await,
    };
    add_headers(&mut response);
    response
}

/// About one span per pixel of a wide screen.
const SPANS_MAX: u32 = 1500;

#[derive(Debug)]
struct Served {
    pub store: Store,
    pub page: String,
    pub missing: String,
}

type Shared = State<Arc<Served>>;

async fn missing(State(served): Shared, uri: Uri) -> Response {
    let path = uri.path();
    if path.starts_with("/api/") {
        return Failure::missing(path).into_response();
    }
    (StatusCode::NOT_FOUND, Html(served.missing.clone())).into_response()
}

async fn studies(State(served): Shared) -> Result<Json<Vec<StudyLine>>, Failure> {
    Ok(Json(served.store.read_study_lines().await?))
}

async fn study(State(served): Shared, Path(id): Path<String>) -> Result<Json<StudyData>, Failure> {
    let sweep = served.store.find_sweep(&id).await?.ok_or_else(|| Failure::missing(&id))?;
    Ok(Json(read_study(&served.store, sweep).await?))
}

pub async fn read_study(store: &Store, sweep: SweepRun) -> Result<StudyData, results::Error> {
    let outlines = store.read_sweep_outlines(&sweep.id).await?;
    let noise = store.read_noise(&sweep).await?;
    let served = store.read_served_seconds(&sweep).await?;
    Ok(StudyData::new(sweep, outlines, noise, &served))
}

async fn trial(
    State(served): Shared,
    Path((id, number, repeat)): Path<(String, u32, u32)>,
) -> Result<Json<TrialData>, Failure> {
    let trial = served.store.read_sweep_trial(&id, number, repeat).await?;
    let trial = trial.ok_or_else(|| Failure::missing(&format!("{id}, point {number}, repeat {repeat}")))?;
    Ok(Json(TrialData::new(trial, SPANS_MAX)))
}

/// Parameters as in `results compare`.
#[derive(Deserialize)]
struct Comparing {
    a: String,
    b: String,
    metric: String,
}

async fn compare(State(served): Shared, Query(asked): Query<Comparing>) -> Result<Json<SweepComparison>, Failure> {
    let (a, b): (Selection, Selection) = (asked.a.parse()?, asked.b.parse()?);
    let (run_a, trials_a) = served.store.read_side(&a).await?;
    let (run_b, trials_b) = served.store.read_side(&b).await?;
    let a = Side { selection: &a, run: &run_a, trials: &trials_a };
    let b = Side { selection: &b, run: &run_b, trials: &trials_b };
    Ok(Json(compute_sweep_comparison(a, b, asked.metric.parse()?)?))
}

#[derive(Debug)]
struct Failure {
    status: StatusCode,
    message: String,
}

impl Failure {
    fn missing(what: &str) -> Failure {
        Failure { status: StatusCode::NOT_FOUND, message: format!("there is no \"{what}\"") }
    }
}

impl<E: Explain> From<E> for Failure {
    fn from(error: E) -> Failure {
        let status = match error.kind() {
            ErrorKind::Usage => StatusCode::NOT_FOUND,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Failure { status, message: error.to_string() }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        (self.status, Json(json!({ "error": { "message": self.message } }))).into_response()
    }
}
