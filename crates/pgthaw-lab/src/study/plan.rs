use std::path::Path;
use std::time::Duration;

use rand::SeedableRng as _;
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use serde::Serialize;

use super::database::{DatabaseKey, DatabaseSpec, expected_bytes};
use super::error::Error;
use super::ground::{FileSystemSpec, Part};
use super::point::{Axes, DEFAULT_SERVER, NATIVE, Point, StartAsked, TOGETHER, Turn, Until};
use super::record::Disk;
use super::spec::Sweep;
use host::linux::machine::read_memory;
use host::linux::{DEFAULT_READ_AHEAD, count_cores, read_free_bytes};
use host::units::Bytes;
use model::{
    Device, Forecast, PageClass, Popularity, READ_CPU_SECONDS, STARTUP_READS, Server, Workload, compute_forecast,
};
use postgres::parse_setting_number;

#[derive(Clone, Debug, PartialEq, Serialize, crate::JsonSchema)]
pub struct SweepPlan {
    pub question: String,
    /// Axes with several values.
    pub varied: Vec<String>,
    pub repeats: u32,
    /// Seed of the random order. `None` if the run will choose one.
    pub seed: Option<u64>,
    pub points: Vec<PlannedPoint>,
    /// Other hosts that run pgbench, if any.
    pub hosts: Vec<String>,
    /// Point numbers of the trials, in execution order. Empty without a seed.
    pub order: Vec<u32>,
    /// Duration including preparation.
    pub expected_seconds: f64,
    pub database_bytes: Bytes,
    pub needed_bytes: Bytes,
    pub free_bytes: Bytes,
    pub remarks: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, crate::JsonSchema)]
pub struct PlannedPoint {
    /// From 0.
    pub number: u32,
    pub point: Point,
    /// The point's values on the axes that vary.
    pub label: String,
    /// Duration of its trials, with preparation.
    pub expected_seconds: f64,
    /// Seconds until warm, by the model. `None` if the trial starts warm or the model does not apply.
    pub warm_after_seconds: Option<f64>,
}

const UNKNOWN_SIZE: &str = "setup, commands and initialize add an unknown size and time: \
                            the bytes and times above cover only pgbench's own tables";

pub fn plan_sweep(sweep: &Sweep, parent: &Path) -> Result<SweepPlan, Error> {
    sweep.check_memory()?;
    let usual = DatabaseSpec::default();
    let is_known = |point: &Point| sweep.databases.get(&point.database).is_none_or(|spec| *spec == usual);
    let plan_point = |number| {
        let point = sweep.point(number);
        PlannedPoint {
            number,
            label: point.render(&sweep.varied()),
            expected_seconds: sweep.expected_seconds_of(&point),
            warm_after_seconds: forecast_warm_seconds(&point, &sweep.disk(&point)).filter(|_| is_known(&point)),
            point,
        }
    };
    let points: Vec<PlannedPoint> = (0..sweep.points()).map(plan_point).collect();
    let order = |seed| plan_turns(sweep, seed, |_| true).into_iter().map(|turn| turn.point).collect();
    Ok(SweepPlan {
        question: sweep.question.clone(),
        varied: sweep.varied(),
        repeats: sweep.repeats,
        seed: sweep.seed,
        hosts: sweep.generators.iter().flat_map(|generators| generators.hosts.clone()).collect(),
        order: sweep.seed.map(order).unwrap_or_default(),
        expected_seconds: sweep.expected_seconds(),
        database_bytes: database_bytes(&sweep.axes),
        needed_bytes: needed_bytes(sweep),
        free_bytes: read_free_bytes(parent)?,
        remarks: points.iter().find(|one| !is_known(&one.point)).map(|_| UNKNOWN_SIZE.to_owned()).into_iter().collect(),
        points,
    })
}

/// Each repeat is a permutation of the points, determined by the seed.
pub fn plan_turns(sweep: &Sweep, seed: u64, can_run: impl Fn(&Point) -> bool) -> Vec<Turn> {
    let points: Vec<u32> = (0..sweep.points()).filter(|number| can_run(&sweep.point(*number))).collect();
    let mut random = StdRng::seed_from_u64(seed);
    let mut turns = Vec::new();
    for repeat in 1..=sweep.repeats {
        let mut block = points.clone();
        block.shuffle(&mut random);
        turns.extend(block.into_iter().map(|point| (point, repeat)));
    }
    (1..).zip(turns).map(|(position, (point, repeat))| Turn { point, repeat, position }).collect()
}

impl Sweep {
    pub fn common_settings(&self) -> Vec<(String, String)> {
        let one = |(name, values): &(String, Vec<String>)| match values.as_slice() {
            [value] => Some((name.clone(), value.clone())),
            _ => None,
        };
        self.axes.settings.iter().filter_map(one).collect()
    }

    pub fn check_memory(&self) -> Result<(), Error> {
        let Some(most) = self.axes.memory.iter().flatten().copied().chain(self.memory).max() else { return Ok(()) };
        let machine = read_memory()?.total_bytes;
        match most > machine {
            true => Err(Error::Unfit {
                problem: format!("the study limits the server's memory to {most}, but this machine has {machine}"),
                remedy: "write a smaller size, or remove the limit (in points.memory: \"none\")".to_owned(),
            }),
            false => Ok(()),
        }
    }

    /// Rejects studies that cannot run in the existing cluster of a lab server (`-D`), which pgthaw uses as it is.
    pub fn check_lendable(&self) -> Result<(), Error> {
        let axes = &self.axes;
        let is_own = axes.file_system == [NATIVE] && axes.server == [DEFAULT_SERVER] && axes.places == [TOGETHER];
        match self.is_warmup && is_own && !self.fresh_copy && self.generators.is_none() {
            true => Ok(()),
            false => Err(Error::Unfit {
                problem: "with -D, a study can only compare warmers, in the lab server's cluster as it is".into(),
                remedy: "write kind = \"warmup\" without file_system, server, places, fresh_copy and [generators]; or omit -D to use a scratch cluster".to_owned(),
            }),
        }
    }

    pub fn is_idle(&self) -> bool {
        self.until == Some(Until::Resident)
    }

    /// Assumes a fresh copy without shared blocks.
    pub fn expected_seconds_of(&self, point: &Point) -> f64 {
        let copied = if self.fresh_copy { expected_disk_bytes(self).0 } else { 0 };
        expected_seconds(point, &self.disk(point)) + copied as f64 / WRITE_BYTES_PER_SECOND
    }

    pub fn expected_seconds(&self) -> f64 {
        let each = (0..self.points()).map(|number| self.point(number));
        let trials: f64 = each.map(|point| self.expected_seconds_of(&point)).sum();
        preparation_seconds(self) + trials * f64::from(self.repeats)
    }
}

pub fn check_room(needed: Bytes, free: Bytes, parent: &Path) -> Result<(), Error> {
    if needed <= free { Ok(()) } else { Err(Error::NoRoom { needed, free, directory: parent.to_owned() }) }
}

/// 30 years.
const LEFT_SECONDS_MAX: f64 = 1e9;

/// Seconds for stop, start, vacuum, checkpoint and statistics of a trial.
const AROUND_SECONDS: f64 = 4.0;

const RESTART_SECONDS: f64 = 2.0;

const HISTORY_SECONDS: f64 = 3.0;

/// Speed of reads from the page cache or an unlimited disk. Assumed until measured.
const READ_ALL_BYTES_PER_SECOND: f64 = 1e9;

/// Per unit of scale.
const INITIALIZE_SECONDS: f64 = 0.25;
const CLUSTER_SECONDS: f64 = 3.0;

/// Images are written in full. This speed is assumed.
const WRITE_BYTES_PER_SECOND: f64 = 500e6;

const IMAGE_SPARE_BYTES: u64 = 512 << 20;

/// Size of WAL with the default max_wal_size, and a reserve.
const WAL_BYTES: u64 = 1_500_000_000;

/// WAL of an idle server.
const FIRST_WAL_BYTES: u64 = 256 << 20;

/// pgbench_accounts at scale 1: 100,000 rows in 1640 blocks, and index leaves.
const HEAP_BLOCKS_PER_SCALE: f64 = 1640.0;
const LEAVES_PER_SCALE: f64 = 274.0;

/// Assumed until measured: processor time of a transaction without reads, and time of a random read.
const HIT_SECONDS: f64 = 50e-6;
const READ_SECONDS: f64 = 0.5e-3;
const BLOCK_BYTES: f64 = 8192.0;

pub fn expected_seconds(point: &Point, disk: &Disk) -> f64 {
    let bytes = expected_bytes(point.scale).0 as f64;
    let read_all = bytes / READ_ALL_BYTES_PER_SECOND;
    let start = match point.start {
        StartAsked::AsIs => 0.0,
        StartAsked::Warm => HISTORY_SECONDS + read_all,
        StartAsked::Cold => HISTORY_SECONDS + 2.0 * read_all + RESTART_SECONDS,
        StartAsked::Restored => {
            let bandwidth = disk.rbps.map_or(READ_ALL_BYTES_PER_SECOND, |rbps| rbps.0 as f64);
            HISTORY_SECONDS + read_all + RESTART_SECONDS + bytes / bandwidth
        }
    };
    AROUND_SECONDS + start + workload_seconds(point, disk)
}

fn workload_seconds(point: &Point, disk: &Disk) -> f64 {
    if let Some(seconds) = point.seconds {
        return seconds.into();
    }
    let transactions = f64::from(point.transactions_of_client().unwrap_or_default()) * f64::from(point.clients);
    if let Some(rate) = point.rate {
        return transactions / rate;
    }
    let cold = (point.start == StartAsked::Cold).then(|| forecast_cold(point, disk)).flatten();
    match cold {
        Some(forecast) => seconds_to_transactions(&forecast, transactions),
        None => transactions * HIT_SECONDS / count_cores().min(point.clients.into()),
    }
}

fn seconds_to_transactions(forecast: &Forecast, transactions: f64) -> f64 {
    let points = &forecast.points;
    let reached = points.iter().find(|point| point.transactions >= transactions);
    reached.map(|point| point.seconds).unwrap_or_else(|| {
        let (seconds, done) = points.last().map_or((0.0, 0.0), |last| (last.seconds, last.transactions));
        seconds + (transactions - done) / forecast.steady_tps.max(1e-9)
    })
}

/// `None` unless the script is `select-only`, the start is cold, and the disk has limits.
pub fn forecast_warm_seconds(point: &Point, disk: &Disk) -> Option<f64> {
    let is_known = point.script == "select-only" && point.start == StartAsked::Cold;
    let has_figures = disk.riops.is_some() || disk.rbps.is_some();
    if !is_known || !has_figures || disk.not_enforced.is_some() {
        return None;
    }
    forecast_cold(point, disk)?.seconds_to_warm()
}

pub fn uniform_class(name: &str, pages: f64) -> PageClass {
    PageClass { name: name.to_owned(), pages, accesses: 1.0, run_pages: 1.0, popularity: Popularity::Uniform }
}

fn forecast_cold(point: &Point, disk: &Disk) -> Option<Forecast> {
    let class = |name, pages: f64| uniform_class(name, pages * f64::from(point.scale));
    let figure = |limit: Option<u64>| limit.map_or(f64::INFINITY, |limit| limit as f64);
    let workload = Workload {
        clients: point.clients,
        classes: vec![class("heap", HEAP_BLOCKS_PER_SCALE), class("leaves", LEAVES_PER_SCALE)],
        hit_seconds: HIT_SECONDS,
        read_seconds: READ_CPU_SECONDS,
        read_ahead_pages: disk.read_ahead.unwrap_or(DEFAULT_READ_AHEAD).0 as f64 / BLOCK_BYTES,
        startup_reads: STARTUP_READS,
    };
    let server = Server {
        device: Device::with_limits(figure(disk.riops), figure(disk.rbps.map(|rbps| rbps.0)), READ_SECONDS),
        cores: count_cores(),
        buffers_pages: f64::INFINITY,
        os_pages: f64::INFINITY,
        block_bytes: BLOCK_BYTES,
    };
    compute_forecast(&workload, &server, None).ok()
}

fn preparation_seconds(sweep: &Sweep) -> f64 {
    let Axes { scale, jobs, query_mode, server, file_system, database, places, .. } = &sweep.axes;
    let calibration = f64::from(CALIBRATION_SECONDS + 1) * (jobs.len() * query_mode.len()) as f64;
    let scales = scale.iter().map(|scale| f64::from(*scale)).sum::<f64>();
    let databases = database.len() as f64 * scales * INITIALIZE_SECONDS;
    let specs = sweep.file_systems.values().flat_map(|spec| places.iter().map(move |place| (spec, place)));
    let images: f64 = specs.map(|(spec, place)| site_bytes(spec, place, sweep).0 as f64).sum();
    let (servers, sites) = (server.len() as f64, (file_system.len() * places.len()) as f64);
    calibration + servers * (sites * (CLUSTER_SECONDS + databases) + images / WRITE_BYTES_PER_SECOND)
}

/// Includes only pgbench's tables.
pub fn database_bytes(axes: &Axes) -> Bytes {
    DatabaseKey::all(axes).iter().map(|key| expected_bytes(key.scale)).sum()
}

fn expected_disk_bytes(sweep: &Sweep) -> Bytes {
    Bytes(database_bytes(&sweep.axes).0 + wal_bytes(sweep))
}

/// A fresh copy needs space beside its original.
fn copies(sweep: &Sweep) -> u64 {
    if sweep.fresh_copy { 2 } else { 1 }
}

/// Image of a part of the cluster; `None` for the data directory. Twice the expected contents by default: databases grow,
/// and copy-on-write file systems store some data twice.
pub fn image_bytes(part: Option<Part>, spec: &FileSystemSpec, sweep: &Sweep) -> Bytes {
    let expected = match part {
        None => expected_disk_bytes(sweep).0,
        Some(Part::Wal) => wal_bytes(sweep),
        // pg_xact has only two bits per transaction.
        Some(Part::Slru) => 0,
        Some(Part::Tables | Part::Indexes) => database_bytes(&sweep.axes).0,
    };
    spec.size.unwrap_or(Bytes(2 * copies(sweep) * expected + IMAGE_SPARE_BYTES))
}

fn site_bytes(spec: &FileSystemSpec, place: &str, sweep: &Sweep) -> Bytes {
    let parts = sweep.places.get(place).into_iter().flatten().map(|(part, _)| Some(*part));
    let log = spec.asked.log_device().unwrap_or(Bytes(0));
    [None].into_iter().chain(parts).map(|part| image_bytes(part, spec, sweep) + log).sum()
}

/// Uses the largest max_wal_size. Read-only scripts and warm-up studies need less: only creating the databases writes.
fn wal_bytes(sweep: &Sweep) -> u64 {
    let sizes = sweep.axes.settings.iter().filter(|(name, _)| name == "max_wal_size").flat_map(|(_, values)| values);
    let kept = sizes.filter_map(|size| parse_wal_size(size)).max().map_or(WAL_BYTES, |size| size + size / 4);
    match sweep.is_warmup || sweep.scripts.values().flatten().all(|(script, _)| script.is_read_only()) {
        true => kept.min(2 * database_bytes(&sweep.axes).0 + FIRST_WAL_BYTES),
        false => kept,
    }
}

/// Parses max_wal_size as PostgreSQL does: default unit MB, multiples of 1024, maximum `i32::MAX` MB.
fn parse_wal_size(text: &str) -> Option<u64> {
    let megabytes = parse_setting_number(text, Some("MB")).filter(|size| (0.0..=f64::from(i32::MAX)).contains(size))?;
    Some((megabytes as u64) << 20)
}

pub fn needed_bytes(sweep: &Sweep) -> Bytes {
    let Axes { file_system, places, server, .. } = &sweep.axes;
    let sites = file_system.iter().flat_map(|name| places.iter().map(move |place| (name, place)));
    let one_server: u64 = sites.map(|(name, place)| needed_bytes_on(name, place, sweep).0).sum();
    Bytes(one_server * server.len() as u64)
}

pub fn needed_bytes_on(file_system: &str, place: &str, sweep: &Sweep) -> Bytes {
    match sweep.file_systems.get(file_system) {
        Some(spec) => site_bytes(spec, place, sweep),
        None => Bytes(copies(sweep) * expected_disk_bytes(sweep).0),
    }
}

/// Remaining time, corrected by the ratio of actual to expected time so far.
#[derive(Clone, Debug, Default)]
pub struct TimeLeft {
    expected_of_ended: f64,
    took: f64,
}

impl TimeLeft {
    pub fn learn(&mut self, expected: f64, took: Duration) {
        self.expected_of_ended += expected;
        self.took += took.as_secs_f64();
    }

    pub fn left(&self, expected: f64) -> Duration {
        let pace = if self.expected_of_ended > 0.0 { self.took / self.expected_of_ended } else { 1.0 };
        let seconds = (expected * pace).clamp(0.0, LEFT_SECONDS_MAX);
        Duration::try_from_secs_f64(seconds).unwrap_or_default()
    }
}

pub const CALIBRATION_SECONDS: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::spec::tests::sweep;

    #[test]
    fn more_memory_than_the_machine_has_is_no_limit() {
        let study = sweep("[points]\nmemory = [\"1GiB\", \"900TB\"]\n").unwrap();
        let refused = plan_sweep(&study, Path::new("/tmp")).unwrap_err().to_string();
        assert!(refused.contains("900 TB, but this machine has"), "{refused}");
    }

    #[test]
    fn what_is_not_known_of_own_tables_is_told() {
        let cold = "disks.own = '1000,100MiB'\n[points]\nscript = 'select-only'\nstart = 'cold'\ndisk = 'own'\n";
        let plan = |text: &str| plan_sweep(&sweep(text).unwrap(), Path::new("/tmp")).unwrap();
        assert!(plan(cold).points[0].warm_after_seconds.is_some());
        let own = plan(&format!("{cold}[database]\ncommands = [['true']]\n"));
        assert_eq!((own.points[0].warm_after_seconds, own.remarks.len()), (None, 1));
        assert!(own.remarks[0].contains("unknown size and time"), "{:?}", own.remarks);
    }

    #[test]
    fn every_point_has_its_repeats_and_the_seed_decides_their_order() {
        let study = sweep("repeats = 4\n[points]\nscale = [1, 10]\nclients = [1, 2, 4]\n").unwrap();
        let plan = |seed| plan_sweep(&Sweep { seed, ..study.clone() }, Path::new("/tmp")).unwrap();
        let one = plan(Some(1));
        assert_eq!((one.points.len(), one.order.len()), (6, 24));
        for block in one.order.chunks(6) {
            let mut block = block.to_vec();
            block.sort_unstable();
            assert_eq!(block, [0, 1, 2, 3, 4, 5]);
        }
        let turns = plan_turns(&study, 1, |_| true);
        for (place, turn) in turns.iter().enumerate() {
            assert_eq!((turn.position as usize, turn.repeat as usize), (place + 1, place / 6 + 1));
        }
        assert_eq!(one.order, plan(Some(1)).order);
        assert_ne!(one.order, plan(Some(2)).order);
        assert_eq!(one.points[5].label, "scale 10, clients 4");
        assert_eq!(one.database_bytes, Bytes(11 * 16_000_000));
        let check = |plan: &SweepPlan, parent| check_room(plan.needed_bytes, plan.free_bytes, Path::new(parent));
        assert!(check(&one, "/tmp").is_ok());
        assert!(one.remarks.is_empty(), "{:?}", one.remarks);
        let full = SweepPlan { free_bytes: Bytes(1), ..one };
        assert!(check(&full, "/x").unwrap_err().to_string().contains("/x, but only 1 bytes are free"));
    }
}

#[cfg(test)]
mod forecast_tests {
    use super::*;
    use crate::study::ground::disk_tests::named;
    use crate::study::spec::tests::sweep;

    fn point(text: &str) -> Point {
        sweep(text).unwrap().point(0)
    }

    #[test]
    fn a_cold_start_on_a_limited_disk_is_forecast() {
        let cold = point("[points]\nscale = 100\nclients = 8\nstart = \"cold\"\nseconds = 60\n");
        let warm_after = forecast_warm_seconds(&cold, &named("gp3")).unwrap();
        assert!((40.0..400.0).contains(&warm_after), "{warm_after}");
        assert_eq!(forecast_warm_seconds(&cold, &named("native")), None);
        let warm = Point { start: StartAsked::Warm, ..cold.clone() };
        assert_eq!(forecast_warm_seconds(&warm, &named("gp3")), None);
        assert!(expected_seconds(&cold, &named("gp3")) > 60.0);
    }

    #[test]
    fn transactions_take_as_long_as_the_rate_or_the_model_says() {
        let rate = point("[points]\nclients = 4\ntransactions = 1000\nrate = 100\n");
        assert_eq!(workload_seconds(&rate, &named("native")), 40.0);
        let cold = "[points]\nscale = 100\nclients = 4\ntransactions = 1000\nstart = \"cold\"\n";
        let limited = workload_seconds(&point(cold), &named("hdd"));
        assert!((30.0..50.0).contains(&limited), "{limited}");
    }

    #[test]
    fn an_image_has_room_for_the_log_and_for_a_copy() {
        let study = |text: &str| {
            sweep(&format!("[points]\nscale = 10\nscript = \"tpcb-like\"\nfile_system = [\"native\", \"xfs\"]\n{text}"))
                .unwrap()
        };
        let (plain, large) = (study(""), study("[settings]\nmax_wal_size = [\"1GB\", \"8GB\"]\n"));
        let image = |study: &Sweep| image_bytes(None, &study.file_systems["xfs"], study).0;
        assert_eq!(image(&plain), 2 * (160_000_000 + WAL_BYTES) + IMAGE_SPARE_BYTES);
        assert_eq!(image(&large), 2 * (160_000_000 + (10 << 30)) + IMAGE_SPARE_BYTES);
        assert_eq!(needed_bytes(&plain).0, 160_000_000 + WAL_BYTES + image(&plain));
        assert_eq!(needed_bytes(&large).0, 160_000_000 + (10 << 30) + image(&large));
        let two = study("database = [\"default\", \"parts\"]\n[databases.parts]\n");
        assert_eq!(needed_bytes(&two).0, 320_000_000 + WAL_BYTES + image(&two));
        assert!(preparation_seconds(&large) > preparation_seconds(&plain) + 30.0);
        let apart = sweep(
            "[points]\nscale = 10\nscript = \"tpcb-like\"\nfile_system = \"xfs\"\nplaces = [\"together\", \"apart\"]\n\
             [places.apart]\nwal = \"gp3\"\n",
        )
        .unwrap();
        assert_eq!(needed_bytes_on("xfs", "apart", &apart).0, image(&apart) + 2 * WAL_BYTES + IMAGE_SPARE_BYTES);
        assert_eq!(needed_bytes(&apart).0, 2 * image(&apart) + 2 * WAL_BYTES + IMAGE_SPARE_BYTES);
        let fresh = sweep("fresh_copy = true\n[points]\nscale = 10\nscript = \"tpcb-like\"\n").unwrap();
        assert_eq!(needed_bytes(&fresh).0, 2 * (160_000_000 + WAL_BYTES));
        assert!(fresh.expected_seconds_of(&fresh.point(0)) > expected_seconds(&fresh.point(0), &named("native")) + 3.0);
        let read_only = sweep("[points]\nscale = 10\n[settings]\nmax_wal_size = \"8GB\"\n").unwrap();
        assert_eq!(needed_bytes(&read_only).0, 3 * 160_000_000 + FIRST_WAL_BYTES);
        assert_eq!(parse_wal_size("64"), Some(64 << 20));
        assert_eq!(parse_wal_size("1.5GB"), Some(1536 << 20));
        assert_eq!([parse_wal_size("a lot"), parse_wal_size("16000000TB"), parse_wal_size("-1")], [None; 3]);
    }

    #[test]
    fn time_left_learns_from_what_trials_took() {
        let mut left = TimeLeft::default();
        assert_eq!(left.left(10.0), Duration::from_secs(10));
        left.learn(5.0, Duration::from_secs(10));
        assert_eq!(left.left(10.0), Duration::from_secs(20));
        assert_eq!(left.left(1e300), Duration::from_secs(1_000_000_000));
        assert_eq!(left.left(f64::NAN), Duration::ZERO);
    }
}
