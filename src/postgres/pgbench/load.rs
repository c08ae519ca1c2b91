//! Everything that pgbench can be asked to do to a server, as its arguments.

use std::ffi::OsString;
use std::path::Path;

use super::script::Script;
use crate::pgbench::QueryMode;

/// What the clients do, and for how long.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// What a client chooses from before each transaction, each with its weight.
    pub scripts: Vec<(Script, u32)>,
    /// Variables of the scripts, by name.
    pub variables: Vec<(String, String)>,
    pub query_mode: QueryMode,
    pub clients: u32,
    /// Threads; not more than there are clients.
    pub jobs: u32,
    /// Transactions per second in all; `None`: as fast as it goes.
    pub rate: Option<f64>,
    /// Transactions that take longer are counted; under a rate those that are due longer ago are skipped.
    pub latency_limit_ms: Option<f64>,
    /// How often a transaction is tried that fails by a deadlock or a serialization failure; more than once from
    /// PostgreSQL 15 on.
    pub max_tries: u32,
    pub length: Length,
    pub log: TransactionLog,
}

/// How long a load lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    Seconds(u32),
    /// Transactions of each client.
    Transactions(u32),
}

/// What pgbench writes down.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TransactionLog {
    /// A line for each second.
    Seconds,
    /// A line for each transaction, or for this share of them, above 0 to 1, chosen at random.
    Transactions(f64),
}

/// A workload: one script, for some seconds, as fast as it goes. [`Load`] is everything that pgbench can be asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    pub script: Script,
    pub clients: u32,
    pub jobs: u32,
    pub seconds: u32,
    /// Of the tables: a script's `:scale`.
    pub scale: u32,
}

impl From<&Workload> for Load {
    fn from(workload: &Workload) -> Load {
        // pgbench finds the scale out for its own scripts alone.
        let variables = match workload.script {
            Script::Builtin(_) => Vec::new(),
            Script::File(_) => vec![("scale".to_owned(), workload.scale.to_string())],
        };
        Load {
            scripts: vec![(workload.script.clone(), 1)],
            variables,
            query_mode: QueryMode::default(),
            clients: workload.clients,
            jobs: workload.jobs,
            rate: None,
            latency_limit_ms: None,
            max_tries: 1,
            length: Length::Seconds(workload.seconds),
            log: TransactionLog::Seconds,
        }
    }
}

impl Load {
    /// pgbench's options, logging into files whose names begin with `log_prefix`.
    pub(super) fn arguments(&self, log_prefix: &Path) -> Vec<OsString> {
        let mut arguments = to_arguments(["-M", self.query_mode.name(), "-P", "1", "--log"]);
        match self.log {
            TransactionLog::Seconds => arguments.push("--aggregate-interval=1".into()),
            TransactionLog::Transactions(share) if share < 1.0 => {
                arguments.push(format!("--sampling-rate={share}").into());
            }
            TransactionLog::Transactions(_) => {}
        }
        let mut prefix = OsString::from("--log-prefix=");
        prefix.push(log_prefix);
        arguments.push(prefix);
        arguments.extend(self.scripts.iter().flat_map(|(script, weight)| script_arguments(script, *weight)));
        arguments
            .extend(self.variables.iter().flat_map(|(name, value)| ["-D".into(), format!("{name}={value}").into()]));
        arguments.extend(self.rate.into_iter().flat_map(|rate| ["-R".into(), OsString::from(rate.to_string())]));
        arguments.extend(self.latency_limit_ms.map(|limit| format!("--latency-limit={limit}").into()));
        if self.max_tries > 1 {
            arguments.push(format!("--max-tries={}", self.max_tries).into());
        }
        let length = match self.length {
            Length::Seconds(seconds) => ("-T", seconds),
            Length::Transactions(transactions) => ("-t", transactions),
        };
        for (option, value) in [("-c", self.clients), ("-j", self.jobs.min(self.clients)), length] {
            arguments.extend([option.into(), value.to_string().into()]);
        }
        arguments
    }
}

pub(super) fn to_arguments<const N: usize>(words: [&str; N]) -> Vec<OsString> {
    words.map(OsString::from).to_vec()
}

/// pgbench takes what follows the last `@` of a name for its weight, so a name that has one gets another.
fn script_arguments(script: &Script, weight: u32) -> [OsString; 2] {
    let (option, mut name) = match script {
        Script::Builtin(name) => ("-b", OsString::from(name)),
        Script::File(path) => ("-f", path.clone().into_os_string()),
    };
    if weight != 1 || name.to_string_lossy().contains('@') {
        name.push(format!("@{weight}"));
    }
    [option.into(), name]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(load: &Load) -> String {
        load.arguments(Path::new("/l/log")).join(std::ffi::OsStr::new(" ")).into_string().unwrap()
    }

    #[test]
    fn everything_has_its_option() {
        let load = Load {
            scripts: vec![(Script::Builtin("select-only"), 9), (Script::File("/s/a@b.sql".into()), 1)],
            variables: vec![("rows".into(), "10".into())],
            query_mode: QueryMode::Extended,
            clients: 8,
            jobs: 2,
            rate: Some(500.5),
            latency_limit_ms: Some(7.5),
            length: Length::Transactions(100),
            max_tries: 3,
            log: TransactionLog::Transactions(0.25),
        };
        assert_eq!(
            render(&load),
            "-M extended -P 1 --log --sampling-rate=0.25 --log-prefix=/l/log -b select-only@9 -f /s/a@b.sql@1 -D rows=10 -R 500.5 --latency-limit=7.5 --max-tries=3 -c 8 -j 2 -t 100"
        );
        let length = Length::Seconds(3);
        let whole = Load {
            log: TransactionLog::Transactions(1.0),
            length,
            rate: None,
            latency_limit_ms: None,
            max_tries: 1,
            ..load
        };
        let rendered = render(&whole);
        assert!(
            rendered.starts_with("-M extended -P 1 --log --log-prefix")
                && rendered.ends_with("-D rows=10 -c 8 -j 2 -T 3"),
            "{rendered}"
        );
    }
}
