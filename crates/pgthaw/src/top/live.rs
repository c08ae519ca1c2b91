//! The live screen, until a key or a signal ends it.

use super::arguments::TopArguments;
use super::endpoint::Endpoint;
use super::outputs::Steps;
use crate::Target;
use crate::top::screen::{Kind, LiveTop, Title, draw_top};
use observe::top::History;
use terminal::{Canvas, LiveScreen, Next};

/// Shows the steps as they come.
pub async fn show(arguments: TopArguments, target: Target, endpoint: Option<Endpoint>) -> anyhow::Result<()> {
    let mut interrupted = std::pin::pin!(terminal::wait_for_interrupt());
    let mut live = LiveTop::new(title_of(&arguments, &target, endpoint.as_ref()), Kind::Live, History::live());
    let mut steps = Steps::start(&arguments, target, endpoint)?;
    // Whatever cannot begin is told on the terminal as it was.
    let first = tokio::select! {
        first = steps.next() => first,
        ended = &mut interrupted => ended.map(|()| None).map_err(anyhow::Error::from),
    };
    let ended = match first {
        Ok(Some(first)) => {
            live.take(&first);
            run_screen(&mut live, &mut steps, arguments.ascii).await
        }
        ended => ended.map(drop),
    };
    steps.finish().await?;
    ended
}

async fn run_screen(live: &mut LiveTop, steps: &mut Steps, ascii: bool) -> anyhow::Result<()> {
    let mut screen = LiveScreen::enter()?;
    let mut interrupted = std::pin::pin!(terminal::wait_for_interrupt());
    loop {
        screen.draw(|frame| draw_top(frame, live, Canvas::of_stdout(ascii)))?;
        tokio::select! {
            frame = steps.next() => match frame? {
                Some(frame) => live.take(&frame),
                None => return Ok(()),
            },
            key = screen.next_key() => if live.press(key) == Next::Quit {
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
    let mut beside = Vec::new();
    if !arguments.interval.is_zero() {
        beside.push(format!("every {} s", arguments.interval.as_secs_f64()));
    }
    beside.extend(arguments.record.as_ref().map(|path| format!("to {}", path.display())));
    beside.extend(endpoint.map(|endpoint| endpoint.address.clone()));
    Title { subject, beside }
}
