use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;

use super::arguments::{RunArguments, describe_job};
use super::beside::{Beside, Others};
use super::receipt_text::render_put_back;
use crate::film::{ask_sessions, begin_film, find_owners_like, open_source};
use crate::restore::DeviceArguments;
use crate::{ConnectionArguments, Target, describe, explain};
use cache::trace::{
    self, Assist, EndedJob, Error, FilmStore, JobSeen, Journal, Journals, Judged, KeptFilm, Left, Means, Named, Own,
    Planned, Progress, PutBack, PuttingBack, Recorded, Recording, RunReceipt, Wanted, Way, describe_sessions,
    read_cache_bound,
};
use cache::warm::plan::Geometry;
use cache::warm::restore::{Lent, choose_room};
use cache::warm::{Control, PlannedDevice, ProfileSource, Room as _, state_directory};
use cache::{LastStart, Map, MapInputs, TierState, read_map_of};
use host::linux::cgroup::remove_left_near;
use host::linux::machine::read_untouched_shared_memory;
use host::units::Bytes;
use observe::forget_pages_ahead;
use observe::time::OwnTransactions;
use postgres::{DataDirectory, Database, quote_argument};

const REACHED_WITHIN: Duration = Duration::from_secs(5);

/// Timeout for the map of cached blocks, which takes long and which the clean-up needs.
const PREPARED_WITHIN: Duration = Duration::from_secs(30);

const FAILED: &str = "the film was not kept: the job failed, so its remaining reads are unknown";

const FOR_OTHERS: &str = "the figures of the restored cache include pages that another run had evicted";

const ASSUMED: &str = "the time saved is unknown: without a measured device or a film of a cold run, the forecasts assume a typical cloud volume; `pgthaw doctor --probe` measures the device";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    Well,
    Failed,
    Never,
}

#[derive(Debug)]
pub enum Unprepared {
    /// Why nothing was prepared; the job runs anyway.
    Because(String),
    /// A named film is unusable, so the job does not run.
    Refused(Error),
}

impl<E: Into<anyhow::Error>> From<E> for Unprepared {
    fn from(error: E) -> Unprepared {
        let error = error.into();
        let hint = explain(&error).1.map_or(String::new(), |hint| format!(" ({hint})"));
        Unprepared::Because(format!("{}{hint}", describe(&error)))
    }
}

pub struct Prepared {
    target: Target,
    map: Arc<Map>,
    recording: Recording,
    command: Arc<AtomicU32>,
    own: Arc<Own>,
    journals: Journals,
    journal: Journal,
    planned: Option<Planned>,
    device: PlannedDevice,
    progress: Arc<Progress>,
    others: Option<Others>,
    asked: OwnTransactions,
    /// The preload beside the running job.
    assist: Option<JoinHandle<Planned>>,
    beside: Option<Beside>,
    shows_progress: bool,
    remarks: Vec<String>,
}

impl Prepared {
    pub async fn new(arguments: &RunArguments, shows_progress: bool) -> Result<Prepared, Unprepared> {
        if arguments.which.is_none() && !arguments.protects() {
            return Err(Unprepared::Because("neither --like NAME nor --film FILM nor --protect was given".to_owned()));
        }
        arguments.source.begin_ahead(&arguments.connection);
        let prepared = Prepared::prepare(arguments, shows_progress).await;
        prepared.inspect_err(|_| drop(spawn_blocking(forget_pages_ahead)))
    }

    async fn prepare(arguments: &RunArguments, shows_progress: bool) -> Result<Prepared, Unprepared> {
        let silent = |_| Unprepared::Because(format!("the server did not answer within {REACHED_WITHIN:?}"));
        let reached = timeout(REACHED_WITHIN, reach(arguments)).await.map_err(silent)??;
        let progress = terminal::Progress::steps_when_slow("inspecting", shows_progress);
        let looked = timeout(PREPARED_WITHIN, Prepared::look(arguments, reached, &progress, shows_progress)).await;
        progress.finish();
        let slow = format!("the inspection of the server and its files took over {PREPARED_WITHIN:?}");
        looked.map_err(|_| Unprepared::Because(slow))?
    }

    async fn look(
        arguments: &RunArguments,
        (mut target, databases, named): Reached,
        progress: &terminal::Progress,
        shows_progress: bool,
    ) -> Result<Prepared, Unprepared> {
        let page_cache = target.page_cache();
        let inputs = MapInputs {
            named: named.as_deref(),
            progress: &|done, total| progress.reach(done as u64, total as u64),
            ..target.map_inputs(&page_cache, &databases)
        };
        let map = read_map_of(inputs, arguments.protects()).await?;
        if let (TierState::Unknown { .. }, Some(why)) = (&map.os, &target.directory_refusal) {
            return Err(Error::NothingSeen(why.detail.clone().unwrap_or_default()).into());
        }
        let map = Arc::new(map);
        let directory = target.data_directory.as_ref().map(|directory| &*directory.path);
        let (device, unusable) = arguments.device.choose(directory, target.find_postmaster(), None);
        let planning = plan(arguments, &target, &map, device);
        let asked = OwnTransactions::default();
        let others = match target.server.as_ref().filter(|_| arguments.protects()) {
            Some(server) => Others::begin(server, asked.clone()).await.ok(),
            None => None,
        };
        target.let_go();
        let draft = FilmStore::open().begin(map.source.system_identifier, None)?;
        let (own, progress, command) = (Arc::<Own>::default(), Arc::<Progress>::default(), Arc::new(AtomicU32::new(0)));
        let (named, unnamed) = named_sessions(arguments, &target, &asked).await;
        let wanted = Wanted::Command { pid: Arc::clone(&command), named };
        let source = open_source(&target, &map, arguments.source, wanted, Arc::clone(&own))?;
        let planned = match planning {
            Some(planning) => Some(planning.await?.map_err(Unprepared::Refused)?),
            None => None,
        };
        let coarser = source.1.clone();
        let named = (arguments.like.as_deref(), describe_job(&arguments.job));
        let recording = begin_film(&target, &map, draft, named, source, Arc::clone(&progress))?;
        let journals = Journals::open(&state_directory(), map.source.system_identifier)?;
        let mut remarks = remove_left_cgroups(&journals, target.data_directory.as_ref());
        remarks.extend(unusable.into_iter().chain(unnamed).chain(coarser));
        let journal = journals.begin(arguments.protects().then_some(&map))?;
        Ok(Prepared {
            target,
            map,
            recording,
            command,
            own,
            journals,
            journal,
            planned,
            device,
            progress,
            others,
            asked,
            assist: None,
            beside: None,
            shows_progress,
            remarks,
        })
    }

    /// Preloads before the job, if planned. Returns false if interrupted.
    pub async fn bring_first(&mut self) -> bool {
        let Some(planned) = self.planned.take_if(|planned| planned.decision.way == Way::SetFirst) else { return true };
        let mut bringing = self.bring(planned, self.target.find_postmaster());
        let done = tokio::select! {
            done = &mut bringing => Some(done),
            _ = terminal::wait_for_interrupt() => None,
        };
        let may_start = done.is_some();
        self.progress.is_over.store(!may_start, Ordering::Relaxed);
        let done = if let Some(done) = done { done } else { bringing.await };
        self.keep_planned(done);
        may_start
    }

    fn keep_planned(&mut self, done: Result<Planned, tokio::task::JoinError>) {
        match done {
            Ok(planned) => self.planned = Some(planned),
            Err(error) => self.remarks.push(format!("the preload failed: {error}")),
        }
    }

    /// Preloads. The reads are charged to the cgroup of `postmaster`.
    fn bring(&self, mut planned: Planned, postmaster: Option<u32>) -> JoinHandle<Planned> {
        let geometry = Geometry::of(&self.map.source);
        let (own, progress) = (Arc::clone(&self.own), Arc::clone(&self.progress));
        let came = Arc::clone(&self.recording.came);
        let (directory, page_cache) = (self.target.data_directory.clone(), Arc::new(self.target.page_cache()));
        spawn_blocking(move || {
            let lent = Lent::to(postmaster.filter(|_| planned.decision.way != Way::Nothing));
            planned.remarks.extend(lent.remarks.clone());
            let room = Box::new(lent.room);
            if let Some(DataDirectory { path: directory, .. }) = directory {
                planned.bring(&Means { directory, geometry, page_cache, room, own, came, progress });
            }
            if let Err(error) = lent.go_home() {
                planned.remarks.push(format!("pgthaw's own memory stays charged to the server's cgroup: {error}"));
            }
            planned
        })
    }

    pub async fn help(&mut self, arguments: &RunArguments, job: u32) {
        self.command.store(job, Ordering::Release);
        let beside = Beside::begin(
            arguments,
            (&self.target, &self.asked),
            (&self.journals, &self.journal),
            (job, self.device),
            Arc::clone(&self.progress),
            &mut self.remarks,
        );
        // If the job is isolated, its cgroup is charged for the preload.
        let charged = self.target.find_postmaster().filter(|_| !beside.is_set_apart);
        let waiting = self.planned.take_if(|planned| planned.preloaded.is_none());
        self.assist = waiting.map(|planned| self.bring(planned, charged));
        if let Some(others) = &mut self.others
            && others.job_begins().await.is_err()
        {
            self.others = None;
        }
        self.beside = Some(beside);
    }

    pub async fn end(mut self, arguments: &RunArguments, job: Ended, control: Arc<Control>, receipt: &mut RunReceipt) {
        if let Some(beside) = self.beside.take() {
            self.progress.is_over.store(true, Ordering::Relaxed);
            beside.end(&control, self.shows_progress, receipt).await;
            if let Some(assist) = self.assist.take() {
                self.keep_planned(assist.await);
            }
            if let Some(others) = self.others.take() {
                receipt.others = others.end().await;
            }
        }
        let Prepared { target, map, recording, journals, journal, planned, device, remarks, .. } = self;
        receipt.remarks.extend(remarks);
        // Must precede storing: `owners_remark` returns none once this user has a film of this name.
        receipt.remarks.extend(owners_remark(arguments, &map));
        let mut lost = None;
        if let Some(mut planned) = planned {
            lost = planned.lost.take();
            receipt.judged = judge(arguments, &planned, (job, device.source), receipt);
            (receipt.film, receipt.decision, receipt.preloaded) = (planned.film, planned.decision, planned.preloaded);
            receipt.remarks.extend(planned.remarks);
        }
        let mut ended_job = None;
        match spawn_blocking(move || recording.end()).await.map_err(anyhow::Error::from).and_then(|ended| Ok(ended?)) {
            Ok((recorded, account)) => {
                ended_job = Some(EndedJob { before: &map, account }).filter(|_| arguments.protects());
                let job_seen = recorded.header.job_seen;
                let counted = receipt.attended.as_ref().map(|attended| attended.sessions);
                if counted == Some(0) && job_seen != JobSeen::Yes {
                    receipt.judged = None;
                }
                let is_kept = arguments.like.is_some() && job == Ended::Well;
                let guessed = recorded.header.guessed.clone();
                receipt.remarks.extend(describe_sessions(counted, job_seen, guessed, is_kept));
                match arguments.like.as_deref() {
                    Some(label) if job == Ended::Well => keep(recorded, (label, lost.as_deref()), receipt),
                    Some(_) if job == Ended::Failed => receipt.remarks.push(FAILED.to_owned()),
                    _ => drop(recorded),
                }
            }
            Err(error) => receipt.remarks.push(format!("the film was not kept: {error}")),
        }
        let is_protected = ended_job.is_some();
        let put_back = match journals.end(journal) {
            Ok(left) => {
                receipt.is_left_to_another = left.is_none() && is_protected;
                put_back(&target, &journals, left, ended_job, device, control).await
            }
            Err(error) => Err(error.into()),
        };
        match put_back {
            Ok(done) => {
                let is_for_others = done.runs > usize::from(is_protected);
                receipt.remarks.extend(is_for_others.then(|| FOR_OTHERS.to_owned()));
                receipt.put_back = Some(done).filter(|done| is_protected || done.runs > 0);
            }
            Err(error) => receipt.remarks.push(format!("the cache was not restored: {}", describe(&error))),
        }
    }
}

type Reached = (Target, Vec<Database>, Option<Vec<String>>);

async fn reach(arguments: &RunArguments) -> anyhow::Result<Reached> {
    // A protected run may restore evicted relations of any database, and needs their names.
    let asks_all = arguments.protects();
    let which = arguments.which.as_ref().filter(|_| !asks_all);
    let preferred_database = which.and_then(|which| FilmStore::open().first_database(which));
    let connection = ConnectionArguments { preferred_database, keeps_first: true, ..arguments.connection.clone() };
    let target = Target::open(&connection).await?;
    let databases = target.databases().await?;
    let named = which.zip(target.server.as_ref()).and_then(|(which, server)| {
        let told = FilmStore::open().databases(which, server.facts.system_identifier)?;
        // A film recorded without a server names databases by oid.
        let is_told = |one: &&Database| told.iter().any(|told| *told == one.name || *told == one.oid.to_string());
        let named: Vec<String> = databases.iter().filter(is_told).map(|one| one.name.clone()).collect();
        // If none of the film's databases exists, `None`: the job may use any.
        (!named.is_empty()).then(|| [named, vec![server.database.clone()]].concat())
    });
    Ok((target, databases, named))
}

fn owners_remark(arguments: &RunArguments, map: &Map) -> Option<String> {
    let label = arguments.like.as_deref()?;
    let film = find_owners_like(&arguments.connection, map.source.system_identifier, label)?;
    let film = quote_argument(&film.display().to_string());
    Some(format!("the server's owner has films named {label}: `pgthaw run --film {film} -- COMMAND` uses one of them"))
}

async fn named_sessions(
    arguments: &RunArguments,
    target: &Target,
    own: &OwnTransactions,
) -> (Option<Named>, Option<String>) {
    let application_name = arguments.application_name.clone();
    let Some((server, name)) = target.server.as_ref().zip(application_name) else { return (None, None) };
    match ask_sessions(server, own.clone()).await {
        Ok(ask) => (Some(Named { application_name: Some(name), database: None, ask }), None),
        Err(error) => {
            (None, Some(format!("the film lacks the sessions of --application-name: {}", describe(&error.into()))))
        }
    }
}

fn plan(
    arguments: &RunArguments,
    target: &Target,
    map: &Arc<Map>,
    device: PlannedDevice,
) -> Option<JoinHandle<Result<Planned, Error>>> {
    let which = arguments.which.clone()?;
    let Some(directory) = &target.data_directory else {
        return Some(spawn_blocking(|| Ok(Planned::nothing("the data directory is not known", Vec::new()))));
    };
    let postmaster = directory.find_postmaster_pid();
    let room = choose_room(postmaster, true).0.read_room().map(|room| room.bytes);
    let bound = postmaster.filter(|_| arguments.isolates()).and_then(|pid| read_cache_bound(pid, Bytes(0)));
    let room = room.into_iter().chain(bound).min();
    let buffers = target.server.as_ref().map(|server| server.facts.shared_buffers_bytes);
    let untouched = postmaster.zip(buffers).and_then(|(pid, size)| read_untouched_shared_memory(pid, size).ok());
    let assist = Assist {
        which,
        job: describe_job(&arguments.job),
        map: Arc::clone(map),
        device: device.profile,
        room,
        untouched: untouched.unwrap_or_default(),
        started_at: if let LastStart::At(at) = target.last_start() { Some(at) } else { None },
    };
    Some(spawn_blocking(move || assist.plan()))
}

fn judge(
    arguments: &RunArguments,
    planned: &Planned,
    (job, source): (Ended, ProfileSource),
    receipt: &mut RunReceipt,
) -> Option<Judged> {
    if job != Ended::Well {
        return None;
    }
    let mut judged = planned.judge(receipt.seconds, receipt.before_seconds)?;
    let is_other = planned.job != describe_job(&arguments.job);
    let is_assumed = source == ProfileSource::Default && !planned.tells_device;
    let attended = receipt.attended.as_ref().zip(planned.preloaded.as_ref());
    let little = attended.and_then(|(attended, done)| attended.requested_little(done.bytes));
    if judged.saved_seconds.take_if(|_| is_other || is_assumed || little.is_some()).is_some() {
        receipt.remarks.push(match little {
            _ if is_other => format!("the time saved is unknown: the film is of another command ({})", planned.job),
            Some(bytes) => format!("the time saved is unknown: the job requested only {bytes}"),
            None => ASSUMED.to_owned(),
        });
    }
    Some(judged)
}

/// Stores the film, unless `FilmStore::is_slip` finds that it has far fewer blocks than the label's largest film.
fn keep(recorded: Recorded, (label, lost): (&str, Option<&str>), receipt: &mut RunReceipt) {
    let store = FilmStore::open();
    let cluster = recorded.header.source.system_identifier;
    if store.is_slip(&recorded.header, label, lost).unwrap_or_default() {
        receipt.remarks.push(format!(
            "the film was not kept: this command requested far fewer blocks than another command named {label}; give one of them another name"
        ));
        return;
    }
    match store.place(recorded, None) {
        Ok((path, header)) => receipt.kept = Some(KeptFilm::new(path, &header)),
        Err(error) => receipt.remarks.push(format!("the film was not kept: {error}")),
    }
    if let Err(error) = store.prune(cluster, label, lost) {
        receipt.remarks.push(format!("older films were not removed: {error}"));
    }
}

/// Restores the page cache. Removes the journal unless interrupted.
async fn put_back(
    target: &Target,
    journals: &Journals,
    left: Option<Left>,
    job: Option<EndedJob<'_>>,
    device: PlannedDevice,
    control: Arc<Control>,
) -> anyhow::Result<PutBack> {
    let Some(directory) = &target.data_directory else { return Ok(PutBack::default()) };
    let pid = directory.find_postmaster_pid();
    let (room, _) = choose_room(pid, false);
    // Without a protected run, no server is needed.
    let has_something = job.is_some() || left.as_ref().is_some_and(|left| left.before.is_some());
    let databases = if has_something { target.databases().await.unwrap_or_default() } else { Vec::new() };
    let putting_back = PuttingBack {
        directory,
        server: match &target.server {
            Some(server) if has_something && server.is_there().await => Some(server.clone()),
            _ => None,
        },
        databases: &databases,
        page_cache: Arc::new(target.page_cache()),
        room,
        device,
        control: Arc::clone(&control),
    };
    let mut done = putting_back.run(left.as_ref(), job).await?;
    match control.is_interrupted() {
        true => done.remarks.push("interrupted: the next `pgthaw run` or `pgthaw restore` loads the rest".to_owned()),
        false => left.map_or(Ok(()), |left| journals.forget(left))?,
    }
    Ok(done)
}

/// Removes killed runs' cgroups, even those without a journal entry. Returns failures.
fn remove_left_cgroups(journals: &Journals, directory: Option<&DataDirectory>) -> Vec<String> {
    let remarks = journals.remove_left_cgroups();
    directory.and_then(DataDirectory::find_postmaster_pid).into_iter().for_each(remove_left_near);
    remarks
}

/// After killed runs, restores only the page cache, not shared_buffers. Returns remarks.
pub async fn finish_left_runs(
    directory: &DataDirectory,
    journals: &Result<Journals, trace::Error>,
    device: DeviceArguments,
) -> Vec<String> {
    let mut told = Vec::new();
    let failed = |error: String| format!("the cache was not restored after an earlier run: {error}");
    let journals = match journals {
        Ok(journals) => journals,
        // Without a journal directory there is no unfinished run.
        Err(_) if !Journals::place(&state_directory(), directory.system_identifier).is_dir() => return told,
        Err(error) => return vec![failed(error.to_string())],
    };
    told.extend(remove_left_cgroups(journals, Some(directory)));
    let left = match journals.take_left() {
        Ok(Some(left)) => left,
        Ok(None) => return told,
        Err(error) => return told.into_iter().chain([failed(error.to_string())]).collect(),
    };
    let target = Target { data_directory: Some(directory.clone()), ..Target::default() };
    let (device, _) = device.choose(Some(&directory.path), directory.find_postmaster_pid(), None);
    let runs = left.runs;
    match put_back(&target, journals, Some(left), None, device, Arc::default()).await {
        Ok(done) => {
            let put_back = || format!("restored the cache after an earlier run: {}", render_put_back(&done));
            told.extend((runs > 0).then(put_back));
            told.extend(done.remarks);
        }
        Err(error) => told.push(failed(describe(&error))),
    }
    told
}
