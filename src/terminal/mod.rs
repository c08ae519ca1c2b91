//! What a person sees: tables, progress, errors. The only place, beside `main`, that prints.
#![allow(clippy::print_stdout, clippy::print_stderr, clippy::exit)]

mod columns;
mod comparison;
mod counted;
mod curve;
mod demo;
mod device;
mod doctor;
mod error_report;
mod evict;
mod forecasts;
mod hydrate;
mod loading;
mod map;
mod map_bar;
mod map_json;
mod password;
mod pasted;
mod predict;
mod printable;
mod progress;
mod receipt;
mod results;
mod screen;
mod snapshot;
mod snapshot_json;
mod steady;
mod sweep;
mod sweep_comparison;
mod sweep_live;
mod tournament;
mod tournament_live;
mod trial_verdicts;
mod warm_progress;

use std::io::{self, Write as _};
use std::sync::OnceLock;

pub use comparison::render_comparison;
pub use demo::{render_before_and_after, render_demo_plan, render_served};
pub use device::{render_age, render_device, render_limit, render_profile};
pub use doctor::render_doctor;
pub use error_report::render_error;
pub use evict::render_evict_receipt;
pub use forecasts::{render_judged_forecasts, render_sweep_verdict, render_written_forecast};
pub use hydrate::render_hydration;
pub use loading::{render_loading, render_loading_head, render_loading_line};
pub use map::{MapView, render_map, render_states};
pub use map_json::render_map_json;
pub use password::ask_password;
pub use pasted::{PastedCommands, complete_commands, complete_commands_with};
pub use predict::render_prediction;
pub use printable::printable;
pub use progress::Progress;
pub use receipt::render_receipt;
pub use results::{RunLine, render_disk, render_run_head, render_runs};
pub use screen::{Canvas, Screen, wait_for_interrupt};
pub use snapshot::{
    SnapshotLine, Taken, render_difference, render_snapshot_head, render_snapshots, render_taken, render_verdicts,
    render_warmer,
};
pub use snapshot_json::{render_difference_json, render_snapshots_json, render_taken_json, render_verdicts_json};
pub use steady::render_judgement;
pub use sweep::{render_sweep_head, render_sweep_line, render_sweep_plan, render_sweep_points};
pub use sweep_comparison::{render_noise, render_sweep_comparison};
pub use sweep_live::SweepDisplay;
pub use tournament::render_tournament;
pub use tournament_live::{TournamentDisplay, render_kept_cluster, render_study_forecast, render_where_kept};
pub use trial_verdicts::render_trial_verdicts;
pub use warm_progress::{WarmProgress, interrupt_then_exit};

/// What became of standard output: nothing, until a write fails.
static OUTPUT_FAILURE: OnceLock<io::Error> = OnceLock::new();

/// Prints a line on standard output. After a failure nothing more is printed, and the command goes on: its exit status is
/// an answer of its own.
pub fn print_line(line: &str) {
    write_line(&complete_commands(line));
}

fn write_line(line: &str) {
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

/// Prints a value as one JSON document on standard output. What is a command in it was completed by whoever made it: names
/// stay as they are.
pub fn print_json<T: serde::Serialize>(value: &T) -> serde_json::Result<()> {
    write_line(&serde_json::to_string_pretty(value)?);
    Ok(())
}

/// Prints a remark on standard error, so that standard output stays what was asked for.
pub fn print_remark(line: &str) {
    print_as_it_is(&complete_commands(line));
}

/// Prints on standard error what was completed already, such as a failure in JSON, whose quotes are not a shell's.
pub fn print_as_it_is(line: &str) {
    eprintln!("{line}");
}
