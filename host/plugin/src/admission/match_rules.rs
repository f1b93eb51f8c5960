//! `spec.matchRules` of a Plugin object: what its owner narrows the manifest's rules to. Its selectors mean what those of webhook
//! configurations mean.
//! Source: <https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#matching-requests-objectselector>

use std::collections::BTreeMap;

use pilothouse_api::{Header, selector::LabelSelector};

use super::Request;
use crate::manifest::WebhookRule;

/// Which of the requests that a manifest names reach the plugin.
#[derive(Clone, Debug, PartialEq)]
pub struct MatchRules {
    /// Any of them must match; empty: all do.
    pub rules: Vec<WebhookRule>,
    /// Labels of the request's namespace; cluster-scoped objects are never left out by it, but Namespaces by their own labels.
    pub namespace_selector: LabelSelector,
    /// Labels of the object; the new or the old one must match.
    pub object_selector: LabelSelector,
}

impl MatchRules {
    /// By what is known before objects are encoded.
    pub(super) fn match_resource(&self, request: &Request) -> bool {
        let reaches = |rule: &WebhookRule| request.is_covered_by(rule);
        self.rules.is_empty() || self.rules.iter().any(reaches)
    }

    /// By the labels of the namespace and of the objects.
    pub(super) fn select(&self, request: &Request) -> bool {
        self.selects_namespace(request) && self.selects_object(request)
    }

    fn selects_namespace(&self, request: &Request) -> bool {
        let selector = &self.namespace_selector;
        if selector.is_everything() {
            return true;
        }
        let is_namespace = request.resource.group.is_empty()
            && request.resource.resource == "namespaces"
            && !request.namespaced;
        match (request.namespaced, is_namespace) {
            (true, _) => match &request.namespace_object {
                Some(namespace) => selector.matches(&namespace.header),
                None => selector.matches(&NONE),
            },
            (false, true) => either(request, selector),
            (false, false) => true,
        }
    }

    fn selects_object(&self, request: &Request) -> bool {
        self.object_selector.is_everything() || either(request, &self.object_selector)
    }
}

/// No labels.
const NONE: BTreeMap<String, String> = BTreeMap::new();

/// Whether the new or the old object has the labels; what has no readable metadata has none.
fn either(request: &Request, selector: &LabelSelector) -> bool {
    let objects = [&request.object, &request.old_object];
    objects.into_iter().flatten().any(|object| {
        let header = Header::decode(object, &[] as &[&str]);
        header.is_ok_and(|(header, _)| selector.matches(&header))
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pilothouse_api::{GroupVersionResource, Object, Revision};
    use serde_json::{Value, json};

    use super::*;
    use crate::{admission::Operation, contract::sample, manifest::OperationType};

    fn rules(namespaces: &str, objects: &str) -> MatchRules {
        MatchRules {
            rules: Vec::new(),
            namespace_selector: LabelSelector::parse(namespaces).unwrap(),
            object_selector: LabelSelector::parse(objects).unwrap(),
        }
    }

    fn labelled(namespace: Option<&str>, labels: Value) -> Value {
        let mut object = json!({ "metadata": { "name": "it", "labels": labels } });
        if let Some(namespace) = namespace {
            object["metadata"]["namespace"] = namespace.into();
        }
        object
    }

    fn of(resource: &'static str, object: &Value) -> Request {
        let resource = GroupVersionResource::of("", "v1", resource);
        sample::request(&resource, Operation::Create, object)
    }

    fn in_namespace(mut request: Request, labels: Value) -> Request {
        let json = labelled(None, labels).to_string();
        let object = Object::from_stored(json.as_bytes(), Revision(1), &[] as &[&str]);
        request.namespace_object = Some(Arc::new(object.unwrap()));
        request
    }

    #[test]
    fn selectors_look_at_the_object_and_at_its_namespace() {
        let plain = json!({});
        let prod = json!({ "env": "prod" });
        let pod = |labels: &Value| of("pods", &labelled(Some("shop"), labels.clone()));
        let cases = [
            ("nothing selects", rules("", ""), pod(&plain), true),
            ("object, has it", rules("", "env=prod"), pod(&prod), true),
            (
                "object, has it not",
                rules("", "env=prod"),
                pod(&plain),
                false,
            ),
            (
                "namespace, has it",
                rules("env=prod", ""),
                in_namespace(pod(&plain), prod.clone()),
                true,
            ),
            (
                "namespace, only the object has it",
                rules("env=prod", ""),
                in_namespace(pod(&prod), plain.clone()),
                false,
            ),
            (
                "namespace unknown",
                rules("env=prod", ""),
                pod(&prod),
                false,
            ),
            (
                "namespace unknown, negated",
                rules("env!=prod", ""),
                pod(&prod),
                true,
            ),
            (
                "a namespace is in itself",
                rules("env=prod", ""),
                of("namespaces", &labelled(None, plain.clone())),
                false,
            ),
            (
                "a namespace by its own labels",
                rules("env=prod", ""),
                of("namespaces", &labelled(None, prod.clone())),
                true,
            ),
            (
                "cluster-scoped objects are never left out by namespace",
                rules("env=prod", ""),
                of("nodes", &labelled(None, plain.clone())),
                true,
            ),
        ];
        for (what, rules, request, expected) in cases {
            assert_eq!(rules.select(&request), expected, "{what}");
        }
    }

    #[test]
    fn an_update_is_seen_if_either_object_matches() {
        let mut request = of("pods", &labelled(Some("shop"), json!({})));
        request.old_object = Some(
            labelled(Some("shop"), json!({ "env": "prod" }))
                .to_string()
                .into(),
        );
        assert!(rules("", "env=prod").select(&request));
        assert!(!rules("", "env=test").select(&request));
    }

    #[test]
    fn rules_narrow_by_operation_and_resource() {
        let request = of("pods", &labelled(Some("shop"), json!({})));
        let with = |operation, resource: &str| MatchRules {
            rules: vec![WebhookRule {
                operations: vec![operation],
                api_groups: vec![String::new()],
                api_versions: vec!["v1".to_owned()],
                resources: vec![resource.to_owned()],
                scope: crate::manifest::Scope::All,
            }],
            ..rules("", "")
        };
        assert!(with(OperationType::Create, "pods").match_resource(&request));
        assert!(!with(OperationType::Delete, "pods").match_resource(&request));
        assert!(!with(OperationType::All, "services").match_resource(&request));
    }
}
