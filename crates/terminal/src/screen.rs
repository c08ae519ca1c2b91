//! What the terminal can show, and when the user wants an end.

use std::io;

use console::Term;
use tokio::signal::unix::{SignalKind, signal};

use host::failure::ErrorKind;
use host::linux::signals::{note_end, status_of_end};

/// Cells in a line of a terminal that does not tell.
const UNTOLD_WIDTH: usize = 80;

/// What to draw for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Canvas {
    /// Cells in a line; `None` when nobody's terminal sets a limit.
    pub width: Option<usize>,
    /// Lines; `None` as with `width`, and where a terminal does not tell.
    pub height: Option<usize>,
    pub colours: bool,
    /// May characters outside ASCII be drawn?
    pub unicode: bool,
}

impl Canvas {
    /// Standard output as it is. `ascii` comes from the user; a locale that is not UTF-8 says the same.
    pub fn of_stdout(ascii: bool) -> Canvas {
        let size = size_of(&Term::stdout());
        Canvas {
            width: size.map(|(_, columns)| columns),
            height: size.and_then(|(rows, _)| rows),
            colours: console::colors_enabled(),
            unicode: !ascii && is_utf8_locale(),
        }
    }

    /// Can it be drawn on anywhere, as a live screen does?
    pub fn is_drawable(self) -> bool {
        // What curses means by it: lines, one below the other.
        self.height.is_some() && std::env::var_os("TERM").is_none_or(|name| name != "dumb")
    }

    /// What stands for text that was cut out.
    pub fn mark(self) -> &'static str {
        if self.unicode { "…" } else { "~" }
    }
}

/// Cells in a line of standard output; `None` when it is no terminal: what goes to a file or a pipe is never cut.
pub fn stdout_width() -> Option<usize> {
    size_of(&Term::stdout()).map(|(_, columns)| columns)
}

/// Likewise of standard error, where remarks and progress go.
pub fn stderr_width() -> Option<usize> {
    size_of(&Term::stderr()).map(|(_, columns)| columns)
}

/// Lines, where they are told, and columns. A terminal that does not know its size says 0: it is taken to be as wide as most.
fn size_of(terminal: &Term) -> Option<(Option<usize>, usize)> {
    let size = terminal.is_term().then(|| terminal.size_checked())?;
    Some(size.map_or((None, UNTOLD_WIDTH), |(rows, columns)| (Some(rows.into()), columns.into())))
}

/// The first of the variables that is set decides, as in setlocale(3).
fn is_utf8_locale() -> bool {
    let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set);
    locale.is_some_and(|locale| is_utf8(&locale))
}

fn is_utf8(locale: &str) -> bool {
    let locale = locale.to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

/// Returns when the user (Ctrl-C) or the system (SIGTERM, SIGHUP) wants an end.
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

/// Ends the program as the signal would that asked for it.
pub fn exit_interrupted() -> ! {
    let status = status_of_end().unwrap_or(ErrorKind::Interrupted.exit_code());
    std::process::exit(status.into())
}

/// The first Ctrl-C (or SIGTERM) is told to `first`, which ends things in good order; a second one ends them at once.
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
