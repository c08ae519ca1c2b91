//! `pgthaw serve`; see `crates/pgthaw-lab/src/serve/`.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::{ExitStatus, OutputArguments, StoreArguments};
use crate::serve::serve;
use command::hear_signals;
use command::http::{Listener, Token};

/// Browse the results, compare them and watch the trial that runs, in a browser
///
/// It shows the store and changes nothing. Without --listen this machine alone can ask. It speaks HTTP without encryption: on
/// a network that others share, put a proxy with TLS before it or reach it through ssh -L.
#[derive(Debug, Args)]
pub struct ServeArguments {
    /// Listen on this port of the loopback address (0 is any that is free), or on an address and port, such as 0.0.0.0:8432. One that
    /// others can reach takes a token; those of 127.0.0.0/8 and ::1 are this machine's
    #[arg(long, value_name = "[ADDRESS:]PORT", default_value = "8432", value_parser = parse_listen)]
    listen: SocketAddr,

    /// A file whose first line is the secret that a browser must know, and that only you can read
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    #[command(flatten)]
    store: StoreArguments,
}

fn parse_listen(text: &str) -> Result<SocketAddr, String> {
    let port = text.parse().map(|port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    port.or_else(|_| text.parse()).map_err(|_| "it is a port, or an address and a port".to_owned())
}

pub async fn run(arguments: ServeArguments, output: OutputArguments) -> anyhow::Result<ExitStatus> {
    let token = arguments.token_file.as_deref().map(Token::read).transpose()?;
    let listener = Listener::bind(arguments.listen, token).await?;
    let store = arguments.store.open_existing().await?;
    // Handles signals before the address is printed.
    let end = hear_signals()?;
    let address = format!("http://{}/", listener.address()?);
    let with = if token.is_some() { "?token=…" } else { "" };
    let answer = json!({ "address": address, "results": store.place().to_string(), "needs_token": token.is_some() });
    terminal::print_answer(&answer, output.json, || format!("{address}{with}"))?;
    if output.shows_progress() {
        terminal::print_remark("serving until Ctrl-C");
    }
    serve(listener, store, end).await?;
    Ok(ExitStatus::Done)
}
