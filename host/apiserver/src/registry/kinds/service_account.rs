//! ServiceAccounts. Source: <https://kubernetes.io/docs/concepts/security/service-accounts/>

use k8s_openapi::api::core::v1::{ObjectReference, ServiceAccount};
use pilothouse_api::ResourceInfo;
use serde_json::{Value, json};

use super::{cells, describe};
use crate::registry::{
    printing::Column,
    strategy::{Context, Strategy},
};

pub(super) struct ServiceAccountStrategy;

impl Strategy for ServiceAccountStrategy {
    type Object = ServiceAccount;

    fn resource(&self) -> ResourceInfo {
        ResourceInfo {
            short_names: describe::texts(&["sa"]),
            ..describe::namespaced("", "v1", "serviceaccounts", "ServiceAccount")
        }
    }

    fn prepare_for_create(&self, _context: &Context, account: &mut ServiceAccount) {
        for secret in account.secrets.iter_mut().flatten() {
            *secret = ObjectReference {
                name: secret.name.take(),
                ..ObjectReference::default()
            };
        }
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::NAME,
            Column::string("Secrets", "Number of secrets that pods may use."),
            Column::AGE,
        ]
    }

    fn row(&self, account: &ServiceAccount, now: jiff::Timestamp) -> Vec<Value> {
        vec![
            json!(account.metadata.name),
            json!(account.secrets.as_ref().map_or(0, Vec::len)),
            json!(cells::since(
                account.metadata.creation_timestamp.as_ref(),
                now
            )),
        ]
    }
}
