//! How many are asked for, and what became of them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::time::{Duration, Instant};

/// What is counted of one part.
#[derive(Debug)]
pub struct Figures {
    title: &'static str,
    wanted: usize,
    points: BTreeMap<String, usize>,
    checks: BTreeMap<&'static str, usize>,
    told: Instant,
}

impl Figures {
    /// As many as an environment variable says, or so few that it takes seconds.
    pub fn new(title: &'static str, variable: &str, few: usize) -> Figures {
        Figures::of(title, std::env::var(variable).map_or(few, |count| count.parse().unwrap()))
    }

    /// At least so many.
    pub fn of(title: &'static str, wanted: usize) -> Figures {
        Figures { title, wanted, points: BTreeMap::new(), checks: BTreeMap::new(), told: Instant::now() }
    }

    pub fn count(&self) -> usize {
        self.points.values().sum()
    }

    pub fn is_enough(&self) -> bool {
        self.count() >= self.wanted
    }

    /// One more, and where it fell.
    #[allow(clippy::print_stderr)]
    pub fn note(&mut self, point: impl Into<String>) {
        *self.points.entry(point.into()).or_default() += 1;
        if self.told.elapsed() > Duration::from_secs(10) {
            self.told = Instant::now();
            eprintln!("{}: {} of {}", self.title, self.count(), self.wanted);
        }
    }

    /// Something was looked at and was as it has to be; what is not ends the test.
    pub fn checked(&mut self, what: &'static str, count: usize) {
        *self.checks.entry(what).or_default() += count;
    }

    /// Tells them, and adds them to the file PGTHAW_KILLS_FIGURES.
    #[allow(clippy::print_stderr)]
    pub fn finish(self) {
        assert!(self.is_enough(), "{}: {} of {}", self.title, self.count(), self.wanted);
        let mut text = format!("{}: {}\n", self.title, self.count());
        let mut points: Vec<_> = self.points.iter().collect();
        points.sort_by_key(|(point, count)| (std::cmp::Reverse(**count), *point));
        for (point, count) in points {
            writeln!(text, "  {count:>5}  {point}").unwrap();
        }
        text += "  checked, with nothing lost, doubled or left:\n";
        for (what, count) in &self.checks {
            writeln!(text, "  {count:>5}  {what}").unwrap();
        }
        eprintln!("{text}");
        if let Some(file) = std::env::var_os("PGTHAW_KILLS_FIGURES") {
            let mut file = OpenOptions::new().append(true).create(true).open(file).unwrap();
            file.write_all(format!("{text}\n").as_bytes()).unwrap();
        }
    }
}
