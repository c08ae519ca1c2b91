//! Sends the steps of `top` to a file, Prometheus and JSON lines.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::mpsc::{Receiver, channel};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::arguments::TopArguments;
use crate::looking::{Looking, RETRY, connect, open_again};
use crate::{OutputArguments, Target, describe};
use command::hear_signals;
use command::http::{Error, Listener, METRICS_TYPE, StatusCode, Uri, respond};
use host::failure::Explain as _;
use host::linux::block_device::read_block_device;
use host::linux::threads::lock;
use host::linux::{BlockDevice, Devices};
use observe::time::{ACCOUNT_DEAR, By};
use observe::top::{Here, HistoryWriter, Missing, RecordWriter, TopFrame, TopWatch, Totals, render_metrics};
use postgres::grant;

const WAITING: usize = 64;

const HISTORY_STEP: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub struct Steps {
    frames: Receiver<TopFrame>,
    engine: JoinHandle<anyhow::Result<()>>,
    record: Option<RecordWriter>,
    endpoint: Option<Answering>,
    /// Remaining steps; `None` without a limit.
    left: Option<u64>,
}

impl Steps {
    pub fn start(arguments: &TopArguments, target: Target, endpoint: Option<Endpoint>) -> anyhow::Result<Steps> {
        let record = arguments.record.as_deref().map(RecordWriter::create).transpose()?;
        let (sender, frames) = channel(WAITING);
        let watch = TopWatch::new(arguments.by, arguments.source, arguments.interval, arguments.budget.share(), sender);
        let length = arguments.seconds.map(|seconds| Duration::from_secs(seconds.into()));
        let left = length.map(|length| length.as_nanos().div_ceil(arguments.interval.as_nanos()) as u64);
        let endpoint = endpoint.map(Endpoint::start);
        Ok(Steps { frames, engine: tokio::spawn(look_on(watch, target, false)), record, endpoint, left })
    }

    /// `None` after the last step. Cancel safe.
    pub async fn next(&mut self) -> anyhow::Result<Option<TopFrame>> {
        if self.left == Some(0) {
            return Ok(None);
        }
        let Some(frame) = self.frames.recv().await else {
            // The observing task only ends on an error.
            return (&mut self.engine).await?.map(|()| None);
        };
        self.left = self.left.map(|left| left - 1);
        if let Some(record) = &mut self.record {
            record.write(&frame)?;
        }
        if let Some(endpoint) = &self.endpoint {
            lock(&endpoint.totals).add(&frame);
        }
        Ok(Some(frame))
    }

    pub async fn finish(self) -> anyhow::Result<()> {
        let Steps { frames, engine, record, endpoint, .. } = self;
        drop(frames);
        // Aborting releases the task's resources. Awaiting a finished task twice would panic.
        if !engine.is_finished() {
            engine.abort();
            let _ = engine.await;
        }
        record.map(RecordWriter::finish).transpose()?;
        if let Some(Answering { end, task, .. }) = endpoint {
            // Lets pending requests finish.
            drop(end);
            let _ = task.await;
        }
        Ok(())
    }
}

pub async fn print(
    arguments: TopArguments,
    target: Target,
    endpoint: Option<Endpoint>,
    output: OutputArguments,
) -> anyhow::Result<()> {
    let mut end = std::pin::pin!(hear_signals()?);
    let is_silent = endpoint.is_some() && !output.json;
    let mut address = endpoint.as_ref().map(|endpoint| endpoint.address.clone());
    let mut steps = Steps::start(&arguments, target, endpoint)?;
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
        match address.take() {
            Some(address) if is_silent => {
                terminal::print_line(&address);
                if output.shows_progress() {
                    terminal::print_remark("serving until Ctrl-C");
                }
            }
            Some(address) => terminal::print_remark(&format!("metrics: {address}")),
            None => {}
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

pub async fn record_history(target: Target, mut history: HistoryWriter) -> anyhow::Result<()> {
    let mut end = std::pin::pin!(hear_signals()?);
    let (sender, mut frames) = channel(WAITING);
    let watch = TopWatch::new(By::Query, None, HISTORY_STEP, ACCOUNT_DEAR, sender);
    let engine = tokio::spawn(look_on(watch, target, true));
    loop {
        tokio::select! {
            () = &mut end => break,
            frame = frames.recv() => match frame {
                Some(frame) => history.write(&frame)?,
                None => return engine.await?,
            },
        }
    }
    Ok(history.finish()?)
}

pub struct Endpoint {
    listener: Listener,
    /// `http://127.0.0.1:9187/metrics`.
    pub address: String,
}

impl Endpoint {
    pub async fn bind(arguments: &TopArguments) -> Result<Option<Endpoint>, Error> {
        let Some(address) = arguments.listen else { return Ok(None) };
        // Grouping by query or process would create series without limit.
        if matches!(arguments.by, By::Query | By::Backend) {
            return Err(Error::TooManySeries);
        }
        let listener = Listener::bind(address, arguments.token_file.as_deref()).await?;
        let address = format!("http://{}/metrics", listener.address()?);
        Ok(Some(Endpoint { listener, address }))
    }

    fn start(self) -> Answering {
        let totals = Arc::new(Mutex::new(Totals::default()));
        let (end, ended) = oneshot::channel();
        let to_read = Arc::clone(&totals);
        let page = move |uri: &Uri| {
            let page = || respond(StatusCode::OK, METRICS_TYPE, render_metrics(&lock(&to_read)));
            (uri.path() == "/metrics").then(page)
        };
        let task = tokio::spawn(self.listener.run_pages(None, page, async {
            let _ = ended.await;
        }));
        Answering { totals, end, task }
    }
}

#[derive(Debug)]
struct Answering {
    totals: Arc<Mutex<Totals>>,
    end: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

/// Observes, and reconnects after failures, until the receiver is dropped.
///
/// # Errors
/// If the first attempt fails.
async fn look_on(mut watch: TopWatch, target: Target, is_economical: bool) -> anyhow::Result<()> {
    let mut here = open(&target, is_economical).await?;
    loop {
        let failure = match watch.watch(here).await {
            _ if !watch.is_heard() => return Ok(()),
            Ok(failure) => failure.unwrap_or_else(|| "it does not respond".to_owned()),
            Err(error) if !watch.has_begun => return Err(error.into()),
            Err(error) => describe(&error.into()),
        };
        let tell = |error: Option<&anyhow::Error>| {
            watch.tell_failure(&error.map_or_else(|| failure.clone(), describe), RETRY);
        };
        here = open_again(|| open(&target, is_economical), tell).await;
    }
}

async fn open(target: &Target, is_economical: bool) -> anyhow::Result<Here> {
    let Looking { server, looks, who, mut own_pids, version_num, postmaster_pid } = Looking::open(target).await?;
    let pulse = if is_economical { None } else { Some(connect(server, &mut own_pids).await?) };
    let (devices, device_name, missing) = find_devices(target);
    let grant = grant(&server.database, "pg_monitor", &server.facts.role);
    Ok(Here {
        looks,
        who,
        pulse,
        own_pids,
        postmaster_pid,
        version_num,
        block_size: server.facts.block_size,
        data_directory: target.data_directory.as_ref().map(|directory| directory.path.clone()),
        devices,
        device_name,
        grant,
        missing,
    })
}

/// Devices of data and, if different, WAL; the data's device name; figures that cannot be measured.
fn find_devices(target: &Target) -> (Devices, Option<String>, Vec<Missing>) {
    let missing = |what: &str, why: String, remedy| vec![Missing { what: what.to_owned(), why, remedy }];
    let Some(directory) = &target.data_directory else {
        let told = target.directory_refusal.as_ref().and_then(|refusal| refusal.detail.clone());
        let what = "the device, memory, processors, and bytes fetched from storage";
        let why = told.unwrap_or_else(|| "the server is not on this host".to_owned());
        return (Devices::default(), None, missing(what, why, None));
    };
    let data = match read_block_device(&directory.path) {
        Ok(device) => device,
        Err(error) => return (Devices::default(), None, missing("the device", error.to_string(), error.hint())),
    };
    let log = read_block_device(&directory.path.join("pg_wal")).ok().filter(|log| log.number != data.number);
    let parts = |log: BlockDevice| [("data", data.number), ("wal", log.number)].into_iter().collect();
    (Devices { main: Some(data.number), parts: log.map(parts).unwrap_or_default() }, Some(data.name), Vec::new())
}
