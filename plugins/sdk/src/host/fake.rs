//! The host's imports in native unit tests of plugins: one world for each thread, which [`reset`] begins anew.

use std::{cell::RefCell, collections::BTreeMap};

use serde_json::Value;

use super::Level;

#[derive(Default)]
struct World {
    now_ms: u64,
    config: Option<Value>,
    log: Vec<String>,
    counters: BTreeMap<String, u64>,
}

thread_local! {
    static WORLD: RefCell<World> = RefCell::default();
}

/// Time zero, no configuration, nothing logged or counted.
pub fn reset() {
    WORLD.with_borrow_mut(|world| *world = World::default());
}

/// Sets the plugin's configuration.
pub fn set_config(config: Value) {
    WORLD.with_borrow_mut(|world| world.config = Some(config));
}

/// Sets the time.
pub fn set_now_ms(now_ms: u64) {
    WORLD.with_borrow_mut(|world| world.now_ms = now_ms);
}

/// The log so far: `Warn: message`.
pub fn logged() -> Vec<String> {
    WORLD.with_borrow(|world| world.log.clone())
}

/// A counter so far.
pub fn counted(counter: &str) -> u64 {
    WORLD.with_borrow(|world| world.counters.get(counter).copied().unwrap_or_default())
}

pub(super) fn log(level: Level, message: &str) {
    WORLD.with_borrow_mut(|world| world.log.push(format!("{level:?}: {message}")));
}

pub(super) fn config() -> String {
    let text = |world: &World| world.config.as_ref().map(Value::to_string);
    WORLD.with_borrow(text).unwrap_or_else(|| "{}".to_owned())
}

pub(super) fn now_ms() -> u64 {
    WORLD.with_borrow(|world| world.now_ms)
}

/// Only the clock moves.
pub(super) fn sleep_ms(ms: u64) {
    WORLD.with_borrow_mut(|world| world.now_ms += ms);
}

pub(super) fn count(counter: &str, by: u64) {
    WORLD.with_borrow_mut(|world| *world.counters.entry(counter.to_owned()).or_default() += by);
}
