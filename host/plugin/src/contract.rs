//! Contracts: executable statements of what an interface promises. The same runner serves tests, `pilothouse plugin test FILE`
//! and the smoke check of a reload.
//!
//! A family has a type with [`Contract`]. A clause that cannot fail is a defect: for each there is a deliberately bad plugin in
//! `tests/bad-plugins` that it catches.

mod admission;
mod chance;
pub mod controller;
mod sample_cluster;
mod samples;
mod scheduler;

use std::{fmt, sync::Arc};

use async_trait::async_trait;

use crate::{
    cluster::NoCluster,
    engine::Engine,
    error::LoadError,
    revision::{Revision, Settings},
};

pub use admission::{AdmissionContract, AdmissionSmoke};
pub use controller::{ControllerContract, ControllerSmoke};
pub use sample_cluster::SampleCluster;
pub use scheduler::{SchedulerContract, SchedulerSmoke};

/// Sample objects and requests.
pub mod sample {
    pub use super::samples::{ordinary as requests, pod, request};
}

/// A broken clause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The plugin of the component.
    pub plugin: String,
    /// `mutation-is-idempotent`.
    pub clause: &'static str,
    /// One sentence.
    pub why: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.plugin, self.clause, self.why)
    }
}

/// The contract of a family.
#[async_trait]
pub trait Contract: Send + Sync {
    /// `admission`.
    fn family(&self) -> &'static str;

    /// Every clause that it checks.
    fn clauses(&self) -> &'static [&'static str];

    /// Runs all clauses against a revision that is loaded for this only; calls go to clusters of the contract's own
    /// ([`Revision::isolated`]). What is tried besides the samples comes from the seed.
    async fn run(&self, revision: &Revision, seed: u64) -> Vec<Violation>;
}

/// What came out for one component.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Clauses that were checked, as `admission: mutation-is-idempotent`.
    pub checked: Vec<String>,
    pub violations: Vec<Violation>,
}

impl Report {
    pub fn passed(&self) -> bool {
        self.violations.is_empty()
    }
}

/// Loads a component and runs the contracts of the families that it exports.
pub async fn check(
    engine: &Engine,
    name: &str,
    wasm: &[u8],
    settings: Settings,
    contracts: &[Arc<dyn Contract>],
    seed: u64,
) -> Result<Report, LoadError> {
    let revision = Revision::load(engine, name, wasm, settings, Arc::new(NoCluster)).await?;
    let mut report = Report::default();
    for contract in contracts {
        let family = contract.family();
        if !revision.interfaces().iter().any(|i| i.family() == family) {
            continue;
        }
        let clauses = contract.clauses().iter();
        report
            .checked
            .extend(clauses.map(|clause| format!("{family}: {clause}")));
        report
            .violations
            .extend(contract.run(&revision, seed).await);
    }
    Ok(report)
}
