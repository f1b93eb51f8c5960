//! WASI as plugins get it: enough for a language's runtime to start, nothing of the outside.
//!
//! No arguments, environment, files or network; stdin is closed; stdout and stderr are lines of the plugin's log; the clocks are
//! the host's; random numbers are the same sequence in every instance, so that a recorded call replays. Bound async: a sync
//! write to stderr would panic on an async thread.

use std::{
    io,
    pin::Pin,
    sync::{Arc, atomic::AtomicUsize},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::io::AsyncWrite;
use wasmtime::component::Linker;
use wasmtime_wasi::{
    HostMonotonicClock, HostWallClock, WasiCtx,
    cli::{IsTerminal, StdoutStream},
    p2::{OutputStream, Pollable, StreamResult},
    random::Deterministic,
};

use super::{Caller, HostState, Level};
use crate::clock::Clock;

/// Packages of WASI that are linked; everything else is refused at load.
pub(crate) const PACKAGES: [&str; 6] = [
    "wasi:cli",
    "wasi:clocks",
    "wasi:filesystem",
    "wasi:io",
    "wasi:random",
    "wasi:sockets",
];

pub(super) fn link(linker: &mut Linker<HostState>) -> wasmtime::Result<()> {
    wasmtime_wasi::p2::add_to_linker_async(linker)
}

/// The world of one instance, and what it last said on stderr, where a panic's message goes.
pub(super) fn denied(caller: &Arc<Caller>, log_bytes: &Arc<AtomicUsize>) -> (WasiCtx, LogStream) {
    let stderr = LogStream::new(caller, Level::Warn, log_bytes);
    let wasi = WasiCtx::builder()
        .stdout(LogStream::new(caller, Level::Info, log_bytes))
        .stderr(stderr.clone())
        .allow_tcp(false)
        .allow_udp(false)
        .secure_random(Deterministic::new(SEED.to_vec()))
        .insecure_random(Deterministic::new(SEED.to_vec()))
        .insecure_random_seed(u128::from_le_bytes(SEED))
        .wall_clock(HostClock(Arc::clone(&caller.clock)))
        .monotonic_clock(HostClock(Arc::clone(&caller.clock)))
        .build();
    (wasi, stderr)
}

const SEED: [u8; 16] = *b"pilothouse plugs";

struct HostClock(Arc<dyn Clock>);

impl HostWallClock for HostClock {
    fn resolution(&self) -> Duration {
        Duration::from_millis(1)
    }

    fn now(&self) -> Duration {
        Duration::from_millis(self.0.now_ms())
    }
}

impl HostMonotonicClock for HostClock {
    fn resolution(&self) -> u64 {
        1
    }

    fn now(&self) -> u64 {
        u64::try_from(self.0.monotonic().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Output cut into lines for the log; beyond the call's bytes it is dropped, never an error to the guest. Clones share a line.
#[derive(Clone)]
pub(super) struct LogStream {
    caller: Arc<Caller>,
    level: Level,
    left: Arc<AtomicUsize>,
    text: Arc<Mutex<Text>>,
}

#[derive(Default)]
struct Text {
    line: Vec<u8>,
    /// Lines since they were last taken, so many as a message needs.
    recent: String,
}

/// Longer lines are cut into several; as many bytes are kept for a trap's message.
const LINE_BYTES: usize = 1024;

impl LogStream {
    fn new(caller: &Arc<Caller>, level: Level, left: &Arc<AtomicUsize>) -> Self {
        Self {
            caller: Arc::clone(caller),
            level,
            left: Arc::clone(left),
            text: Arc::default(),
        }
    }

    /// What was written since the last time, in short.
    pub(super) fn take_recent(&self) -> String {
        let mut text = self.text.lock();
        self.end_line(&mut text);
        std::mem::take(&mut text.recent)
    }

    fn take(&self, bytes: &[u8]) {
        let mut text = self.text.lock();
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            text.line.extend_from_slice(part);
            if part.ends_with(b"\n") || text.line.len() > LINE_BYTES {
                self.end_line(&mut text);
            }
        }
    }

    fn end_line(&self, text: &mut Text) {
        let line = std::mem::take(&mut text.line);
        let line = String::from_utf8_lossy(&line);
        let line = line.trim();
        if line.is_empty() {
            return;
        }
        self.caller
            .log
            .write(&self.caller.name, self.level, line, &self.left);
        if text.recent.len() < LINE_BYTES {
            if !text.recent.is_empty() {
                text.recent.push(' ');
            }
            text.recent.push_str(line);
        }
    }
}

impl IsTerminal for LogStream {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for LogStream {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(self.clone())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

#[async_trait::async_trait]
impl Pollable for LogStream {
    async fn ready(&mut self) {}
}

impl OutputStream for LogStream {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.take(&bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(4096)
    }
}

impl AsyncWrite for LogStream {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.take(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
