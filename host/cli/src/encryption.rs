//! `--encryption-provider-config`: encryption at rest in front of the engine.

use std::{path::Path, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use pilothouse_apiserver::registry::kinds;
use pilothouse_storage::{Encrypted, EncryptionConfig, KeyLayout, Storage, encryption::ROOT};
use tokio_util::sync::CancellationToken;

use crate::flags::ApiServerFlags;

/// How often a file that is to be read again is looked at.
const LOOK: Duration = Duration::from_secs(2);

/// The engine as the flags want it: itself, or with encryption in front.
pub(crate) fn in_front_of(
    engine: Arc<dyn Storage>,
    flags: &ApiServerFlags,
    stopping: &CancellationToken,
) -> Result<Arc<dyn Storage>> {
    let Some(file) = flags.encryption_provider_config.clone() else {
        return Ok(engine);
    };
    let text = read(&file)?;
    let config = parse(&file, &text)?;
    let layout = KeyLayout::new(kinds::storage_places());
    let root = match flags.etcd_servers.is_empty() {
        true => ROOT,
        false => flags.etcd.etcd_prefix.as_str(),
    };
    let encrypted = Arc::new(Encrypted::new(engine, config, layout, root));
    if flags.encryption_provider_config_automatic_reload {
        let following = follow(encrypted.clone(), file, text);
        let stopping = stopping.clone();
        tokio::spawn(async move { stopping.run_until_cancelled(following).await });
    }
    Ok(encrypted)
}

/// Takes over what the file says whenever it has changed; what is wrong changes nothing.
async fn follow(encrypted: Arc<Encrypted>, file: std::path::PathBuf, mut known: String) {
    loop {
        tokio::time::sleep(LOOK).await;
        let text = match read(&file) {
            Ok(text) if text == known => continue,
            Ok(text) => text,
            Err(error) => {
                tracing::warn!("encryption at rest goes on as it was: {error:#}");
                continue;
            }
        };
        match parse(&file, &text) {
            Ok(config) => {
                encrypted.reload(config);
                tracing::info!(file = %file.display(), "encryption at rest goes on with the new configuration");
            }
            Err(error) => tracing::error!("encryption at rest goes on as it was: {error:#}"),
        }
        known = text;
    }
}

fn read(file: &Path) -> Result<String> {
    std::fs::read_to_string(file)
        .with_context(|| format!("--encryption-provider-config: reading {}", file.display()))
}

fn parse(file: &Path, text: &str) -> Result<EncryptionConfig> {
    EncryptionConfig::parse(text)
        .with_context(|| format!("--encryption-provider-config: {}", file.display()))
}
