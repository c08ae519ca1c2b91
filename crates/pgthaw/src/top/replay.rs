//! A record, shown again: on the screen, or as lines of JSON.

use std::path::Path;

use crate::ExitStatus;
use crate::top::screen::{Kind, LiveTop, Title, draw_top};
use observe::top::{History, RecordReader};
use terminal::{Canvas, LiveScreen, Next};

/// Shows a record.
pub async fn replay(path: &Path, with_screen: bool, ascii: bool) -> anyhow::Result<ExitStatus> {
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
    if with_screen {
        show(path, history, record.is_cut, ascii).await?;
    } else if record.is_cut {
        terminal::print_remark("the record ends within a step: whoever wrote it was stopped");
    }
    Ok(ExitStatus::Done)
}

async fn show(path: &Path, history: History, is_cut: bool, ascii: bool) -> anyhow::Result<()> {
    let mut beside = Vec::new();
    if history.dropped > 0 {
        beside.push(format!("the first {} are too much to be shown", history.dropped));
    }
    if is_cut {
        beside.push("its end is missing".to_owned());
    }
    let title = Title { subject: path.display().to_string(), beside };
    let mut live = LiveTop::new(title, Kind::Record, history);
    let mut screen = LiveScreen::enter()?;
    let mut interrupted = std::pin::pin!(terminal::wait_for_interrupt());
    loop {
        screen.draw(|frame| draw_top(frame, &mut live, Canvas::of_stdout(ascii)))?;
        let delay = live.delay();
        tokio::select! {
            () = tokio::time::sleep(delay.unwrap_or_default()), if delay.is_some() => live.play(),
            key = screen.next_key() => if live.press(key) == Next::Quit {
                return Ok(());
            },
            ended = &mut interrupted => return Ok(ended?),
        }
    }
}
