//! Options of every command, and exit statuses.

use clap::builder::{OsStringValueParser, TypedValueParser as _};

use host::failure::ErrorKind;
use host::files::FileMode;
use host::linux::signals::status_of_end;

/// Options of every command.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct OutputArguments {
    /// Print JSON with stable field names
    ///
    /// docs/formats.md describes the fields.
    #[arg(long, global = true, help_heading = "Output")]
    pub json: bool,

    /// Show no progress, and print only errors to standard error
    #[arg(short, long, global = true, help_heading = "Output", hide_short_help = true)]
    pub quiet: bool,

    /// Permissions of written files, as in chmod: 640 lets the group read them [default: 600]
    #[arg(long, global = true, help_heading = "Output")]
    #[arg(value_name = "MODE", env = "PGTHAW_MODE", hide_short_help = true)]
    pub mode: Option<FileMode>,

    /// Read settings only from this file, even if another user owns it
    // Read before clap parses the command line.
    #[arg(long, global = true, help_heading = "Output")]
    #[arg(value_name = "FILE", env = "PGTHAW_CONFIG", hide_short_help = true)]
    #[arg(value_parser = OsStringValueParser::new().map(|_| ()))]
    config: Option<()>,

    /// Print help: -? a summary, --help all of it (-h is the host)
    #[arg(short = '?', long, global = true, action = clap::ArgAction::Help, help_heading = "Output")]
    help: Option<bool>,

    /// Print version
    #[arg(short = 'V', long, global = true, action = clap::ArgAction::Version, help_heading = "Output", hide_short_help = true)]
    version: Option<bool>,
}

impl OutputArguments {
    pub fn apply(self) {
        self.mode.unwrap_or(FileMode::PRIVATE).apply();
        if self.quiet {
            terminal::keep_quiet();
        }
    }

    pub fn shows_progress(self) -> bool {
        !self.json && !self.quiet
    }
}

/// Outcome of a command that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    Done,
    /// The work is done, but its result counts as this kind of error.
    Because(ErrorKind),
    /// The exit status is the answer.
    Answer(u8),
}

impl ExitStatus {
    pub fn code(self) -> u8 {
        match self {
            ExitStatus::Done => 0,
            ExitStatus::Because(kind) => exit_status_of(kind),
            ExitStatus::Answer(code) => code,
        }
    }
}

/// Returns the signal's status after a signal, as shells do.
pub fn exit_status_of(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::Interrupted => status_of_end().unwrap_or(kind.exit_code()),
        kind => kind.exit_code(),
    }
}
