//! A request as the `AdmissionReview` of `admission.k8s.io/v1`, and an answer as its response: how calls are written down.
//! Source: <https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#request>

use bytes::Bytes;
use pilothouse_api::{GroupVersionKind, GroupVersionResource};
use serde_json::{Map, Value, json};

use super::{Answer, Denial, MutateAnswer, Operation, Request, User};
use crate::record;

const API_VERSION: &str = "admission.k8s.io/v1";

impl Request {
    /// Reads the `request` of a review. Whether the resource is namespaced is told by the namespace; a Namespace's own does not
    /// count. The error says which field is wrong.
    pub fn from_review(review: &Value) -> Result<Self, String> {
        let request = &review["request"];
        if !request.is_object() {
            return Err("the AdmissionReview has no request".to_owned());
        }
        let text = |pointer: &str| {
            let found = request.pointer(pointer).and_then(Value::as_str);
            found.unwrap_or_default().to_owned()
        };
        let document = |field: &str| match &request[field] {
            Value::Null => None,
            object => Some(Bytes::from(object.to_string())),
        };
        let operation = match text("/operation").as_str() {
            "CREATE" => Operation::Create,
            "UPDATE" => Operation::Update,
            "DELETE" => Operation::Delete,
            "CONNECT" => Operation::Connect,
            other => return Err(format!("request.operation is {other:?}")),
        };
        let resource = GroupVersionResource {
            group: text("/resource/group").into(),
            version: text("/resource/version").into(),
            resource: text("/resource/resource").into(),
        };
        if resource.resource.is_empty() {
            return Err("request.resource.resource is missing".to_owned());
        }
        let namespace = text("/namespace");
        Ok(Self {
            uid: text("/uid"),
            kind: GroupVersionKind {
                group: text("/kind/group").into(),
                version: text("/kind/version").into(),
                kind: text("/kind/kind").into(),
            },
            namespaced: !namespace.is_empty() && resource.resource != "namespaces",
            resource,
            subresource: text("/subResource"),
            name: text("/name"),
            namespace,
            operation,
            user: user(&request["userInfo"]),
            dry_run: request["dryRun"] == true,
            object: document("object"),
            old_object: document("oldObject"),
            options: document("options").unwrap_or_default(),
            built_in_only: false,
            namespace_object: None,
            deadline: None,
        })
    }

    /// The review that [`Self::from_review`] reads. Objects that are no JSON become null.
    pub fn to_review(&self) -> Value {
        let document = |bytes: Option<&Bytes>| -> Value {
            let parsed = bytes.map(|bytes| serde_json::from_slice(bytes));
            parsed.and_then(Result::ok).unwrap_or_default()
        };
        let extra: Map<String, Value> = self
            .user
            .extra
            .iter()
            .map(|(key, values)| (key.clone(), json!(values)))
            .collect();
        json!({
            "apiVersion": API_VERSION,
            "kind": "AdmissionReview",
            "request": {
                "uid": self.uid,
                "kind": { "group": self.kind.group, "version": self.kind.version, "kind": self.kind.kind },
                "resource": {
                    "group": self.resource.group, "version": self.resource.version, "resource": self.resource.resource,
                },
                "subResource": self.subresource,
                "name": self.name,
                "namespace": self.namespace,
                "operation": self.operation.in_rules(),
                "userInfo": {
                    "username": self.user.name, "uid": self.user.uid, "groups": self.user.groups, "extra": extra,
                },
                "dryRun": self.dry_run,
                "object": document(self.object.as_ref()),
                "oldObject": document(self.old_object.as_ref()),
                "options": document(Some(&self.options)),
            },
        })
    }
}

/// The `response` to a request: `patch` is the JSON patch itself, not its base64.
pub fn response(request: &Request, answer: Result<(Option<&str>, &[String]), Denial>) -> Value {
    match answer {
        Ok((patch, warnings)) => {
            let mut response = json!({ "uid": request.uid, "allowed": true });
            if let Some(patch) = patch.filter(|patch| !patch.is_empty()) {
                response["patchType"] = "JSONPatch".into();
                response["patch"] =
                    serde_json::from_str(patch).unwrap_or_else(|_| Value::from(patch));
            }
            if !warnings.is_empty() {
                response["warnings"] = json!(warnings);
            }
            response
        }
        Err(denial) => {
            let status = denial.into_status(request);
            let status = serde_json::from_slice(&status.to_json()).unwrap_or_default();
            let status: Value = status;
            json!({ "uid": request.uid, "allowed": false, "status": status })
        }
    }
}

/// An answer of the mutating interface, as a record has it.
pub(crate) fn written_mutation(request: &Request, answer: &Answer<MutateAnswer>) -> Value {
    match answer {
        Ok(Ok(made)) => response(request, Ok((Some(&made.json_patch), &made.warnings))),
        Ok(Err(denial)) => response(request, Err(denial.clone())),
        Err(error) => record::failed(error),
    }
}

/// An answer of the validating interface, as a record has it.
pub(crate) fn written_validation(request: &Request, answer: &Answer<Vec<String>>) -> Value {
    match answer {
        Ok(Ok(warnings)) => response(request, Ok((None, warnings))),
        Ok(Err(denial)) => response(request, Err(denial.clone())),
        Err(error) => record::failed(error),
    }
}

fn user(info: &Value) -> User {
    let strings = |list: &Value| -> Vec<String> {
        let entries = list.as_array().into_iter().flatten();
        entries
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect()
    };
    let text = |field: &str| info[field].as_str().unwrap_or_default().to_owned();
    let extra = info["extra"].as_object().into_iter().flatten();
    User {
        name: text("username"),
        uid: text("uid"),
        groups: strings(&info["groups"]),
        extra: extra
            .map(|(key, values)| (key.clone(), strings(values)))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::sample;

    #[test]
    fn a_request_survives_being_written_down() {
        let pods = GroupVersionResource::of("", "v1", "pods");
        for operation in [Operation::Create, Operation::Update, Operation::Delete] {
            let request = sample::request(&pods, operation, &sample::pod());
            let review = request.to_review();
            let read = Request::from_review(&review).unwrap();
            assert_eq!(read.to_review(), review, "{operation:?}");
            assert_eq!(read.user, request.user);
            assert_eq!(read.namespaced, request.namespaced);
        }
    }

    #[test]
    fn what_is_wrong_with_a_review_is_said() {
        let wrong = |review: Value| Request::from_review(&review).unwrap_err();
        assert!(wrong(json!({})).contains("no request"));
        let eats = json!({ "request": { "operation": "EAT" } });
        assert!(wrong(eats).contains("request.operation is \"EAT\""));
        let bare = json!({ "request": { "operation": "CREATE" } });
        assert!(wrong(bare).contains("request.resource.resource"));
    }
}
