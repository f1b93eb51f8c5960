//! `pilothouse plugin promote`: the candidate of a plugin takes the place of the version that serves.

use std::{fs, path::Path, sync::Arc};

use anyhow::{Context, Result, bail, ensure};
use pilothouse_api::{Kind, plugin_kind::Plugin};
use pilothouse_client::{Client, HttpsTransport, PatchType, UserInfo};
use pilothouse_plugin::Digest;
use serde_json::json;

use super::{PLUGINS, rollback::file_of, say};
use crate::flags::CommonFlags;

/// Copies the candidate's file over the plugin's, then makes its configuration the plugin's and ends the candidate. What was
/// compared or weighed is what is copied: a file that has changed since is refused.
pub(super) async fn promote(common: &CommonFlags, kubeconfig: &Path, name: &str) -> Result<()> {
    let transport = HttpsTransport::from_kubeconfig(kubeconfig)
        .await
        .with_context(|| format!("reading {}", kubeconfig.display()))?;
    let client = Client::new(Arc::new(transport), UserInfo::default());
    let object = client.get(&PLUGINS, "", name).await?;
    let plugin = Plugin::decode(&object.bytes)?;
    let Some(candidate) = &plugin.spec.candidate else {
        bail!("plugin {name} has no candidate: its spec.candidate is empty");
    };
    let status = plugin.status.and_then(|status| status.candidate);
    let status = status.context("the candidate has not been looked at yet")?;
    ensure!(
        matches!(status.state.as_str(), "Shadow" | "Weighted"),
        "the candidate is {}: {}",
        status.state,
        status.message
    );
    let from = common.plugin_dir().join(&candidate.source.path);
    let wasm = fs::read(&from).with_context(|| format!("reading {}", from.display()))?;
    let digest = Digest::of(&wasm).to_string();
    ensure!(
        digest == status.digest,
        "{} has the digest {digest}, but {} has proved itself",
        from.display(),
        status.digest
    );
    let file = file_of(common, name)?;
    let beside = file.with_extension("wasm.promote");
    fs::write(&beside, wasm)
        .and_then(|()| fs::rename(&beside, &file))
        .with_context(|| format!("writing {}", file.display()))?;
    let mut spec = json!({ "candidate": null });
    if !candidate.config.is_empty() {
        // null first: keys that the candidate has not must not stay
        let mut config = serde_json::Map::new();
        config.extend(
            plugin
                .spec
                .config
                .keys()
                .map(|key| (key.clone(), json!(null))),
        );
        config.extend(candidate.config.clone());
        spec["config"] = config.into();
    }
    let patch = serde_json::to_vec(&json!({ "spec": spec }))?;
    client
        .patch(&PLUGINS, "", name, "", PatchType::Merge, patch)
        .await?;
    say(&format!("{} is {digest} now\n", file.display()))
}
