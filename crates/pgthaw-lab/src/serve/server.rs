//! Which address is answered by what.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use axum::routing::get;
use axum::{Router, middleware};
use hyper_util::service::TowerToHyperService;
use tokio::time::timeout;

use super::Error;
use super::answers::{self, Served};
use crate::report::{render_missing_page, render_served_page};
use crate::results::Store;
use command::http::{Listener, Token, add_headers, refuse};

/// What the store is waited for at the end.
const GRACE: Duration = Duration::from_millis(500);

/// Answers until `end`, and then for a moment what was asked before; closes the store.
pub async fn serve(listener: Listener, store: Store, end: impl Future<Output = ()>) -> Result<(), Error> {
    let served = Arc::new(Served { store, page: render_served_page()?, missing: render_missing_page()? });
    let router = routes(Arc::clone(&served), listener.token());
    listener.answer_all(TowerToHyperService::new(router), end).await;
    if let Some(served) = Arc::into_inner(served) {
        let _ = timeout(GRACE, served.store.close()).await;
    }
    Ok(())
}

pub(super) fn routes(served: Arc<Served>, token: Option<Token>) -> Router {
    Router::new()
        .route("/", get(answers::page))
        .route("/api/studies", get(answers::studies))
        .route("/api/studies/{id}", get(answers::study))
        .route("/api/studies/{id}/trials/{number}/{repeat}", get(answers::trial))
        .route("/api/compare", get(answers::compare))
        .route("/api/live", get(answers::live))
        .fallback(answers::missing)
        .with_state(served)
        .layer(middleware::from_fn_with_state(token, guard))
}

/// Lets pass who may ask.
async fn guard(State(token): State<Option<Token>>, request: Request, next: Next) -> Response {
    let mut response = match refuse(token, request.uri(), request.headers()) {
        Some(refusal) => refusal.map(Body::from),
        None => next.run(request).await,
    };
    add_headers(&mut response);
    response
}
