//! The options of a run.

use std::ffi::OsString;

use clap::Args;

use crate::commands::ConnectionArguments;
use crate::commands::restore::DeviceArguments;

/// Run a job, bring what it needs while it starts, and leave the cache as it was
///
/// With --like NAME what the last films under this name say that the job will touch is read while it runs, in large reads and a few at
/// a time, if the forecast gains at least 10 %; and the job's new film is kept under the name. The first run only records. With --protect
/// what the job brought into the page cache is dropped afterwards, and what it pushed out comes back.
///
/// The command's input, output, signals and exit status are its own. What pgthaw did and why is one paragraph on standard error; where it
/// cannot help, the command just runs. Runs at once do not undo each other, and what one leaves that is killed, the next run or restore
/// puts back.
#[derive(Debug, Args)]
pub struct RunArguments {
    #[command(flatten)]
    pub connection: ConnectionArguments,

    /// The job's name: its films are kept under it, and say what it will touch
    #[arg(long, value_name = "NAME", help_heading = "Run")]
    pub like: Option<String>,

    /// Afterwards drop what the job brought in, and bring back what it pushed out
    #[arg(long, help_heading = "Run")]
    pub protect: bool,

    #[command(flatten)]
    pub device: DeviceArguments,

    /// The command, behind `--`
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub job: Vec<OsString>,
}
