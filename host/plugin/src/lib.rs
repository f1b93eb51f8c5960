//! The plugin engine: loads WebAssembly components, checks what they export, runs them within limits and capabilities, and
//! replaces them while they serve.
//!
//! Layers, lower first: [`Engine`] compiles, [`Revision`] is a loaded component, [`PluginInstance`] is one instance of it,
//! [`PluginRegistry`] says which revision of which component is active, and a family such as [`admission`] gives typed calls.
//!
//! Invariants: one instance per `wasmtime::Store`; a trap, a limit or a dropped call disposes of it; limits are always on; the
//! three outcomes of a guest call (a value, a typed refusal, a [`CallError`]) stay apart.

pub mod admission;
mod cache;
pub mod capability;
mod clock;
pub mod cluster;
pub mod contract;
pub mod controller;
mod engine;
mod error;
mod host;
mod instance;
pub mod interfaces;
mod limits;
pub mod manifest;
mod probe;
pub mod record;
mod registry;
mod revision;
pub mod scheduler;
pub mod shadow;
mod stats;
pub mod testing;

pub use clock::{Clock, SystemClock};
pub use cluster::Cluster;
pub use engine::{Allocation, Engine, EngineConfig, EngineError};
pub use error::{CallError, Limit, LoadError};
pub use host::{HostState, Level, Line, PluginLog};
pub use instance::{Call, Outcome, PluginInstance, Running};
pub use limits::Limits;
pub use manifest::Manifest;
pub use registry::{
    Active, ActiveComponent, Bounds, Candidate, CandidateState, CandidateStatus, Condition,
    ConditionType, History, PastRevision, PluginDirectory, PluginMetrics, PluginRegistry,
    PluginState, PluginStatus, RegistryConfig, RememberedSettings, SmokeContract, Source,
    StormPolicy, component_name, weighs,
};
pub use revision::{Digest, Mode, Revision, Settings};
pub use stats::Figures;
