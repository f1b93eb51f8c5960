//! The formats against values that other implementations wrote, and what configurations may say.

mod configs;
mod formats;

use super::*;

/// A configuration with this list of providers for Secrets.
fn for_secrets(providers: &str) -> EncryptionConfig {
    configured(&format!("- resources: [secrets]\n  providers: {providers}"))
}

fn configured(resources: &str) -> EncryptionConfig {
    match EncryptionConfig::parse(&document(resources)) {
        Ok(config) => config,
        Err(error) => panic!("{error}"),
    }
}

fn document(resources: &str) -> String {
    let resources = resources.replace('\n', "\n  ");
    format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n  {resources}"
    )
}

/// Where the storage keeps Secrets.
fn layout() -> KeyLayout {
    KeyLayout::new([("secrets".to_owned(), rules::parse_resource("secrets"))])
}
