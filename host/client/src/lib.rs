//! One `Client` for everything that talks to an API server, in the same process or across the network.
//!
//! Invariants: there is no private door: both transports carry the same HTTP requests through the same pipeline;
//! every request is made as a named user.

pub mod cache;
pub mod client;
pub mod clock;
pub mod discovery;
pub mod events;
pub mod https;
pub mod informer;
pub mod reflector;
pub mod testing;
pub mod transport;
pub mod watch;

pub use cache::{Cache, CacheEvent, Handler};
pub use client::{Client, DeleteOptions, List, ListParams, PatchType, Propagation, WatchParams};
pub use clock::{Clock, SystemClock};
pub use discovery::{Discovered, ServedResource};
pub use events::{EventRecorder, Regarding};
pub use https::HttpsTransport;
pub use informer::{Informer, InformerSet};
pub use transport::{Body, Transport, UserInfo};
pub use watch::WatchEvent;
