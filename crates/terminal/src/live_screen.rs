//! Terminal of a live screen: raw, on the alternate screen, and restored however the program ends.

use std::fs::File;
use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::panic;
use std::sync::Mutex;

use console::Key;
use nix::sys::termios::{SetArg, Termios, cfmakeraw, tcgetattr, tcsetattr};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use host::linux::threads::lock;

/// Enters the alternate screen without cursor, and leaves it (xterm control sequences).
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// Key sequences after escape and `[` or `O`.
const SEQUENCES: [(&str, Key); 12] = [
    ("A", Key::ArrowUp),
    ("B", Key::ArrowDown),
    ("C", Key::ArrowRight),
    ("D", Key::ArrowLeft),
    ("H", Key::Home),
    ("F", Key::End),
    ("1~", Key::Home),
    ("7~", Key::Home),
    ("4~", Key::End),
    ("8~", Key::End),
    ("5~", Key::PageUp),
    ("6~", Key::PageDown),
];

/// Terminal's previous settings; `None` without a live screen.
static BEFORE: Mutex<Option<(File, Termios)>> = Mutex::new(None);

/// Restores the terminal on drop and on panic.
#[derive(Debug)]
pub struct LiveScreen {
    keys: UnboundedReceiver<Key>,
    resized: Signal,
}

impl LiveScreen {
    pub fn enter() -> io::Result<LiveScreen> {
        let resized = signal(SignalKind::window_change())?;
        let mut terminal = match io::stdin().is_terminal() {
            true => File::from(io::stdin().as_fd().try_clone_to_owned()?),
            false => File::open("/dev/tty")?,
        };
        let before = tcgetattr(&terminal)?;
        let mut raw = before.clone();
        cfmakeraw(&mut raw);
        tcsetattr(&terminal, SetArg::TCSANOW, &raw)?;
        *lock(&BEFORE) = Some((terminal.try_clone()?, before));
        let tell = panic::take_hook();
        panic::set_hook(Box::new(move |panicked| {
            give_back();
            tell(panicked);
        }));
        let (sender, keys) = unbounded_channel();
        // The thread ends with the program or the terminal. A lost terminal counts as an interrupt.
        std::thread::spawn(move || {
            let mut bytes = [0; 256];
            while let Ok(count @ 1..) = terminal.read(&mut bytes) {
                if keys_of(&String::from_utf8_lossy(&bytes[..count])).into_iter().any(|key| sender.send(key).is_err()) {
                    return;
                }
            }
        });
        let screen = LiveScreen { keys, resized };
        write(ENTER)?;
        Ok(screen)
    }

    pub fn show<'a>(&mut self, lines: impl IntoIterator<Item = &'a str>, height: Option<usize>) -> io::Result<()> {
        let lines: Vec<&str> = lines.into_iter().take(height.unwrap_or(usize::MAX)).collect();
        let rows = (0..height.unwrap_or(lines.len())).map(|row| {
            // Clears each line first: after a full-width line, clearing to the end would erase its last cell.
            format!("\x1b[{};1H\x1b[2K{}", row + 1, lines.get(row).copied().unwrap_or_default())
        });
        // Synchronized update, in terminals that support it.
        write(&format!("\x1b[?2026h{}\x1b[?2026l", rows.collect::<String>()))
    }

    /// Next key; `Key::Unknown` after a resize.
    pub async fn next_key(&mut self) -> Key {
        tokio::select! {
            key = self.keys.recv() => key.unwrap_or(Key::CtrlC),
            _ = self.resized.recv() => Key::Unknown,
        }
    }
}

impl Drop for LiveScreen {
    fn drop(&mut self) {
        give_back();
    }
}

fn give_back() {
    if let Some((terminal, before)) = lock(&BEFORE).take() {
        // Fails if the terminal is gone.
        let _ = write(LEAVE);
        let _ = tcsetattr(&terminal, SetArg::TCSANOW, &before);
    }
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Keys from one read. A lone escape is the Escape key; Ctrl-D ends like Ctrl-C.
fn keys_of(mut text: &str) -> Vec<Key> {
    let mut keys = Vec::new();
    while let Some(first) = text.chars().next() {
        let rest = &text[first.len_utf8()..];
        let sequence = rest.strip_prefix(['[', 'O']).filter(|_| first == '\x1b');
        let known = sequence
            .and_then(|sent| SEQUENCES.iter().find_map(|(sign, key)| Some((key.clone(), sent.strip_prefix(sign)?))));
        let (key, rest) = match (known, sequence) {
            (Some(known), _) => known,
            // Discards the rest, because the end of an unknown sequence cannot be determined.
            (None, Some(_)) => (Key::Unknown, ""),
            (None, None) => match first {
                '\x1b' => (Key::Escape, rest),
                '\x03' | '\x04' => (Key::CtrlC, rest),
                first => (Key::Char(first), rest),
            },
        };
        keys.push(key);
        text = rest;
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_told_apart_however_many_come_at_once() {
        let keys = keys_of("p\u{1b}[D\u{1b}OF\u{1b}[5~é\u{3}\u{4}\u{1b}");
        let expected = [
            Key::Char('p'),
            Key::ArrowLeft,
            Key::End,
            Key::PageUp,
            Key::Char('é'),
            Key::CtrlC,
            Key::CtrlC,
            Key::Escape,
        ];
        assert_eq!(keys, expected);
        assert_eq!(keys_of("q\u{1b}[1;5A"), [Key::Char('q'), Key::Unknown]);
    }
}
