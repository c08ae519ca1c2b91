//! Answers over HTTP: who may ask, how long one may take, and the page of metrics.

mod access;
mod connection;
mod error;
mod listener;

pub use access::{Token, add_headers, refuse};
pub use connection::{LastMoved, PATIENCE, Patience, answer};
pub use error::Error;
pub use listener::{ListenOptions, Listener};
