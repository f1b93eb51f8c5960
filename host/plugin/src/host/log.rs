//! `pilothouse:host/log`, and the log that every plugin has. Its last lines are kept for `status`; all go to `tracing`.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use parking_lot::Mutex;

use super::{HostState, bindings::log};

pub use log::Level;

/// Lines kept for each plugin component.
const KEPT_LINES: usize = 200;
/// Longer lines are cut.
const MAX_LINE_BYTES: usize = 4096;

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    pub level: Level,
    pub message: String,
}

/// The last lines of a component's log, in order.
#[derive(Debug)]
pub struct PluginLog {
    component: Arc<str>,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    lines: VecDeque<Line>,
    dropped: u64,
}

impl PluginLog {
    pub(crate) fn new(component: Arc<str>) -> Self {
        Self {
            component,
            kept: Mutex::default(),
        }
    }

    /// The last lines, oldest first.
    pub fn lines(&self) -> Vec<Line> {
        self.kept.lock().lines.iter().cloned().collect()
    }

    /// Lines that were dropped because a call wrote too much.
    pub fn dropped(&self) -> u64 {
        self.kept.lock().dropped
    }

    /// Writes a line of `plugin` while `left` bytes last.
    pub(crate) fn write(&self, plugin: &str, level: Level, message: &str, left: &AtomicUsize) {
        let message = cut(message, MAX_LINE_BYTES);
        let cost = message.len().max(1);
        if left
            .fetch_update(Relaxed, Relaxed, |left| left.checked_sub(cost))
            .is_err()
        {
            self.kept.lock().dropped += 1;
            return;
        }
        let component = &*self.component;
        match level {
            Level::Error => tracing::error!(target: "plugin", component, plugin, "{message}"),
            Level::Warn => tracing::warn!(target: "plugin", component, plugin, "{message}"),
            Level::Info => tracing::info!(target: "plugin", component, plugin, "{message}"),
            Level::Debug => tracing::debug!(target: "plugin", component, plugin, "{message}"),
        }
        let mut kept = self.kept.lock();
        if kept.lines.len() == KEPT_LINES {
            kept.lines.pop_front();
        }
        kept.lines.push_back(Line {
            level,
            message: message.to_owned(),
        });
    }
}

/// At most so many bytes, at a character's boundary.
pub(super) fn cut(text: &str, max: usize) -> &str {
    match text.len() <= max {
        true => text,
        false => &text[..text.floor_char_boundary(max)],
    }
}

impl log::Host for HostState {
    fn log(&mut self, level: Level, message: String) -> wasmtime::Result<()> {
        self.budget.host_call()?;
        let caller = &self.caller;
        caller
            .log
            .write(&caller.name, level, &message, &self.budget.log_bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_writes_so_much_and_no_more() {
        let log = PluginLog::new("x".into());
        let left = AtomicUsize::new(5);
        log.write("x", Level::Info, "four", &left);
        log.write("x", Level::Info, "more", &left);
        log.write("x", Level::Info, "e", &left);
        let lines: Vec<String> = log.lines().into_iter().map(|line| line.message).collect();
        assert_eq!(lines, ["four", "e"]);
        assert_eq!(log.dropped(), 1);
    }

    #[test]
    fn only_the_last_lines_are_kept_and_long_ones_are_cut() {
        let log = PluginLog::new("x".into());
        let left = AtomicUsize::new(usize::MAX);
        for line in 0..KEPT_LINES + 3 {
            log.write("x", Level::Debug, &line.to_string(), &left);
        }
        assert_eq!(log.lines().len(), KEPT_LINES);
        assert_eq!(log.lines()[0].message, "3");
        assert_eq!(cut("aé", 2), "a");
    }
}
