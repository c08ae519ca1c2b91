//! Where steps go: a record, the page for Prometheus, and lines of JSON. The screen is in `live.rs`.

use std::time::Duration;

use tokio::sync::mpsc::{Receiver, channel};
use tokio::task::JoinHandle;

use super::arguments::TopArguments;
use super::endpoint::{Answering, Endpoint};
use super::opened::look_on;
use crate::{OutputArguments, Target};
use command::hear_signals;
use observe::top::{RecordWriter, TopFrame, TopWatch};

/// Steps that may wait for who takes them.
const WAITING: usize = 64;

/// Steps as they come, on their way to the record and to Prometheus.
#[derive(Debug)]
pub struct Steps {
    frames: Receiver<TopFrame>,
    engine: JoinHandle<anyhow::Result<()>>,
    record: Option<RecordWriter>,
    endpoint: Option<Answering>,
    /// How many there will be; `None`: until somebody wants an end.
    left: Option<u64>,
}

impl Steps {
    /// Begins to look on.
    pub fn start(arguments: &TopArguments, target: Target, endpoint: Option<Endpoint>) -> anyhow::Result<Steps> {
        let record = arguments.record.as_deref().map(RecordWriter::create).transpose()?;
        let (sender, frames) = channel(WAITING);
        let watch = TopWatch::new(arguments.by, arguments.source, arguments.interval, arguments.budget.share(), sender);
        let length = arguments.seconds.map(|seconds| Duration::from_secs(seconds.into()));
        let left = length.map(|length| length.as_nanos().div_ceil(arguments.interval.as_nanos()) as u64);
        let endpoint = endpoint.map(Endpoint::start);
        Ok(Steps { frames, engine: tokio::spawn(look_on(watch, target)), record, endpoint, left })
    }

    /// The next step; `None` after the last. To be dropped and asked again at any time.
    pub async fn next(&mut self) -> anyhow::Result<Option<TopFrame>> {
        if self.left == Some(0) {
            return Ok(None);
        }
        let Some(frame) = self.frames.recv().await else {
            // It ends by itself only when it cannot go on.
            return (&mut self.engine).await?.map(|()| None);
        };
        self.left = self.left.map(|left| left - 1);
        if let Some(record) = &mut self.record {
            record.write(&frame)?;
        }
        self.endpoint.iter().for_each(|endpoint| endpoint.add(&frame));
        Ok(Some(frame))
    }

    /// Ends everything: the record is whole then.
    pub async fn finish(self) -> anyhow::Result<()> {
        let Steps { frames, engine, record, endpoint, .. } = self;
        drop(frames);
        // What it holds is let go where it waits.
        engine.abort();
        let _ = engine.await;
        record.map(RecordWriter::finish).transpose()?;
        if let Some(endpoint) = endpoint {
            endpoint.finish().await;
        }
        Ok(())
    }
}

/// A line of JSON for each step; beside an endpoint, and not asked for JSON, only where that is.
pub async fn print(
    arguments: TopArguments,
    target: Target,
    endpoint: Option<Endpoint>,
    output: OutputArguments,
) -> anyhow::Result<()> {
    let mut end = std::pin::pin!(hear_signals()?);
    let is_silent = endpoint.is_some() && !output.json;
    let address = endpoint.as_ref().map(|endpoint| endpoint.address.clone());
    let mut steps = Steps::start(&arguments, target, endpoint)?;
    let mut is_told = false;
    let ended = loop {
        let frame = tokio::select! {
            frame = steps.next() => frame,
            () = &mut end => break Ok(()),
        };
        let frame = match frame {
            Ok(Some(frame)) => frame,
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        };
        // From here on there is something to be asked for.
        if let Some(address) = address.as_ref().filter(|_| !std::mem::replace(&mut is_told, true)) {
            tell_address(address, is_silent, output);
        }
        if !is_silent {
            terminal::print_json_part(&serde_json::to_string(&frame)?);
        }
        if !terminal::is_output_open() {
            break Ok(());
        }
    };
    steps.finish().await?;
    ended
}

fn tell_address(address: &str, is_silent: bool, output: OutputArguments) {
    match is_silent {
        true => terminal::print_line(address),
        // Standard output is the steps'.
        false => terminal::print_remark(&format!("metrics: {address}")),
    }
    if is_silent && output.shows_progress() {
        terminal::print_remark("answering until Ctrl-C");
    }
}
