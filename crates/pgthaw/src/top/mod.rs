//! `pgthaw top`: the work is done in `crates/observe/src/top/`.

mod draw;
mod facts;
#[cfg(test)]
mod fixture;
mod state;
mod steps;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use self::draw::draw_top;
pub use self::state::{Kind, LiveTop, Title};
use self::steps::{Endpoint, Steps, print};
use super::{ConnectionArguments, ExitStatus, OutputArguments, Target};
use crate::looking::BudgetArguments;
use observe::Error;
use observe::time::{By, Tier};
use observe::top::{History, RecordReader};
use terminal::{Canvas, LiveScreen};

/// Where the time of a server goes while it runs: a live screen, lines of JSON, or a page for Prometheus
///
/// Throughput, hits of both tiers, what processes do and wait for, the device, checkpoints and what pgthaw itself costs, step after step;
/// the last hour can be looked back at, and a record shown again. Where standard output is no terminal each step is a line of JSON. With
/// fewer rights it shows less, and says what is missing and why: docs/top.md.
#[derive(Debug, Args)]
pub struct TopArguments {
    #[command(flatten)]
    pub connection: ConnectionArguments,

    /// From one reading to the next: 100ms to 10s
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_interval)]
    interval: Duration,

    /// End after so long
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    seconds: Option<u32>,

    /// Whose times are added up
    #[arg(long, value_enum, default_value_t)]
    by: By,

    /// Where the times come from [default: the most exact source that can be had]
    #[arg(long, value_enum)]
    source: Option<Tier>,

    #[command(flatten)]
    budget: BudgetArguments,

    /// Keep what is shown in this file, which must not be there
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,

    /// Show what was kept in this file; no server is asked
    #[arg(long, value_name = "FILE", conflicts_with_all = ["record", "listen", "source", "seconds", "budget"])]
    replay: Option<PathBuf>,

    /// Answer Prometheus at this address and port, under /metrics, until Ctrl-C. An address that others can reach takes a token; those
    /// of 127.0.0.0/8 and ::1 are this machine's
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,

    /// A file whose first line is the secret that who asks must know, and that only you can read
    #[arg(long, value_name = "FILE", requires = "listen")]
    token_file: Option<PathBuf>,

    /// Draw with ASCII characters only
    #[arg(long)]
    ascii: bool,
}

/// `100ms`, `2s`; a number alone is seconds.
fn parse_interval(text: &str) -> Result<Duration, String> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len()));
    let number: f64 = number.parse().map_err(|_| "write a time such as 500ms or 2s".to_owned())?;
    let seconds = match unit.trim() {
        "ms" => number / 1e3,
        "s" | "" => number,
        _ => return Err("write a time such as 500ms or 2s".to_owned()),
    };
    match seconds {
        0.1..=10.0 => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("it is 100ms at least and 10s at most".to_owned()),
    }
}

/// Runs the command.
pub async fn run(arguments: TopArguments, output: OutputArguments) -> anyhow::Result<ExitStatus> {
    let canvas = Canvas::of_stdout(arguments.ascii);
    let with_screen = !output.json && canvas.is_drawable();
    // Lines of JSON are for programs, and no program reads a terminal.
    if canvas.height.is_some() && !with_screen && !output.json && arguments.listen.is_none() {
        return Err(Error::DumbTerminal.into());
    }
    if arguments.replay.is_some() {
        replay(&arguments, with_screen).await?;
        return Ok(ExitStatus::Done);
    }
    let endpoint = Endpoint::bind(&arguments).await?;
    // The first time it has to succeed: a name that was mistyped is told at once.
    let target = Target::open(&arguments.connection).await?;
    if !with_screen {
        print(arguments, target, endpoint, output).await?;
        return Ok(ExitStatus::Done);
    }
    let mut live = LiveTop::new(title_of(&arguments, &target, endpoint.as_ref()), Kind::Live, History::live());
    let mut steps = Steps::start(&arguments, target, endpoint)?;
    // Whatever cannot begin is told on the terminal as it was.
    let first = tokio::select! {
        first = steps.next() => first,
        ended = terminal::wait_for_interrupt() => ended.map(|()| None).map_err(anyhow::Error::from),
    };
    let ended = match first {
        Ok(Some(first)) => {
            live.take(&first);
            show(&mut live, Some(&mut steps), arguments.ascii).await
        }
        ended => ended.map(drop),
    };
    steps.finish().await?;
    ended.map(|()| ExitStatus::Done)
}

/// Shows a record again: on the screen, or as lines of JSON.
async fn replay(arguments: &TopArguments, with_screen: bool) -> anyhow::Result<()> {
    let Some(path) = &arguments.replay else { return Ok(()) };
    let mut record = RecordReader::open(path)?;
    let mut history = History::of_record();
    while let Some(frame) = record.read()? {
        match with_screen {
            true => history.push(&frame),
            false => terminal::print_json_part(&serde_json::to_string(&frame)?),
        }
        if !terminal::is_output_open() {
            break;
        }
    }
    if !with_screen {
        if record.is_cut {
            terminal::print_remark("the record ends within a step: whoever wrote it was stopped");
        }
        return Ok(());
    }
    let too_much = (history.dropped > 0).then(|| format!("the first {} are too much to be shown", history.dropped));
    let cut = record.is_cut.then(|| "its end is missing".to_owned());
    let title = Title { subject: path.display().to_string(), beside: too_much.into_iter().chain(cut).collect() };
    show(&mut LiveTop::new(title, Kind::Record, history), None, arguments.ascii).await
}

/// The screen until a key or a signal ends it: of steps as they come, or of a record.
async fn show(live: &mut LiveTop, mut steps: Option<&mut Steps>, ascii: bool) -> anyhow::Result<()> {
    let mut screen = LiveScreen::enter()?;
    let mut interrupted = std::pin::pin!(terminal::wait_for_interrupt());
    loop {
        let canvas = Canvas::of_stdout(ascii);
        screen.show(draw_top(live, canvas).iter().map(String::as_str), canvas.height)?;
        let delay = live.delay();
        let next = async {
            match &mut steps {
                Some(steps) => steps.next().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = tokio::time::sleep(delay.unwrap_or_default()), if delay.is_some() => live.play(),
            frame = next => match frame? {
                Some(frame) => live.take(&frame),
                None => return Ok(()),
            },
            key = screen.next_key() => if live.press(key) {
                return Ok(());
            },
            ended = &mut interrupted => return Ok(ended?),
        }
    }
}

fn title_of(arguments: &TopArguments, target: &Target, endpoint: Option<&Endpoint>) -> Title {
    let subject = target.server.as_ref().map_or_else(String::new, |server| {
        let version = server.facts.version.split(' ').next().unwrap_or_default();
        format!("PostgreSQL {version} at {}", server.address)
    });
    let mut beside = vec![format!("every {} s", arguments.interval.as_secs_f64())];
    beside.extend(arguments.record.as_ref().map(|path| format!("to {}", path.display())));
    beside.extend(endpoint.map(|endpoint| endpoint.address.clone()));
    Title { subject, beside }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_a_tenth_of_a_second_to_ten() {
        let parsed = ["100ms", "1s", "2", "0.5s", "10s"].map(|text| parse_interval(text).unwrap().as_millis());
        assert_eq!(parsed, [100, 1000, 2000, 500, 10_000]);
        for wrong in ["99ms", "11s", "0", "s", "1m", "-1s", "1e9", ""] {
            assert!(parse_interval(wrong).is_err(), "{wrong}");
        }
    }
}
