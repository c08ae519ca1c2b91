//! The command of each loader.

use std::ffi::OsString;
use std::path::Path;

use super::wanted::WantedFile;
use crate::bench::warmer::{WarmSnapshots, plan_launch};
use crate::lab::{Error, Lab, Launch};
use crate::study::{Disk, Loader, PGTHAW};

/// Threads of the loader that merges nothing: as many as a restore has.
const RANGE_THREADS: &str = "16";

/// fio is given the files from this size on: it reads whole blocks of 1 MiB.
const FIO_BLOCK_BYTES: u64 = 1 << 20;

/// Reads that fio keeps in flight.
const FIO_DEPTH: u32 = 16;

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
    fn fio_tells_bytes_and_milliseconds() {
        let text = "fio: a warning\n{\"jobs\": [{\"read\": {\"io_bytes\": 3145728, \"runtime\": 1500}}]}";
        assert_eq!(parse_fio(text), Some((3_145_728, 1.5)));
        assert_eq!(parse_fio("killed"), None);
    }
}
