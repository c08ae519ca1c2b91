//! Live screens: what is shown and which key does what (pure), drawing, and the terminal that is borrowed meanwhile.

mod screen;
mod top;

pub use screen::{Key, LiveScreen, Next};
pub use top::{Kind, LiveTop, Title, draw_top};
