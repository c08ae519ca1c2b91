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
use self::steps::{Endpoint, Steps, print};
use super::{ExitStatus, OutputArguments, Target};
use observe::Error;
use observe::top::{History, RecordReader};
use terminal::{Canvas, LiveScreen};

pub async fn run(arguments: TopArguments, output: OutputArguments) -> anyhow::Result<ExitStatus> {
    let canvas = Canvas::of_stdout(arguments.ascii);
    let with_screen = !output.json && canvas.is_drawable();
    // On a terminal that cannot show the screen, fails: JSON lines are for programs.
    if canvas.height.is_some() && !with_screen && !output.json && arguments.listen.is_none() {
        return Err(Error::DumbTerminal.into());
    }
    if arguments.replay.is_some() {
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
            terminal::print_remark("the record ends within a step: its writer was stopped");
        }
        return Ok(());
    }
    let too_much = (history.dropped > 0).then(|| format!("the first {} steps are too many to show", history.dropped));
    let cut = record.is_cut.then(|| "its end is missing".to_owned());
    let title = Title { subject: path.display().to_string(), beside: too_much.into_iter().chain(cut).collect() };
    show(&mut LiveTop::new(title, Kind::Record, history), None, arguments.ascii).await
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
