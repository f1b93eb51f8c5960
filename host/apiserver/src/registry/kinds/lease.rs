//! Leases. Source: <https://kubernetes.io/docs/concepts/architecture/leases/>

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use pilothouse_api::{
    ResourceInfo,
    field::{ErrorList, FieldError, Path},
};
use serde_json::{Value, json};

use super::{cells, checks, describe};
use crate::registry::{printing::Column, strategy::Strategy};

pub(super) struct LeaseStrategy;

impl Strategy for LeaseStrategy {
    type Object = Lease;

    fn resource(&self) -> ResourceInfo {
        describe::namespaced("coordination.k8s.io", "v1", "leases", "Lease")
    }

    fn validate(&self, lease: &Lease) -> ErrorList {
        let mut errors = ErrorList::new();
        let empty = LeaseSpec::default();
        let spec = lease.spec.as_ref().unwrap_or(&empty);
        let path = Path::new("spec");
        if let Some(seconds) = spec.lease_duration_seconds.filter(|s| *s <= 0) {
            let path = path.child("leaseDurationSeconds");
            errors.push(FieldError::invalid(
                &path,
                seconds,
                "must be greater than 0",
            ));
        }
        let transitions = spec.lease_transitions.map(i64::from);
        checks::not_negative(&mut errors, &path.child("leaseTransitions"), transitions);
        let strategy = spec.strategy.as_deref().unwrap_or_default();
        if strategy.contains('/') {
            checks::qualified_name(&mut errors, &path.child("strategy"), strategy);
        } else if !matches!(strategy, "" | "OldestEmulationVersion") {
            let path = path.child("strategy");
            let supported = ["OldestEmulationVersion"];
            errors.push(FieldError::not_supported(&path, strategy, &supported));
        }
        let preferred = spec.preferred_holder.as_deref().unwrap_or_default();
        if !preferred.is_empty() && strategy.is_empty() {
            errors.push(FieldError::forbidden(
                &path.child("preferredHolder"),
                "may only be specified if `strategy` is defined",
            ));
        }
        errors
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::NAME,
            Column::string("Holder", "Who holds the lease."),
            Column::AGE,
        ]
    }

    fn row(&self, lease: &Lease, now: jiff::Timestamp) -> Vec<Value> {
        let holder = lease
            .spec
            .as_ref()
            .and_then(|s| s.holder_identity.as_deref());
        vec![
            json!(lease.metadata.name),
            json!(holder.unwrap_or_default()),
            json!(cells::since(
                lease.metadata.creation_timestamp.as_ref(),
                now
            )),
        ]
    }
}
