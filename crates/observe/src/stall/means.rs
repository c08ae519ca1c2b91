//! What some steps had in the mean.

use std::collections::BTreeMap;

use super::step::Step;

/// Means over some steps, each by its length. Numbers are of backends or of processors.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Means {
    pub seconds: f64,
    pub commands: u64,
    pub backends: f64,
    pub ready: f64,
    pub waits: BTreeMap<(String, String), f64>,
    pub processors: f64,
    pub server_processors: f64,
    pub busy: f64,
    pub steal: f64,
    /// The busiest device: what lies on it, and the share of the time in which it was busy.
    pub busiest: Option<(&'static str, f64)>,
    pub memory_wait: f64,
    /// Share of the time in which somebody waited for a processor. Where the kernel does not tell, somebody may all the time.
    pub processor_wait: f64,
}

impl Means {
    pub fn of(steps: &[Step]) -> Means {
        let length_ns: u64 = steps.iter().map(|step| step.length_ns).sum();
        let mean = |of: &dyn Fn(&Step) -> f64| {
            let sum: f64 = steps.iter().map(|step| of(step) * step.length_ns as f64).sum();
            if length_ns > 0 { sum / length_ns as f64 } else { 0.0 }
        };
        let mut waits: BTreeMap<(String, String), f64> = BTreeMap::new();
        for step in steps {
            for (event, count) in &step.backends.waits {
                *waits.entry(event.clone()).or_default() += count * step.length_ns as f64 / length_ns.max(1) as f64;
            }
        }
        let devices = steps.iter().flat_map(|step| step.machine.devices.keys().copied());
        let of_device = |name: &'static str| mean(&|step| step.machine.devices.get(name).copied().unwrap_or(0.0));
        let busiest = devices.map(|name| (name, of_device(name))).max_by(|one, other| one.1.total_cmp(&other.1));
        Means {
            seconds: length_ns as f64 / 1e9,
            commands: steps.iter().map(|step| step.commands).sum(),
            backends: mean(&|step| step.backends.count),
            ready: mean(&|step| step.backends.ready),
            waits,
            processors: mean(&|step| step.machine.processors),
            server_processors: mean(&|step| step.server_processors),
            busy: mean(&|step| step.machine.busy),
            steal: mean(&|step| step.machine.steal),
            busiest,
            memory_wait: mean(&|step| step.machine.memory_wait.unwrap_or(0.0)),
            processor_wait: mean(&|step| step.machine.processor_wait.unwrap_or(1.0)),
        }
    }

    /// Backends in waits of one of these classes.
    pub fn of_classes(&self, classes: &[&str]) -> f64 {
        let of = self.waits.iter().filter(|((class, _), _)| classes.contains(&class.as_str()));
        of.map(|(_, count)| count).sum()
    }

    /// Processors that neither the server had nor the hypervisor gave away.
    pub fn others(&self) -> f64 {
        (self.busy - self.server_processors).max(0.0)
    }

    pub fn commands_per_second(&self) -> f64 {
        if self.seconds > 0.0 { self.commands as f64 / self.seconds } else { 0.0 }
    }

    /// Waits of these classes that more backends were in than before, those with the most growth first: name, and how many now.
    pub fn grown(&self, before: &Means, classes: &[&str]) -> Vec<(String, f64)> {
        let of = self.waits.iter().filter(|((class, _), _)| classes.contains(&class.as_str()));
        let growth = |(event, now): (&(String, String), &f64)| {
            let earlier = before.waits.get(event).copied().unwrap_or(0.0);
            (format!("{}:{}", event.0, event.1), *now, now - earlier)
        };
        let mut grown: Vec<(String, f64, f64)> = of.map(growth).filter(|(_, _, more)| *more > 0.0).collect();
        grown.sort_by(|one, other| other.2.total_cmp(&one.2));
        grown.into_iter().map(|(name, now, _)| (name, now)).collect()
    }
}
