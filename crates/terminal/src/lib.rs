//! Output for people: tables, progress, errors. Only this crate and `main` print.
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

static OUTPUT_FAILURE: OnceLock<io::Error> = OnceLock::new();

static IS_QUIET: AtomicBool = AtomicBool::new(false);

/// Limits standard error to failures, as cron mails all of it.
pub fn keep_quiet() {
    IS_QUIET.store(true, Ordering::Relaxed);
}

pub fn print_line(text: &str) {
    print_verbatim(&fit_line(text));
}

pub fn fit_line(text: &str) -> String {
    wrap_text(&obeyed_by_no_terminal(&complete_commands(text)), stdout_width())
}

/// After a failed write, prints nothing more; the command continues, for its exit status.
pub fn print_verbatim(line: &str) {
    if is_output_open()
        && let Err(error) = writeln!(io::stdout().lock(), "{line}")
    {
        let _ = OUTPUT_FAILURE.set(error);
    }
}

/// Whether standard output still accepts text; if not, endless output must stop.
pub fn is_output_open() -> bool {
    OUTPUT_FAILURE.get().is_none()
}

/// A reader that closed the pipe (`| head`) is no failure.
pub fn output_failure() -> Option<&'static io::Error> {
    OUTPUT_FAILURE.get().filter(|error| error.kind() != io::ErrorKind::BrokenPipe)
}

pub fn print_json<T: serde::Serialize>(value: &T) -> serde_json::Result<()> {
    print_json_part(&serde_json::to_string_pretty(value)?);
    Ok(())
}

pub fn print_answer<T: serde::Serialize>(
    answer: &T,
    as_json: bool,
    text: impl FnOnce() -> String,
) -> serde_json::Result<()> {
    if as_json {
        return print_json(answer);
    }
    print_line(&text());
    Ok(())
}

const PRINTED_AT_ONCE: usize = 64 << 10;

pub fn print_json_part(json: &str) {
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

pub fn print_remark(text: &str) {
    if !IS_QUIET.load(Ordering::Relaxed) {
        print_complaint(text);
    }
}

/// Prints a failure that does not end the command to standard error.
pub fn print_complaint(text: &str) {
    write_aside(&wrap_text(&obeyed_by_no_terminal(&complete_commands(text)), stderr_width()));
}

/// Prints on standard error while a job owns standard output. `--quiet` suppresses text, but not JSON.
pub fn print_aside(text: &str, as_json: bool) {
    match as_json {
        true => write_aside(&printable_json(&complete_json(text))),
        false => print_remark(text),
    }
}

/// Ignores errors: only the exit status can still report failures.
fn write_aside(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Exits a program that cannot start.
pub fn exit(code: i32) -> ! {
    std::process::exit(code)
}

pub fn print_error(message: &str, kind: ErrorKind, hint: Option<&str>, as_json: bool) {
    // Completes suggested commands before JSON escapes their quotes. Escapes control characters, because servers and
    // arguments influence the text.
    if as_json {
        let text = render_error(&complete_commands(message), kind, hint.map(complete_commands).as_deref(), true);
        return write_aside(&printable_json(&text));
    }
    let safe = |text: &str| complete_commands(text).split('\n').map(printable).collect::<Vec<_>>().join("\n");
    let text = render_error(&safe(message), kind, hint.map(safe).as_deref(), false);
    write_aside(&wrap_text(&text, stderr_width()));
}

/// As JSON, an object with the stable fields `error`, `kind` and `hint`.
fn render_error(message: &str, kind: ErrorKind, hint: Option<&str>, as_json: bool) -> String {
    if as_json {
        return serde_json::json!({ "error": message, "kind": kind, "hint": hint }).to_string();
    }
    // The message may contain line feeds, and must not look like a hint.
    let message = message.replace('\n', "\n  | ");
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
        let forged = render_error("no relation \"x\n  hint: run this\"", ErrorKind::Failed, None, false);
        assert!(!forged.lines().any(|line| line.starts_with("  hint:")), "{forged}");
        let json = render_error("no server", ErrorKind::Failed, None, true);
        assert_eq!(json, r#"{"error":"no server","hint":null,"kind":"failed"}"#);
    }
}
