//! What the host offers besides the cluster: log, configuration, clock and counters. For the cluster see [`crate::cluster`].
//!
//! On wasm these are the real imports; natively they are [`fake`], one for each thread.

use serde::de::DeserializeOwned;

#[cfg(not(target_arch = "wasm32"))]
pub mod fake;

pub use crate::bindings::host::pilothouse::host::log::Level;

#[cfg(not(target_arch = "wasm32"))]
use fake as imports;

#[cfg(target_arch = "wasm32")]
mod imports {
    use crate::bindings::host::pilothouse::host::{clock, config, log, metrics};

    pub(super) use clock::now_ms;
    pub(super) use config::get as config;
    pub(super) use log::log;
    pub(super) use metrics::add as count;

    /// WASI waits in the host, within the time of the call.
    pub(super) fn sleep_ms(ms: u64) {
        std::thread::sleep(std::time::Duration::from_millis(ms));
    }
}

/// Writes a line to the plugin's log.
pub fn log(level: Level, message: &str) {
    imports::log(level, message);
}

/// `spec.config` of the Plugin object; a type's own defaults fill what is absent. Wrong JSON for the type is an error text.
pub fn config<T: DeserializeOwned>() -> Result<T, String> {
    serde_json::from_str(&imports::config()).map_err(|error| format!("spec.config: {error}"))
}

/// Milliseconds since the Unix epoch, as the host grants them.
pub fn now_ms() -> u64 {
    imports::now_ms()
}

/// Waits; the instance is not free for other calls meanwhile.
pub fn sleep_ms(ms: u64) {
    imports::sleep_ms(ms);
}

/// Adds to one of the plugin's counters.
pub fn count(counter: &str, by: u64) {
    imports::count(counter, by);
}
