//! What is said of what was imported: findings that are of nothing else, and remedies for whoever has pgbench alone.

use super::{Finding, steady_remedy};
use host::units::counted;
use model::Undecided;

impl Finding {
    /// Sentence and remedy of what is found of what was imported; empty of all else.
    pub(super) fn import_words(&self) -> (String, String) {
        match self {
            Finding::LogGaps { seconds, of_seconds, longest_seconds, longest_after_seconds } => (
                format!(
                    "nothing is told of {seconds} of its {of_seconds} s, the longest stretch {longest_seconds} s from second {} on: the server stood still, or a part is missing",
                    longest_after_seconds + 1
                ),
                "see in the server's log whether it stood still; else import the whole of it, or a run that is whole"
                    .into(),
            ),
            Finding::LogPartial { logged, transactions, clients, of_clients } => (
                partial_sentence(*logged, *transactions, *clients, *of_clients),
                "import the logs of all threads; of a sample nothing but its percentiles stands for the whole".into(),
            ),
            Finding::ClockSetBack { seconds } => (
                format!(
                    "its times go back by {seconds:.1} s: the clock was set meanwhile, or several runs stand in one file"
                ),
                "import each log as pgbench wrote it, of a run during which nobody set the clock".into(),
            ),
            Finding::RunAborted { aborted_clients, clients, transactions, asked_transactions } => (
                aborted_sentence(*aborted_clients, *clients, *transactions, *asked_transactions),
                "see in pgbench's messages and in the server's log what ended it, and measure anew".into(),
            ),
            Finding::Assumed { what, how } => (what.clone(), how.clone()),
            _ => (String::new(), String::new()),
        }
    }

    /// What to do about it where pgbench was not run by a study: by its own options.
    pub fn import_remedy(&self) -> String {
        match self {
            Finding::NeverSteady { verdict, start, should_have_run_seconds, undecided, .. } => {
                let size = if *undecided == Some(Undecided::AsFlatOfUnknownSize) {
                    "; of pgbench's own scripts --script and --scale tell the size"
                } else {
                    ""
                };
                steady_remedy(verdict, start, *should_have_run_seconds, "pgbench -T") + size
            }
            Finding::TooFewTransactions { .. } => {
                "let the trial last longer (pgbench -T), or read a lower percentile".into()
            }
            Finding::ShortRun { .. } => "let pgbench run for a minute (-T 60), or longer".into(),
            Finding::RateNotReached { .. } => {
                "ask for a lower rate (pgbench -R); what held them up is not in what was imported".into()
            }
            Finding::NothingServed { .. } => {
                "see in pgbench's messages and in the server's log what kept it from serving any".into()
            }
            Finding::OneRepeat => "import three runs of each point, or more".into(),
            _ => self.remedy(),
        }
    }
}

fn partial_sentence(logged: u64, transactions: u64, clients: u32, of_clients: u32) -> String {
    let parts = [
        (logged < transactions).then(|| format!("{logged} of {}", counted(transactions, "transaction"))),
        (clients < of_clients).then(|| format!("{clients} of {}", counted(of_clients, "client"))),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let cause = if clients < of_clients {
        "logs of threads are"
    } else {
        "it is a sample (pgbench --sampling-rate), or a part is"
    };
    format!("the log holds {}: {cause} missing", parts.join(", and "))
}

fn aborted_sentence(aborted: u32, clients: Option<u32>, transactions: u64, asked: Option<u64>) -> String {
    let of = clients.map_or_else(String::new, |clients| format!(" of {clients}"));
    let who = if aborted == 0 { "pgbench".to_owned() } else { format!("{aborted}{of} clients") };
    let done = match asked.filter(|asked| transactions < *asked) {
        Some(asked) => format!("{transactions} of {asked} transactions were done"),
        None => "the load was less than was asked for".to_owned(),
    };
    format!("{who} gave up before the end: {done}")
}
