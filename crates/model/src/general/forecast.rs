//! Integrates the warm-up over transactions, by each page's probability of being missing.

use serde::Serialize;

use super::runs::{Ahead, Runs, behind_a_mark, behind_a_miss};
use super::{AccessKind, Bin, Device, PageClass, Server, Warmer, Workload};
use crate::Error;
use crate::closed_form::{WARM_SHARE, find_rise};

/// A step of the integration is this share of the transactions done, but at least `FIRST_STEP`.
const STEP: f64 = 0.03;
const FIRST_STEP: f64 = 0.5;

/// A step takes at most this share of the time that the warmer would need alone.
const WARMER_STEP: f64 = 0.01;

/// A forecast ends within this relative distance of the steady state.
const CLOSE: f64 = 1e-3;

const MARK_ROUNDS: usize = 30;

/// CPU time of each further page of a read ÷ that of a single-page read: 3.4 µs for the copy, 33 µs for the read
/// (docs/model.md).
const PAGE_WORK: f64 = 0.1;

const MOST_STEPS: usize = 5000;

/// 100 years; a longer forecast is an error.
const LONGEST_SECONDS: f64 = 100.0 * 366.0 * 24.0 * 3600.0;

pub fn compute_forecast(workload: &Workload, server: &Server, warmer: Option<&Warmer>) -> Result<Forecast, Error> {
    workload.check()?;
    server.check()?;
    let bins = workload.bins();
    let steady = compute_steady_misses(&bins, server.buffers_pages, server.os_pages);
    let runs = compute_runs(workload, server);
    let mut model = Model::new(workload, server, warmer, (bins, &runs), steady);
    let end = model.look(Moment::Steady);
    let mut points = vec![model.look(Moment::Now).point];
    while points.len() < MOST_STEPS && !model.is_done(&points[points.len() - 1], &end) {
        model.step();
        points.push(model.look(Moment::Now).point);
    }
    let is_endless = points.last().is_some_and(|last| last.seconds > LONGEST_SECONDS);
    if is_endless || !points.iter().chain([&end.point]).all(ForecastPoint::is_finite) {
        return Err(Error::NoForecast);
    }
    Ok(Forecast {
        points,
        steady_tps: end.point.tps,
        steady_reading_share: end.point.reading_share,
        warmer_ends_seconds: model.warmer_ended,
    })
}

fn compute_runs(workload: &Workload, server: &Server) -> Vec<Option<Runs>> {
    let asked: f64 = workload.classes.iter().map(|class| class.accesses).sum();
    let overlap = workload.hit_seconds / asked / server.device.latency_at(1.0).max(f64::MIN_POSITIVE);
    let of = |class: &PageClass| {
        let is_range = class.access().kind != AccessKind::Point;
        is_range.then(|| Runs::new(class.pages, class.run_pages, workload.read_ahead_pages, overlap))
    };
    workload.classes.iter().map(of).collect()
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Moment {
    Now,
    Steady,
}

#[derive(Clone, Debug)]
struct View {
    point: ForecastPoint,
    warmer_reads: f64,
    by_class: Vec<ClassView>,
}

#[derive(Clone, Debug, Default)]
struct ClassView {
    /// Reads per transaction that a client waits for.
    misses: f64,
    /// Accesses (to pages or ranges) that need a device read.
    reading: f64,
    /// Kernel CPU time, in units of a single-page read.
    work: f64,
    /// Pages read, and device reads, both including read-ahead.
    read_pages: f64,
    reads: f64,
    /// Probability per transaction that a missing page is read ahead, by bin.
    ahead: Vec<f64>,
    marks: Vec<f64>,
}

#[derive(Clone, Debug)]
struct Model<'a> {
    workload: &'a Workload,
    server: &'a Server,
    warmer: Option<&'a Warmer>,
    bins: Vec<Vec<Bin>>,
    runs: &'a [Option<Runs>],
    /// Steady-state miss probability by class and bin.
    steady: Vec<Vec<f64>>,
    seconds: f64,
    transactions: f64,
    /// −ln of the probability that read-ahead has not fetched a page.
    ahead: Vec<Vec<f64>>,
    /// Pages whose request triggers the next read-ahead, by class and bin.
    marks: Vec<Vec<f64>>,
    steady_marks: Vec<Vec<f64>>,
    /// Share of each bin that the warmer has not read, now and at the start of its current step.
    unwarmed: Vec<Vec<f64>>,
    unwarmed_before: Vec<Vec<f64>>,
    warm_step: usize,
    warm_reads: f64,
    warmer_ended: Option<f64>,
    /// Transactions until the larger of shared_buffers and page cache filled up.
    full_since: Option<f64>,
}

impl<'a> Model<'a> {
    fn new(
        workload: &'a Workload,
        server: &'a Server,
        warmer: Option<&'a Warmer>,
        (bins, runs): (Vec<Vec<Bin>>, &'a [Option<Runs>]),
        steady: Vec<Vec<f64>>,
    ) -> Model<'a> {
        let each_bin = |value: f64| -> Vec<Vec<f64>> { bins.iter().map(|bins| vec![value; bins.len()]).collect() };
        let one_by_one = server.device.latency_at(1.0).max(1.0 / server.device.reads_per_second);
        let mut model = Model {
            ahead: each_bin(0.0),
            marks: each_bin(0.0),
            steady_marks: each_bin(0.0),
            unwarmed: each_bin(1.0),
            unwarmed_before: each_bin(1.0),
            workload,
            server,
            warmer: warmer.filter(|warmer| !warmer.steps.is_empty()),
            bins,
            runs,
            steady,
            seconds: workload.startup_reads * one_by_one,
            transactions: 0.0,
            warm_step: 0,
            warm_reads: 0.0,
            warmer_ended: None,
            full_since: None,
        };
        model.settle_steady_marks();
        model
    }

    fn settle_steady_marks(&mut self) {
        let missing = self.all_missing(Moment::Steady);
        let reads_ahead = self.workload.read_ahead_pages >= 3.0;
        if !reads_ahead || missing.iter().flatten().all(|missing| *missing == 0.0) {
            return;
        }
        for _ in 0..MARK_ROUNDS {
            let views: Vec<ClassView> =
                (0..self.bins.len()).map(|class| self.look_at_class(class, &missing[class], Moment::Steady)).collect();
            let dropped = views.iter().map(|view| view.read_pages).sum::<f64>() / self.server.os_pages;
            let changes = views.iter().flat_map(|view| &view.marks);
            let all_marks = self.steady_marks.iter_mut().flatten();
            for ((marks, change), bin) in all_marks.zip(changes).zip(self.bins.iter().flatten()) {
                // Newton's method; a page loses its mark when it is requested or evicted.
                let step = (change - *marks * dropped) / (bin.weight + dropped).max(f64::MIN_POSITIVE);
                *marks = (*marks + step).clamp(0.0, bin.pages);
            }
        }
    }

    fn all_missing(&self, moment: Moment) -> Vec<Vec<f64>> {
        let of = |class: usize| (0..self.bins[class].len()).map(|bin| self.missing(class, bin, moment)).collect();
        (0..self.bins.len()).map(of).collect()
    }

    fn missing(&self, class: usize, bin: usize, moment: Moment) -> f64 {
        let steady = self.steady[class][bin];
        if moment == Moment::Steady {
            return steady;
        }
        let until = self.full_since.unwrap_or(self.transactions);
        let filled =
            survival(self.bins[class][bin].weight, until) * (-self.ahead[class][bin]).exp() * self.unwarmed[class][bin];
        // A full cache loses its initial contents within as many transactions as filled it.
        let age = self.full_since.map_or(0.0, |since| (self.transactions - since) / since.max(1.0));
        filled + (steady - filled) * age.min(1.0)
    }

    fn look(&self, moment: Moment) -> View {
        let all_missing = self.all_missing(moment);
        let bins = || self.bins.iter().flatten().zip(all_missing.iter().flatten());
        let resident: f64 = bins().map(|(bin, missing)| bin.pages * (1.0 - missing)).sum();
        let pages: f64 = bins().map(|(bin, _)| bin.pages).sum();
        let by_class: Vec<ClassView> =
            (0..self.bins.len()).map(|class| self.look_at_class(class, &all_missing[class], moment)).collect();
        let sum = |of: fn(&ClassView) -> f64| by_class.iter().map(of).sum::<f64>();
        let (read_pages, reads) = (sum(|view| view.read_pages), sum(|view| view.reads));
        let workload = self.workload;
        let demand = Demand {
            cpu_seconds: workload.hit_seconds + sum(|view| view.work) * workload.read_seconds,
            misses: sum(|view| view.misses),
            reads,
            bytes: read_pages * self.server.block_bytes,
        };
        let warmer = self.warmer.filter(|_| moment == Moment::Now && self.is_warming());
        let flow = compute_flow(workload.clients, self.server.cores, demand, &self.server.device, warmer);
        let without = |(class, view): (usize, &ClassView)| {
            let runs = workload.classes[class].accesses / workload.classes[class].run_pages;
            (1.0 - (view.reading / runs).min(1.0)).powf(runs)
        };
        let point = ForecastPoint {
            seconds: self.seconds,
            transactions: self.transactions,
            tps: flow.tps,
            reads_per_second: flow.tps * reads,
            reading_share: 1.0 - by_class.iter().enumerate().map(without).product::<f64>(),
            pages_per_transaction: read_pages,
            resident_share: resident / pages,
        };
        View { point, warmer_reads: flow.warmer_reads, by_class }
    }

    fn look_at_class(&self, class: usize, missing: &[f64], moment: Moment) -> ClassView {
        match &self.runs[class] {
            Some(runs) => self.look_at_ranges(class, missing, runs),
            None => self.look_at_points(class, missing, moment),
        }
    }

    fn look_at_ranges(&self, class: usize, missing: &[f64], runs: &Runs) -> ClassView {
        let bins = &self.bins[class];
        let mut view = ClassView { marks: vec![0.0; bins.len()], ahead: vec![0.0; bins.len()], ..ClassView::default() };
        for (place, bin) in bins.iter().enumerate() {
            let asked = bin.pages * bin.weight * missing[place];
            let taken = runs.at(missing[place]);
            let (reads, beyond) = (asked * taken.reads, asked * taken.beyond);
            view.misses += asked * taken.waits;
            view.reading += asked * taken.reading;
            view.reads += reads;
            view.read_pages += asked + beyond;
            view.work += reads + PAGE_WORK * (asked + beyond - reads).max(0.0);
            view.ahead[place] = bin.weight * taken.beyond;
        }
        view
    }

    fn look_at_points(&self, class: usize, missing: &[f64], moment: Moment) -> ClassView {
        let bins = &self.bins[class];
        let gaps: f64 = bins.iter().zip(missing).map(|(bin, missing)| bin.pages * missing).sum();
        let pages: f64 = bins.iter().map(|bin| bin.pages).sum();
        let window = self.workload.read_ahead_pages;
        let is_scattered = self.workload.classes[class].popularity.is_scattered();
        let all_marks = if moment == Moment::Steady { &self.steady_marks } else { &self.marks };
        let mut view = ClassView { marks: vec![0.0; bins.len()], ahead: vec![0.0; bins.len()], ..ClassView::default() };
        let (mut anywhere, mut marked) = (0.0, 0.0);
        let mut around = (behind_a_miss(gaps / pages, window), behind_a_mark(gaps / pages, window));
        for (place, bin) in bins.iter().enumerate() {
            let misses = bin.pages * bin.weight * missing[place];
            if !is_scattered {
                around = (behind_a_miss(missing[place], window), behind_a_mark(missing[place], window));
            }
            let (at_miss, at_mark): (Ahead, Ahead) = around;
            let passed = all_marks[class][place] * bin.weight;
            let ahead = misses * at_miss.pages + passed * at_mark.pages;
            view.misses += misses;
            view.read_pages += misses + ahead;
            view.reads += misses * (1.0 + at_miss.reads) + passed * at_mark.reads;
            let new_marks = misses * at_miss.marks + passed * at_mark.marks;
            view.marks[place] -= passed;
            if is_scattered {
                anywhere += ahead;
                marked += new_marks;
            } else {
                view.marks[place] += new_marks;
                view.ahead[place] = ahead / (bin.pages * missing[place]).max(f64::MIN_POSITIVE);
            }
        }
        if is_scattered && gaps > 0.0 {
            for (place, bin) in bins.iter().enumerate() {
                view.ahead[place] = anywhere / gaps;
                view.marks[place] += marked * bin.pages * missing[place] / gaps;
            }
        }
        (view.reading, view.work) = (view.misses, view.misses);
        view
    }

    fn is_warming(&self) -> bool {
        self.warmer
            .is_some_and(|warmer| self.warm_step < warmer.steps.len() && self.seconds >= warmer.begins_after_seconds)
    }

    fn step(&mut self) {
        let view = self.look(Moment::Now);
        let mut transactions = (STEP * self.transactions).max(FIRST_STEP);
        if let Some(warmer) = self.warmer.filter(|warmer| self.warm_step < warmer.steps.len()) {
            let reads: f64 = warmer.steps.iter().map(|step| step.reads).sum();
            let device = &self.server.device;
            let alone = (reads * warmer.read_bytes / device.bandwidth).max(reads / device.reads_per_second);
            transactions = transactions.min((WARMER_STEP * alone * view.point.tps).max(1e-3));
        }
        let mut middle = self.clone();
        middle.advance(transactions / 2.0, &view);
        let ends = self.is_warming() && !middle.is_warming();
        let view = if ends { view } else { middle.look(Moment::Now) };
        self.advance(transactions, &view);
    }

    fn advance(&mut self, transactions: f64, view: &View) {
        let seconds = transactions / view.point.tps;
        self.seconds += seconds;
        self.transactions += transactions;
        let read_pages: f64 = view.by_class.iter().map(|class| class.read_pages).sum();
        let dropped = self.full_since.map_or(0.0, |_| read_pages / self.server.os_pages);
        let changes = view.by_class.iter().flat_map(|class| &class.marks);
        for ((marks, change), bin) in self.marks.iter_mut().flatten().zip(changes).zip(self.bins.iter().flatten()) {
            *marks = (*marks + (change - *marks * dropped) * transactions).clamp(0.0, bin.pages);
        }
        if self.full_since.is_none() {
            let shares = view.by_class.iter().flat_map(|class| &class.ahead);
            self.ahead.iter_mut().flatten().zip(shares).for_each(|(ahead, share)| *ahead += share * transactions);
            let pages: f64 = self.bins.iter().flatten().map(|bin| bin.pages).sum();
            let Server { buffers_pages, os_pages, .. } = *self.server;
            let capacity = if buffers_pages.is_finite() { os_pages.max(buffers_pages) } else { os_pages };
            if view.point.resident_share * pages >= capacity {
                self.full_since = Some(self.transactions);
            }
        }
        self.advance_warmer(view.warmer_reads * seconds);
    }

    /// Advances the warmer. Pages that the workload has read cost it nothing.
    fn advance_warmer(&mut self, mut reads: f64) {
        while let Some(step) = self.warmer.and_then(|warmer| warmer.steps.get(self.warm_step)).copied() {
            let bins = step.bin.map_or(0..self.bins[step.class].len(), |bin| bin..bin + 1);
            let fetched = |bin: usize| survival(self.bins[step.class][bin].weight, self.transactions);
            let pages: f64 = bins.clone().map(|bin| self.bins[step.class][bin].pages).sum();
            let missing: f64 = bins.clone().map(|bin| self.bins[step.class][bin].pages * fetched(bin)).sum();
            let needed = (step.reads - self.warm_reads) * (missing / pages).max(1e-6);
            let done = if needed <= reads {
                step.reads
            } else {
                self.warm_reads + reads / needed * (step.reads - self.warm_reads)
            };
            for bin in bins {
                let brought = step.share * done / step.reads;
                self.unwarmed[step.class][bin] = (self.unwarmed_before[step.class][bin] - brought).max(0.0);
            }
            self.warm_reads = done;
            if needed > reads {
                return;
            }
            reads -= needed;
            self.unwarmed_before[step.class].clone_from(&self.unwarmed[step.class]);
            self.warm_step += 1;
            self.warm_reads = 0.0;
            if self.warmer.is_some_and(|warmer| self.warm_step == warmer.steps.len()) {
                self.warmer_ended = Some(self.seconds);
            }
        }
    }

    /// Steady throughput is not enough: rare reads may still fetch many pages ahead.
    fn is_done(&self, now: &ForecastPoint, end: &View) -> bool {
        let is_warmed = self.warmer.is_none_or(|warmer| self.warm_step >= warmer.steps.len());
        let is_fast = (now.tps / end.point.tps - 1.0).abs() < CLOSE;
        let is_read = now.is_warm() || !end.point.is_warm();
        is_warmed && is_fast && is_read && (now.reading_share - end.point.reading_share).abs() < CLOSE
    }
}

/// A moment of a forecast.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, crate::JsonSchema)]
pub struct ForecastPoint {
    /// Since the restart.
    pub seconds: f64,
    /// Transactions so far.
    pub transactions: f64,
    pub tps: f64,
    /// Device reads of the workload, without the warmer's.
    pub reads_per_second: f64,
    /// Share of transactions that read from the device, 0 to 1.
    pub reading_share: f64,
    /// Pages that the workload reads, including read-ahead.
    pub pages_per_transaction: f64,
    /// Share of all pages that are cached, 0 to 1.
    pub resident_share: f64,
}

impl ForecastPoint {
    pub(super) fn is_warm(&self) -> bool {
        self.pages_per_transaction < WARM_SHARE
    }

    pub(super) fn is_finite(&self) -> bool {
        let ForecastPoint { seconds, transactions, tps, reads_per_second, .. } = *self;
        let shares = [self.reading_share, self.pages_per_transaction, self.resident_share];
        [seconds, transactions, tps, reads_per_second].into_iter().chain(shares).all(f64::is_finite)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Forecast {
    pub points: Vec<ForecastPoint>,
    pub steady_tps: f64,
    /// Share of transactions that read from the device; 0 if everything fits.
    pub steady_reading_share: f64,
    /// `None` without a warmer, or if it never finishes.
    pub warmer_ends_seconds: Option<f64>,
}

impl Forecast {
    pub fn seconds_to_share(&self, share: f64) -> Option<f64> {
        let level = share * self.steady_tps;
        self.last_crossing(|point| point.tps - level)
    }

    pub fn seconds_to_warm(&self) -> Option<f64> {
        self.last_crossing(|point| WARM_SHARE - point.pages_per_transaction)
    }

    pub fn transactions_after(&self, seconds: f64) -> f64 {
        let next = self.points.partition_point(|point| point.seconds < seconds);
        match (next.checked_sub(1).and_then(|before| self.points.get(before)), self.points.get(next)) {
            (Some(one), Some(other)) => {
                let share = (seconds - one.seconds) / (other.seconds - one.seconds);
                one.transactions + share * (other.transactions - one.transactions)
            }
            (Some(last), None) => last.transactions + (seconds - last.seconds) * self.steady_tps,
            (None, first) => first.map_or(0.0, |first| first.transactions),
        }
    }

    /// Time from which `excess` is never again below 0.
    fn last_crossing(&self, excess: impl Fn(&ForecastPoint) -> f64) -> Option<f64> {
        let Some(before) = self.points.iter().rposition(|point| excess(point) < 0.0) else {
            return self.points.first().map(|point| point.seconds);
        };
        let (one, other) = (&self.points[before], self.points.get(before + 1)?);
        let (below, above) = (excess(one), excess(other));
        let share = if above > below { -below / (above - below) } else { 1.0 };
        Some(one.seconds + share * (other.seconds - one.seconds))
    }
}

// Cores and device form a closed queueing network in product form (Gordon and Newell, 1967), with exponential times.
// With one client, or at a station's limit, the distribution does not matter.

#[derive(Clone, Copy, Debug)]
pub struct Demand {
    pub cpu_seconds: f64,
    /// Device reads per transaction that a client waits for.
    pub misses: f64,
    /// Device reads, including read-ahead.
    pub reads: f64,
    pub bytes: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flow {
    pub tps: f64,
    pub warmer_reads: f64,
}

/// `warmer` always keeps `depth` reads in flight, besides the clients' reads.
pub fn compute_flow(clients: u32, cores: f64, demand: Demand, device: &Device, warmer: Option<&Warmer>) -> Flow {
    let clients = clients as usize;
    let read_bytes = if demand.reads > 0.0 { demand.bytes / demand.reads } else { 0.0 };
    let cycle = |depth: usize| match warmer {
        Some(warmer) => warmer.shared_cycle_seconds(device, depth as f64, read_bytes),
        None => device.latency_at(depth as f64),
    };
    // Logarithms of unnormalised probabilities, by number of clients at the station.
    let (mut at_device, mut at_cpu) = (vec![0.0], vec![0.0]);
    let (mut device_sum, mut cpu_sum) = (0.0, 0.0);
    for depth in 1..=clients {
        device_sum += (demand.misses * cycle(depth) / depth as f64).ln();
        cpu_sum += (demand.cpu_seconds / (depth as f64).min(cores)).ln();
        at_device.push(device_sum);
        at_cpu.push(cpu_sum);
    }
    let normal = |clients: usize| log_sum((0..=clients).map(|depth| at_device[depth] + at_cpu[clients - depth]));
    let total = normal(clients);
    let flowing = (normal(clients - 1) - total).exp();
    // The device's limits are budgets: they do not delay reads until exhausted.
    let tps = if warmer.is_none() { flowing.min(device.most_per_second(demand.reads, demand.bytes)) } else { flowing };
    let rate = |warmer: &Warmer| {
        let share = |depth: usize| (at_device[depth] + at_cpu[clients - depth] - total).exp();
        (0..=clients).map(|depth| share(depth) * f64::from(warmer.depth) / cycle(depth)).sum()
    };
    Flow { tps, warmer_reads: warmer.map_or(0.0, rate) }
}

fn log_sum(logs: impl Iterator<Item = f64> + Clone) -> f64 {
    let greatest = logs.clone().fold(f64::NEG_INFINITY, f64::max);
    greatest + logs.map(|log| (log - greatest).exp()).sum::<f64>().ln()
}

#[cfg(test)]
mod curve_tests {
    use super::*;
    use crate::general::{Device, PageClass, Popularity, Server, Workload, compute_forecast};

    fn forecast(read_ahead_pages: f64) -> Forecast {
        let class = |pages: f64| PageClass {
            name: format!("{pages} pages"),
            pages,
            accesses: 1.0,
            run_pages: 1.0,
            popularity: Popularity::Uniform,
        };
        let workload = Workload {
            clients: 4,
            classes: vec![class(32_787.0), class(5486.0)],
            hit_seconds: 0.107e-3,
            read_seconds: 0.0,
            read_ahead_pages,
            startup_reads: 0.0,
        };
        let device = Device::with_limits(3000.0, 131_072_000.0, 0.5e-3);
        let server =
            Server { device, cores: 2.0, buffers_pages: f64::INFINITY, os_pages: f64::INFINITY, block_bytes: 8192.0 };
        compute_forecast(&workload, &server, None).unwrap()
    }

    #[test]
    fn what_fits_into_memory_gets_warm_however_far_the_kernel_reads_ahead() {
        let windows = (1..=2048).filter(|window: &u32| window.is_power_of_two() || window.is_multiple_of(37));
        let mut before: Option<f64> = None;
        for window in windows {
            let forecast = forecast(window.into());
            let warm = forecast.seconds_to_warm();
            let seconds = warm.unwrap_or_else(|| panic!("{window} pages: {:?}", forecast.points.last()));
            assert!(forecast.points.last().is_some_and(ForecastPoint::is_warm), "{window}");
            assert!(
                before.is_none_or(|before| (0.5..1.5).contains(&(seconds / before))),
                "{window}: {before:?} {seconds}"
            );
            before = Some(seconds);
        }
    }
}

#[cfg(test)]
mod network_tests {
    use super::*;

    fn tps(clients: u32, reads: f64) -> f64 {
        let demand = Demand { cpu_seconds: 1e-3, misses: reads, reads, bytes: reads * 8192.0 };
        compute_flow(clients, 2.0, demand, &Device::with_limits(1000.0, 1e9, 2e-3), None).tps
    }

    #[test]
    fn one_client_waits_for_one_thing_after_the_other() {
        assert!((tps(1, 1.0) - 1.0 / 3e-3).abs() < 1e-9);
        assert!((tps(1, 0.0) - 1000.0).abs() < 1e-9);
    }

    #[test]
    fn many_clients_reach_the_limit_that_is_tightest() {
        assert_eq!(tps(200, 2.0), 500.0);
        assert!((tps(200, 0.0) - 2000.0).abs() < 1e-6);
        assert!((tps(200, 0.01) - 2000.0).abs() < 1.0);
        assert!(tps(4, 0.5) < tps(5, 0.5) && tps(5, 0.5) < 2000.0);
    }

    #[test]
    fn a_warmer_takes_its_share_and_no_more() {
        let warmer = Warmer { steps: Vec::new(), depth: 4, read_bytes: 262_144.0, begins_after_seconds: 0.0 };
        let demand = Demand { cpu_seconds: 1e-4, misses: 2.0, reads: 2.0, bytes: 16_384.0 };
        let device = Device::with_limits(3000.0, 131_072_000.0, 0.5e-3);
        let alone = compute_flow(8, 2.0, demand, &device, None);
        let beside = compute_flow(8, 2.0, demand, &device, Some(&warmer));
        let bytes = beside.tps * 2.0 * 8192.0 + beside.warmer_reads * 262_144.0;
        assert!((alone.tps - 1500.0).abs() < 5.0);
        assert!((bytes / 131_072_000.0 - 1.0).abs() < 0.01 && beside.tps < alone.tps, "{beside:?}");
        assert!(beside.warmer_reads > 400.0, "{beside:?}");
    }
}

// Che, Tung and Wang (2002), with two tiers in series as in Martina, Garetto and Leonardi (2014): an LRU cache keeps
// pages for about the time T after their last use.

/// Time T in transactions; infinite if all used pages fit.
fn find_characteristic_time<'a>(bins: impl Iterator<Item = &'a Bin> + Clone, capacity: f64) -> f64 {
    let used: f64 = bins.clone().filter(|bin| bin.weight > 0.0).map(|bin| bin.pages).sum();
    if capacity >= used {
        return f64::INFINITY;
    }
    let occupied = |time: f64| bins.clone().map(|bin| bin.pages * -(-bin.weight * time).exp_m1()).sum();
    find_rise(occupied, capacity, 1.0).unwrap_or(f64::INFINITY)
}

/// e^(-rate × time), also for an infinite time.
fn survival(rate: f64, time: f64) -> f64 {
    if rate == 0.0 { 1.0 } else { (-rate * time).exp() }
}

/// Share of each bin's accesses that reach the device in the steady state.
fn compute_steady_misses(bins: &[Vec<Bin>], buffers_pages: f64, os_pages: f64) -> Vec<Vec<f64>> {
    let all = bins.iter().flatten();
    let buffers_time = find_characteristic_time(all.clone(), buffers_pages);
    // Only misses in shared_buffers reach the page cache.
    let is_single = buffers_pages.is_infinite();
    let behind = |bin: &Bin| if is_single { bin.weight } else { bin.weight * survival(bin.weight, buffers_time) };
    let asked: Vec<Bin> = all.map(|bin| Bin { weight: behind(bin), ..*bin }).collect();
    let os_time = find_characteristic_time(asked.iter(), os_pages);
    let device = |bin: &Bin| match is_single {
        true => survival(bin.weight, os_time),
        false if buffers_time.is_infinite() => survival(bin.weight, buffers_time),
        false => {
            let beyond = (os_time - buffers_time).max(0.0);
            survival(bin.weight, buffers_time) * survival(behind(bin), beyond)
        }
    };
    bins.iter().map(|bins| bins.iter().map(device).collect()).collect()
}

#[cfg(test)]
mod tiers_tests {
    use super::*;

    fn uniform(pages: f64) -> Vec<Vec<Bin>> {
        vec![vec![Bin { pages, weight: 1.0 / pages }]]
    }

    #[test]
    fn of_equal_pages_the_share_that_does_not_fit_is_missed() {
        let misses = compute_steady_misses(&uniform(1000.0), f64::INFINITY, 600.0);
        assert!((misses[0][0] - 0.4).abs() < 1e-6, "{misses:?}");
        let misses = compute_steady_misses(&uniform(1000.0), f64::INFINITY, 1000.0);
        assert_eq!(misses[0][0], 0.0);
    }

    #[test]
    fn shared_buffers_that_hold_everything_need_no_page_cache() {
        let misses = compute_steady_misses(&uniform(1000.0), 1000.0, 1.0);
        assert_eq!(misses[0][0], 0.0);
        let misses = compute_steady_misses(&uniform(1000.0), 600.0, 1.0);
        assert!((misses[0][0] - 0.4).abs() < 1e-2, "{misses:?}");
    }

    #[test]
    fn shared_buffers_before_the_page_cache_add_little_to_it() {
        // Both tiers hold their share independently: pages in shared_buffers were read through the page cache.
        let misses = compute_steady_misses(&uniform(1000.0), 200.0, 600.0);
        assert!(misses[0][0] < 0.4 && misses[0][0] > 0.25, "{misses:?}");
    }
}
