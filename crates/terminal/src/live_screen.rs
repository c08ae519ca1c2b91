//! The terminal while a live screen has it: raw, on its other screen, and given back as it was however things end.

use std::io::{self, Write as _};
use std::panic;
use std::sync::{Mutex, PoisonError};

use console::{Key, Term};
use nix::sys::termios::{SetArg, Termios, cfmakeraw, tcgetattr, tcsetattr};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// The other screen, without a cursor (xterm's control sequences); and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// Settings of the terminal from before; `None` while no live screen has it.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// The terminal. It is given back when this is dropped, and when the program panics.
#[derive(Debug)]
pub struct LiveScreen {
    keys: UnboundedReceiver<Key>,
    resized: Signal,
}

impl LiveScreen {
    /// Takes the terminal.
    pub fn enter() -> io::Result<LiveScreen> {
        let resized = signal(SignalKind::window_change())?;
        let before = tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        cfmakeraw(&mut raw);
        tcsetattr(io::stdin(), SetArg::TCSANOW, &raw)?;
        *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(before);
        let tell = panic::take_hook();
        panic::set_hook(Box::new(move |panicked| {
            give_back();
            tell(panicked);
        }));
        let (sender, keys) = unbounded_channel();
        // The thread is not waited for: it ends with the program, or when the terminal is gone. That is an interrupt too.
        std::thread::spawn(move || {
            loop {
                let key = Term::stdout().read_key_raw();
                let is_gone = key.is_err();
                if sender.send(key.unwrap_or(Key::CtrlC)).is_err() || is_gone {
                    return;
                }
            }
        });
        let screen = LiveScreen { keys, resized };
        write(ENTER)?;
        Ok(screen)
    }

    /// Shows these lines in place of what was there; `height` of them, as far as they are there.
    pub fn show<'a>(&mut self, lines: impl IntoIterator<Item = &'a str>, height: Option<usize>) -> io::Result<()> {
        let lines: Vec<&str> = lines.into_iter().take(height.unwrap_or(usize::MAX)).collect();
        let rows = (0..height.unwrap_or(lines.len())).map(|row| {
            // Cleared before it is written: behind a full line the cursor stands on its last cell.
            format!("\x1b[{};1H\x1b[2K{}", row + 1, lines.get(row).copied().unwrap_or_default())
        });
        // Between these two a terminal that knows them shows nothing.
        write(&format!("\x1b[?2026h{}\x1b[?2026l", rows.collect::<String>()))
    }

    /// The next key, once it is pressed; [`Key::Unknown`] where the terminal's size changed.
    pub async fn next_key(&mut self) -> Key {
        let key = tokio::select! {
            key = self.keys.recv() => key.unwrap_or(Key::CtrlC),
            _ = self.resized.recv() => Key::Unknown,
        };
        // Ctrl-D ends programs as well.
        if key == Key::Char('\x04') { Key::CtrlC } else { key }
    }
}

impl Drop for LiveScreen {
    fn drop(&mut self) {
        give_back();
    }
}

fn give_back() {
    if let Some(before) = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take() {
        // Where it is gone there is nothing to give back.
        let _ = write(LEAVE);
        let _ = tcsetattr(io::stdin(), SetArg::TCSANOW, &before);
    }
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}
