//! The live screen of `top`: what is shown and which key does what (pure), and drawing.

mod chart;
mod draw;
mod facts;
#[cfg(test)]
mod fixture;
mod help;
mod state;

pub use draw::draw_top;
pub use state::{Kind, LiveTop, Title};
