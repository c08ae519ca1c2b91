use std::io;

use console::Term;
use tokio::signal::unix::{SignalKind, signal};

use host::failure::ErrorKind;
use host::linux::signals::{note_end, status_of_end};

const UNTOLD_WIDTH: usize = 80;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Canvas {
    /// Width in cells; `None` without a terminal.
    pub width: Option<usize>,
    /// Height in lines; `None` without a terminal, or if unknown.
    pub height: Option<usize>,
    pub colours: bool,
    pub unicode: bool,
}

impl Canvas {
    /// `ascii` is the user's choice. Output is also ASCII if the locale is not UTF-8.
    pub fn of_stdout(ascii: bool) -> Canvas {
        let size = size_of(&Term::stdout());
        Canvas {
            width: size.map(|(_, columns)| columns),
            height: size.and_then(|(rows, _)| rows),
            colours: console::colors_enabled(),
            unicode: !ascii && is_utf8_locale(),
        }
    }

    /// Whether a live screen can address any cell.
    pub fn is_drawable(self) -> bool {
        // As in curses, a "dumb" terminal cannot move its cursor.
        self.height.is_some() && std::env::var_os("TERM").is_none_or(|name| name != "dumb")
    }

    pub fn mark(self) -> &'static str {
        if self.unicode { "…" } else { "~" }
    }
}

/// Width in cells. `None` without a terminal, as text for files and pipes is never cut.
pub fn stdout_width() -> Option<usize> {
    size_of(&Term::stdout()).map(|(_, columns)| columns)
}

pub fn stderr_width() -> Option<usize> {
    size_of(&Term::stderr()).map(|(_, columns)| columns)
}

/// Lines (`None` if unknown) and columns. `None` without a terminal.
fn size_of(terminal: &Term) -> Option<(Option<usize>, usize)> {
    let size = terminal.is_term().then(|| terminal.size_checked())?;
    Some(size.map_or((None, UNTOLD_WIDTH), |(rows, columns)| (Some(rows.into()), columns.into())))
}

/// The first variable that is set decides, as in setlocale(3).
fn is_utf8_locale() -> bool {
    let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set);
    locale.is_some_and(|locale| is_utf8(&locale))
}

fn is_utf8(locale: &str) -> bool {
    let locale = locale.to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

pub async fn wait_for_interrupt() -> io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    let came = tokio::select! {
        pressed = tokio::signal::ctrl_c() => pressed.map(|()| SignalKind::interrupt())?,
        _ = terminate.recv() => SignalKind::terminate(),
        _ = hang_up.recv() => SignalKind::hangup(),
    };
    note_end(came.as_raw_value());
    Ok(())
}

pub fn exit_interrupted() -> ! {
    let status = status_of_end().unwrap_or(ErrorKind::Interrupted.exit_code());
    std::process::exit(status.into())
}

/// The first Ctrl-C or SIGTERM calls `first` for an orderly end; the second exits at once.
pub async fn interrupt_then_exit(first: impl FnOnce()) {
    if wait_for_interrupt().await.is_ok() {
        first();
        if wait_for_interrupt().await.is_ok() {
            exit_interrupted();
        }
    }
}

#[cfg(test)]
mod screen_tests {
    use super::*;

    #[test]
    fn knows_the_locales_that_can_show_more_than_ascii() {
        assert!(is_utf8("en_GB.UTF-8") && is_utf8("C.utf8"));
        assert!(!is_utf8("C") && !is_utf8("de_DE.ISO-8859-1"));
    }
}
