use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::{ExitStatus, OutputArguments, StoreArguments};
use crate::serve::serve;
use command::hear_signals;
use command::http::Listener;

/// Show results, comparisons and the running trial in a browser
///
/// The server only reads the store. Without --listen only this machine can connect. HTTP is not encrypted: on a shared network, use a
/// TLS proxy or ssh -L.
#[derive(Debug, Args)]
pub struct ServeArguments {
    /// Listen on this loopback port (0: any free one), or on an address and port, such as 0.0.0.0:8432
    ///
    /// An address that other machines can reach requires --token-file. 127.0.0.0/8 and ::1 require none.
    #[arg(long, value_name = "[ADDRESS:]PORT", default_value = "8432", value_parser = parse_listen)]
    listen: SocketAddr,

    /// File with the browsers' secret in its first line; only its owner may have access
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    #[command(flatten)]
    store: StoreArguments,
}

fn parse_listen(text: &str) -> Result<SocketAddr, String> {
    let port = text.parse().map(|port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    port.or_else(|_| text.parse()).map_err(|_| "write a port, or an address and a port".to_owned())
}

pub async fn run(arguments: ServeArguments, output: OutputArguments) -> anyhow::Result<ExitStatus> {
    let listener = Listener::bind(arguments.listen, arguments.token_file.as_deref()).await?;
    let store = arguments.store.open_existing().await?;
    // Handles signals before the address is printed.
    let end = hear_signals()?;
    let address = format!("http://{}/", listener.address()?);
    let with = if listener.token.is_some() { "?token=…" } else { "" };
    let answer =
        json!({ "address": address, "results": store.place().to_string(), "needs_token": listener.token.is_some() });
    terminal::print_answer(&answer, output.json, || format!("{address}{with}"))?;
    if output.shows_progress() {
        terminal::print_remark("serving until Ctrl-C");
    }
    serve(listener, store, end).await?;
    Ok(ExitStatus::Done)
}
