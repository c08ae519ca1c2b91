//! The points of a sweep: every combination of what its axes name, computed one by one from its number.

use std::path::Path;

use rand::SeedableRng as _;
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr, VariantNames};

use host::units::{Bytes, counted};
use model::Facts;
use pgbench::QueryMode;

/// What is measured: one combination of parameters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Point {
    pub scale: u32,
    pub clients: u32,
    pub jobs: u32,
    /// As the study file has it: `select-only`, or `insert.sql@1 + select-only@9` of several with weights.
    pub script: String,
    /// Transactions per second that are asked for; `None`: as fast as it goes.
    pub rate: Option<f64>,
    /// How clients hand their statements to the server.
    pub query_mode: QueryMode,
    /// How long a trial lasts: so many seconds, or so many transactions of each client.
    pub seconds: Option<u32>,
    pub transactions: Option<u32>,
    /// Or so many transactions of all clients together, of which each has the same share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_transactions: Option<u32>,
    pub start: StartAsked,
    pub disk: String,
    /// Where the cluster lies: `native`, or one that is made for it.
    pub file_system: String,
    /// Whose programs the server is: `default`, a major version, or a name of the study file.
    pub server: String,
    /// Above it a transaction is late; `None`: none is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_limit_ms: Option<f64>,
    /// What warms the cold server beside the load, by its name ([`crate::study::Strategy`]).
    pub strategy: String,
    pub load_begins: LoadBegins,
    /// How its database was made: `default`, or a name of the study file.
    pub database: String,
    /// Of the server in a trial, shared memory and page cache included; `None` is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Bytes>,
    /// Which of its parts lie on devices of their own: `together` has none, another is a name of the study file.
    pub places: String,
    /// Did each transaction have a connection of its own (`pgbench -C`)? Of what was imported alone: pgthaw follows connections that
    /// stay.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub connect: bool,
    /// The scripts' variables, and the server's settings, by name.
    pub variables: Vec<(String, String)>,
    pub settings: Vec<(String, String)>,
    /// Of a study that measures each point twice: which of the two this is, `A` or `A'`. Nothing else tells them apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub side: Option<String>,
}

/// The file system of the directory that the study is made in.
pub const NATIVE: &str = "native";

/// The places of a server that lies on one device as a whole.
pub const TOGETHER: &str = "together";

/// The programs that are found without being asked for.
pub const DEFAULT_SERVER: &str = "default";

/// The database of `[database]`.
pub const DEFAULT_DATABASE: &str = "default";

/// Exactly, so that no two sizes look alike: `1GB`, `1536MB`.
fn render_memory(memory: Bytes) -> String {
    let units = [("GB", 1 << 30), ("MB", 1 << 20), ("kB", 1 << 10), (" bytes", 1)];
    let (unit, bytes) = units.into_iter().find(|(_, bytes)| memory.0.is_multiple_of(*bytes)).unwrap_or((" bytes", 1));
    format!("{}{unit}", memory.0 / bytes)
}

/// An axis that every study has, whatever it varies.
pub struct FixedAxis {
    pub name: &'static str,
    /// Gives a point one of the values that the study names.
    pick: fn(&mut Point, &Axes, &mut Picker),
    /// A point's value, as the study file would have it; `None` where the study has no such axis.
    value: fn(&Point) -> Option<String>,
}

/// The axis of the fields of this name.
macro_rules! axis {
    ($name:ident, $value:expr) => {
        FixedAxis { name: stringify!($name), pick: |p, axes, one| p.$name = one.of(&axes.$name), value: $value }
    };
}

/// Those axes, the slowest first; variables and settings come after them.
pub static FIXED_AXES: [FixedAxis; 19] = [
    axis!(scale, |p| Some(p.scale.to_string())),
    axis!(clients, |p| Some(p.clients.to_string())),
    axis!(jobs, |p| Some(p.jobs.to_string())),
    axis!(script, |p| Some(p.script.clone())),
    axis!(rate, |p| Some(render_or(UNLIMITED, p.rate))),
    axis!(seconds, |p| p.seconds.map(|it| it.to_string())),
    axis!(transactions, |p| p.transactions.map(|it| it.to_string())),
    axis!(total_transactions, |p| p.total_transactions.map(|it| it.to_string())),
    axis!(start, |p| Some(p.start.to_string())),
    axis!(disk, |p| Some(p.disk.clone())),
    axis!(file_system, |p| Some(p.file_system.clone())),
    axis!(server, |p| Some(p.server.clone())),
    axis!(latency_limit_ms, |p| Some(render_or(NO_LIMIT, p.latency_limit_ms))),
    axis!(strategy, |p| Some(p.strategy.clone())),
    axis!(database, |p| Some(p.database.clone())),
    axis!(query_mode, |p| Some(p.query_mode.to_string())),
    axis!(memory, |p| Some(render_or(NO_LIMIT, p.memory.map(render_memory)))),
    axis!(places, |p| Some(p.places.clone())),
    axis!(load_begins, |p| Some(p.load_begins.to_string())),
];

/// The words of the study file for a rate and for a limit that there is not.
pub const UNLIMITED: &str = "unlimited";
pub const NO_LIMIT: &str = "none";

fn render_or(word: &str, value: Option<impl ToString>) -> String {
    value.map_or_else(|| word.to_owned(), |value| value.to_string())
}

/// Takes a point's number apart into a place on each axis, the fastest first.
struct Picker {
    rest: u128,
    /// How many values each axis had.
    lengths: Vec<usize>,
}

impl Picker {
    fn of<T: Clone + Default>(&mut self, values: &[T]) -> T {
        self.lengths.push(values.len());
        // Somebody's edit of a stored study may have left an axis without a value.
        let length = (values.len() as u128).max(1);
        let place = (self.rest % length) as usize;
        self.rest /= length;
        values.get(place).cloned().unwrap_or_default()
    }
}

/// The axis of points whose transactions connect anew, of what was imported.
pub const CONNECT: &str = "connect";

/// The axis of points that are measured twice, and its values.
pub const SIDE: &str = "side";

/// The axis of warmers.
pub const STRATEGY: &str = "strategy";
pub const SIDES: [&str; 2] = ["A", "A'"];

/// What each axis names; none is empty.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Axes {
    pub scale: Vec<u32>,
    pub clients: Vec<u32>,
    pub jobs: Vec<u32>,
    pub script: Vec<String>,
    pub rate: Vec<Option<f64>>,
    /// One of the three has values, which say how long trials last; the others have one `None`.
    pub seconds: Vec<Option<u32>>,
    pub transactions: Vec<Option<u32>>,
    pub total_transactions: Vec<Option<u32>>,
    pub start: Vec<StartAsked>,
    pub disk: Vec<String>,
    pub file_system: Vec<String>,
    pub server: Vec<String>,
    pub latency_limit_ms: Vec<Option<f64>>,
    pub strategy: Vec<String>,
    pub database: Vec<String>,
    pub query_mode: Vec<QueryMode>,
    pub memory: Vec<Option<Bytes>>,
    pub places: Vec<String>,
    pub load_begins: Vec<LoadBegins>,
    pub variables: Vec<(String, Vec<String>)>,
    pub settings: Vec<(String, Vec<String>)>,
    /// Is each point there twice, as [`SIDES`]?
    pub is_twice: bool,
}

/// Names of the axes of which a study has one.
pub const LENGTH_AXES: [&str; 3] = ["seconds", "transactions", "total_transactions"];

impl Axes {
    /// The points that there are. No product of lists that fit into memory's address space comes near the type's end
    /// with few axes; with many it may, and is then as many as the type holds.
    pub fn count(&self) -> u128 {
        let lengths = self.pick(0).1.into_iter();
        lengths.fold(1, |product: u128, length| product.saturating_mul(length as u128))
    }

    /// What is at work beside the loads.
    pub fn strategies(&self) -> impl Iterator<Item = Strategy> {
        // Every name was looked up when the file was read.
        self.strategy.iter().filter_map(|name| name.parse().ok())
    }

    /// The point with this number, below [`Axes::count`]. The last axis changes fastest, so that it is read first.
    pub fn point(&self, number: u128) -> Point {
        self.pick(number).0
    }

    /// The same, and how many values each axis has, the fastest first.
    fn pick(&self, number: u128) -> (Point, Vec<usize>) {
        let (mut point, mut one) = (Point::default(), Picker { rest: number, lengths: Vec::new() });
        let sides = if self.is_twice { SIDES.map(|side| Some(side.to_owned())).to_vec() } else { vec![None] };
        point.side = one.of(&sides);
        for (axes, picked) in [(&self.settings, &mut point.settings), (&self.variables, &mut point.variables)] {
            picked.extend(axes.iter().rev().map(|(name, values)| (name.clone(), one.of(values))));
            picked.reverse();
        }
        FIXED_AXES.iter().rev().for_each(|axis| (axis.pick)(&mut point, self, &mut one));
        (point, one.lengths)
    }

    /// Names of the axes with more than one value: by these the points differ.
    pub fn varied(&self) -> Vec<String> {
        let named = self.variables.iter().chain(&self.settings).map(|(name, _)| name.as_str());
        let names = FIXED_AXES.iter().map(|axis| axis.name).chain(named).chain([SIDE]);
        let lengths = self.pick(0).1.into_iter().rev();
        names.zip(lengths).filter(|(_, length)| *length > 1).map(|(name, _)| name.to_owned()).collect()
    }
}

impl Point {
    /// What warms the cold server beside the load.
    pub fn strategy(&self) -> Strategy {
        self.strategy.parse().unwrap_or(Strategy::Nothing)
    }

    /// Transactions of each client; `None` where the seconds end a trial.
    pub fn transactions_of_client(&self) -> Option<u32> {
        self.transactions.or(self.total_transactions.map(|total| total / self.clients.max(1)))
    }

    /// The script without the directories of a file.
    pub fn script_name(&self) -> String {
        let path = Path::new(&self.script);
        path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
    }

    /// What judges of its curve have to know.
    pub fn facts(&self, is_own_script: bool) -> Facts {
        Facts {
            clients: Some(self.clients),
            scale: Some(self.scale),
            is_own_script,
            has_warmer: self.strategy() != Strategy::Nothing,
            ..Facts::default()
        }
    }

    /// The value on an axis, as the study file would have it; `None` when there is no such axis.
    pub fn value(&self, axis: &str) -> Option<String> {
        if let Some(fixed) = FIXED_AXES.iter().find(|fixed| fixed.name == axis) {
            return (fixed.value)(self);
        }
        if axis == SIDE {
            return self.side.clone();
        }
        let mut named = self.variables.iter().chain(&self.settings);
        let value = named.find(|(known, _)| known == axis).map(|(_, value)| value.clone());
        value.or_else(|| (axis == CONNECT).then(|| self.connect.to_string()))
    }

    /// Every axis with its value.
    pub fn values(&self) -> Vec<(String, String)> {
        let fixed = FIXED_AXES.iter().filter_map(|axis| Some((axis.name.to_owned(), (axis.value)(self)?)));
        let side = self.side.clone().map(|side| (SIDE.to_owned(), side));
        fixed.chain(self.variables.iter().chain(&self.settings).cloned()).chain(side).collect()
    }

    /// `scale 10, clients 4`: the point by these axes; what it is when there are none.
    pub fn render(&self, axes: &[String]) -> String {
        if axes.is_empty() {
            let warmer = if self.strategy == NOTHING { String::new() } else { format!(", {}", self.strategy) };
            return format!("{}, scale {}, {}{warmer}", self.script, self.scale, counted(self.clients, "client"));
        }
        if axes == [STRATEGY] {
            return self.strategy.clone();
        }
        let parts = axes.iter().filter_map(|axis| Some(format!("{axis} {}", self.value(axis)?)));
        parts.collect::<Vec<_>>().join(", ")
    }
}

// ---- values of axes ----

/// The state in which a trial is asked to start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Display, EnumString, VariantNames)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum StartAsked {
    /// The server stopped, the cluster's files out of the page cache, the server started.
    Cold,
    /// Everything read, then some seconds of the workload.
    #[default]
    Warm,
    /// Cold, then `pgthaw restore` of a snapshot of the warm state, to its end.
    Restored,
    /// As the trial before has left it.
    AsIs,
}

/// When the load of a trial begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Display, EnumString, VariantNames)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum LoadBegins {
    /// At the start, beside what warms the server.
    #[default]
    AtOnce,
    /// When what warms the server has ended.
    AfterWarmer,
}

/// What ends a trial before its seconds are over, which are the most that it may last then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, EnumString)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Until {
    /// The verdict over it is steady.
    Steady,
    /// What is wanted is resident. No load runs meanwhile: it is the one that made the warm state.
    Resident,
}

/// The strategy that the sentence is about, when it took part.
pub const PGTHAW: &str = "pgthaw";

/// The strategy that every other one is compared with: no warming at all.
pub const NOTHING: &str = "nothing";

/// What is at work beside the load: a way to get a cold server warm, or the study's job. Each is what a DBA would do, as the
/// DBA would type it. In the order in which people read about them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum Strategy {
    /// The workload warms itself.
    Nothing,
    /// `SELECT avg(abalance) FROM pgbench_accounts`: what people do first. It reads no index.
    Seqscan,
    /// `cat` of the database's files.
    Cat,
    /// `vmtouch -t` of the database's directory.
    Vmtouch,
    /// pg_prewarm of every relation, through one connection, in one of its modes.
    #[strum(serialize = "pg_prewarm-read")]
    PrewarmRead,
    #[strum(serialize = "pg_prewarm-buffer")]
    PrewarmBuffer,
    #[strum(serialize = "pg_prewarm-prefetch")]
    PrewarmPrefetch,
    /// pg_prewarm's own background worker: loads what was in shared_buffers, from the server's start on.
    Autoprewarm,
    /// pgfincore's snapshot of the page cache, through its loader.
    Pgfincore,
    /// `pgthaw restore`, in one of its modes.
    Pgthaw,
    PgthawGentle,
    PgthawFullSpeed,
    /// `pgthaw restore --tier os`.
    PgthawOs,
    /// A read for every range of the snapshot, by 16 threads.
    #[strum(serialize = "one-read-per-range")]
    Ranges,
    /// fio, io_uring, in order through the page cache.
    FioBuffered,
    /// fio, io_uring, in order past it: it leaves nothing there, and is what the device can give.
    FioDirect,
    /// The study's job, by itself.
    Job,
    /// The job under `pgthaw run --like`.
    Run,
    /// The job under `pgthaw run --like --protect=isolate`.
    Isolate,
    /// The job under `pgthaw run --film`.
    Replay,
}

impl Strategy {
    /// The name for the command line, for results and for tables.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Is it meant to warm the server?
    pub fn warms(self) -> bool {
        self != Strategy::Nothing && !self.runs_job()
    }

    /// Does it run the study's job?
    pub fn runs_job(self) -> bool {
        self == Strategy::Job || self.reads_film()
    }

    /// Does it go by a film of the job?
    pub fn reads_film(self) -> bool {
        matches!(self, Strategy::Run | Strategy::Isolate | Strategy::Replay)
    }

    /// Does it leave anything in the page cache?
    pub fn fills_cache(self) -> bool {
        self != Strategy::FioDirect
    }

    /// Does it tell itself how fast it was?
    pub fn is_fio(self) -> bool {
        matches!(self, Strategy::FioBuffered | Strategy::FioDirect)
    }

    /// Does it bring shared_buffers back as they were?
    pub fn fills_buffers(self) -> bool {
        matches!(self, Strategy::Pgthaw | Strategy::PgthawGentle | Strategy::PgthawFullSpeed)
    }

    /// Does it read what a snapshot of pgthaw asks for?
    pub fn reads_snapshot(self) -> bool {
        self.fills_buffers() || self.is_fio() || matches!(self, Strategy::PgthawOs | Strategy::Ranges)
    }

    /// The share of the transactions of `nothing` that it leaves to the traffic in every second; `None`: it promises
    /// nothing.
    pub fn floor(self) -> Option<f64> {
        match self {
            Strategy::Pgthaw => Some(0.3),
            Strategy::PgthawGentle => Some(0.8),
            _ => None,
        }
    }

    /// Does its SQL scan relations, so that io workers (PostgreSQL 18) read for it?
    pub fn scans_in_server(self) -> bool {
        use Strategy::{Autoprewarm, PrewarmBuffer, PrewarmPrefetch, PrewarmRead, Seqscan};

        matches!(self, Seqscan | PrewarmRead | PrewarmBuffer | PrewarmPrefetch | Autoprewarm) || self.runs_job()
    }
}

// ---- the order of the trials ----

/// One trial to come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn<P> {
    pub point: P,
    /// From 1.
    pub repeat: u32,
    /// From 1.
    pub position: u32,
}

/// All trials in their order. The same seed gives the same order.
pub fn plan_order<P: Clone>(points: &[P], repeats: u32, seed: u64) -> Vec<Turn<P>> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut turns = Vec::new();
    for repeat in 1..=repeats {
        let mut block = points.to_vec();
        block.shuffle(&mut random);
        turns.extend(block.into_iter().map(|point| (point, repeat)));
    }
    (1..).zip(turns).map(|(position, (point, repeat))| Turn { point, repeat, position }).collect()
}

#[cfg(test)]
pub mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    /// Axes with so many values each.
    pub fn axes(lengths: [usize; 12]) -> Axes {
        let numbers = |length: usize| (1..=length as u32).collect::<Vec<_>>();
        let names = |length: usize| (1..=length).map(|number| format!("v{number}")).collect::<Vec<_>>();
        let starts = [StartAsked::Cold, StartAsked::Warm, StartAsked::Restored, StartAsked::AsIs];
        Axes {
            scale: numbers(lengths[0]),
            clients: numbers(lengths[1]),
            jobs: numbers(lengths[2]),
            script: names(lengths[3]),
            rate: numbers(lengths[4]).into_iter().map(|rate| Some(f64::from(rate))).collect(),
            seconds: numbers(lengths[5]).into_iter().map(Some).collect(),
            transactions: vec![None],
            total_transactions: vec![None],
            start: starts[..lengths[6]].to_vec(),
            disk: names(lengths[7]),
            file_system: names(lengths[10]),
            server: names(lengths[11]),
            latency_limit_ms: vec![None],
            strategy: vec![NOTHING.to_owned()],
            database: vec![DEFAULT_DATABASE.to_owned()],
            query_mode: vec![QueryMode::Prepared],
            memory: vec![None],
            places: vec![TOGETHER.to_owned()],
            load_begins: vec![LoadBegins::AtOnce],
            variables: vec![("rows".into(), names(lengths[8]))],
            settings: vec![("work_mem".into(), names(lengths[9]))],
            is_twice: false,
        }
    }

    #[test]
    fn the_last_axis_changes_fastest() {
        let axes = axes([2, 1, 1, 1, 1, 1, 1, 1, 1, 3, 1, 1]);
        let seen = |number| axes.point(number).render(&axes.varied());
        assert_eq!(seen(0), "scale 1, work_mem v1");
        assert_eq!(seen(2), "scale 1, work_mem v3");
        assert_eq!(seen(3), "scale 2, work_mem v1");
        assert_eq!(axes.count(), 6);
    }

    #[test]
    fn a_point_that_is_there_twice_is_told_apart_by_its_side_alone() {
        let axes = Axes { is_twice: true, ..axes([2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]) };
        let seen = |number| axes.point(number).render(&axes.varied());
        assert_eq!(
            [0, 1, 2, 3].map(seen),
            ["scale 1, side A", "scale 1, side A'", "scale 2, side A", "scale 2, side A'"]
        );
        assert_eq!(axes.count(), 4);
        assert_eq!(Point { side: None, ..axes.point(1) }, Point { side: None, ..axes.point(0) });
    }

    #[test]
    fn a_single_point_has_a_name_too() {
        let axes = axes([1; 12]);
        assert_eq!(axes.point(0).render(&axes.varied()), "v1, scale 1, 1 client");
    }

    #[test]
    fn what_is_without_a_limit_is_found_by_the_word_of_the_study_file() {
        let axes = Axes { rate: vec![None], latency_limit_ms: vec![None, Some(50.0)], ..axes([1; 12]) };
        let limits = [0, 1].map(|number| axes.point(number).value("latency_limit_ms").unwrap());
        assert_eq!((limits, axes.point(0).value("rate").unwrap()), (["none".into(), "50".into()], "unlimited".into()));
        assert_eq!(axes.point(0).render(&axes.varied()), "latency_limit_ms none");
    }

    #[test]
    fn memory_is_told_to_the_byte() {
        let of = |bytes| render_memory(Bytes(bytes));
        assert_eq!([1 << 30, 1536 << 20, 5 << 10, 1025].map(of), ["1GB", "1536MB", "5kB", "1025 bytes"]);
    }

    #[test]
    fn more_points_than_the_type_holds_are_many() {
        let many = Axes { settings: vec![("a".into(), vec!["v".into(); 1000]); 60], ..axes([1; 12]) };
        assert_eq!(many.count(), u128::MAX);
    }

    proptest! {
        /// Every combination is there, each once.
        #[test]
        fn every_combination_has_one_number(lengths in prop::array::uniform12(1usize..4)) {
            prop_assume!(lengths.iter().product::<usize>() < 3000);
            let axes = axes(lengths);
            let count = axes.count();
            prop_assert_eq!(count, lengths.iter().product::<usize>() as u128);
            let seen: HashSet<String> = (0..count).map(|number| format!("{:?}", axes.point(number))).collect();
            prop_assert_eq!(seen.len() as u128, count);
        }

        /// A point says of itself what its axes are made of.
        #[test]
        fn a_point_tells_its_values(number in 0u128..4096) {
            let axes = axes([2; 12]);
            let point = axes.point(number);
            for (axis, value) in point.values() {
                prop_assert_eq!(point.value(&axis), Some(value));
            }
            prop_assert_eq!(axes.varied().len(), 12);
        }
    }
}

#[cfg(test)]
mod strategy_tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for name in Strategy::VARIANTS {
            assert_eq!(name.parse().map(Strategy::name), Ok(*name));
        }
        assert!("dd".parse::<Strategy>().is_err());
    }
}

#[cfg(test)]
mod order_tests {
    use std::collections::BTreeSet;

    use super::*;

    const STRATEGIES: [&str; 5] = ["nothing", "cat", "vmtouch", "seqscan", "pgthaw"];

    #[test]
    fn every_block_holds_each_point_once() {
        let turns = plan_order(&STRATEGIES, 4, 7);
        for (index, block) in turns.chunks(STRATEGIES.len()).enumerate() {
            let names: BTreeSet<&str> = block.iter().map(|turn| turn.point).collect();
            assert_eq!(names, BTreeSet::from(STRATEGIES));
            assert!(block.iter().all(|turn| turn.repeat as usize == index + 1));
        }
        let positions: Vec<u32> = turns.iter().map(|turn| turn.position).collect();
        assert_eq!(positions, (1..=20).collect::<Vec<u32>>());
    }

    #[test]
    fn the_seed_decides() {
        assert_eq!(plan_order(&STRATEGIES, 3, 1), plan_order(&STRATEGIES, 3, 1));
        assert_ne!(plan_order(&STRATEGIES, 3, 1), plan_order(&STRATEGIES, 3, 2));
    }
}
