//! A file that an export goes to: it is there whole or not at all. A device or a pipe is written to.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;

use super::parquet::ParquetRows;
use super::{Cell, Error, ExportColumn, RowWriter as _};
use host::files::{Draft, as_owner_of, directory_of, draft_beside};

/// Opened, and not there yet. Dropping it leaves nothing behind.
#[derive(Debug)]
pub struct ExportFile {
    path: PathBuf,
    /// What names it on the command line.
    option: &'static str,
    target: Target,
}

/// Where an export goes.
#[derive(Debug)]
enum Target {
    /// A device or a pipe.
    Stream(File),
    /// A draft, and the name that it gets.
    File(OsString, Draft),
}

impl ExportFile {
    /// Opens what is to be written, with the rights of whose place it is; `option` is what names it, such as `--output FILE`.
    pub fn open(path: &Path, option: &'static str) -> Result<ExportFile, Error> {
        // Where everybody may put a name it says nothing of who decides.
        let place = if is_shared(path) { directory_of(path) } else { path };
        let opened = as_owner_of(place, || open_target(path)).and_then(|opened| opened);
        let target = opened.map_err(|source| Error::ExportTo { path: path.to_owned(), option, source })?;
        Ok(ExportFile { path: path.to_owned(), option, target })
    }

    /// Writes a table of this name and places the file; `facts` are what it says of itself, as keys and text.
    pub fn write_parquet(
        self,
        name: &str,
        columns: &[ExportColumn],
        facts: &[(&str, String)],
        rows: Vec<Vec<Cell>>,
    ) -> Result<(), Error> {
        let writer = ParquetRows::new(name, columns, facts, self.output()?).map(Box::new);
        let written = writer.and_then(|mut writer| {
            writer.write(rows)?;
            writer.finish()
        });
        written.map_err(|source| self.failed(source))?;
        self.place()
    }

    /// Where rows are written.
    pub fn output(&self) -> Result<BufWriter<File>, Error> {
        let file = match &self.target {
            Target::Stream(file) => file,
            Target::File(_, draft) => draft.file(),
        };
        Ok(BufWriter::new(file.try_clone().map_err(|source| self.failed(source))?))
    }

    /// The error of writing to it, with its name.
    pub fn told(&self, error: Error) -> Error {
        if let Error::Export(source) = error { self.failed(source) } else { error }
    }

    fn failed(&self, source: io::Error) -> Error {
        Error::ExportTo { path: self.path.clone(), option: self.option, source }
    }

    /// What was written gets its name.
    pub fn place(self) -> Result<(), Error> {
        let ExportFile { path, option, target } = self;
        match target {
            Target::Stream(_) => Ok(()),
            Target::File(name, draft) => draft.place(name).map_err(|source| Error::ExportTo { path, option, source }),
        }
    }
}

fn open_target(path: &Path) -> io::Result<Target> {
    let is_shared = is_shared(path);
    // Behind a link the file itself is replaced; where everybody may put a link, the link.
    let target = if is_shared { path.to_owned() } else { path.canonicalize().unwrap_or_else(|_| path.to_owned()) };
    match std::fs::symlink_metadata(&target) {
        Ok(facts) if is_shared && (facts.is_file() || facts.is_symlink()) => {}
        Ok(facts) if facts.is_dir() => return Err(ErrorKind::IsADirectory.into()),
        Ok(facts) if !facts.is_file() => {
            // A pipe that nobody reads from is no place (ENXIO); it is not waited for.
            let flags = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW;
            let file = OpenOptions::new()
                .write(true)
                .custom_flags(flags.bits().cast_signed())
                .open(&target)
                .map_err(no_reader)?;
            if file.metadata()?.is_file() {
                return Err(io::Error::other("it was exchanged for a file meanwhile"));
            }
            fcntl_setfl(&file, OFlags::empty())?;
            return Ok(Target::Stream(file));
        }
        _ => {}
    }
    let name = target.file_name().ok_or(ErrorKind::IsADirectory)?.to_owned();
    // A directory that was mistyped is not made.
    std::fs::metadata(directory_of(&target))?;
    Ok(Target::File(name, draft_beside(&target)?))
}

/// May everybody put something beside this file?
fn is_shared(path: &Path) -> bool {
    std::fs::metadata(directory_of(path)).is_ok_and(|facts| facts.mode() & 0o002 != 0)
}

fn no_reader(error: io::Error) -> io::Error {
    match Errno::from_io_error(&error) {
        Some(Errno::NXIO) => io::Error::new(ErrorKind::BrokenPipe, "nobody reads from this pipe"),
        _ => error,
    }
}
