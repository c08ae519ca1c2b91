//! The page for Prometheus.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::arguments::TopArguments;
use command::http::{Error, ListenOptions, Listener, Token};
use observe::time::By;
use observe::top::{TopFrame, Totals, render_metrics};

/// An endpoint that listens, and does not answer yet.
pub struct Endpoint {
    listener: Listener,
    /// `http://127.0.0.1:9187/metrics`.
    pub address: String,
}

/// Listens where it is asked to.
pub async fn bind(arguments: &TopArguments) -> Result<Option<Endpoint>, Error> {
    let Some(address) = arguments.listen else { return Ok(None) };
    require_few_names(arguments.by)?;
    let token = arguments.token_file.as_deref().map(Token::read).transpose()?;
    let listener = Listener::bind(ListenOptions::listening(address, token)?).await?;
    let address = format!("http://{}/metrics", listener.address()?);
    Ok(Some(Endpoint { listener, address }))
}

/// An endpoint that answers until it is dropped.
#[derive(Debug)]
pub struct Answering {
    totals: Arc<Mutex<Totals>>,
    end: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Endpoint {
    /// Answers from now on.
    pub fn start(self) -> Answering {
        let totals = Arc::new(Mutex::new(Totals::default()));
        let (end, ended) = oneshot::channel();
        let to_read = Arc::clone(&totals);
        let render = move || render_metrics(&to_read.lock().unwrap_or_else(PoisonError::into_inner));
        let task = tokio::spawn(self.listener.run_metrics(render, async {
            // Who tells no end is gone.
            let _ = ended.await;
        }));
        Answering { totals, end: Some(end), task }
    }
}

impl Answering {
    /// Adds a step to what is answered.
    pub fn add(&self, frame: &TopFrame) {
        self.totals.lock().unwrap_or_else(PoisonError::into_inner).add(frame);
    }

    /// Answers what was asked before, and no more.
    pub async fn finish(mut self) {
        drop(self.end.take());
        let _ = self.task.await;
    }
}

/// Names of queries and of processes are without end: a series of each would be too.
fn require_few_names(by: By) -> Result<(), Error> {
    match by {
        By::Query | By::Backend => Err(Error::TooManySeries),
        By::Kind | By::User | By::Database => Ok(()),
    }
}
