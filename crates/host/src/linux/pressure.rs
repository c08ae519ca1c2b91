//! Pressure stall information: the share of time in which someone waited for a resource.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use procfs::{CpuPressure, FromRead as _, IoPressure, MemoryPressure, PressureRecord, ProcError};

use super::Error;

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// A processor.
    Cpu,
    Io,
    Memory,
}

impl Resource {
    fn name(self) -> &'static str {
        match self {
            Resource::Cpu => "cpu",
            Resource::Io => "io",
            Resource::Memory => "memory",
        }
    }
}

/// How much was waited.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pressure {
    /// Share of the last ten seconds in which at least one task waited, 0 to 1.
    pub some_ratio_avg10: f64,
    /// Share of the last ten seconds in which all tasks that had something to do waited, 0 to 1.
    pub full_ratio_avg10: f64,
    /// Microseconds in which at least one task waited, since the machine booted.
    pub some_us_total: u64,
    /// Microseconds in which all tasks that had something to do waited, since the machine booted.
    pub full_us_total: u64,
}

/// The whole machine's pressure. `None` where the kernel does not measure it (`psi=1` on its command line mends that).
pub fn read_pressure(resource: Resource) -> Result<Option<Pressure>, Error> {
    read_file(&PathBuf::from("/proc/pressure").join(resource.name()), resource)
}

/// The pressure in a cgroup of version 2, given its directory. `None` where there is none.
pub fn read_cgroup_pressure(directory: &Path, resource: Resource) -> Result<Option<Pressure>, Error> {
    read_file(&directory.join(format!("{}.pressure", resource.name())), resource)
}

fn read_file(path: &Path, resource: Resource) -> Result<Option<Pressure>, Error> {
    let records = match resource {
        Resource::Cpu => CpuPressure::from_file(path).map(|found| (found.some, found.full)),
        Resource::Io => IoPressure::from_file(path).map(|found| (found.some, found.full)),
        Resource::Memory => MemoryPressure::from_file(path).map(|found| (found.some, found.full)),
    };
    match records {
        Ok((some, full)) => Ok(Some(convert(&some, &full))),
        Err(ProcError::NotFound(_)) => Ok(None),
        // The file is there, but the kernel was booted without measuring.
        Err(ProcError::Io(error, _)) if error.kind() == ErrorKind::Unsupported => Ok(None),
        Err(error) => Err(Error::proc("read the pressure", error)),
    }
}

fn convert(some: &PressureRecord, full: &PressureRecord) -> Pressure {
    Pressure {
        some_ratio_avg10: f64::from(some.avg10) / 100.0,
        full_ratio_avg10: f64::from(full.avg10) / 100.0,
        some_us_total: some.total,
        full_us_total: full.total,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_ratios() {
        let directory = tempfile::tempdir().unwrap();
        let text =
            "some avg10=50.00 avg60=1.00 avg300=0.00 total=1234\nfull avg10=25.00 avg60=0.00 avg300=0.00 total=5\n";
        std::fs::write(directory.path().join("io.pressure"), text).unwrap();
        let expected =
            Pressure { some_ratio_avg10: 0.5, full_ratio_avg10: 0.25, some_us_total: 1234, full_us_total: 5 };
        assert_eq!(read_cgroup_pressure(directory.path(), Resource::Io).unwrap(), Some(expected));
        assert_eq!(read_cgroup_pressure(directory.path(), Resource::Memory).unwrap(), None);
    }

    #[test]
    fn the_machine_has_pressure_or_none() {
        for resource in [Resource::Cpu, Resource::Io, Resource::Memory] {
            let pressure = read_pressure(resource).unwrap();
            assert!(pressure.is_none_or(|pressure| (0.0..=1.0).contains(&pressure.some_ratio_avg10)));
        }
    }
}
