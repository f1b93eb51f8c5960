//! The smoke check before a swap: the few clauses of a family's contract that are quick to try.

use std::time::Duration;

use async_trait::async_trait;

use crate::{error::LoadError, revision::Revision};

/// A quick contract is through after milliseconds; a plugin that waits in each of its calls is not.
const TIME: Duration = Duration::from_secs(15);

/// A family's quick contract. Each family adds its own to [`RegistryConfig::contracts`](super::RegistryConfig).
#[async_trait]
pub trait SmokeContract: Send + Sync + 'static {
    /// `admission`.
    fn family(&self) -> &'static str;

    /// What the revision breaks, in one sentence; instances are its own.
    async fn check(&self, revision: &Revision) -> Result<(), String>;
}

/// Runs a contract if the revision belongs to its family.
pub(super) async fn check(
    contract: &dyn SmokeContract,
    revision: &Revision,
) -> Result<(), LoadError> {
    let family = contract.family();
    if !revision
        .interfaces()
        .iter()
        .any(|interface| interface.family() == family)
    {
        return Ok(());
    }
    let outcome = tokio::time::timeout(TIME, contract.check(revision)).await;
    let outcome = outcome.unwrap_or_else(|_| {
        let seconds = TIME.as_secs();
        Err(format!("it was not through after {seconds} s"))
    });
    outcome.map_err(|violation| LoadError::Contract {
        interface: format!("pilothouse:{family}"),
        violation,
    })
}
