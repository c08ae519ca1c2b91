//! The terminal while a live screen has it: raw, on its other screen, and given back as it was however things end.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::{DefaultTerminal, Frame};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::keys::Key;

/// How soon the thread that reads keys notices that nobody wants them any more.
const PATIENCE: Duration = Duration::from_millis(50);

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
