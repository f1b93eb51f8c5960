//! What the host offers to a running plugin: the interfaces of `pilothouse:host`, and WASI with everything denied.
//!
//! One file for each imported interface. A refusal is a value of the interface; an error out of a host function ends the guest
//! call and disposes of the instance.

pub(crate) mod bindings;
mod clock;
mod cluster;
mod config;
mod discovery;
mod graph;
mod log;
mod metrics;
mod state;
mod wasi;
mod write_rate;

use wasmtime::component::{HasSelf, Linker};

pub(crate) use state::Caller;
pub use state::HostState;

pub use log::{Level, Line, PluginLog};
pub(crate) use wasi::PACKAGES as WASI_PACKAGES;
pub(crate) use write_rate::WriteRate;

/// Everything that a component may import.
pub(crate) fn link(engine: &wasmtime::Engine) -> wasmtime::Result<Linker<HostState>> {
    let mut linker = Linker::new(engine);
    wasi::link(&mut linker)?;
    bindings::log::add_to_linker::<_, HasSelf<HostState>>(&mut linker, |state| state)?;
    bindings::config::add_to_linker::<_, HasSelf<HostState>>(&mut linker, |state| state)?;
    bindings::clock::add_to_linker::<_, HasSelf<HostState>>(&mut linker, |state| state)?;
    bindings::metrics::add_to_linker::<_, HasSelf<HostState>>(&mut linker, |state| state)?;
    bindings::cluster::add_to_linker::<_, HasSelf<HostState>>(&mut linker, |state| state)?;
    bindings::discovery::add_to_linker::<_, HasSelf<HostState>>(&mut linker, |state| state)?;
    bindings::graph::add_to_linker::<_, HasSelf<HostState>>(&mut linker, |state| state)?;
    Ok(linker)
}
