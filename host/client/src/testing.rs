//! For tests of this crate and of those above it: an API server in memory.

mod objects;
#[cfg(test)]
mod script;
mod server;

pub use server::{FakeServer, Request};

#[cfg(test)]
pub(crate) use script::{Feed, Script, event, json, list, object};
