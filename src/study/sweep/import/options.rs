//! What is asked of an import.

use std::path::PathBuf;

use crate::pgbench::QueryMode;
use crate::study::sweep::start::StartAsked;

/// What is imported, and what is known of it beside what the files say.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// Files, and directories with the files of one trial or of many.
    pub paths: Vec<PathBuf>,
    pub question: Option<String>,
    pub scale: Option<u32>,
    pub clients: Option<u32>,
    /// pgbench's threads (`-j`).
    pub jobs: Option<u32>,
    pub script: Option<String>,
    pub query_mode: Option<QueryMode>,
    /// How long pgbench was asked to run.
    pub seconds: Option<u32>,
    /// Did each transaction have a connection of its own?
    pub connect: bool,
    /// Transactions per second that were asked for, of all trials but those whose files tell that there was no rate.
    pub rate: Option<f64>,
    pub start: Option<StartAsked>,
}
