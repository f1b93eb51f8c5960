//! The two storage engines, opened as flags say.

use std::{path::Path, sync::Arc};

use anyhow::{Context, Result};
use pilothouse_storage::{Embedded, EmbeddedOptions, Etcd, EtcdOptions, Storage};

use crate::flags::EtcdFlags;

/// What for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EtcdUse {
    Serve,
    /// Only to copy: its history is left alone.
    Copy,
}

/// Where the embedded engine keeps a data directory's data.
pub(crate) fn embedded_dir(data_dir: &Path) -> std::path::PathBuf {
    data_dir.join("storage")
}

/// The embedded engine of a data directory.
pub(crate) async fn embedded(data_dir: &Path, read_only: bool) -> Result<Arc<dyn Storage>> {
    let options = EmbeddedOptions {
        read_only,
        ..EmbeddedOptions::new(embedded_dir(data_dir))
    };
    let open = move || Embedded::open(options);
    let engine = tokio::task::spawn_blocking(open).await?;
    Ok(Arc::new(engine.context("opening the data directory")?))
}

/// The engine on an etcd.
pub(crate) async fn etcd(
    servers: &[String],
    flags: &EtcdFlags,
    why: EtcdUse,
) -> Result<Arc<dyn Storage>> {
    let mut options = EtcdOptions::new(servers);
    options.ca_file = flags.etcd_cafile.clone();
    options.cert_file = flags.etcd_certfile.clone();
    options.key_file = flags.etcd_keyfile.clone();
    options.prefix = flags.etcd_prefix.clone();
    let interval = flags.etcd_compaction_interval;
    options.compaction_interval =
        Some(interval).filter(|interval| why == EtcdUse::Serve && !interval.is_zero());
    options.user = etcd_user(flags)?;
    let engine = Etcd::connect(options)
        .await
        .with_context(|| format!("reaching etcd at {}", servers.join(", ")))?;
    Ok(Arc::new(engine))
}

fn etcd_user(flags: &EtcdFlags) -> Result<Option<(String, String)>> {
    let (Some(name), Some(file)) = (&flags.etcd_username, &flags.etcd_password_file) else {
        return Ok(None);
    };
    let password = std::fs::read_to_string(file)
        .with_context(|| format!("reading the password of etcd from {}", file.display()))?;
    let password = password.trim_end_matches(['\r', '\n']);
    Ok(Some((name.clone(), password.to_owned())))
}
