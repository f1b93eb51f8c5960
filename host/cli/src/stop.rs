//! Waiting for the wish to stop.

use anyhow::Result;
use tokio::signal::unix::{SignalKind, signal};

/// Returns at ctrl-C or when the process is asked to terminate.
pub(crate) async fn asked() -> Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted?,
        _ = terminate.recv() => {}
    }
    Ok(())
}
