//! A measured curve from a file: opened here, understood in `crates/model/src/`.

use std::io::{self, BufRead, BufReader, Read as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use host::failure::{ErrorKind, Explain};
use host::files::open_regular_or_pipe;
use model::{Reader, Series};

/// No line that pgbench writes is longer.
const LONGEST_LINE: u64 = 64 << 10;

/// What is wrong with the file itself.
#[derive(Debug, thiserror::Error)]
pub enum MeasuredError {
    #[error("cannot read {}: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{} has a line of more than {LONGEST_LINE} bytes: it is no text that pgbench wrote", .0.display())]
    LongLine(PathBuf),
}

impl Explain for MeasuredError {
    fn kind(&self) -> ErrorKind {
        match self {
            MeasuredError::Unreadable { source, .. } => match source.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::IsADirectory => ErrorKind::Usage,
                io::ErrorKind::PermissionDenied => ErrorKind::Privilege,
                _ => ErrorKind::Failed,
            },
            MeasuredError::LongLine(_) => ErrorKind::Usage,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            MeasuredError::Unreadable { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                Some("a stored run is named without a dot or a slash; `pgthaw results list` lists them".into())
            }
            MeasuredError::Unreadable { source, .. } if source.kind() == io::ErrorKind::IsADirectory => {
                Some("name a file in it: what `pgbench --progress` printed, or one of its logs, pgbench_log.*".into())
            }
            _ => None,
        }
    }
}

/// Reads a file, or standard input for `-`, line by line: of a log of any length little is held.
pub fn read_series(path: &Path) -> anyhow::Result<Series> {
    let unreadable = |source| MeasuredError::Unreadable { path: path.to_owned(), source };
    let series = if path == Path::new("-") {
        read_lines(io::stdin().lock(), path)
    } else {
        let file = open_regular_or_pipe(path).map_err(unreadable)?;
        read_lines(BufReader::with_capacity(1 << 20, file), path)
    };
    series.with_context(|| path.display().to_string())
}

fn read_lines(mut source: impl BufRead, path: &Path) -> anyhow::Result<Series> {
    let mut reader = Reader::default();
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = source.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line);
        match read.map_err(|source| MeasuredError::Unreadable { path: path.to_owned(), source })? as u64 {
            0 => return Ok(reader.finish()?),
            LONGEST_LINE => return Err(MeasuredError::LongLine(path.to_owned()).into()),
            _ => reader.push_line(&String::from_utf8_lossy(&line))?,
        }
    }
}
