//! What a person presses, and what it means for a live screen.

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
