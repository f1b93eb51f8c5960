//! One `Client` for everything that talks to an API server, in the same process or across the network.
//!
//! Invariants: there is no private door: both transports carry the same HTTP requests through the same pipeline;
//! every request is made as a named user.

pub mod transport;

pub use transport::{Body, Transport, UserInfo};
