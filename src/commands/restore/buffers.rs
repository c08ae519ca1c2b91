//! The options of the buffers tier.

use clap::Args;

use crate::units::Bytes;

/// How to fill shared_buffers.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = "shared_buffers")]
pub struct BuffersArguments {
    /// Load no more than this into shared_buffers, and push out others for it [default: what is free there]
    #[arg(long, value_name = "BYTES")]
    pub buffers_budget: Option<Bytes>,

    /// Connections that load shared_buffers at most: there is one more as long as that brings noticeably more
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub connections: u16,

    /// Run CREATE EXTENSION pg_prewarm in the databases that lack it
    #[arg(long)]
    pub create_extensions: bool,

    /// Keep nothing in the page cache of what is in shared_buffers at the end
    #[arg(long)]
    pub no_double: bool,
}
