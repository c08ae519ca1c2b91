//! Compares the model with a simulation of every page and client.

use std::collections::VecDeque;

use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use rand::{Rng as _, SeedableRng as _};

use super::runs::File;
use super::{Bin, Device, PageClass, Popularity, Server, Warmer, Workload, compute_forecast};

const BLOCK: f64 = 8192.0;

struct Lru {
    capacity: usize,
    stamps: Vec<u64>,
    uses: VecDeque<(usize, u64)>,
    held: usize,
    clock: u64,
}

impl Lru {
    fn new(pages: usize, capacity: f64) -> Lru {
        let capacity = if capacity.is_finite() { capacity as usize } else { pages };
        Lru { capacity, stamps: vec![0; pages], uses: Default::default(), held: 0, clock: 0 }
    }

    fn holds(&self, page: usize) -> bool {
        self.stamps[page] > 0
    }

    fn touch(&mut self, page: usize) {
        self.clock += 1;
        self.held += usize::from(!self.holds(page));
        self.stamps[page] = self.clock;
        if self.capacity == self.stamps.len() {
            return;
        }
        self.uses.push_back((page, self.clock));
        while self.held > self.capacity {
            let (oldest, stamp) = self.uses.pop_front().unwrap();
            if self.stamps[oldest] == stamp {
                self.stamps[oldest] = 0;
                self.held -= 1;
            }
        }
    }
}

/// A client and the remaining reads of its transaction: of a page (`Some`) or within a range.
#[derive(Default)]
struct Client {
    reads: Vec<Option<usize>>,
}

struct Simulation<'a> {
    workload: &'a Workload,
    server: &'a Server,
    random: StdRng,
    choices: Vec<(Vec<f64>, Vec<usize>, usize)>,
    places: Vec<usize>,
    buffers: Lru,
    os: Lru,
    marked: Vec<bool>,
    files: Vec<Option<File>>,
    /// Reads that the limit allows now. Negative while in debt; at most 0.1 s of reads.
    budget: f64,
    seconds: f64,
    transactions: u64,
    reads: u64,
}

impl<'a> Simulation<'a> {
    fn new(workload: &'a Workload, server: &'a Server, seed: u64) -> Simulation<'a> {
        let mut first = 0;
        let mut choices = Vec::new();
        for class in &workload.classes {
            let bins = class.popularity.bins(class.pages);
            let (mut weights, mut places, mut sum) = (Vec::new(), Vec::new(), 0.0);
            for Bin { pages, weight } in &bins {
                sum += pages * weight;
                weights.push(sum);
                places.push(first);
                first += pages.round() as usize;
            }
            choices.push((weights, places, first));
        }
        let mut places: Vec<usize> = (0..first).collect();
        let mut begin = 0;
        for (class, (_, _, end)) in workload.classes.iter().zip(&choices) {
            if class.popularity.is_scattered() {
                places[begin..*end].shuffle(&mut StdRng::seed_from_u64(seed));
            }
            begin = *end;
        }
        Simulation {
            places,
            buffers: Lru::new(first, server.buffers_pages),
            os: Lru::new(first, server.os_pages),
            marked: vec![false; first],
            files: workload.classes.iter().map(|class| make_file(class, workload.read_ahead_pages)).collect(),
            budget: 0.0,
            random: StdRng::seed_from_u64(seed),
            workload,
            server,
            choices,
            seconds: 0.0,
            transactions: 0,
            reads: 0,
        }
    }

    fn choose_page(&mut self, class: usize) -> usize {
        let share: f64 = self.random.random();
        let (weights, places, end) = &self.choices[class];
        let bin = weights.partition_point(|sum| *sum < share).min(places.len() - 1);
        let next = places.get(bin + 1).copied().unwrap_or(*end);
        let page = self.random.random_range(places[bin]..next.max(places[bin] + 1)).min(end - 1);
        self.places[page]
    }

    fn wait(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.random.random::<f64>()).ln()
    }

    fn run(&mut self, marks: &[u64]) -> Vec<f64> {
        let mut at_cpu: Vec<Client> = (0..self.workload.clients).map(|_| Client::default()).collect();
        let mut waiting: VecDeque<Client> = Default::default();
        let mut at_device: VecDeque<Client> = Default::default();
        let mut times = Vec::new();
        let limit = self.server.device.reads_per_second;
        while times.len() < marks.len() {
            while self.budget >= 0.0 && !waiting.is_empty() {
                self.budget -= 1.0;
                at_device.extend(waiting.pop_front());
            }
            // Memoryless stations: rates depend on the current state alone.
            let cpu_rate = (at_cpu.len() as f64).min(self.server.cores) / self.workload.hit_seconds;
            let depth = at_device.len() as f64;
            let device_rate = depth / self.server.device.latency_at(depth.max(1.0));
            let next = if cpu_rate + device_rate > 0.0 { self.wait(1.0 / (cpu_rate + device_rate)) } else { f64::MAX };
            let until_budget = if waiting.is_empty() { f64::MAX } else { -self.budget / limit };
            let step = next.min(until_budget);
            self.seconds += step;
            self.budget = (self.budget + step * limit).min(0.1 * limit);
            if step < next {
                self.budget = self.budget.max(0.0);
                continue;
            }
            if self.random.random::<f64>() * (cpu_rate + device_rate) < cpu_rate {
                let mut client = at_cpu.pop().unwrap();
                self.ask(&mut client);
                self.pass_on(client, &mut at_cpu, &mut waiting);
            } else {
                let mut client = at_device.pop_front().unwrap();
                let page = client.reads.pop().unwrap();
                self.reads += 1;
                if let Some(page) = page {
                    self.read_ahead_of_a_miss(page);
                    self.os.touch(page);
                }
                self.pass_on(client, &mut at_cpu, &mut waiting);
            }
            while times.len() < marks.len() && self.transactions >= marks[times.len()] {
                times.push(self.seconds);
            }
        }
        times
    }

    fn pass_on(&mut self, client: Client, at_cpu: &mut Vec<Client>, waiting: &mut VecDeque<Client>) {
        if client.reads.is_empty() {
            self.transactions += 1;
            at_cpu.push(client);
        } else {
            waiting.push_back(client);
        }
    }

    fn ask(&mut self, client: &mut Client) {
        for class in 0..self.workload.classes.len() {
            if self.files[class].is_some() {
                self.ask_for_a_range(class, client);
                continue;
            }
            for _ in 0..self.workload.classes[class].accesses.round() as usize {
                let page = self.choose_page(class);
                let is_buffer = self.server.buffers_pages.is_finite() && self.buffers.holds(page);
                if self.server.buffers_pages.is_finite() {
                    self.buffers.touch(page);
                }
                if is_buffer {
                    continue;
                }
                if self.os.holds(page) {
                    self.os.touch(page);
                    self.read_on_at_a_mark(page);
                } else {
                    client.reads.push(Some(page));
                }
            }
        }
    }
}

fn make_file(class: &PageClass, window: f64) -> Option<File> {
    (class.run_pages > 1.0).then(|| File::new(class.pages as usize, window as usize))
}

impl Simulation<'_> {
    fn ask_for_a_range(&mut self, class: usize, client: &mut Client) {
        let PageClass { pages, run_pages, .. } = &self.workload.classes[class];
        let length = run_pages.floor() as usize + usize::from(self.random.random::<f64>() < run_pages.fract());
        let start = self.random.random_range(0..=*pages as usize - length);
        let accesses: f64 = self.workload.classes.iter().map(|class| class.accesses).sum();
        let overlap = self.workload.hit_seconds / accesses / self.server.device.latency_at(1.0);
        let file = self.files[class].as_mut().unwrap();
        let (waits, reads) = file.read_range(start, start + length, overlap);
        let waited = waits.floor() as usize + usize::from(self.random.random::<f64>() < waits.fract());
        client.reads.extend((0..waited).map(|_| None));
        self.budget -= reads - waited as f64;
    }
}

impl Simulation<'_> {
    fn window(&self) -> usize {
        self.workload.read_ahead_pages as usize
    }

    fn end_of_class(&self, page: usize) -> usize {
        self.choices.iter().map(|(_, _, end)| *end).find(|end| page < *end).unwrap()
    }

    fn read_ahead_of_a_miss(&mut self, page: usize) {
        if self.window() < 3 {
            return;
        }
        let run = (0..page).rev().take(self.window()).take_while(|before| self.os.holds(*before)).count();
        if run < 2 {
            return;
        }
        let end = (page + (run + 1).min(self.window())).min(self.end_of_class(page));
        if !self.os.holds(end - 1) {
            self.marked[end - 1] = true;
        }
        self.fetch(page + 1, end, true);
    }

    fn read_on_at_a_mark(&mut self, page: usize) {
        if !std::mem::take(&mut self.marked[page]) {
            return;
        }
        let end = self.end_of_class(page);
        let gap = (page + 1..end).take(self.window()).find(|next| !self.os.holds(*next));
        if let Some(gap) = gap {
            self.marked[gap] = true;
            self.fetch(gap, (gap + (2 * (gap - page) + 1).min(self.window())).min(end), false);
        }
    }

    fn fetch(&mut self, start: usize, end: usize, mut is_one_read: bool) {
        for page in start..end {
            let is_missing = !self.os.holds(page);
            if is_missing {
                self.budget -= f64::from(u8::from(!is_one_read));
                self.os.touch(page);
            }
            is_one_read = is_missing;
        }
    }
}

fn class(name: &str, pages: f64, popularity: Popularity) -> PageClass {
    PageClass { name: name.into(), pages, accesses: 1.0, run_pages: 1.0, popularity }
}

fn workload(clients: u32, popularity: Popularity) -> Workload {
    Workload {
        clients,
        classes: vec![
            class("root", 1.0, Popularity::Uniform),
            class("leaf", 2742.0, popularity.clone()),
            class("heap", 16_394.0, popularity),
        ],
        hit_seconds: 0.2e-3,
        read_seconds: 0.0,
        read_ahead_pages: 1.0,
        startup_reads: 0.0,
    }
}

fn server(reads_per_second: f64, buffers_pages: f64, os_pages: f64) -> Server {
    let device = Device::with_limits(reads_per_second, 125e6, 0.4e-3);
    Server { device, cores: 2.0, buffers_pages, os_pages, block_bytes: BLOCK }
}

fn compare(name: &str, workload: &Workload, server: &Server, tolerance: f64) {
    let marks: Vec<u64> = [1e4, 3e4, 6e4].into_iter().map(|mark| mark as u64).collect();
    let forecast = compute_forecast(workload, server, None).unwrap();
    let runs: Vec<Vec<f64>> = (0..3).map(|seed| Simulation::new(workload, server, seed).run(&marks)).collect();
    for (place, mark) in marks.iter().enumerate() {
        let simulated = runs.iter().map(|times| times[place]).sum::<f64>() / runs.len() as f64;
        let computed =
            super::super::closed_form::find_rise(|t| forecast.transactions_after(t), *mark as f64, 1.0).unwrap();
        assert!(
            (computed / simulated - 1.0).abs() < tolerance,
            "{name}, {mark}: {computed} computed, {simulated} simulated"
        );
    }
}

#[test]
fn one_client_on_a_slow_device() {
    compare("uniform", &workload(1, Popularity::Uniform), &server(1e9, f64::INFINITY, 1e9), 0.02);
}

#[test]
fn clients_that_share_device_and_cores() {
    for clients in [4, 16] {
        let name = format!("{clients} clients");
        compare(&name, &workload(clients, Popularity::Uniform), &server(3000.0, f64::INFINITY, 1e9), 0.02);
    }
}

#[test]
fn the_kernel_reads_ahead_where_it_was_read_before() {
    let hot = Popularity::Hot { page_share: 0.1, access_share: 0.99 };
    let zipf = Popularity::Zipfian { exponent: 1.07, rows_per_page: 61.0, is_permuted: true };
    for (popularity, window) in [(Popularity::Uniform, 16.0), (hot, 128.0), (zipf, 16.0)] {
        let name = format!("read-ahead {window}, {popularity:?}");
        let workload = Workload { read_ahead_pages: window, ..workload(4, popularity) };
        compare(&name, &workload, &server(3000.0, f64::INFINITY, 1e9), 0.03);
    }
}

#[test]
fn ranges_of_neighbours_come_in_few_reads() {
    for (run_pages, window, clients) in
        [(10.8, 16.0, 4), (2.6, 16.0, 1), (83.0, 16.0, 4), (10.8, 128.0, 16), (10.8, 1.0, 4)]
    {
        let name = format!("{clients} clients, ranges of {run_pages}, read-ahead {window}");
        let mut workload = Workload { read_ahead_pages: window, ..workload(clients, Popularity::Uniform) };
        workload.classes[2] =
            PageClass { pages: 160_394.0, run_pages, accesses: run_pages, ..workload.classes[2].clone() };
        let mut server = server(3000.0, f64::INFINITY, 1e9);
        server.device.bandwidth = f64::INFINITY;
        compare(&name, &workload, &server, 0.03);
    }
}

#[test]
fn popular_pages_are_cached_first() {
    let zipf = |exponent, is_permuted| Popularity::Zipfian { exponent, rows_per_page: 61.0, is_permuted };
    let hot = Popularity::Hot { page_share: 0.1, access_share: 0.99 };
    let exponential = Popularity::Exponential { parameter: 20.0 };
    for popularity in [zipf(0.9, true), zipf(1.07, true), zipf(1.07, false), hot, exponential] {
        let name = format!("{popularity:?}");
        compare(&name, &workload(4, popularity), &server(1000.0, f64::INFINITY, 1e9), 0.02);
    }
}

#[test]
fn a_cache_smaller_than_the_data() {
    for popularity in
        [Popularity::Uniform, Popularity::Zipfian { exponent: 1.07, rows_per_page: 61.0, is_permuted: true }]
    {
        let name = format!("small cache, {popularity:?}");
        compare(&name, &workload(4, popularity), &server(3000.0, f64::INFINITY, 8000.0), 0.02);
    }
}

#[test]
fn shared_buffers_before_a_small_page_cache() {
    let zipf = Popularity::Zipfian { exponent: 1.07, rows_per_page: 61.0, is_permuted: true };
    for popularity in [Popularity::Uniform, zipf] {
        let name = format!("two tiers, {popularity:?}");
        compare(&name, &workload(4, popularity), &server(3000.0, 3000.0, 8000.0), 0.03);
    }
}

#[test]
fn the_closed_form_is_a_case_of_it() {
    let mut one = workload(1, Popularity::Uniform);
    one.classes = vec![class("all", 191_360.0, Popularity::Uniform)];
    one.hit_seconds = 0.22e-3;
    let device = Device::with_limits(f64::INFINITY, f64::INFINITY, 4.48e-3);
    let server = Server { device, ..server(1.0, f64::INFINITY, f64::INFINITY) };
    let forecast = compute_forecast(&one, &server, None).unwrap();
    let closed = crate::WarmUp::simple(191_360.0, 4.7e-3, 0.22e-3).unwrap();
    for share in [0.5, 0.9, 0.95] {
        let (general, exact) = (forecast.seconds_to_share(share).unwrap(), closed.seconds_to_share(share).unwrap());
        assert!((general / exact - 1.0).abs() < 1e-3, "{share}: {general} {exact}");
    }
    assert!(forecast.seconds_to_warm().unwrap() > forecast.seconds_to_share(0.5).unwrap());
}

#[test]
fn a_warmer_is_bound_by_bandwidth_and_heat_order_is_sooner() {
    let workload = workload(8, Popularity::Hot { page_share: 0.1, access_share: 0.99 });
    let server =
        Server { device: Device::with_limits(500.0, 20e6, 0.5e-3), ..server(1.0, f64::INFINITY, f64::INFINITY) };
    let warm = |warmer: Option<&Warmer>| compute_forecast(&workload, &server, warmer).unwrap();
    let cat = Warmer::in_file_order(&workload, BLOCK, 4, 262_144.0);
    let hottest = Warmer::hottest_first(&workload, BLOCK, 4, 262_144.0);
    let (nothing, cat, hottest) = (warm(None), warm(Some(&cat)), warm(Some(&hottest)));
    let bound = workload.classes.iter().map(|class| class.pages).sum::<f64>() * BLOCK / 20e6;
    let ended = cat.warmer_ends_seconds.unwrap();
    assert!(ended > 0.8 * bound && ended < 1.3 * bound, "{ended} {bound}");
    let half = |forecast: &super::Forecast| forecast.seconds_to_share(0.5).unwrap();
    assert!(half(&hottest) < half(&nothing), "{} {}", half(&hottest), half(&nothing));
    assert!(half(&hottest) < 0.5 * half(&cat), "{} {}", half(&hottest), half(&cat));
}

#[test]
fn a_warmer_ends_also_where_the_cache_is_too_small() {
    let workload = workload(8, Popularity::Zipfian { exponent: 1.07, rows_per_page: 61.0, is_permuted: true });
    let server = server(3000.0, f64::INFINITY, 6000.0);
    let hottest = Warmer::hottest_first(&workload, BLOCK, 4, 262_144.0);
    let forecast = compute_forecast(&workload, &server, Some(&hottest)).unwrap();
    let bound = workload.classes.iter().map(|class| class.pages).sum::<f64>() * BLOCK / 125e6;
    assert!(forecast.warmer_ends_seconds.unwrap() < 2.0 * bound, "{:?}", forecast.warmer_ends_seconds);
    assert!(forecast.seconds_to_share(0.9).is_some() && forecast.points.len() < 1500);
}

#[test]
fn a_million_pages_are_quick() {
    let zipf = Popularity::Zipfian { exponent: 1.07, rows_per_page: 61.0, is_permuted: true };
    let mut workload = workload(16, zipf);
    workload.classes[1].pages = 170_000.0;
    workload.classes[2].pages = 1_000_000.0;
    let server = server(3000.0, 131_072.0, 500_000.0);
    let started = std::time::Instant::now();
    let forecast = compute_forecast(&workload, &server, None).unwrap();
    // Optimised code takes under 100 ms; the test checks the number of steps instead.
    assert!(forecast.points.len() < 1500, "{} points in {:?}", forecast.points.len(), started.elapsed());
    assert!(forecast.steady_reading_share > 0.0 && forecast.seconds_to_share(0.5).is_some());
}
