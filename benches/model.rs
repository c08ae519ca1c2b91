//! What the model costs: forecasts of a database of a million pages, a fit, a verdict. Goal: a forecast in less than 100 ms.
//!
//! `cargo bench --bench model`

use criterion::{Criterion, criterion_group, criterion_main};
use model::{
    Device, Facts, PageClass, Popularity, Series, Server, WarmUp, Warmer, Workload, compute_forecast, fit_warm_up,
    judge,
};
use std::hint::black_box;

const PAGES: f64 = 1e6;
const BLOCK_BYTES: f64 = 8192.0;

/// A table of a million pages and the leaves of its index.
fn make_workload(popularity: &Popularity) -> Workload {
    let class = |name: &str, pages, popularity: &Popularity| PageClass {
        name: name.into(),
        pages,
        accesses: 1.0,
        run_pages: 1.0,
        popularity: popularity.clone(),
    };
    Workload {
        clients: 16,
        classes: vec![class("table", PAGES, popularity), class("leaves", PAGES / 6.0, popularity)],
        hit_seconds: 0.1e-3,
        read_seconds: 0.01e-3,
        read_ahead_pages: 1.0,
        startup_reads: 0.0,
    }
}

/// A common cloud volume, with memory for so many pages.
fn make_server(os_pages: f64) -> Server {
    Server {
        device: Device::with_limits(3000.0, 131_072_000.0, 0.5e-3),
        cores: 2.0,
        buffers_pages: 131_072.0,
        os_pages,
        block_bytes: BLOCK_BYTES,
    }
}

fn measure_forecasts(criterion: &mut Criterion) {
    let permuted = Popularity::Zipfian { exponent: 1.07, rows_per_page: 61.0, is_permuted: true };
    let mut group = criterion.benchmark_group("forecast of a million pages");
    for (name, popularity, os_pages, is_restored) in [
        ("uniform", Popularity::Uniform, f64::INFINITY, false),
        ("scattered zipfian 1.07", permuted.clone(), f64::INFINITY, false),
        ("scattered zipfian 1.07, half of the memory", permuted.clone(), PAGES / 2.0, false),
        ("scattered zipfian 1.07, with a restore", permuted, f64::INFINITY, true),
    ] {
        let (workload, server) = (make_workload(&popularity), make_server(os_pages));
        let warmer = is_restored.then(|| Warmer::hottest_first(&workload, BLOCK_BYTES, 4, 262_144.0));
        group.bench_function(name, |bencher| {
            bencher.iter(|| compute_forecast(black_box(&workload), &server, warmer.as_ref()));
        });
    }
    group.finish();
}

fn measure_verdicts(criterion: &mut Criterion) {
    let curve = WarmUp::simple(191_360.0, 4.7e-3, 0.22e-3).expect("the source's own case");
    let mut collector = Series::new(1.0);
    for second in 0..1800 {
        let (from, to) = (f64::from(second), f64::from(second) + 1.0);
        collector.add(from, to, curve.transactions_after(to) - curve.transactions_after(from), None);
    }
    let series = collector.finish(Facts::default(), Vec::new());
    criterion.bench_function("fit of 1800 s", |bencher| bencher.iter(|| fit_warm_up(black_box(&series))));
    criterion.bench_function("verdict of 1800 s", |bencher| bencher.iter(|| judge(black_box(&series), None)));
}

criterion_group! {
    name = model;
    config = Criterion::default().sample_size(20);
    targets = measure_forecasts, measure_verdicts
}
criterion_main!(model);
