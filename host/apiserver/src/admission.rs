//! What the server asks of admission: one chain, mutating first, validating last. A request has the shape in which plugins
//! see it. Source: <https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/>

use async_trait::async_trait;
use pilothouse_api::{Status, patch::Patch};
pub use pilothouse_plugin::{
    admission::{AdmissionPlugins, Mutation, Operation, Readable, Request, User},
    manifest::Phase,
    record::RecordedCall,
};
use serde_json::Value;
use tokio::sync::mpsc;

/// The admission plugins in their order. A refusal is a whole `Status`.
#[async_trait]
pub trait AdmissionChain: Send + Sync + 'static {
    /// Whether anybody wants to see such a request, whose objects are not filled in yet: what nobody wants is never encoded.
    fn wants(&self, phase: Phase, request: &Request) -> bool;

    /// Runs the mutating plugins one after the other, each on what the one before made. With `readable` one that makes what
    /// cannot be read fails by itself.
    async fn mutate(
        &self,
        request: Request,
        readable: Option<Readable<'_>>,
    ) -> Result<Mutation, Status>;

    /// Runs the validating plugins; the answer is their warnings.
    async fn validate(&self, request: &Request) -> Result<Vec<String>, Status>;

    /// The calls of a plugin component from now on; `None` if it is not active here.
    fn record_calls(&self, component: &str) -> Option<mpsc::Receiver<RecordedCall>> {
        _ = component;
        None
    }
}

#[async_trait]
impl AdmissionChain for AdmissionPlugins {
    fn wants(&self, phase: Phase, request: &Request) -> bool {
        Self::wants(self, phase, request)
    }

    async fn mutate(
        &self,
        request: Request,
        readable: Option<Readable<'_>>,
    ) -> Result<Mutation, Status> {
        Self::mutate(self, request, &apply, readable).await
    }

    async fn validate(&self, request: &Request) -> Result<Vec<String>, Status> {
        Self::validate(self, request).await
    }

    fn record_calls(&self, component: &str) -> Option<mpsc::Receiver<RecordedCall>> {
        Self::record_calls(self, component)
    }
}

/// Applies a plugin's JSON patch.
fn apply(object: &mut Value, patch: &str) -> Result<(), Status> {
    Patch::json(patch.as_bytes())?.apply_in_place(object, None)
}

/// A chain without plugins.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoAdmission;

#[async_trait]
impl AdmissionChain for NoAdmission {
    fn wants(&self, _: Phase, _: &Request) -> bool {
        false
    }

    async fn mutate(&self, _: Request, _: Option<Readable<'_>>) -> Result<Mutation, Status> {
        Ok(Mutation::default())
    }

    async fn validate(&self, _: &Request) -> Result<Vec<String>, Status> {
        Ok(Vec::new())
    }
}
