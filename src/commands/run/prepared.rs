//! What is known before a job starts, and what goes on while it runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;

use super::arguments::RunArguments;
use super::clean_up;
use crate::cache::{Map, MapInputs, TierState, read_map_of};
use crate::commands::job::describe_job;
use crate::commands::record::{begin, new_header};
use crate::commands::{Target, describe};
use crate::trace::{
    Assist, Assisted, Error, FilmStore, FilmWriter, Journal, Journals, KeptFilm, Own, Recorded, Recording, RunReceipt,
};
use crate::warm::restore::choose_room;
use crate::warm::{Control, PlannedDevice, state_directory};

/// A job waits no longer than this for what would help it.
const PREPARED_WITHIN: Duration = Duration::from_secs(5);

/// Time from one account to the next of what the job brought in, for whoever cleans up if this is killed.
const ACCOUNT_INTERVAL: Duration = Duration::from_secs(3);

/// What is known before the job starts. Its film has begun.
pub struct Prepared {
    target: Target,
    map: Arc<Map>,
    recording: Recording,
    own: Arc<Own>,
    store: FilmStore,
    journals: Arc<Journals>,
    journal: Arc<Journal>,
    remarks: Vec<String>,
}

/// What goes on while the job runs.
pub struct Helped {
    prepared: Prepared,
    device: PlannedDevice,
    assist: Option<JoinHandle<Assisted>>,
    accounts: Option<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
}

impl Prepared {
    /// Looks at what is cached and begins a film; or says why not, in words for people.
    pub async fn new(arguments: &RunArguments) -> Result<Prepared, String> {
        if arguments.like.is_none() && !arguments.protect {
            return Err("neither --like NAME nor --protect was given".to_owned());
        }
        match timeout(PREPARED_WITHIN, Prepared::look(arguments)).await {
            Ok(prepared) => prepared.map_err(|error| describe(&error)),
            Err(_) => Err(format!("the server and its files could not be looked at within {PREPARED_WITHIN:?}")),
        }
    }

    async fn look(arguments: &RunArguments) -> anyhow::Result<Prepared> {
        let target = Target::open(&arguments.connection).await?;
        let databases = target.databases().await?;
        let inputs = MapInputs {
            server: target.server.as_ref(),
            data_directory: target.data_directory.as_ref(),
            page_cache: &target.page_cache(),
            databases: &databases,
            names: None,
            progress: &|_, _| (),
        };
        let map = read_map_of(inputs, arguments.protect).await?;
        if let (TierState::Unknown { .. }, Some(why)) = (&map.os, &target.directory_refusal) {
            return Err(Error::NothingSeen(why.detail.clone().unwrap_or_default()).into());
        }
        let store = FilmStore::open();
        let (draft, path) = store.begin(map.source.system_identifier, None)?;
        let header = new_header(&map, arguments.like.as_deref(), &arguments.job);
        let own = Arc::new(Own::default());
        let recording = begin(&target, &map, FilmWriter::begin(draft, &path)?, header, Arc::clone(&own))?;
        let journals = Arc::new(Journals::open(&state_directory(), map.source.system_identifier)?);
        let journal = Arc::new(journals.begin(arguments.protect.then_some(&map))?);
        Ok(Prepared { map: Arc::new(map), target, recording, own, store, journals, journal, remarks: Vec::new() })
    }

    /// Helps the job, which has just started: from now on what is read is charged to the server.
    pub fn help(self, arguments: &RunArguments) -> Helped {
        let directory = self.target.data_directory.clone();
        let pid = directory.as_ref().and_then(|directory| Some(directory.read_postmaster()?.pid));
        let (room, charged) = choose_room(pid, false);
        let (device, unusable) = arguments.device.choose(directory.as_ref().map(|directory| &*directory.path), None);
        let stop = Arc::new(AtomicBool::new(false));
        let assist = directory.zip(arguments.like.clone()).map(|(directory, label)| Assist {
            store: self.store.clone(),
            label,
            job: describe_job(&arguments.job),
            map: Arc::clone(&self.map),
            directory,
            page_cache: Arc::new(self.target.page_cache()),
            device: device.profile,
            room,
            own: Arc::clone(&self.own),
            stop: Arc::clone(&stop),
        });
        let assist = assist.map(|assist| spawn_blocking(move || assist.run()));
        let accounts = arguments.protect.then(|| self.keep_accounts());
        let remarks = self.remarks.iter().cloned().chain(charged).chain(unusable).collect();
        Helped { prepared: Prepared { remarks, ..self }, device, assist, accounts, stop }
    }

    /// Writes now and then what the job has brought in.
    fn keep_accounts(&self) -> JoinHandle<()> {
        let (journals, journal) = (Arc::clone(&self.journals), Arc::clone(&self.journal));
        let (map, came) = (Arc::clone(&self.map), self.recording.came());
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(ACCOUNT_INTERVAL).await;
                let (journals, journal, map) = (Arc::clone(&journals), Arc::clone(&journal), Arc::clone(&map));
                let came = came.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
                // A full disk is no reason to disturb the job: less is cleaned up if this is killed.
                let _ = spawn_blocking(move || journals.keep_brought(&journal, &map, &came)).await;
            }
        })
    }
}

impl Helped {
    /// The job has ended: keeps its film, and puts back what it pushed out.
    pub async fn end(self, arguments: &RunArguments, control: Arc<Control>, receipt: &mut RunReceipt) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(accounts) = self.accounts {
            accounts.abort();
            // It has come to its end, one way or the other.
            let _ = accounts.await;
        }
        let Prepared { target, map, recording, store, journals, journal, remarks, .. } = self.prepared;
        receipt.remarks.extend(remarks);
        match self.assist {
            Some(assist) => match assist.await {
                Ok(assisted) => add_assisted(receipt, assisted),
                Err(error) => receipt.remarks.push(format!("the preload failed: {error}")),
            },
            None if arguments.like.is_some() => receipt.decision.reason = "the data directory is not known".to_owned(),
            None => {}
        }
        let came = recording.came();
        match spawn_blocking(move || recording.end()).await {
            Ok(Ok(recorded)) => match arguments.like.as_deref() {
                Some(label) => keep(&store, recorded, label, receipt),
                None => drop(recorded),
            },
            Ok(Err(error)) => receipt.remarks.push(format!("the film was not kept: {error}")),
            Err(error) => receipt.remarks.push(format!("the film was not kept: {error}")),
        }
        let came = came.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        let brought = if arguments.protect { journals.keep_brought(&journal, &map, &came) } else { Ok(()) };
        let journal = Arc::into_inner(journal);
        let ended = brought.and_then(|()| journal.map_or(Ok(None), |journal| journals.end(journal)));
        match ended {
            Ok(Some(left)) => {
                let done = clean_up::put_back(&target, &journals, left, self.device, control).await;
                match done {
                    // What was left by others is put back too.
                    Ok(done) => receipt.put_back = Some(done).filter(|done| arguments.protect || done.runs > 0),
                    Err(error) => receipt.remarks.push(format!("the cache was not put back: {}", describe(&error))),
                }
            }
            Ok(None) => receipt.is_left_to_another = arguments.protect,
            Err(error) => receipt.remarks.push(format!("the cache was not put back: {error}")),
        }
    }
}

/// Keeps a film under its name, and lets old ones go.
fn keep(store: &FilmStore, recorded: Recorded, label: &str, receipt: &mut RunReceipt) {
    let cluster = recorded.header.source.system_identifier;
    match store.place(recorded, None) {
        Ok((path, header)) => receipt.kept = Some(KeptFilm::new(path, &header)),
        Err(error) => receipt.remarks.push(format!("the film was not kept: {error}")),
    }
    if let Err(error) = store.prune(cluster, label) {
        receipt.remarks.push(format!("older films were not removed: {error}"));
    }
}

/// Puts into the receipt what the job was helped with.
fn add_assisted(receipt: &mut RunReceipt, assisted: Assisted) {
    let Assisted { film, decision, preloaded, remarks } = assisted;
    (receipt.film, receipt.decision, receipt.preloaded) = (film, decision, preloaded);
    receipt.remarks.extend(remarks);
}
