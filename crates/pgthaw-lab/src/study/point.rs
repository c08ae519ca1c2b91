use std::path::Path;

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr, VariantNames};

use crate::JsonSchema;
use host::units::{Bytes, counted};
use model::Facts;
use pgbench::QueryMode;

/// A value for each axis.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    pub scale: u32,
    pub clients: u32,
    /// pgbench's threads.
    pub jobs: u32,
    /// `select-only`, or `insert.sql@1 + select-only@9` with weights.
    pub script: String,
    /// Transactions per second. `None` is unlimited.
    pub rate: Option<f64>,
    pub query_mode: QueryMode,
    /// Length of the trial. `None` if a number of transactions ends it.
    pub seconds: Option<u32>,
    /// Transactions of each client, if they end the trial.
    pub transactions: Option<u32>,
    /// Transactions of all clients together, if they end the trial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_transactions: Option<u32>,
    pub start: StartAsked,
    /// `native`, or a disk of the study.
    pub disk: String,
    pub file_system: String,
    /// `default`, a major version, or a name from the study file.
    pub server: String,
    /// A transaction above this latency counts as late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_limit_ms: Option<f64>,
    /// Name of the warmer or job, or `nothing`.
    pub strategy: String,
    pub load_begins: LoadBegins,
    /// `default`, or a database of the study.
    pub database: String,
    /// Memory limit of the server, including shared memory and page cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Bytes>,
    /// Devices of the cluster's parts (WAL, pg_xact, tables, indexes): `together` for a single device, or a name from
    /// the study file.
    pub places: String,
    /// One connection per transaction (`pgbench -C`). Only in imports: pgthaw can track only persistent
    /// connections.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub connect: bool,
    /// pgbench's variables, as pairs of name and value.
    pub variables: Vec<(String, String)>,
    /// Settings of the server, as pairs of name and value.
    pub settings: Vec<(String, String)>,
    /// `A` or `A'` if each point is measured twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub side: Option<String>,
}

pub const NATIVE: &str = "native";

pub const TOGETHER: &str = "together";

pub const DEFAULT_SERVER: &str = "default";

pub const DEFAULT_DATABASE: &str = "default";

/// Renders exact sizes, so that no two look alike: `1GB`, `1536MB`.
fn render_memory(memory: Bytes) -> String {
    let units = [("GB", 1 << 30), ("MB", 1 << 20), ("kB", 1 << 10), (" bytes", 1)];
    let (unit, bytes) = units.into_iter().find(|(_, bytes)| memory.0.is_multiple_of(*bytes)).unwrap_or((" bytes", 1));
    format!("{}{unit}", memory.0 / bytes)
}

pub struct FixedAxis {
    pub name: &'static str,
    pick: fn(&mut Point, &Axes, &mut Picker),
    /// The point's value on this axis, as in a study file; `None` if the point has no such value.
    value: fn(&Point) -> Option<String>,
}

macro_rules! axes {
    ($($name:ident: $values:ty, $value:expr;)+) => {
        /// The slowest-changing axis comes first. Axes of variables and settings follow.
        pub const FIXED_AXES: &[FixedAxis] = &[$(FixedAxis {
            name: stringify!($name),
            pick: |p, axes, one| p.$name = one.of(&axes.$name),
            value: $value,
        }),+];

        /// No list is empty.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        pub struct Axes {
            $(pub $name: Vec<$values>,)+
            pub variables: Vec<(String, Vec<String>)>,
            pub settings: Vec<(String, Vec<String>)>,
            pub is_twice: bool,
        }
    };
}

axes! {
    scale: u32, |p| Some(p.scale.to_string());
    clients: u32, |p| Some(p.clients.to_string());
    jobs: u32, |p| Some(p.jobs.to_string());
    script: String, |p| Some(p.script.clone());
    rate: Option<f64>, |p| Some(render_or(UNLIMITED, p.rate));
    // Only one of these three axes has values. The others have one `None`.
    seconds: Option<u32>, |p| p.seconds.map(|it| it.to_string());
    transactions: Option<u32>, |p| p.transactions.map(|it| it.to_string());
    total_transactions: Option<u32>, |p| p.total_transactions.map(|it| it.to_string());
    start: StartAsked, |p| Some(p.start.to_string());
    disk: String, |p| Some(p.disk.clone());
    file_system: String, |p| Some(p.file_system.clone());
    server: String, |p| Some(p.server.clone());
    latency_limit_ms: Option<f64>, |p| Some(render_or(NO_LIMIT, p.latency_limit_ms));
    strategy: String, |p| Some(p.strategy.clone());
    database: String, |p| Some(p.database.clone());
    query_mode: QueryMode, |p| Some(p.query_mode.to_string());
    memory: Option<Bytes>, |p| Some(render_or(NO_LIMIT, p.memory.map(render_memory)));
    places: String, |p| Some(p.places.clone());
    load_begins: LoadBegins, |p| Some(p.load_begins.to_string());
}

pub const UNLIMITED: &str = "unlimited";
pub const NO_LIMIT: &str = "none";

fn render_or(word: &str, value: Option<impl ToString>) -> String {
    value.map_or_else(|| word.to_owned(), |value| value.to_string())
}

/// Splits a point's number into one index per axis, the fastest-changing axis first.
struct Picker {
    rest: u128,
    lengths: Vec<usize>,
}

impl Picker {
    fn of<T: Clone + Default>(&mut self, values: &[T]) -> T {
        self.lengths.push(values.len());
        // A study edited by hand may have an empty axis.
        let length = (values.len() as u128).max(1);
        let place = (self.rest % length) as usize;
        self.rest /= length;
        values.get(place).cloned().unwrap_or_default()
    }
}

pub const CONNECT: &str = "connect";

pub const SIDE: &str = "side";

pub const STRATEGY: &str = "strategy";
pub const SIDES: [&str; 2] = ["A", "A'"];

pub const LENGTH_AXES: [&str; 3] = ["seconds", "transactions", "total_transactions"];

impl Axes {
    /// Saturates: with many axes the product may overflow.
    pub fn count(&self) -> u128 {
        let lengths = self.pick(0).1.into_iter();
        lengths.fold(1, |product: u128, length| product.saturating_mul(length as u128))
    }

    pub fn strategies(&self) -> impl Iterator<Item = Strategy> {
        self.strategy.iter().filter_map(|name| name.parse().ok())
    }

    /// `number` is below [`Axes::count`].
    pub fn point(&self, number: u128) -> Point {
        self.pick(number).0
    }

    /// Returns a point, and the axes' lengths, the fastest-changing axis first.
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

    pub fn varied(&self) -> Vec<String> {
        let named = self.variables.iter().chain(&self.settings).map(|(name, _)| name.as_str());
        let names = FIXED_AXES.iter().map(|axis| axis.name).chain(named).chain([SIDE]);
        let lengths = self.pick(0).1.into_iter().rev();
        names.zip(lengths).filter(|(_, length)| *length > 1).map(|(name, _)| name.to_owned()).collect()
    }
}

impl Point {
    pub fn strategy(&self) -> Strategy {
        self.strategy.parse().unwrap_or(Strategy::Nothing)
    }

    pub fn transactions_of_client(&self) -> Option<u32> {
        self.transactions.or(self.total_transactions.map(|total| total / self.clients.max(1)))
    }

    pub fn script_name(&self) -> String {
        let path = Path::new(&self.script);
        path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
    }

    pub fn facts(&self, is_own_script: bool) -> Facts {
        Facts {
            clients: Some(self.clients),
            scale: Some(self.scale),
            is_own_script,
            has_warmer: self.strategy() != Strategy::Nothing,
            ..Facts::default()
        }
    }

    pub fn value(&self, axis: &str) -> Option<String> {
        if let Some(fixed) = FIXED_AXES.iter().find(|fixed| fixed.name == axis) {
            return (fixed.value)(self);
        }
        if axis == SIDE {
            return self.side.clone();
        }
        let value = self.variables.iter().chain(&self.settings).find(|(known, _)| known == axis);
        value.map(|(_, value)| value.clone()).or_else(|| (axis == CONNECT).then(|| self.connect.to_string()))
    }

    pub fn values(&self) -> Vec<(String, String)> {
        let fixed = FIXED_AXES.iter().filter_map(|axis| Some((axis.name.to_owned(), (axis.value)(self)?)));
        let side = self.side.clone().map(|side| (SIDE.to_owned(), side));
        fixed.chain(self.variables.iter().chain(&self.settings).cloned()).chain(side).collect()
    }

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

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[derive(Serialize, Deserialize, Display, EnumString, VariantNames, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum StartAsked {
    /// The server is stopped, its files are evicted, and it is started.
    Cold,
    /// Everything is read, then the workload runs for some seconds.
    #[default]
    Warm,
    /// Cold, then a complete `pgthaw restore` of a snapshot of the warm state.
    Restored,
    /// The state that the previous trial left.
    AsIs,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[derive(Serialize, Deserialize, Display, EnumString, VariantNames, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum LoadBegins {
    /// At the same time as the warmer.
    #[default]
    AtOnce,
    /// After the warmer ended.
    AfterWarmer,
}

/// Event that ends a trial early. The trial's seconds are then an upper limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, EnumString)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Until {
    Steady,
    /// The page cache contains all pages of the snapshot. No load runs in the trial.
    Resident,
}

pub const PGTHAW: &str = "pgthaw";

pub const NOTHING: &str = "nothing";

/// A warmer, or the study's job. Tables list strategies in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum Strategy {
    Nothing,
    /// `SELECT avg(abalance) FROM pgbench_accounts`. Reads no index.
    Seqscan,
    Cat,
    /// `vmtouch -t` of the database's directory.
    Vmtouch,
    /// pg_prewarm of every relation, through one connection.
    #[strum(serialize = "pg_prewarm-read")]
    PrewarmRead,
    #[strum(serialize = "pg_prewarm-buffer")]
    PrewarmBuffer,
    #[strum(serialize = "pg_prewarm-prefetch")]
    PrewarmPrefetch,
    Autoprewarm,
    Pgfincore,
    Pgthaw,
    PgthawGentle,
    PgthawFullSpeed,
    /// `pgthaw restore --tier os`.
    PgthawOs,
    /// One read for each range of the snapshot, by 16 threads.
    #[strum(serialize = "one-read-per-range")]
    Ranges,
    /// io_uring, sequential, through the page cache.
    FioBuffered,
    /// io_uring, sequential, with O_DIRECT: the device's maximum. It caches nothing.
    FioDirect,
    Job,
    /// The job under `pgthaw run --like`.
    Run,
    /// The job under `pgthaw run --like --protect=isolate`.
    Isolate,
    /// The job under `pgthaw run --film`.
    Replay,
}

host::named!(Strategy);

impl Strategy {
    pub fn warms(self) -> bool {
        self != Strategy::Nothing && !self.runs_job()
    }

    pub fn runs_job(self) -> bool {
        self == Strategy::Job || self.reads_film()
    }

    pub fn reads_film(self) -> bool {
        matches!(self, Strategy::Run | Strategy::Isolate | Strategy::Replay)
    }

    pub fn fills_cache(self) -> bool {
        self != Strategy::FioDirect
    }

    pub fn is_fio(self) -> bool {
        matches!(self, Strategy::FioBuffered | Strategy::FioDirect)
    }

    pub fn fills_buffers(self) -> bool {
        matches!(self, Strategy::Pgthaw | Strategy::PgthawGentle | Strategy::PgthawFullSpeed)
    }

    pub fn reads_snapshot(self) -> bool {
        self.fills_buffers() || self.is_fio() || matches!(self, Strategy::PgthawOs | Strategy::Ranges)
    }

    /// Promised minimum throughput in every second, as a share of the throughput with the strategy `nothing`.
    pub fn floor(self) -> Option<f64> {
        match self {
            Strategy::Pgthaw => Some(0.3),
            Strategy::PgthawGentle => Some(0.8),
            _ => None,
        }
    }

    /// Whether the strategy's SQL scans relations, so that io workers (PostgreSQL 18) read for it.
    pub fn scans_in_server(self) -> bool {
        use Strategy::{Autoprewarm, PrewarmBuffer, PrewarmPrefetch, PrewarmRead, Seqscan};

        matches!(self, Seqscan | PrewarmRead | PrewarmBuffer | PrewarmPrefetch | Autoprewarm) || self.runs_job()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    pub point: u32,
    /// From 1.
    pub repeat: u32,
    /// From 1.
    pub position: u32,
}

#[cfg(test)]
pub mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

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
        #[test]
        fn every_combination_has_one_number(lengths in prop::array::uniform12(1usize..4)) {
            prop_assume!(lengths.iter().product::<usize>() < 3000);
            let axes = axes(lengths);
            let count = axes.count();
            prop_assert_eq!(count, lengths.iter().product::<usize>() as u128);
            let seen: HashSet<String> = (0..count).map(|number| format!("{:?}", axes.point(number))).collect();
            prop_assert_eq!(seen.len() as u128, count);
        }

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
