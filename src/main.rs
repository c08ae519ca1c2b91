//! Parse, run, tell how it went.

use std::process::ExitCode;

use clap::Parser as _;
use pgthaw::commands::Cli;
use pgthaw::terminal;

#[tokio::main]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    let as_json = cli.as_json();
    match cli.run().await {
        Ok(status) => ExitCode::from(status.code()),
        Err(error) => {
            let (kind, hint) = pgthaw::commands::explain(&error);
            terminal::print_remark(&terminal::render_error(&format!("{error:#}"), kind, hint.as_deref(), as_json));
            ExitCode::from(kind.exit_code())
        }
    }
}
