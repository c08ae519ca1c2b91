//! The points of a sweep: every combination of what its axes name, computed one by one from its number.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::start::{LoadBegins, StartAsked};
use crate::study::strategy::{NOTHING, Strategy};
use host::units::{Bytes, counted};
use model::Facts;
use pgbench::QueryMode;

/// What is measured: one combination of parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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

/// Names of the axes that every study has, whatever it varies; variables and settings come after them.
pub const FIXED_AXES: [&str; 19] = [
    "scale",
    "clients",
    "jobs",
    "script",
    "rate",
    "seconds",
    "transactions",
    "total_transactions",
    "start",
    "disk",
    "file_system",
    "server",
    "latency_limit_ms",
    "strategy",
    "database",
    "query_mode",
    "memory",
    "places",
    "load_begins",
];

/// The axis of points whose transactions connect anew, of what was imported.
pub const CONNECT: &str = "connect";

/// The axis of points that are measured twice, and its values.
pub const SIDE: &str = "side";

/// The axis of warmers.
pub const STRATEGY: &str = "strategy";
pub const SIDES: [&str; 2] = ["A", "A'"];

/// What each axis names; none is empty.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Axes {
    pub scale: Vec<u32>,
    pub clients: Vec<u32>,
    pub jobs: Vec<u32>,
    pub script: Vec<String>,
    pub rate: Vec<Option<f64>>,
    pub length: AxisLength,
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

/// How long trials last: one of them for all points.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AxisLength {
    Seconds(Vec<u32>),
    Transactions(Vec<u32>),
    TotalTransactions(Vec<u32>),
}

impl AxisLength {
    fn values(&self) -> &[u32] {
        match self {
            AxisLength::Seconds(values) | AxisLength::Transactions(values) | AxisLength::TotalTransactions(values) => {
                values
            }
        }
    }

    fn name(&self) -> &'static str {
        match self {
            AxisLength::Seconds(_) => "seconds",
            AxisLength::Transactions(_) => "transactions",
            AxisLength::TotalTransactions(_) => "total_transactions",
        }
    }
}

impl Axes {
    /// The points that there are. No product of lists that fit into memory's address space comes near the type's end
    /// with few axes; with many it may, and is then as many as the type holds.
    pub fn count(&self) -> u128 {
        self.lengths().into_iter().fold(1, |product: u128, length| product.saturating_mul(length as u128))
    }

    /// What is at work beside the loads.
    pub fn strategies(&self) -> impl Iterator<Item = Strategy> {
        // Every name was looked up when the file was read.
        self.strategy.iter().filter_map(|name| Strategy::named(name))
    }

    /// The point with this number, below [`Axes::count`]. The last axis changes fastest.
    pub fn point(&self, number: u128) -> Point {
        let mut places = Vec::new();
        let mut rest = number;
        for length in self.lengths().into_iter().rev() {
            places.push((rest % length as u128) as usize);
            rest /= length as u128;
        }
        // Taken from the end, as they were found.
        let mut place = || places.pop().unwrap_or_default();
        let (scale, clients, jobs) = (self.scale[place()], self.clients[place()], self.jobs[place()]);
        let (script, rate) = (self.script[place()].clone(), self.rate[place()]);
        let length = self.length.values()[place()];
        let (seconds, transactions, total_transactions) = match self.length {
            AxisLength::Seconds(_) => (Some(length), None, None),
            AxisLength::Transactions(_) => (None, Some(length), None),
            AxisLength::TotalTransactions(_) => (None, None, Some(length)),
        };
        let (start, disk) = (self.start[place()], self.disk[place()].clone());
        let (file_system, server) = (self.file_system[place()].clone(), self.server[place()].clone());
        let (latency_limit_ms, strategy) = (self.latency_limit_ms[place()], self.strategy[place()].clone());
        let (database, query_mode) = (self.database[place()].clone(), self.query_mode[place()]);
        let (memory, places) = (self.memory[place()], self.places[place()].clone());
        let load_begins = self.load_begins[place()];
        let mut named = |axes: &[(String, Vec<String>)]| -> Vec<(String, String)> {
            axes.iter().map(|(name, values)| (name.clone(), values[place()].clone())).collect()
        };
        let (variables, settings) = (named(&self.variables), named(&self.settings));
        let side = self.is_twice.then(|| SIDES[place()].to_owned());
        Point {
            scale,
            clients,
            jobs,
            script,
            rate,
            query_mode,
            seconds,
            transactions,
            total_transactions,
            start,
            disk,
            file_system,
            server,
            latency_limit_ms,
            strategy,
            load_begins,
            database,
            memory,
            places,
            connect: false,
            variables,
            settings,
            side,
        }
    }

    /// Names of the axes with more than one value: by these the points differ.
    pub fn varied(&self) -> Vec<String> {
        let is_here = |name: &&str| !LENGTH_AXES.contains(name) || *name == self.length.name();
        let fixed = FIXED_AXES.into_iter().filter(is_here).map(str::to_owned);
        let named = self.variables.iter().chain(&self.settings).map(|(name, _)| name.clone());
        let names = fixed.chain(named).chain([SIDE.to_owned()]);
        names.zip(self.lengths()).filter(|(_, length)| *length > 1).map(|(name, _)| name).collect()
    }

    /// How many values each axis has, the slowest first.
    fn lengths(&self) -> Vec<usize> {
        let fixed = [
            self.scale.len(),
            self.clients.len(),
            self.jobs.len(),
            self.script.len(),
            self.rate.len(),
            self.length.values().len(),
            self.start.len(),
            self.disk.len(),
            self.file_system.len(),
            self.server.len(),
            self.latency_limit_ms.len(),
            self.strategy.len(),
            self.database.len(),
            self.query_mode.len(),
            self.memory.len(),
            self.places.len(),
            self.load_begins.len(),
        ];
        let named = self.variables.iter().chain(&self.settings).map(|(_, values)| values.len());
        fixed.into_iter().chain(named).chain([if self.is_twice { SIDES.len() } else { 1 }]).collect()
    }
}

impl Point {
    /// What warms the cold server beside the load.
    pub fn strategy(&self) -> Strategy {
        Strategy::named(&self.strategy).unwrap_or(Strategy::Nothing)
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
        match axis {
            "scale" => Some(self.scale.to_string()),
            "clients" => Some(self.clients.to_string()),
            "jobs" => Some(self.jobs.to_string()),
            "script" => Some(self.script.clone()),
            "rate" => Some(self.rate.map_or("unlimited".to_owned(), |rate| rate.to_string())),
            "seconds" => self.seconds.map(|seconds| seconds.to_string()),
            "transactions" => self.transactions.map(|transactions| transactions.to_string()),
            "total_transactions" => self.total_transactions.map(|transactions| transactions.to_string()),
            "start" => Some(self.start.name().to_owned()),
            "disk" => Some(self.disk.clone()),
            "file_system" => Some(self.file_system.clone()),
            "server" => Some(self.server.clone()),
            "strategy" => Some(self.strategy.clone()),
            "database" => Some(self.database.clone()),
            "query_mode" => Some(self.query_mode.to_string()),
            "memory" => Some(self.memory.map_or("none".to_owned(), render_memory)),
            "places" => Some(self.places.clone()),
            "load_begins" => Some(self.load_begins.name().to_owned()),
            "latency_limit_ms" => Some(self.latency_limit_ms.map_or("none".to_owned(), |limit| limit.to_string())),
            SIDE => self.side.clone(),
            name => {
                let mut named = self.variables.iter().chain(&self.settings);
                let value = named.find(|(known, _)| known == name).map(|(_, value)| value.clone());
                value.or_else(|| (name == CONNECT).then(|| self.connect.to_string()))
            }
        }
    }

    /// Every axis with its value.
    pub fn values(&self) -> Vec<(String, String)> {
        let fixed = FIXED_AXES.into_iter().filter_map(|axis| Some((axis.to_owned(), self.value(axis)?)));
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
            length: AxisLength::Seconds(numbers(lengths[5])),
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
