//! Scenarios of a forecast from typed figures (`hit=0.22ms`, `riops=10000,memory=8GiB`).

use std::str::FromStr;

use serde::Serialize;

use super::{
    Device, Error, Outlook, PageClass, Popularity, Scenario, Server, Steepest, WarmUp, Warmer, Workload,
    compute_hit_seconds,
};
use host::units::{Bytes, counted};

/// Latency of a common cloud volume, if only the device's limits are known.
pub const DEFAULT_LATENCY_SECONDS: f64 = 0.5e-3;

/// PostgreSQL's default block size. The figures that users type include none.
const BLOCK_BYTES: f64 = 8192.0;

/// Minimum of `memory`: leaves a page cache beside the smallest shared_buffers (128 kB).
const MEMORY_MIN: Bytes = Bytes(1 << 20);

/// Concurrent reads of a restore, and bytes of each (docs/plan.md).
pub const RESTORE_DEPTH: u32 = 4;
const RESTORE_READ_BYTES: f64 = 262_144.0;

/// Seconds before the first read: program start, snapshot and planning.
pub const RESTORE_BEGINS_SECONDS: f64 = 0.1;

/// A restore is late if it delays half of the steady throughput by more than both this factor and this number of
/// seconds. The forecast's steps can cause smaller differences.
const LATER: f64 = 1.02;
const LATER_SECONDS: f64 = 0.05;

/// Keys that --what-if accepts, and those it refuses.
const CHANGEABLE: [&str; 7] = ["riops", "rbps", "memory", "shared_buffers", "clients", "cores", "hit"];
const WHOLE: [&str; 6] = ["pages", "miss", "tps", "accesses", "read_ahead", "popularity"];

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Numbers {
    pub text: String,
    /// Blocks of each relation. A transaction reads one block of each.
    pub pages: Vec<f64>,
    /// Seconds of a transaction: with all pages cached, and with one device read.
    pub hit: Option<f64>,
    pub miss: Option<f64>,
    pub tps: Option<f64>,
    pub clients: Option<u32>,
    pub accesses: Option<f64>,
    pub cores: Option<f64>,
    pub riops: Option<f64>,
    pub rbps: Option<Bytes>,
    /// shared_buffers and page cache together, and shared_buffers alone.
    pub memory: Option<Bytes>,
    pub shared_buffers: Option<Bytes>,
    pub read_ahead: Option<Bytes>,
    pub popularity: Option<Popularity>,
}

impl FromStr for Numbers {
    type Err = String;

    fn from_str(text: &str) -> Result<Numbers, String> {
        let mut numbers = Numbers { text: text.to_owned(), ..Numbers::default() };
        for pair in text.split(',').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').ok_or_else(|| format!("\"{pair}\" is not KEY=VALUE"))?;
            numbers.set(key.trim(), value).map_err(|problem| format!("{pair}: {problem}"))?;
        }
        if numbers.tps.is_some() && (numbers.hit.is_some() || !numbers.pages.is_empty()) {
            return Err("do not mix tps with hit or pages: give only tps (with a server), or hit and pages".to_owned());
        }
        Ok(numbers)
    }
}

impl Numbers {
    /// # Errors
    /// If a key cannot be changed.
    pub fn parse_changes(text: &str) -> Result<Numbers, String> {
        let mut keys = text.split(',').filter_map(|pair| pair.split_once('=')).map(|(key, _)| key.trim());
        if let Some(whole) = keys.find(|key| WHOLE.contains(key)) {
            return Err(format!("cannot change \"{whole}\", only {}", CHANGEABLE.join(", ")));
        }
        let changes: Numbers = text.parse()?;
        let is_any = changes != Numbers { text: text.to_owned(), ..Numbers::default() };
        is_any.then_some(changes).ok_or_else(|| "write KEY=VALUE, such as riops=10000".to_owned())
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let between = |least, most, what| parse_between(value, least, most, what).map(Some);
        let positive = |parsed: Result<Bytes, _>| match parsed {
            Ok(Bytes(0)) => Err("must be more than 0".to_owned()),
            parsed => parsed.map(Some).map_err(|error: host::units::ParseBytesError| error.to_string()),
        };
        match key {
            // PostgreSQL has 32-bit block numbers (`MaxBlockNumber` in block.h).
            "pages" => self.pages.push(parse_between(value, 1.0, 4_294_967_295.0, "blocks")?),
            "hit" => self.hit = Some(parse_hit(value)?),
            "miss" => self.miss = Some(parse_hit(value)?),
            "tps" => self.tps = between(0.001, 1e9, "transactions per second")?,
            "clients" => {
                let clients = value.parse::<u32>().ok().filter(|clients| (1..=100_000).contains(clients));
                self.clients = Some(clients.ok_or("write a number of clients from 1 to 100000")?);
            }
            "accesses" => self.accesses = between(0.001, 1e6, "blocks")?,
            "cores" => self.cores = between(0.01, 100_000.0, "processors")?,
            "riops" => self.riops = Some(parse_reads(value)?),
            "rbps" => self.rbps = positive(Bytes::parse_rate(value))?,
            "memory" => {
                let memory = positive(value.parse())?.filter(|memory| *memory >= MEMORY_MIN);
                self.memory = Some(memory.ok_or_else(|| format!("write {MEMORY_MIN} or more"))?);
            }
            "shared_buffers" => self.shared_buffers = positive(value.parse())?,
            "read_ahead" => self.read_ahead = positive(value.parse())?,
            "popularity" => self.popularity = Some(value.parse()?),
            _ => {
                let known = [&CHANGEABLE[..], &WHOLE].concat().join(", ");
                return Err(format!("there is no figure \"{key}\", only {known}"));
            }
        }
        Ok(())
    }

    pub fn memory_alone(&self) -> Option<Bytes> {
        let alone = Numbers { text: self.text.clone(), memory: self.memory, ..Numbers::default() };
        self.memory.filter(|_| *self == alone)
    }

    /// Whether only device and memory change, as a film's forecast requires.
    pub fn are_of_machine(&self) -> bool {
        let Numbers { riops, rbps, memory, .. } = *self;
        *self == Numbers { text: self.text.clone(), riops, rbps, memory, ..Numbers::default() }
    }

    pub fn hit_seconds(&self, clients: f64, cores: f64) -> Option<f64> {
        self.hit.or_else(|| self.tps.map(|tps| compute_hit_seconds(tps, clients, cores)))
    }

    fn apply(&self, scenario: &Scenario) -> Result<Scenario, Error> {
        let mut changed = Scenario { name: self.text.clone(), ..scenario.clone() };
        let Scenario { server, workload, .. } = &mut changed;
        server.device.reads_per_second = self.riops.unwrap_or(server.device.reads_per_second);
        server.device.bandwidth = self.rbps.map_or(server.device.bandwidth, |rbps| rbps.0 as f64);
        server.cores = self.cores.unwrap_or(server.cores);
        workload.clients = self.clients.unwrap_or(workload.clients);
        workload.hit_seconds = self.hit.unwrap_or(workload.hit_seconds);
        if self.memory.is_some() || self.shared_buffers.is_some() {
            let pages = |told: Option<Bytes>, now: f64| told.map_or(now, |bytes| bytes.0 as f64 / server.block_bytes);
            let memory = pages(self.memory, server.memory_pages());
            let buffers = pages(self.shared_buffers, server.buffers_pages);
            server.divide_memory(memory, buffers)?;
        }
        Ok(changed)
    }

    /// Describes a cold restart from these figures alone. `cores` is the default.
    ///
    /// # Errors
    /// If a figure is missing or impossible.
    pub fn bare_start(&self, cores: f64) -> Result<ColdRestart, Error> {
        let hit = self.hit.ok_or(Error::NoHit)?;
        let (clients, cores) = (self.clients.unwrap_or(1), self.cores.unwrap_or(cores));
        let latency = match self.miss {
            Some(cold_seconds) if cold_seconds < hit => {
                return Err(Error::ColdFasterThanWarm { cold_seconds, hit_seconds: hit });
            }
            // The cost of one miss; a transaction reads its missing pages in sequence.
            Some(read) => read - hit,
            None if self.riops.is_none() => return Err(Error::NoDevice),
            None => DEFAULT_LATENCY_SECONDS,
        };
        let popularity = self.popularity.clone().unwrap_or(Popularity::Uniform);
        let class = |(place, pages): (usize, &f64)| PageClass {
            name: format!("relation {}", place + 1),
            pages: *pages,
            accesses: 1.0,
            run_pages: 1.0,
            popularity: popularity.clone(),
        };
        let pages_of = |bytes: Bytes| bytes.0 as f64 / BLOCK_BYTES;
        let workload = Workload {
            clients,
            classes: self.pages.iter().enumerate().map(class).collect(),
            hit_seconds: hit,
            read_seconds: 0.0,
            read_ahead_pages: self.read_ahead.map_or(1.0, pages_of),
            startup_reads: 0.0,
        };
        let bandwidth = self.rbps.map_or(f64::INFINITY, |rbps| rbps.0 as f64);
        let server = Server {
            device: Device::with_limits(self.riops.unwrap_or(f64::INFINITY), bandwidth, latency),
            cores,
            buffers_pages: f64::INFINITY,
            os_pages: self.memory.map_or(f64::INFINITY, pages_of),
            block_bytes: BLOCK_BYTES,
        };
        workload.check()?;
        server.check()?;
        let limit = |limit: Option<String>| limit.unwrap_or("no limit".to_owned());
        let relations = counted(self.pages.len(), "relation");
        let reads = limit(self.riops.map(|riops| riops.to_string()));
        let bandwidth = limit(self.rbps.map(|rbps| rbps.to_string()));
        let assumptions = vec![
            format!("a transaction reads one block of each of {relations}, all cold at the start"),
            format!("a read takes {:.3} ms; reads per second: {reads}; bytes per second: {bandwidth}", latency * 1e3),
            format!("{} on {cores} processors; blocks of 8 kB", counted(clients as usize, "client")),
        ];
        let is_closed_form = clients == 1 && popularity == Popularity::Uniform && self.riops.is_none();
        let knees = self.miss.filter(|_| is_closed_form).map(|cold| Knees::of(&self.pages, cold, hit)).transpose()?;
        Ok(ColdRestart { workload, server, assumptions, knees, has_bandwidth: self.rbps.is_some() })
    }
}

/// Seconds are the default unit: `4.7ms`, `220us`, `1s`.
pub fn parse_hit(text: &str) -> Result<f64, String> {
    let units = [("ms", 1e-3), ("us", 1e-6), ("µs", 1e-6), ("s", 1.0), ("", 1.0)];
    let found = units.iter().find_map(|(unit, factor)| text.trim().strip_suffix(unit).map(|number| (number, factor)));
    let (number, factor) = found.unwrap_or((text, &1.0));
    match number.trim().parse::<f64>() {
        Ok(value) if (1e-9..=3600.0).contains(&(value * factor)) => Ok(value * factor),
        Ok(value) if value > 0.0 => Err("write a time from 0.001us to 3600s".to_owned()),
        _ => Err("write a time above 0 with its unit, such as 0.22ms".to_owned()),
    }
}

pub fn parse_reads(text: &str) -> Result<f64, String> {
    parse_between(text, 0.01, 1e8, "reads per second")
}

fn parse_between(text: &str, least: f64, most: f64, what: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if (least..=most).contains(&number) => Ok(number),
        Ok(number) if number.is_finite() && number > 0.0 => {
            Err(format!("the value must be from {least} to {most} {what}"))
        }
        _ => Err("the value must be a number above 0".to_owned()),
    }
}

#[derive(Debug)]
pub struct ColdRestart {
    pub workload: Workload,
    pub server: Server,
    pub assumptions: Vec<String>,
    /// `None` unless the closed form applies.
    pub knees: Option<Knees>,
    /// Whether the bandwidth is known. A restore's forecast requires it.
    pub has_bandwidth: bool,
}

impl ColdRestart {
    /// `plan` is the restore's planned order; by default popular pages come first.
    pub fn scenarios(
        &self,
        what_if: &[Numbers],
        plan: impl Fn(&Scenario) -> Option<Warmer>,
    ) -> Result<Vec<Scenario>, Error> {
        let cold = Scenario::cold_restart(self.workload.clone(), self.server.clone());
        let with_restore = |scenario: &Scenario, name: &str| {
            let hottest_first = || Warmer {
                begins_after_seconds: RESTORE_BEGINS_SECONDS,
                ..Warmer::hottest_first(&scenario.workload, self.server.block_bytes, RESTORE_DEPTH, RESTORE_READ_BYTES)
            };
            let warmer = Some(plan(scenario).unwrap_or_else(hottest_first));
            Scenario { name: name.to_owned(), warmer, ..scenario.clone() }
        };
        let mut scenarios = vec![cold.clone()];
        if self.knees.is_some() && self.workload.classes.len() > 1 {
            let mut one = Scenario { name: "as one relation".into(), ..cold.clone() };
            let classes = &mut one.workload.classes;
            classes[0].pages = classes.iter().map(|class| class.pages).sum();
            classes.truncate(1);
            scenarios.push(one);
        }
        scenarios.extend(self.has_bandwidth.then(|| with_restore(&cold, "with a restore")));
        for changes in what_if {
            let changed = changes.apply(&cold)?;
            let name = format!("{}, restore", changed.name);
            scenarios.extend(self.has_bandwidth.then(|| with_restore(&changed, &name)));
            scenarios.push(changed);
        }
        Ok(scenarios)
    }
}

/// Time to read each page once, in sequence, as in Coelho's "Postgres Warm-up": 191,360 × 4.7 ms = 899 s.
#[derive(Clone, Copy, Debug, Serialize, crate::JsonSchema)]
pub struct RoughEstimate {
    pub pages: f64,
    /// Seconds of a transaction with one read, alone on the device.
    pub read_seconds: f64,
    pub seconds: f64,
}

impl RoughEstimate {
    pub fn new(workload: &Workload, server: &Server) -> RoughEstimate {
        let pages = workload.classes.iter().map(|class| class.pages).sum::<f64>();
        let budget_seconds = server.device.reads_per_second.recip();
        let read_seconds = workload.hit_seconds + server.device.latency_at(1.0).max(budget_seconds);
        RoughEstimate { pages, read_seconds, seconds: pages * read_seconds }
    }
}

/// Points of a warm-up at which throughput rises most steeply, with one client, uniform popularity and unlimited reads
/// per second.
#[derive(Clone, Copy, Debug, Serialize, crate::JsonSchema)]
pub struct Knees {
    /// All pages as one relation.
    pub simple: Steepest,
    /// Each relation by itself.
    pub parallel: Steepest,
}

impl Knees {
    fn of(pages: &[f64], cold: f64, hit: f64) -> Result<Knees, Error> {
        Ok(Knees {
            simple: WarmUp::simple(pages.iter().sum(), cold, hit)?.steepest(),
            parallel: WarmUp::parallel(pages, cold, hit)?.steepest(),
        })
    }
}

pub fn explain_later_restores(scenarios: &[Scenario], outlooks: &[Outlook], is_of_snapshot: bool) -> Vec<String> {
    let half = |outlook: &Outlook| outlook.to_50_seconds.map(|span| span.seconds);
    let explain = |(scenario, outlook): (&Scenario, &Outlook)| {
        let warmer = scenario.warmer.as_ref()?;
        let is_without =
            |one: &Scenario| one.warmer.is_none() && one.workload == scenario.workload && one.server == scenario.server;
        let without = half(&outlooks[scenarios.iter().position(is_without)?])?;
        let is_later = half(outlook)? > (LATER * without).max(without + LATER_SECONDS);
        let bytes = warmer.steps.iter().map(|step| step.reads).sum::<f64>() * warmer.read_bytes;
        is_later.then(|| {
            format!(
                "{}: half of the throughput is reached later than without a restore. The restore reads {}, \
                 and reaches the most requested blocks late. Meanwhile, clients wait for the device{}",
                scenario.name,
                Bytes(bytes as u64),
                if is_of_snapshot { ". A snapshot taken while clients are active avoids this" } else { "" }
            )
        })
    };
    scenarios.iter().zip(outlooks).filter_map(explain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bin, WarmStep, compute_outlook};

    #[test]
    fn several_changes_make_one_case() {
        let changes = Numbers::parse_changes("riops=10000,memory=8GiB,hit=0.1ms").unwrap();
        let figures = (changes.riops, changes.memory, changes.hit);
        assert_eq!(figures, (Some(10_000.0), Some(Bytes(8 << 30)), Some(0.1 * 1e-3)));
        assert_eq!(Numbers::parse_changes("memory=1GiB").unwrap().memory_alone(), Some(Bytes(1 << 30)));
        assert_eq!(changes.memory_alone(), None);
        for text in
            ["", "riops", "riops=0", "speed=3", "memory=much", "memory=1", "clients=0", "clients=2.5", "pages=3"]
        {
            assert!(Numbers::parse_changes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_have_units() {
        for (text, seconds) in [("4.7ms", 4.7e-3), ("220us", 220e-6), ("1 s", 1.0), ("0.5", 0.5)] {
            assert!((parse_hit(text).unwrap() / seconds - 1.0).abs() < 1e-12, "{text}");
        }
        for text in ["", "fast", "0ms", "-1s", "nan", "inf"] {
            assert!(parse_hit(text).is_err(), "{text}");
        }
    }

    #[test]
    fn figures_that_nothing_has_are_refused() {
        let parse = |text: &str| text.parse::<Numbers>();
        assert!(parse("memory=1MB").is_ok() && parse("memory=1").unwrap_err().contains("1 MB or more"));
        assert!(parse("tps=5,hit=1ms").is_err() && parse("read_ahead=128KiB,popularity=zipfian:1.07").is_ok());
        for (key, good, bad) in [
            ("pages", "4294967295", ["4294967296", "0.5"]),
            ("accesses", "2", ["1e300", "1e-9"]),
            ("tps", "50000", ["1e10", "1e-300"]),
            ("cores", "0.5", ["1e9", "1e-9"]),
            ("riops", "3000", ["1e9", "0.001"]),
            ("hit", "0.2ms", ["1e300", "4000s"]),
        ] {
            assert!(parse(&format!("{key}={good}")).is_ok(), "{good}");
            for text in bad {
                let told = parse(&format!("{key}={text}")).unwrap_err();
                assert!(told.contains(" from ") && told.contains(" to "), "{text}: {told}");
            }
        }
    }

    #[test]
    fn a_restore_that_brings_what_is_hot_last_is_said_to_be_later_than_nothing() {
        let bins = vec![Bin { pages: 1000.0, weight: 1000.0 }, Bin { pages: 40_000.0, weight: 0.01 }];
        let class = PageClass {
            name: "t".into(),
            pages: 41_000.0,
            accesses: 1.0,
            run_pages: 1.0,
            popularity: Popularity::Measured(bins),
        };
        let workload = Workload {
            clients: 4,
            classes: vec![class],
            hit_seconds: 0.1e-3,
            read_seconds: 0.0,
            read_ahead_pages: 1.0,
            startup_reads: 0.0,
        };
        let device = Device::with_limits(3000.0, 131_072_000.0, 0.5e-3);
        let server =
            Server { device, cores: 2.0, buffers_pages: f64::INFINITY, os_pages: f64::INFINITY, block_bytes: 8192.0 };
        let steps =
            [(0, 31.25), (1, 1250.0)].map(|(bin, reads)| WarmStep { class: 0, bin: Some(bin), share: 1.0, reads });
        let explain = |steps: Vec<WarmStep>| {
            let cold =
                Scenario { name: "cold".into(), workload: workload.clone(), server: server.clone(), warmer: None };
            let warmer = Warmer { steps, depth: 4, read_bytes: 262_144.0, begins_after_seconds: 0.1 };
            let restore = Scenario { name: "restore".into(), warmer: Some(warmer), ..cold.clone() };
            let scenarios = [restore, cold];
            let outlooks = scenarios.each_ref().map(|one| compute_outlook(one).unwrap());
            explain_later_restores(&scenarios, &outlooks, true)
        };
        assert_eq!(explain(steps.to_vec()), Vec::<String>::new());
        let later = explain(steps.into_iter().rev().collect());
        assert!(
            later[0].starts_with("restore: half of the throughput is reached later") && later[0].contains("320 MB"),
            "{later:?}"
        );
        assert_eq!(later.len(), 1);
    }
}
