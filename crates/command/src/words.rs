//! Words of the command line that hold a password.

use std::ffi::OsString;

use host::files::FileMode;
use host::linux::arguments::hide_arguments;
use postgres::hide_password;

/// Has passwords of the command line neither printed nor listed, and what is written from here on its owner's alone.
pub fn keep_private(arguments: &[OsString]) {
    // What is written from here on is its owner's alone, by this process and by those that it starts.
    FileMode::PRIVATE.apply();
    let words = arguments.iter().map(|word| word.to_string_lossy().into_owned());
    let hide = |word: String| {
        let shown = hide_password(&word)?;
        // clap shows the value alone.
        let value = word.split_once('=').filter(|(option, _)| option.starts_with("--"));
        let value = value.map(|(_, value)| (value.to_owned(), "…".to_owned()));
        Some([(word.clone(), shown)].into_iter().chain(value))
    };
    let hidden: Vec<(String, String)> = words.filter_map(hide).flatten().collect();
    if !hidden.is_empty() {
        terminal::hide_words(hidden);
        hide_arguments(hide_password);
    }
}
