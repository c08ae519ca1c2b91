//! Who brings back what is wanted: each as its user would run it.

use std::ffi::OsString;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

use super::wanted::WantedFile;
use crate::bench::lab::Lab;
use crate::bench::launch::Launch;
use crate::bench::strategy::{Strategy, WarmSnapshots, find_program, plan_launch};
use crate::bench::{Disk, Error, PGTHAW};
use crate::warm::traffic::Sharing;

/// Threads of the loader that merges nothing: as many as a restore has.
const RANGE_THREADS: &str = "16";

/// fio is given the files from this size on: it reads whole blocks of 1 MiB.
const FIO_BLOCK_BYTES: u64 = 1 << 20;

/// Reads that fio keeps in flight.
const FIO_DEPTH: u32 = 16;

/// A way to get pages into the page cache. fio's direct reads, which leave nothing there, are what the device can give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loader {
    /// `pgthaw restore --tier os`.
    Pgthaw,
    /// `pgthaw restore`, until shared_buffers are back.
    PgthawBoth,
    /// A read for every range of the snapshot, by 16 threads.
    Ranges,
    /// pgfincore's snapshot, through its loader.
    Pgfincore,
    Cat,
    Vmtouch,
    /// fio, io_uring, in order through the page cache.
    FioBuffered,
    /// fio, io_uring, in order past it.
    FioDirect,
}

impl Loader {
    /// All of them, in the order in which people read about them.
    pub const ALL: [Loader; 8] = [
        Loader::Pgthaw,
        Loader::PgthawBoth,
        Loader::Ranges,
        Loader::Pgfincore,
        Loader::Cat,
        Loader::Vmtouch,
        Loader::FioBuffered,
        Loader::FioDirect,
    ];

    /// The name for the command line, for results and for tables.
    pub fn name(self) -> &'static str {
        match self {
            Loader::Pgthaw => PGTHAW,
            Loader::PgthawBoth => "pgthaw-both",
            Loader::Ranges => "one-read-per-range",
            Loader::Pgfincore => "pgfincore",
            Loader::Cat => "cat",
            Loader::Vmtouch => "vmtouch",
            Loader::FioBuffered => "fio-buffered",
            Loader::FioDirect => "fio-direct",
        }
    }

    /// Does it leave anything in the page cache?
    pub fn fills_cache(self) -> bool {
        self != Loader::FioDirect
    }

    /// Does it bring shared_buffers back too?
    pub fn fills_buffers(self) -> bool {
        self == Loader::PgthawBoth
    }

    pub fn is_fio(self) -> bool {
        matches!(self, Loader::FioBuffered | Loader::FioDirect)
    }

    /// The strategy whose snapshot it needs and whose obstacles it has; `nothing` has none.
    pub fn strategy(self) -> Strategy {
        match self {
            Loader::Pgthaw | Loader::PgthawBoth => Strategy::Pgthaw(Sharing::Fair),
            Loader::Pgfincore => Strategy::Pgfincore,
            Loader::Cat => Strategy::Cat,
            Loader::Vmtouch => Strategy::Vmtouch,
            Loader::Ranges | Loader::FioBuffered | Loader::FioDirect => Strategy::Nothing,
        }
    }

    /// Which program of its own is missing, with the command that gets it.
    pub fn find_missing_program(self) -> Option<String> {
        self.is_fio().then(|| find_program("fio")).flatten()
    }
}

impl fmt::Display for Loader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Loader {
    type Err = Error;

    fn from_str(text: &str) -> Result<Loader, Error> {
        Loader::ALL.into_iter().find(|loader| loader.name() == text).ok_or_else(|| Error::UnknownLoader {
            name: text.to_owned(),
            known: Loader::ALL.map(Loader::name).join(", "),
        })
    }
}

/// What a loader's command needs to know.
#[derive(Clone, Copy, Debug)]
pub struct LoadPlan<'a> {
    pub lab: &'a Lab,
    pub snapshots: &'a WarmSnapshots,
    pub disk: &'a Disk,
    pub wanted: &'a [WantedFile],
    /// The ranges as text.
    pub range_list: &'a Path,
    /// Where fio writes what it measured.
    pub fio_output: &'a Path,
}

impl LoadPlan<'_> {
    /// The command of a loader.
    pub fn launch(&self, loader: Loader) -> Result<Launch, Error> {
        match loader {
            Loader::Ranges => read_ranges(self.range_list),
            Loader::FioBuffered => Ok(self.fio(false)),
            Loader::FioDirect => Ok(self.fio(true)),
            Loader::Pgthaw => self.strategy(loader, &["--tier", "os"]),
            Loader::PgthawBoth => self.strategy(loader, &["--tier", "both"]),
            Loader::Pgfincore | Loader::Cat | Loader::Vmtouch => self.strategy(loader, &[]),
        }
    }

    fn strategy(&self, loader: Loader, more: &[&str]) -> Result<Launch, Error> {
        let Some(mut launch) = plan_launch(loader.strategy(), self.lab, self.snapshots, self.disk)? else {
            unreachable!("{loader} has a command");
        };
        launch.arguments.extend(more.iter().map(OsString::from));
        Ok(launch)
    }

    /// Sequential reads of the wanted files, one after the other.
    fn fio(&self, is_direct: bool) -> Launch {
        let is_large =
            |file: &&WantedFile| std::fs::metadata(&file.path).is_ok_and(|file| file.len() >= FIO_BLOCK_BYTES);
        // fio separates files by colons.
        let files = self.wanted.iter().filter(is_large).map(|file| file.path.to_string_lossy().replace(':', "\\:"));
        let files = files.collect::<Vec<_>>().join(":");
        let mut output = OsString::from("--output=");
        output.push(self.fio_output);
        let mut arguments: Vec<OsString> = ["--name=read", "--rw=read", "--readonly", "--ioengine=io_uring"]
            .into_iter()
            .chain(["--file_service_type=sequential", "--output-format=json", "--invalidate=0"])
            .map(OsString::from)
            .collect();
        arguments.push(format!("--direct={}", u8::from(is_direct)).into());
        arguments.push(format!("--bs={FIO_BLOCK_BYTES}").into());
        arguments.push(format!("--iodepth={FIO_DEPTH}").into());
        arguments.push(format!("--filename={files}").into());
        arguments.push(output);
        Launch::new("fio", arguments)
    }
}

fn read_ranges(list: &Path) -> Result<Launch, Error> {
    let program = std::env::current_exe().map_err(|source| Error::Launch { command: PGTHAW.into(), source })?;
    let arguments: [OsString; 5] =
        ["bench".into(), "read-ranges".into(), list.into(), "--threads".into(), RANGE_THREADS.into()];
    Ok(Launch::new(program, arguments))
}

/// What fio says of its reads: bytes, and seconds.
pub fn parse_fio(text: &str) -> Option<(u64, f64)> {
    // Warnings may stand before the document.
    let document: serde_json::Value = serde_json::from_str(text.get(text.find('{')?..)?).ok()?;
    let read = document.pointer("/jobs/0/read")?;
    Some((read["io_bytes"].as_u64()?, read["runtime"].as_f64()? / 1000.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for loader in Loader::ALL {
            assert_eq!(loader.name().parse::<Loader>().unwrap(), loader);
        }
        let unknown = "dd".parse::<Loader>().unwrap_err().to_string();
        assert!(unknown.contains("\"dd\"") && unknown.contains("one-read-per-range"), "{unknown}");
    }

    #[test]
    fn fio_tells_bytes_and_milliseconds() {
        let text = "fio: a warning\n{\"jobs\": [{\"read\": {\"io_bytes\": 3145728, \"runtime\": 1500}}]}";
        assert_eq!(parse_fio(text), Some((3_145_728, 1.5)));
        assert_eq!(parse_fio("killed"), None);
    }
}
