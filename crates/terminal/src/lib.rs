//! What a person sees: tables, progress, errors. The only place, beside `main`, that prints.
#![allow(clippy::print_stdout, clippy::print_stderr, clippy::exit)]

mod columns;
mod commands;
mod curve;
mod doctor;
mod figures;
mod live_screen;
mod password;
mod printable;
mod progress;
mod screen;
mod wrap;

use std::io::{self, Write as _};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use commands::complete_json;
use printable::{obeyed_by_no_terminal, printable_json};

use host::failure::ErrorKind;

pub use columns::{Column, database_column, render_columns, render_left_out};
pub use commands::{
    PastedCommands, complete_commands, complete_commands_with, complete_commands_with_results,
    complete_commands_with_store, hide_words, know_commands, pasted_path, without_advice,
};
pub use console::Key;
pub use curve::{Curve, render_curves, render_seconds, render_short};
pub use doctor::{VERDICT, render_capabilities, render_doctor, render_readiness_json};
pub use figures::{render_age, render_ns, render_share};
pub use live_screen::LiveScreen;
pub use password::ask_password;
pub use printable::{printable, shorten_middle};

pub use progress::{MovingLine, Part, Progress, render_duration, render_parts, time_left};
pub use screen::{Canvas, exit_interrupted, interrupt_then_exit, stderr_width, stdout_width, wait_for_interrupt};
pub use wrap::wrap_text;

/// What became of standard output: nothing, until a write fails.
static OUTPUT_FAILURE: OnceLock<io::Error> = OnceLock::new();

/// Was `--quiet` given?
static IS_QUIET: AtomicBool = AtomicBool::new(false);

/// From now on standard error is for what goes wrong alone: cron mails whatever is written there.
pub fn keep_quiet() {
    IS_QUIET.store(true, Ordering::Relaxed);
}

/// Prints lines on standard output, broken between words where a terminal is narrower than they are.
pub fn print_line(text: &str) {
    print_verbatim(&fit_line(text));
}

/// The lines as [`print_line`] prints them.
pub fn fit_line(text: &str) -> String {
    wrap_text(&obeyed_by_no_terminal(&complete_commands(text)), stdout_width())
}

/// Prints what is read by programs, or is the name of something, as it is. After a failure nothing more is printed, and the
/// command goes on: its exit status is an answer of its own.
pub fn print_verbatim(line: &str) {
    if is_output_open()
        && let Err(error) = writeln!(io::stdout().lock(), "{line}")
    {
        // Only the first failure is kept.
        let _ = OUTPUT_FAILURE.set(error);
    }
}

/// Does what is printed still go anywhere? What prints for ever ends when it does not.
pub fn is_output_open() -> bool {
    OUTPUT_FAILURE.get().is_none()
}

/// Why what was printed is not all there. A reader that went away (`| head`) had what it wanted: that is no failure.
pub fn output_failure() -> Option<&'static io::Error> {
    OUTPUT_FAILURE.get().filter(|error| error.kind() != io::ErrorKind::BrokenPipe)
}

/// Prints a value as one JSON document on standard output.
pub fn print_json<T: serde::Serialize>(value: &T) -> serde_json::Result<()> {
    print_json_part(&serde_json::to_string_pretty(value)?);
    Ok(())
}

/// Prints a command's answer on standard output: `as_json` as one document, otherwise as `text`.
pub fn print_answer<T: serde::Serialize>(
    answer: &T,
    as_json: bool,
    text: impl FnOnce() -> String,
) -> serde_json::Result<()> {
    match as_json {
        true => print_json(answer),
        false => {
            print_line(&text());
            Ok(())
        }
    }
}

/// Bytes of a JSON document that are printed at once.
const PRINTED_AT_ONCE: usize = 64 << 10;

/// Prints a part of a JSON document that is printed piece by piece.
pub fn print_json_part(json: &str) {
    // A document of a large cluster is not copied as a whole.
    let mut part = String::new();
    for line in json.split_inclusive('\n') {
        part += &printable_json(&complete_json(line));
        if part.len() >= PRINTED_AT_ONCE
            && let Some(lines) = part.strip_suffix('\n')
        {
            print_verbatim(lines);
            part.clear();
        }
    }
    if !part.is_empty() {
        print_verbatim(&part);
    }
}

/// Prints a remark on standard error, so that standard output stays what was asked for. With `--quiet` there is none.
pub fn print_remark(text: &str) {
    if !IS_QUIET.load(Ordering::Relaxed) {
        print_complaint(text);
    }
}

/// Prints on standard error what went wrong, of a command that goes on or that answers all the same.
pub fn print_complaint(text: &str) {
    write_aside(&wrap_text(&obeyed_by_no_terminal(&complete_commands(text)), stderr_width()));
}

/// Prints what pgthaw has to say on standard error, while standard output is a job's: as it is when it is for programs, a
/// remark when it is for people.
pub fn print_aside(text: &str, as_json: bool) {
    match as_json {
        true => write_aside(&printable_json(&complete_json(text))),
        false => print_remark(text),
    }
}

/// Where standard error takes nothing, as on a full disk or once its reader has gone, there is nobody to tell. What was done is done, and the exit
/// status tells it.
fn write_aside(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Ends the program at once, for what cannot begin.
pub fn exit(code: i32) -> ! {
    std::process::exit(code)
}

/// Prints a failure on standard error: with `as_json` as one line for programs.
pub fn print_error(message: &str, kind: ErrorKind, hint: Option<&str>, as_json: bool) {
    // Before it stands in JSON, whose quotes are not a shell's. Servers and arguments have a say in it.
    let safe = |text: &str| complete_commands(text).split('\n').map(printable).collect::<Vec<_>>().join("\n");
    let text = match as_json {
        true => {
            let text = render_error(&complete_commands(message), kind, hint.map(complete_commands).as_deref(), true);
            printable_json(&text).into_owned()
        }
        false => render_error(&safe(message), kind, hint.map(safe).as_deref(), false),
    };
    let width = if as_json { None } else { stderr_width() };
    write_aside(&wrap_text(&text, width));
}

/// The text of a failure: what happened and why on the first lines, what to do below. With `as_json` one object with
/// the stable fields `error`, `kind` and `hint`.
fn render_error(message: &str, kind: ErrorKind, hint: Option<&str>, as_json: bool) -> String {
    if as_json {
        return serde_json::json!({ "error": message, "kind": kind, "hint": hint }).to_string();
    }
    match hint {
        Some(hint) => format!("pgthaw: {message}\n  hint: {hint}"),
        None => format!("pgthaw: {message}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_what_and_what_to_do() {
        let text = render_error("no server", ErrorKind::Failed, Some("start it"), false);
        assert_eq!(text, "pgthaw: no server\n  hint: start it");
        let json = render_error("no server", ErrorKind::Failed, None, true);
        assert_eq!(json, r#"{"error":"no server","hint":null,"kind":"failed"}"#);
    }
}
