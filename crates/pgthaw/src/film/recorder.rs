//! What films are recorded with: the kernel's account of what is asked for, or looks at the page cache where that cannot be had.

use std::ffi::OsString;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use tokio::task::spawn_blocking;

use crate::job::describe_job;
use crate::{ConnectionArguments, Target, find_directory, page_cache_of};
use cache::Map;
use cache::trace::{
    AskSessions, Error, FilmHeader, FilmWriter, Followed, Own, Polling, Progress, Recording, Requests, Source, Wanted,
};
use host::failure::Explain as _;
use host::linux::block_device::{Devices, read_block_device};
use host::linux::page_cache::PageCache as _;
use observe::time::OwnTransactions;
use observe::{forget_pages_ahead, open_pages_ahead};
use postgres::{Server, read_sessions, tell_statistics};

/// How what a job touches is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SourceKind {
    /// The kernel tells what is asked of the page cache, and by whom
    Bpf,
    /// The page cache is looked at several times a second: what came, whoever fetched it
    Polling,
}

/// The option that films are recorded with.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct SourceArguments {
    /// How to see what is touched [default: bpf, or polling where the kernel takes no program]
    #[arg(long, value_name = "SOURCE", help_heading = "Record")]
    source: Option<SourceKind>,
}

impl SourceArguments {
    /// Begins with what takes long: all that a program in the kernel needs where the cluster's directory can be known without its server, or else
    /// what depends on nothing that is known later.
    pub fn begin_ahead(self, connection: &ConnectionArguments) {
        if self.source == Some(SourceKind::Polling) {
            return;
        }
        let connection = connection.clone();
        spawn_blocking(move || {
            open_pages_ahead(|| {
                let directory = find_directory(&connection).ok().flatten()?;
                Requests::room_ahead(&directory, page_cache_of(Some(&directory)).page_bytes())
            });
        });
    }

    /// What was begun ahead is not wanted.
    pub fn forget_ahead() {
        spawn_blocking(forget_pages_ahead);
    }
}

/// What a film is of.
#[derive(Debug)]
pub struct RecordingAsked {
    pub source: SourceArguments,
    pub wanted: Wanted,
    /// What pgthaw itself brings meanwhile.
    pub own: Arc<Own>,
    /// How far the job is, where somebody attends it.
    pub progress: Arc<Progress>,
}

/// What a film will say of itself, as far as that is known when it begins.
pub fn new_header(map: &Map, label: Option<&str>, job: &[OsString]) -> FilmHeader {
    FilmHeader {
        label: label.map(str::to_owned),
        recorded_at: map.taken_at,
        source: map.source.clone(),
        job: describe_job(job),
        recorder: String::new(),
        recorder_pid: std::process::id(),
        seconds: 0.0,
        lost_events: 0,
        sampling: None,
        probe: None,
        totals: Default::default(),
        device_reads: None,
        device_bytes: None,
        fetched_again: None,
        requested_bytes: None,
        workers: None,
        databases: Vec::new(),
        remarks: map.remarks.clone(),
    }
}

/// What a film is recorded with, open. The film's clock does not run yet.
pub struct OpenSource {
    source: Box<dyn Source>,
    header: FilmHeader,
    progress: Arc<Progress>,
    /// Why the film will be coarser than it could be.
    pub coarser: Option<String>,
}

impl OpenSource {
    /// Begins the film.
    pub fn begin(self, target: &Target, map: &Map, writer: FilmWriter) -> Result<Recording, Error> {
        let directory = target.data_directory.as_ref();
        let device =
            directory.and_then(|directory| read_block_device(&directory.path).ok()).map(|device| device.number);
        Recording::begin(writer, self.source, map, self.header, Devices::from(device), self.progress)
    }
}

/// Opens what a film of a target is recorded with. Programs for the kernel take some 60 ms.
pub fn open_source(
    target: &Target,
    map: &Map,
    mut header: FilmHeader,
    asked: RecordingAsked,
) -> Result<OpenSource, Error> {
    let RecordingAsked { source: SourceArguments { source: kind }, wanted, own, progress } = asked;
    let is_everybody = matches!(wanted, Wanted::Everybody | Wanted::Command { .. });
    let mut coarser = None;
    let watched = match kind {
        Some(SourceKind::Polling) => None,
        Some(SourceKind::Bpf) => Some(open_requests(target, map, wanted, &own)?),
        None => match open_requests(target, map, wanted, &own) {
            Ok(requests) => Some(requests),
            Err(error) => {
                let remedy = error.hint().map(|hint| format!(" ({hint})")).unwrap_or_default();
                coarser = Some(format!("the film is recorded by looking, which is coarser, for {error}{remedy}"));
                None
            }
        },
    };
    header.remarks.extend(coarser.clone());
    let source: Box<dyn Source> = match watched {
        Some(requests) => Box::new(requests),
        None => {
            if !is_everybody {
                header.remarks.push("by looking nobody's reads can be told apart: it is of whatever ran".to_owned());
            }
            Box::new(Polling::new(Arc::new(target.page_cache()), map, own)?)
        }
    };
    Ok(OpenSource { source, header, progress, coarser })
}

fn open_requests(target: &Target, map: &Map, wanted: Wanted, own: &Arc<Own>) -> Result<Requests, Error> {
    let directory = target.data_directory.as_ref();
    let directory = directory.ok_or_else(|| Error::NothingSeen("the data directory is not known".to_owned()))?;
    let postmaster_pid = directory.find_postmaster_pid();
    let followed = Followed { wanted, postmaster_pid, own: Arc::clone(own) };
    Requests::open(map, &directory.path, target.page_cache().page_bytes(), followed)
}

/// Asks a server who its sessions are, from whatever thread. Each question is counted as `own`.
pub async fn ask_sessions(server: &Server, own: OwnTransactions) -> Result<AskSessions, postgres::Error> {
    let mut connection = server.connect_to(&server.database).await?;
    // What connecting took is told before anybody counts.
    tell_statistics(&mut connection).await?;
    let runtime = tokio::runtime::Handle::current();
    Ok(Box::new(move || {
        let _asked = own.begin();
        tokio::task::block_in_place(|| runtime.block_on(read_sessions(&mut connection))).ok()
    }))
}
