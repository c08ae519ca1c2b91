//! The terminal while a live screen has it: raw, on its other screen, and given back as it was however things end.

use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ratatui::crossterm::cursor::MoveTo;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::crossterm::queue;
use ratatui::crossterm::terminal::{Clear, ClearType};
use ratatui::{DefaultTerminal, Frame};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// How soon the thread that reads keys notices that nobody wants them any more.
const PATIENCE: Duration = Duration::from_millis(50);

/// A key, or that the terminal's size changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    Character(char),
    Enter,
    Escape,
    Backspace,
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    Home,
    End,
    /// Ctrl-C, which is a key like others while the terminal is raw.
    Interrupt,
    /// Something to draw again for.
    Redraw,
}

/// What is to be done after a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    GoOn,
    Quit,
}

/// The terminal. It is given back when this is dropped, and when the program panics.
#[derive(Debug)]
pub struct LiveScreen {
    terminal: DefaultTerminal,
    keys: UnboundedReceiver<Key>,
    is_over: Arc<AtomicBool>,
}

impl LiveScreen {
    /// Takes the terminal.
    pub fn enter() -> io::Result<LiveScreen> {
        let terminal = ratatui::try_init().inspect_err(|_| ratatui::restore())?;
        let (sender, keys) = unbounded_channel();
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let read = move || {
            while !over.load(Ordering::Relaxed) {
                let key = match event::poll(PATIENCE) {
                    Ok(true) => event::read().map(key_of),
                    Ok(false) => continue,
                    Err(error) => Err(error),
                };
                // A terminal that is gone gives no keys: that is an end too.
                let is_gone = key.is_err();
                if sender.send(key.unwrap_or(Key::Interrupt)).is_err() || is_gone {
                    return;
                }
            }
        };
        std::thread::spawn(read);
        Ok(LiveScreen { terminal, keys, is_over })
    }

    /// Has `show` draw all of it.
    pub fn draw(&mut self, show: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.terminal.draw(show).map(|_| ())
    }

    /// Shows these lines in place of what was there; `height` of them at most.
    pub fn show(&mut self, text: &str, height: Option<usize>) -> io::Result<()> {
        let mut out = io::stdout().lock();
        queue!(out, MoveTo(0, 0))?;
        for (number, line) in text.lines().take(height.unwrap_or(usize::MAX)).enumerate() {
            out.write_all(if number == 0 { b"" } else { b"\r\n" })?;
            out.write_all(line.as_bytes())?;
            queue!(out, Clear(ClearType::UntilNewLine))?;
        }
        queue!(out, Clear(ClearType::FromCursorDown))?;
        out.flush()
    }

    /// The next key, once it is pressed.
    pub async fn next_key(&mut self) -> Key {
        self.keys.recv().await.unwrap_or(Key::Interrupt)
    }
}

impl Drop for LiveScreen {
    fn drop(&mut self) {
        // The thread that reads keys is not waited for: of a terminal that is closed it would read for ever.
        self.is_over.store(true, Ordering::Relaxed);
        ratatui::restore();
    }
}

fn key_of(event: Event) -> Key {
    let Event::Key(KeyEvent { code, modifiers, kind: KeyEventKind::Press | KeyEventKind::Repeat, .. }) = event else {
        return Key::Redraw;
    };
    match code {
        KeyCode::Char('c' | 'd') if modifiers.contains(KeyModifiers::CONTROL) => Key::Interrupt,
        KeyCode::Char(_) if modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) => Key::Redraw,
        KeyCode::Char(character) => Key::Character(character),
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Backspace => Key::Backspace,
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::Left => Key::Left,
        KeyCode::Right => Key::Right,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        _ => Key::Redraw,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ctrl_c_is_an_interrupt_and_a_resize_draws_again() {
        let key = |code, modifiers| key_of(Event::Key(KeyEvent::new(code, modifiers)));
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::CONTROL), Key::Interrupt);
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::NONE), Key::Character('c'));
        assert_eq!(key(KeyCode::Char('x'), KeyModifiers::CONTROL), Key::Redraw);
        assert_eq!(key_of(Event::Resize(80, 24)), Key::Redraw);
    }
}
