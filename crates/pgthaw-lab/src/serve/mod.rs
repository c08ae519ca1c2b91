//! Shows what the results store holds to browsers: the front end of the report, which asks for what it shows. It reads,
//! and changes nothing.

mod answers;
mod error;
#[cfg(fuzzing)]
pub mod fuzzing;
mod live;
#[cfg(test)]
mod record_tests;
mod server;

pub use answers::read_study;
pub use error::Error;
pub use live::LiveBoard;
pub use server::serve;
