//! What can go wrong with a plugin: it is not loaded ([`LoadError`]), or a call of it fails ([`CallError`]). A typed refusal by
//! a plugin is neither; it is part of the value that a call returns.

use std::{fmt, sync::Arc};

/// Why a component is not loaded, in one sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    #[error("the file is a core WebAssembly module, not a component; build it for wasm32-wasip2")]
    CoreModule,
    #[error("the file is not a WebAssembly component")]
    NotAComponent,
    #[error("the component does not compile: {0}")]
    Compile(String),
    #[error("the component exports no interface that Pilothouse knows (it exports {0})")]
    NothingKnown(String),
    #[error("the component does not export pilothouse:host/manifest")]
    NoManifest,
    #[error(
        "the component {direction} {interface}@{found}, but this Pilothouse has {known}; build it again with the SDK of this Pilothouse"
    )]
    UnknownVersion {
        /// `exports` or `imports`.
        direction: &'static str,
        interface: String,
        found: String,
        known: String,
    },
    #[error("the component imports {0}, which Pilothouse does not offer to plugins")]
    UnknownImport(String),
    #[error("the component does not fit the interfaces: {0}")]
    Mismatch(String),
    #[error("the manifest is wrong: {0}")]
    Manifest(String),
    #[error("the component does not start: {0}")]
    Start(String),
    #[error("the contract of {interface} is broken: {violation}")]
    Contract {
        interface: String,
        violation: String,
    },
    #[error(
        "it would take the place of the built-in plugin of this name, but does not export its {lacks}; give the file another name"
    )]
    NoReplacement {
        /// The first interface that it lacks.
        lacks: String,
    },
    #[error("the file cannot be read: {0}")]
    Io(String),
    /// How often it failed.
    #[error("it failed {0} and was rolled back; it is tried again after a while")]
    RolledBack(String),
    #[error("it was removed while it was being loaded")]
    Removed,
}

/// A limit that a plugin ran into, with its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Limit {
    /// Milliseconds of its own running time.
    Time(u64),
    /// Milliseconds in all, waits for the host included.
    Wait(u64),
    Instructions(u64),
    /// What the caller had left; not the plugin's fault alone, so it does not count as a trap.
    Deadline,
    /// Bytes of linear memory.
    Memory(usize),
    TableElements(usize),
    /// Bytes handed to the host in one step.
    Output(usize),
    HostCalls(u32),
}

impl Limit {
    /// The name under which failures are counted.
    pub fn cause(self) -> &'static str {
        match self {
            Self::Time(_) => "time",
            Self::Wait(_) => "wait",
            Self::Instructions(_) => "instructions",
            Self::Deadline => "deadline",
            Self::Memory(_) => "memory",
            Self::TableElements(_) => "table-elements",
            Self::Output(_) => "output",
            Self::HostCalls(_) => "host-calls",
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time(ms) => write!(f, "running time of {ms} ms"),
            Self::Wait(ms) => write!(f, "time of {ms} ms including waits"),
            Self::Instructions(count) => write!(f, "{count} instructions"),
            Self::Deadline => f.write_str("time left to the request"),
            Self::Memory(bytes) => write!(f, "memory of {bytes} bytes"),
            Self::TableElements(count) => write!(f, "{count} table elements"),
            Self::Output(bytes) => write!(f, "output of {bytes} bytes"),
            Self::HostCalls(count) => write!(f, "{count} calls of the host"),
        }
    }
}

/// The third outcome of a guest call, besides a value and a typed refusal. The instance is gone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    #[error("plugin {plugin} trapped in {interface}: {cause}")]
    Trap {
        plugin: Arc<str>,
        interface: &'static str,
        cause: String,
    },
    #[error("plugin {plugin} exceeded its {limit} in {interface}")]
    Limit {
        plugin: Arc<str>,
        interface: &'static str,
        limit: Limit,
    },
    /// It answered, but with something that cannot be used.
    #[error("plugin {plugin} gave a bad answer: {why}")]
    BadAnswer { plugin: Arc<str>, why: String },
    #[error("plugin {plugin} is not available: {why}")]
    Unavailable { plugin: Arc<str>, why: String },
}

impl CallError {
    /// The name under which the failure is counted; `None` if it is not the plugin's fault.
    pub fn cause(&self) -> Option<&'static str> {
        match self {
            Self::Trap { .. } => Some("trap"),
            Self::Limit {
                limit: Limit::Deadline,
                ..
            } => None,
            Self::Limit { limit, .. } => Some(limit.cause()),
            Self::BadAnswer { .. } => Some("answer"),
            Self::Unavailable { .. } => None,
        }
    }
}
