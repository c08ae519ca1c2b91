//! The quantities that every layer speaks in: bytes, blocks, pages, forks, instants.
//!
//! A *block* is PostgreSQL's unit (8 kB unless the server says otherwise), a *page* the kernel's (4 KiB on the
//! machines this was built on); the two never share a type.

mod bytes;
mod counted;
mod fork;
mod range;
mod treacherous;

pub use bytes::{Bytes, ParseBytesError};
pub use counted::counted;
pub use fork::Fork;
pub use range::{BlockNumber, BlockRange, PageRange};
pub use treacherous::is_treacherous;
