//! Reads all gauges once per second on an absolute schedule, in a thread of its own.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::processes::ServerProcesses;
use super::sample::{GaugeReading, compute_os_samples};
use crate::Error;
use crate::OsSample;
use crate::sampler::wait_until;
use host::linux::block_device::Devices;
use host::linux::clock;
use host::linux::memory::read_memory_use;
use host::linux::pressure::{Resource, read_pressure};
use host::linux::schedule::{read_processor_times, read_thread_times};

/// Where the gauges are.
#[derive(Clone, Debug)]
pub struct GaugeSources {
    pub devices: Devices,
    /// Processes of the load generator.
    pub generator_pids: Vec<u32>,
    pub postmaster_pid: u32,
    /// The backend that serves pgthaw's own looks, if there is one.
    pub observer_pid: Option<u32>,
}

impl GaugeReading {
    fn read(second: u32, sources: &GaugeSources, processes: &mut ServerProcesses) -> GaugeReading {
        let threads_of = |pid: &u32| read_thread_times(*pid).unwrap_or_default();
        let threads = sources.generator_pids.iter().flat_map(threads_of);
        GaugeReading {
            second,
            generator: threads.collect(),
            server: processes.read(),
            ..GaugeReading::read_machine(&sources.devices)
        }
    }

    /// What the machine did, for anybody.
    pub fn read_machine(devices: &Devices) -> GaugeReading {
        let pressure = |resource| read_pressure(resource).ok().flatten();
        GaugeReading {
            monotonic: clock::read_monotonic(),
            own_cpu: clock::read_own_cpu_time(),
            processors: read_processor_times().unwrap_or_default(),
            device: devices.read().ok().flatten(),
            parts: devices.read_parts(),
            memory: read_memory_use().unwrap_or_default(),
            cpu_pressure: pressure(Resource::Cpu),
            io_pressure: pressure(Resource::Io),
            memory_pressure: pressure(Resource::Memory),
            ..GaugeReading::default()
        }
    }
}

/// The thread that reads. Dropping it stops it at its next tick.
#[derive(Debug)]
pub struct GaugeSampler {
    thread: JoinHandle<Vec<GaugeReading>>,
    stop: Sender<()>,
}

impl GaugeSampler {
    /// Reads at `start` (a monotonic instant) and at the end of each of `seconds` seconds. A second whose end has passed
    /// before it could be read shares what the next reading brings.
    pub fn start(sources: GaugeSources, start: Duration, seconds: u32) -> Result<GaugeSampler, Error> {
        let (stop, stopped) = channel();
        let work = move || sample(sources, start, seconds, &stopped);
        let thread = std::thread::Builder::new().spawn(work).map_err(Error::Thread)?;
        Ok(GaugeSampler { thread, stop })
    }

    /// Ends before the schedule does, and returns what happened in each second so far.
    pub fn stop(self) -> Vec<OsSample> {
        let GaugeSampler { thread, stop } = self;
        drop(stop);
        join(thread)
    }

    /// Waits for the last reading, and returns what happened in each second.
    pub fn finish(self) -> Vec<OsSample> {
        join(self.thread)
    }
}

fn join(thread: JoinHandle<Vec<GaugeReading>>) -> Vec<OsSample> {
    // A panic in the thread is a defect, not a state to go on from.
    compute_os_samples(&thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
}

pub fn sample(sources: GaugeSources, start: Duration, seconds: u32, stopped: &Receiver<()>) -> Vec<GaugeReading> {
    let mut processes = ServerProcesses::new(sources.postmaster_pid, sources.observer_pid);
    let mut readings = Vec::new();
    let mut second = 0;
    while second <= seconds && wait_until(start + Duration::from_secs(second.into()), stopped) {
        readings.push(GaugeReading::read(second, &sources, &mut processes));
        let passed = clock::read_monotonic().saturating_sub(start).as_secs() as u32;
        second = passed.max(second) + 1;
    }
    readings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_second_has_a_sample_and_it_can_be_stopped_before_its_schedule() {
        let me = std::process::id();
        let sources = GaugeSources {
            devices: Devices::default(),
            generator_pids: vec![me],
            postmaster_pid: me,
            observer_pid: None,
        };
        let start = clock::read_monotonic();
        let sampler = GaugeSampler::start(sources, start, 3600).unwrap();
        std::thread::sleep(Duration::from_millis(1300));
        let samples = sampler.stop();
        assert_eq!(samples.iter().map(|sample| sample.second).collect::<Vec<_>>(), [1]);
        assert!(!samples[0].generator_threads.is_empty() && samples[0].device.is_none());
        assert!(samples[0].processors_busy_seconds > 0.0, "{samples:?}");
    }
}
