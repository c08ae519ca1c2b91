//! `pgthaw top`; the work is in `crates/observe/src/top/`.

mod arguments;
mod draw;
mod facts;
#[cfg(test)]
mod fixture;
mod state;
mod steps;

pub use self::arguments::TopArguments;
use self::draw::draw_top;
pub use self::state::{Kind, LiveTop, Title};
pub use self::steps::record_history;
use self::steps::{Endpoint, Steps, print};
use super::{ExitStatus, OutputArguments, Target};
use crate::looking::open_history;
use jiff::Timestamp;
use observe::Error;
use observe::top::{History, RecordReader, TopFrame};
use terminal::{Canvas, LiveScreen};

/// Time shown before and after `--at`, and number of printed steps.
const AROUND_MS: i64 = 3_600_000;
const STEPS_PRINTED: u32 = 60;

pub async fn run(arguments: TopArguments, output: OutputArguments) -> anyhow::Result<ExitStatus> {
    let canvas = Canvas::of_stdout(arguments.ascii);
    let with_screen = !output.json && canvas.is_drawable();
    // Fails on a terminal that cannot show the screen, because JSON lines are for programs.
    if canvas.height.is_some() && !with_screen && !output.json && arguments.listen.is_none() {
        return Err(Error::DumbTerminal.into());
    }
    if arguments.replay.is_some() || arguments.at.is_some() {
        replay(&arguments, with_screen).await?;
        return Ok(ExitStatus::Done);
    }
    let endpoint = Endpoint::bind(&arguments).await?;
    // Connects before the screen opens: a mistyped name fails at once.
    let target = Target::open(&arguments.connection.clone().with(arguments.positional.clone())).await?;
    if !with_screen {
        print(arguments, target, endpoint, output).await?;
        return Ok(ExitStatus::Done);
    }
    let mut live = LiveTop::new(title_of(&arguments, &target, endpoint.as_ref()), Kind::Live, History::live());
    let mut steps = Steps::start(&arguments, target, endpoint)?;
    // Errors at the start appear before the screen opens.
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

async fn replay(arguments: &TopArguments, with_screen: bool) -> anyhow::Result<()> {
    let (mut history, mut shown) = (History::of_record(), 0);
    let at_ms = arguments.at.map(Timestamp::as_millisecond);
    let mut hear = |frame: TopFrame| {
        match with_screen {
            true => history.push(&frame),
            false if at_ms.is_some_and(|at_ms| frame.at_ms < at_ms) => {}
            false => {
                shown += 1;
                terminal::print_json_part(&serde_json::to_string(&frame)?);
            }
        }
        anyhow::Ok(terminal::is_output_open() && (at_ms.is_none() || shown < STEPS_PRINTED))
    };
    let (subject, remark) = match &arguments.replay {
        Some(path) => {
            let mut record = RecordReader::open(path)?;
            while let Some(frame) = record.read()? {
                if !hear(frame)? {
                    break;
                }
            }
            let cut = record.is_cut.then(|| "the record ends within a step: its writer was stopped".to_owned());
            (path.display().to_string(), cut)
        }
        None => {
            let connection = arguments.connection.clone().with(arguments.positional.clone());
            let mut past = open_history(&arguments.snapshots, &connection).await?;
            let at_ms = at_ms.unwrap_or_default();
            let (mut failed, before_ms) = (None, if with_screen { AROUND_MS } else { 0 });
            past.read(at_ms.saturating_sub(before_ms), at_ms.saturating_add(AROUND_MS), |frame| {
                hear(frame).unwrap_or_else(|error| {
                    failed = Some(error);
                    false
                })
            })?;
            failed.map_or(Ok(()), Err)?;
            ("history".to_owned(), past.damaged.first().cloned())
        }
    };
    if !with_screen {
        remark.iter().for_each(|remark| terminal::print_remark(remark));
        return Ok(());
    }
    let too_much = (history.dropped > 0).then(|| format!("the first {} steps are too many to show", history.dropped));
    let title = Title { subject, beside: too_much.into_iter().chain(remark).collect() };
    let mut live = LiveTop::new(title, Kind::Record, history);
    at_ms.into_iter().for_each(|at_ms| live.step_to_time(at_ms));
    show(&mut live, None, arguments.ascii).await
}

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
