use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use jiff::{SignedDuration, Span, SpanRelativeTo};

use crate::{ConnectionArguments, SnapshotPlace};

/// Keep a server warm, and a standby as warm as its primary
///
/// Runs until Ctrl-C. After the server's start it restores the best snapshot. On a primary it takes a snapshot every five minutes and
/// when it is stopped. After `pgthaw agent setup` it also writes the warm set, the list of cached blocks, into the table pgthaw.warm_set.
/// Each standby gets this table with the WAL. There the agent loads the blocks that the primary has cached and the standby lacks, but
/// pauses while the replay of WAL lags behind.
///
/// Each step is a command of pgthaw in a process of its own. `pgthaw agent status` shows the state, `pgthaw ready` waits for a warm cache.
/// docs/agent.md has more.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct AgentArguments {
    #[command(subcommand)]
    pub action: Option<Action>,

    #[command(flatten)]
    pub run: RunArguments,
}

#[derive(Debug, Subcommand)]
pub enum Action {
    /// Show the state of the agent of this server
    Status(SnapshotPlace),
    /// Create the schema pgthaw for the warm set, on the primary
    ///
    /// Also creates the extensions pg_buffercache and pg_prewarm. Needs a superuser.
    Setup(SetupArguments),
    /// Write the whole warm set, before a switchover
    ///
    /// Takes a snapshot first.
    PrepareSwitchover(SnapshotPlace),
    /// Write a snapshot's changes into the table of the warm set
    #[command(hide = true)]
    Share {
        /// Snapshot file
        snapshot: PathBuf,
        #[command(flatten)]
        place: SnapshotPlace,
    },
    /// Record the history
    #[command(hide = true)]
    Record {
        #[arg(long, value_parser = parse_history)]
        history: Duration,
        #[command(flatten)]
        place: SnapshotPlace,
    },
    /// Store the primary's warm set as a snapshot, and compute the warmth
    #[command(hide = true)]
    Receive(SnapshotPlace),
}

/// Options of the running agent.
#[derive(Debug, Default, Args)]
pub struct RunArguments {
    /// Time between snapshots, 1s to 24h (default 5min)
    ///
    /// On a standby also the longest time between two looks at the warm set, at least 10s. Without --every, both pauses become so long
    /// that the agent uses less than 0.5 % of a core, up to 1 h.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub every: Option<Duration>,

    /// Keep a history for this time, such as 12h, or off (default 7d)
    ///
    /// For `waits --from` and `top --at`. At most 500 MB, beside the snapshots.
    #[arg(long, value_name = "TIME", default_value = "7d", hide_default_value = true, hide_short_help = true, value_parser = parse_history)]
    pub history: Duration,

    /// Serve /metrics, /ready and /status at this address
    ///
    /// An address that other machines reach requires --token-file. `/ready?min=0.95` answers without the token.
    #[arg(long, value_name = "ADDRESS:PORT", hide_short_help = true)]
    pub listen: Option<SocketAddr>,

    /// File with the token that clients need
    #[arg(long, value_name = "FILE", requires = "listen", hide_short_help = true)]
    pub token_file: Option<PathBuf>,

    #[command(flatten)]
    pub place: SnapshotPlace,
}

/// Role and form of the set-up.
#[derive(Debug, Args)]
pub struct SetupArguments {
    /// Role of the agents, which will own the schema [default: the connected role]
    ///
    /// Created if missing, with the privileges of pg_monitor and pg_read_all_data.
    #[arg(value_name = "ROLE")]
    pub role: Option<String>,

    /// Print the SQL commands for psql; run none
    #[arg(long)]
    pub print: bool,

    #[command(flatten)]
    pub connection: ConnectionArguments,
}

/// Default of `--min`, and of /ready.
pub const READY_SHARE: f64 = 0.95;

/// Wait until the server is warm
///
/// Asks the agent of this server on this host. A standby is ready when at least --min of its primary's warm set, weighted by heat, is
/// cached; a primary as soon as no restore runs.
///
/// Exit status: 0 when the server is ready, 1 when it is not, or no agent runs.
#[derive(Debug, Args)]
pub struct ReadyArguments {
    /// Least share of the warm set, 0 to 1 (default 0.95)
    #[arg(long, value_name = "SHARE", default_value_t = READY_SHARE, hide_default_value = true, value_parser = parse_share)]
    pub min: f64,

    /// Wait at most so long, such as 60s
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub wait: Option<Duration>,

    #[command(flatten)]
    pub place: SnapshotPlace,
}

fn parse_time(text: &str) -> Result<Duration, String> {
    let time: SignedDuration = text.parse().map_err(|error| format!("{error} (such as 5min or 60s)"))?;
    match time.as_secs() {
        1..=86_400 => Ok(time.unsigned_abs()),
        _ => Err("must be 1s to 24h".to_owned()),
    }
}

/// Zero if `off`.
fn parse_history(text: &str) -> Result<Duration, String> {
    if text == "off" {
        return Ok(Duration::ZERO);
    }
    let time = text.parse::<Span>().and_then(|span| span.to_duration(SpanRelativeTo::days_are_24_hours()));
    match time.map_err(|error| format!("{error} (such as 7d, 12h or off)"))? {
        time if (1..=366 * 24).contains(&time.as_hours()) => Ok(time.unsigned_abs()),
        _ => Err("must be 1h to 366d, or off".to_owned()),
    }
}

pub fn parse_share(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|share| (0.0..=1.0).contains(share)).ok_or_else(|| "must be 0 to 1".to_owned())
}
