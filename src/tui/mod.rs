//! Live screens: what is shown and which key does what (pure), drawing, and the terminal that is borrowed meanwhile.

mod changes;
mod draw;
mod live_map;
mod rows;
#[cfg(test)]
mod rows_fixture;
mod screen;

pub use live_map::{Key, LiveMap, LiveView, Next};
pub use screen::LiveScreen;
