//! Live screens: what is shown and which key does what (pure), drawing, and the terminal that is borrowed meanwhile.

mod changes;
mod draw;
mod keys;
mod live_map;
mod rows;
#[cfg(test)]
mod rows_fixture;
mod screen;
mod top;

pub use draw::draw_map;
pub use keys::{Key, Next};
pub use live_map::{LiveMap, LiveView};
pub use screen::LiveScreen;
pub use top::{Kind, LiveTop, Title, draw_top};
