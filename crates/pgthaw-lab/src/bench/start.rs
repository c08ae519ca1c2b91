use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use super::race::wait_for_server_start;
use super::residency::{StripRelation, choose_strips};
use super::warmer::{WarmSnapshots, plan_launch};
use crate::lab::{
    Lab, Site, SiteKey, Work, apply_reload, check_settings, connect, connect_to, disk, needs_restart, plan_load,
    read_tables, run_program, run_statement,
};
use crate::study::{
    Calibration, DatabaseKey, Disk, Error, Finding, FreshCopy, Point, ResidencyStrip, Result, StartAsked, StartState,
    Strategy, Sweep, WARM_START_SHARE,
};
use host::linux::cgroup::DiskLimit;
use host::linux::read_ahead::ReadAhead;
use host::units::Bytes;
use model::compute_median;
use pgbench::Intervals;
use postgres::pgbench::{Length, Load, TransactionLog, read_intervals};
use postgres::{ServerStatistics, read_activity};

/// Duration of the workload before each trial, for equal histories (docs/decisions/same-history.md).
const HISTORY_SECONDS: u32 = 3;

/// Duration of the workload before snapshots, to create usage counts and measure the throughput.
const WARM_SECONDS: u32 = 5;

#[derive(Debug)]
pub struct Started {
    pub fresh_copy: Option<FreshCopy>,
    pub state: StartState,
    /// Table statistics, read before a cold start because reading them warms the cache.
    pub tables: ServerStatistics,
    pub findings: Vec<Finding>,
    pub strips: Vec<(StripRelation, ResidencyStrip)>,
}

pub type Limits = (Vec<ReadAhead>, Option<DiskLimit>);

#[derive(Debug)]
pub struct Starter<'a> {
    pub sweep: &'a Sweep,
    pub warm: Option<&'a WarmSnapshot>,
    pub work: Work<'a>,
}

#[derive(Debug)]
pub struct WarmSnapshot {
    pub snapshots: WarmSnapshots,
    pub wanted: Bytes,
    pub database_bytes: Bytes,
    pub relations: Vec<(String, Bytes)>,
    pub calibration: Calibration,
    pub has_autoprewarm: bool,
}

/// By site, database and script (`None` unless it determines which data must be cached).
pub type Snapshots = BTreeMap<(SiteKey, DatabaseKey, Option<String>), WarmSnapshot>;

pub fn warm_key(sweep: &Sweep, point: &Point) -> (SiteKey, DatabaseKey, Option<String>) {
    (SiteKey::of(point), DatabaseKey::of(point), sweep.is_script_wanted.then(|| point.script.clone()))
}

impl Starter<'_> {
    pub async fn make(&self, site: &mut Site, point: &Point, load: &Load, disk: &Disk) -> Result<(Started, Limits)> {
        self.work.stop.check()?;
        let (fresh_copy, findings, limits) = match point.start {
            StartAsked::AsIs => {
                let (findings, limits) = self.leave(site, point, disk).await?;
                (None, findings, limits)
            }
            StartAsked::Warm => {
                let fresh_copy = self.prepare(site, point)?;
                let (read_aheads, limit) = start_limited(site, disk, point.memory)?;
                let findings = check_settings(&site.lab, &point.settings).await?;
                // Lifts the limit: during a slow checkpoint, the kernel may page out idle memory.
                limit.as_ref().map_or(Ok(()), DiskLimit::lift)?;
                self.repeat_history(&site.lab, load).await?;
                limit.as_ref().map_or(Ok(()), DiskLimit::enforce)?;
                (fresh_copy, findings, (read_aheads, limit))
            }
            StartAsked::Cold | StartAsked::Restored => return self.make_cold(site, point, load, disk).await,
        };
        let tables = read_tables(&site.lab).await?;
        let (os_resident_bytes, total_bytes) = site.lab.read_resident()?;
        let state = StartState::of(os_resident_bytes, total_bytes);
        Ok((Started { fresh_copy, state, tables, findings, strips: Vec::new() }, limits))
    }

    fn prepare(&self, site: &mut Site, point: &Point) -> Result<Option<FreshCopy>> {
        site.lab.stop()?;
        let copy = site.fresh.as_ref().map(|fresh| fresh.put_back(&mut site.lab, self.work)).transpose()?;
        site.lab.cluster.replace_settings(&point.settings)?;
        Ok(copy)
    }

    async fn make_cold(&self, site: &mut Site, point: &Point, load: &Load, disk: &Disk) -> Result<(Started, Limits)> {
        let fresh_copy = self.prepare(site, point)?;
        site.lab.start(None)?;
        let findings = check_settings(&site.lab, &point.settings).await?;
        self.repeat_history(&site.lab, load).await?;
        let tables = read_tables(&site.lab).await?;
        // Chosen before the server stops: the query would warm a cold server.
        let relations = choose_strips(&site.lab).await?;
        site.lab.stop()?;
        if let Some(warm) = self.warm.filter(|warm| warm.has_autoprewarm) {
            warm.snapshots.place(point.strategy(), &site.lab)?;
        }
        let cold = site.lab.make_cold()?;
        let read = |one: StripRelation| {
            let strip = one.read(&site.lab.data_directory(), &site.lab.page_cache, &[])?;
            Ok((one, strip))
        };
        let strips = relations.into_iter().map(read).collect::<Result<_>>()?;
        wait_for_server_start();
        let limits = start_limited(site, disk, point.memory)?;
        let state = match point.start {
            StartAsked::Restored => self.restore(&site.lab, point, disk, limits.1.as_ref())?,
            _ => cold,
        };
        Ok((Started { fresh_copy, state, tables, findings, strips }, limits))
    }

    async fn leave(&self, site: &mut Site, point: &Point, disk: &Disk) -> Result<(Vec<Finding>, Limits)> {
        let changed = changed_names(site.running.as_deref().unwrap_or_default(), &point.settings);
        site.lab.cluster.replace_settings(&point.settings)?;
        let mut findings = Vec::new();
        let is_changed = |disk: &Disk| disk.is_limited() || disk.read_ahead.is_some();
        let mut restarts = site.running.is_none() || is_changed(disk) || point.memory.is_some();
        restarts |= site.part_disks().iter().any(|part| is_changed(&part.disk));
        if !restarts && !changed.is_empty() {
            let (_, mut connection) = connect(&site.lab).await?;
            restarts = needs_restart(&mut connection, &changed).await?;
            if !restarts {
                findings.extend(apply_reload(&mut connection).await?);
            }
        }
        let mut limits = Limits::default();
        if restarts {
            site.lab.stop()?;
            limits = start_limited(site, disk, point.memory)?;
        }
        findings.extend(check_settings(&site.lab, &point.settings).await?);
        Ok((findings, limits))
    }

    async fn repeat_history(&self, lab: &Lab, load: &Load) -> Result<()> {
        if self.sweep.is_idle() {
            return lab.apply_read_all(|| !self.work.stop.is_requested());
        }
        tidy(lab).await?;
        lab.apply_read_all(|| !self.work.stop.is_requested())?;
        self.run(lab, load, at_most(HISTORY_SECONDS, load))?;
        write_checkpoint(lab).await
    }

    /// If `wanted` is `None`, reads all data. Otherwise runs the load for `wanted` from a cold start: the data that it
    /// reads defines the warm state.
    async fn calibrate(&self, lab: &mut Lab, load: &Load, wanted: Option<Length>) -> Result<Calibration> {
        tidy(lab).await?;
        if wanted.is_none() {
            lab.apply_read_all(|| !self.work.stop.is_requested())?;
        } else {
            lab.stop()?;
            lab.apply_evict()?;
            lab.start(None)?;
        }
        let (server, mut connection) = connect_to(lab, lab.database()).await?;
        let before = read_activity(&mut connection, Duration::ZERO).await?;
        let (tps, transactions) = self.run(lab, load, wanted.unwrap_or_else(|| at_most(WARM_SECONDS, load)))?;
        let mut activity = read_activity(&mut connection, Duration::ZERO).await?.since(&before);
        // The server may count each statement of a script as a transaction. Factor 0.9: pgbench's logs of a few seconds
        // lack a tenth of the transactions on average, a fifth at most.
        let ratio = activity.transactions as f64 / transactions.max(1) as f64;
        let each = (0.9 * ratio).round().max(1.0);
        activity.transactions = (activity.transactions as f64 / each) as u64;
        write_checkpoint(lab).await?;
        Ok(Calibration { tps, activity, facts: server.facts })
    }

    /// Returns the median transactions per second (`None` if 0) and the number of transactions.
    fn run(&self, lab: &Lab, load: &Load, length: Length) -> Result<(Option<f64>, u64)> {
        let history = Load { rate: None, latency_limit_ms: None, length, log: TransactionLog::Seconds, ..load.clone() };
        let logs = self.work.make_temporary()?;
        run_program("pgbench", &plan_load(lab, &history, logs.path())?, None, self.work, |_| ())?;
        let intervals = read_intervals(logs.path())?;
        let transactions = intervals.values().map(|one| one.transactions).sum();
        Ok((compute_pace(&intervals), transactions))
    }

    fn restore(&self, lab: &Lab, point: &Point, disk: &Disk, limit: Option<&DiskLimit>) -> Result<StartState> {
        let Some(warm) = self.warm else {
            return Err(Error::Setting(format!("there is no snapshot of {}", DatabaseKey::of(point).render())));
        };
        if let Some(launch) = plan_launch(Strategy::PgthawFullSpeed, lab, &warm.snapshots, disk)? {
            run_program("pgthaw restore", &launch, limit, self.work, |_| ())?;
        }
        let (os_resident_bytes, total_bytes) = lab.read_resident()?;
        let is_there = os_resident_bytes.0 as f64 >= WARM_START_SHARE * warm.wanted.0 as f64;
        let verdict = if is_there { "restored" } else { "lukewarm" };
        Ok(StartState { os_resident_bytes, total_bytes, verdict: verdict.to_owned() })
    }

    /// The server must be running, and runs again afterwards.
    pub fn record_films(&self, site: &mut Site, warm: &mut WarmSnapshot, disks: &[Disk]) -> Result<()> {
        for disk in disks {
            site.lab.stop()?;
            if warm.has_autoprewarm {
                site.lab.configure_autoprewarm(false)?;
            }
            site.lab.apply_evict()?;
            let (read_aheads, limit) = start_limited(site, disk, None)?;
            let launch = warm.snapshots.plan_recording(&site.lab)?;
            run_program("the recording of the study's job", &launch, limit.as_ref(), self.work, |_| ())?;
            warm.snapshots.keep_film(disk)?;
            limit.map_or(Ok(()), DiskLimit::remove)?;
            read_aheads.into_iter().try_for_each(ReadAhead::put_back)?;
        }
        Ok(())
    }

    pub async fn take_snapshot(
        &self,
        lab: &mut Lab,
        key: &DatabaseKey,
        load: &Load,
        strategies: &[Strategy],
    ) -> Result<WarmSnapshot> {
        let by_trial = self.sweep.is_script_wanted.then_some(load.length);
        let wanted = by_trial.or(self.sweep.wanted_seconds.map(Length::Seconds));
        let has_autoprewarm = strategies.contains(&Strategy::Autoprewarm);
        if has_autoprewarm {
            lab.stop()?;
            lab.configure_autoprewarm(true)?;
            lab.start(None)?;
        }
        let calibration = self.calibrate(lab, load, wanted).await?;
        // Numbers the directory: databases of different sites have the same names.
        let place = |number: u32| self.work.directory.join(format!("snapshot-{}-{number}", key.database_name()));
        let directory = (0..).map(place).find(|path| !path.exists()).unwrap_or_else(|| place(0));
        std::fs::create_dir_all(&directory).map_err(|source| Error::file("create", &directory, source))?;
        let snapshots = WarmSnapshots::take(strategies, self.sweep, lab, &directory).await?;
        let (resident, database_bytes) = lab.read_resident()?;
        let wanted = if self.sweep.is_idle() { snapshots.wanted.bytes() } else { resident };
        let relations = choose_strips(lab).await?.iter().map(StripRelation::size).collect();
        Ok(WarmSnapshot { snapshots, wanted, database_bytes, relations, calibration, has_autoprewarm })
    }
}

/// Open files keep their read-ahead, so pgthaw sets it before the server starts.
fn start_limited(site: &mut Site, disk: &Disk, memory: Option<Bytes>) -> Result<Limits> {
    let (data, part_disks) = (site.lab.data_directory(), site.part_disks());
    let parts = part_disks.iter().map(|part| (part.directory.as_path(), &part.disk));
    let set = |(directory, disk): (&Path, &Disk)| {
        let asked = disk.read_ahead.filter(|_| disk.read_ahead_not_enforced.is_none())?;
        Some(ReadAhead::set(directory, asked))
    };
    let read_aheads = [(data.as_path(), disk)].into_iter().chain(parts).filter_map(set);
    let read_aheads = read_aheads.collect::<Result<Vec<_>, _>>()?;
    let limit = disk::create_limit(disk, &part_disks, site.devices.main, site.owns_device(), memory)?;
    site.lab.start(limit.as_ref())?;
    Ok((read_aheads, limit))
}

async fn write_checkpoint(lab: &Lab) -> Result<()> {
    let (_, mut connection) = connect(lab).await?;
    run_statement(&mut connection, "write a checkpoint", "CHECKPOINT").await
}

fn at_most(most: u32, load: &Load) -> Length {
    match load.length {
        Length::Seconds(seconds) => Length::Seconds(seconds.min(most)),
        Length::Transactions(_) => Length::Seconds(most),
    }
}

fn compute_pace(intervals: &Intervals) -> Option<f64> {
    let paces: Vec<f64> = intervals.values().map(|interval| interval.transactions as f64).collect();
    // Omits the first and last second, which are partial.
    let whole = if paces.len() > 2 { &paces[1..paces.len() - 1] } else { &paces[..] };
    compute_median(whole.to_vec()).filter(|tps| *tps > 0.0)
}

pub async fn tidy(lab: &Lab) -> Result<()> {
    let (_, mut connection) = connect_to(lab, lab.database()).await?;
    let history = "DO $$ BEGIN IF pg_catalog.to_regclass('public.pgbench_history') IS NOT NULL THEN \
                   TRUNCATE public.pgbench_history; END IF; END $$";
    run_statement(&mut connection, "empty pgbench_history", history).await?;
    run_statement(&mut connection, "vacuum the benchmark's database", "VACUUM").await
}

fn changed_names(before: &[(String, String)], after: &[(String, String)]) -> Vec<String> {
    let [before, after] = [before, after].map(|settings| settings.iter().collect::<BTreeSet<_>>());
    let names: BTreeSet<&String> = before.symmetric_difference(&after).map(|(name, _)| name).collect();
    names.into_iter().cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::leaves_files_as_they_were;

    #[test]
    fn a_server_is_started_again_after_another_read_ahead() {
        let disk = |name| crate::study::ground::disk_tests::named(name);
        assert!(leaves_files_as_they_were(&disk("native")) && !leaves_files_as_they_were(&disk("gp3")));
        let not_enforced = Disk { read_ahead_not_enforced: Some("no root".into()), ..disk("gp3") };
        assert!(leaves_files_as_they_were(&not_enforced));
    }

    #[test]
    fn a_setting_that_is_gone_changed_too() {
        let of = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect::<Vec<_>>()
        };
        let changed =
            changed_names(&of(&[("a", "1"), ("b", "2"), ("c", "3")]), &of(&[("a", "1"), ("b", "9"), ("d", "4")]));
        assert_eq!(changed, ["b", "c", "d"]);
    }
}
