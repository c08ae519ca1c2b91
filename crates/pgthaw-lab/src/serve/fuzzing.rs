//! Entry points for `fuzz/`: untrusted requests.

use std::sync::Arc;

use axum::Router;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
use tokio::sync::watch;

use super::{Served, routes};
use crate::results::Store;
use command::http::{LastMoved, PATIENCE, Token, answer};

/// More bytes than the page for a missing address.
const ROOM_BYTES: usize = 1 << 20;

#[derive(Debug)]
pub struct Answers(Router);

impl Answers {
    pub fn new(store: Store, token: Option<Token>) -> Answers {
        Answers(routes(Arc::new(Served { store, page: "the page".into(), missing: "no page".into() }), token))
    }

    pub async fn to(&self, sent: &[u8]) -> Vec<u8> {
        let (mut browser, server) = duplex(ROOM_BYTES);
        let _ = browser.write_all(sent).await;
        let _ = browser.shutdown().await;
        let (_tell_end, ending) = watch::channel(false);
        answer(server, LastMoved::now(), TowerToHyperService::new(self.0.clone()), ending, PATIENCE).await;
        let mut answered = Vec::new();
        let _ = browser.read_to_end(&mut answered).await;
        answered
    }
}
