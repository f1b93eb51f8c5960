//! Admission of what is posted to a subresource and not stored: a TokenRequest.

use pilothouse_api::{GroupVersionKind, Status};

use super::{Attributes, Call, Registry, Resource, admission_request};
use crate::admission::{Operation, Phase};

impl Registry {
    /// Runs mutating and validating admission of a document of another kind than the resource's. `place` is the resource,
    /// the subresource, namespace and name. The answer is the document as admission left it.
    pub(crate) async fn admit(
        &self,
        call: &Call,
        (resource, subresource, namespace, name): (&Resource, &'static str, &str, &str),
        kind: &GroupVersionKind,
        document: Vec<u8>,
    ) -> Result<bytes::Bytes, Status> {
        let attributes = Attributes {
            subresource,
            operation: Operation::Create,
            kind: Some(kind.clone()),
            namespace,
            name,
        };
        let mut request = admission_request(resource, call, &attributes);
        let mut document = bytes::Bytes::from(document);
        let wanted = |phase| self.admission.wants(phase, &request);
        let (mutating, validating) = (wanted(Phase::Mutate), wanted(Phase::Validate));
        if mutating || validating {
            request.namespace_object = self.namespace_of(resource, &attributes).await;
        }
        if mutating {
            request.object = Some(document.clone());
            let mutation = self.admission.mutate(request.clone(), None).await?;
            call.warn(mutation.warnings);
            document = mutation.object.unwrap_or(document);
        }
        if validating {
            request.object = Some(document.clone());
            call.warn(self.admission.validate(&request).await?);
        }
        Ok(document)
    }
}
