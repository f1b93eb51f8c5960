//! `metav1.Status`, the one error that leaves the API: reason, code and causes as Kubernetes uses them.
//! Source: <https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/status/>

use serde::{Deserialize, Serialize};

use crate::gvk::GroupResource;

/// A refused request. Clients branch on `reason`, `code` and `details.causes`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Box<Details>>,
    pub code: u16,
    /// `metadata.continue` of an expired list: a token for an inconsistent continuation.
    #[serde(skip)]
    pub continue_token: Option<String>,
}

/// What the error is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Details {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Usually the plural resource.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
    #[serde(skip_serializing_if = "is_zero")]
    pub retry_after_seconds: u32,
}

/// One cause, for `Invalid` one field.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cause {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

impl Status {
    /// Any reason and code, without details.
    pub fn new(code: u16, reason: &str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason: reason.to_owned(),
            message: message.into(),
            ..Self::default()
        }
    }

    /// 400 `BadRequest`.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// 401 `Unauthorized`.
    pub fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    /// 403 `Forbidden` on an object: `pods "web" is forbidden: <why>`.
    pub fn forbidden(resource: &GroupResource, name: &str, why: impl std::fmt::Display) -> Self {
        let subject = match name {
            "" => format!("{resource} is forbidden"),
            name => format!("{resource} \"{name}\" is forbidden"),
        };
        Self::new(403, "Forbidden", format!("{subject}: {why}")).about(resource, name)
    }

    /// 404 `NotFound`: `pods "web" not found`.
    pub fn not_found(resource: &GroupResource, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{resource} \"{name}\" not found")).about(resource, name)
    }

    /// 409 `AlreadyExists`: `pods "web" already exists`.
    pub fn already_exists(resource: &GroupResource, name: &str) -> Self {
        Self::new(
            409,
            "AlreadyExists",
            format!("{resource} \"{name}\" already exists"),
        )
        .about(resource, name)
    }

    /// 409 `Conflict`: the caller's view of the object is stale or contradicts it.
    pub fn conflict(resource: &GroupResource, name: &str, why: impl std::fmt::Display) -> Self {
        Self::new(
            409,
            "Conflict",
            format!("Operation cannot be fulfilled on {resource} \"{name}\": {why}"),
        )
        .about(resource, name)
    }

    /// 405 `MethodNotAllowed`.
    pub fn method_not_allowed(message: impl Into<String>) -> Self {
        Self::new(405, "MethodNotAllowed", message)
    }

    /// 410 `Expired`: the asked revision has been compacted.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// 413 `RequestEntityTooLarge`.
    pub fn too_large(message: impl Into<String>) -> Self {
        Self::new(413, "RequestEntityTooLarge", message)
    }

    /// 415 `UnsupportedMediaType`.
    pub fn unsupported_media_type(message: impl Into<String>) -> Self {
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// 422 `Invalid`: `Pod "web" is invalid: …`; the causes come from field validation.
    pub fn invalid(group: &str, kind: &str, name: &str, causes: Vec<Cause>) -> Self {
        let mut lines: Vec<String> = Vec::new();
        for line in causes.iter().map(|c| format!("{}: {}", c.field, c.message)) {
            if !lines.contains(&line) {
                lines.push(line); // the causes keep repetitions, the text does not
            }
        }
        let text = match lines.as_slice() {
            [] => String::new(),
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let qualified = match group {
            "" => kind.to_owned(),
            group => format!("{kind}.{group}"),
        };
        let mut status = Self::new(
            422,
            "Invalid",
            format!("{qualified} \"{name}\" is invalid: {text}"),
        );
        status.details = Some(Box::new(Details {
            name: name.to_owned(),
            group: group.to_owned(),
            kind: kind.to_owned(),
            causes,
            ..Details::default()
        }));
        status
    }

    /// 429 `TooManyRequests`; the client may retry after so many seconds.
    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: u32) -> Self {
        Self::new(429, "TooManyRequests", message).retry_after(retry_after_seconds)
    }

    /// 500 `InternalError`.
    pub fn internal(message: impl std::fmt::Display) -> Self {
        Self::new(
            500,
            "InternalError",
            format!("Internal error occurred: {message}"),
        )
    }

    /// 504 `Timeout`.
    pub fn timeout(message: impl Into<String>, retry_after_seconds: u32) -> Self {
        Self::new(504, "Timeout", message).retry_after(retry_after_seconds)
    }

    /// Names the resource and object in `details`.
    #[must_use]
    pub fn about(mut self, resource: &GroupResource, name: &str) -> Self {
        let details = self.details.get_or_insert_default();
        details.name = name.to_owned();
        details.group = resource.group.clone().into_owned();
        details.kind = resource.resource.clone().into_owned();
        self
    }

    /// Adds a cause.
    #[must_use]
    pub fn with_cause(mut self, cause: Cause) -> Self {
        self.details.get_or_insert_default().causes.push(cause);
        self
    }

    /// Sets `details.retryAfterSeconds`.
    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.details.get_or_insert_default().retry_after_seconds = seconds;
        self
    }

    /// The wire form, a `v1` `Status` object.
    pub fn to_json(&self) -> Vec<u8> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Wire<'a> {
            kind: &'static str,
            api_version: &'static str,
            metadata: serde_json::Value,
            status: &'static str,
            #[serde(flatten)]
            body: &'a Status,
        }
        let metadata = match &self.continue_token {
            Some(token) => serde_json::json!({ "continue": token }),
            None => serde_json::json!({}),
        };
        let wire = Wire {
            kind: "Status",
            api_version: "v1",
            metadata,
            status: "Failure",
            body: self,
        };
        serde_json::to_vec(&wire).unwrap_or_default() // strings and numbers only: cannot fail
    }

    /// Reads the wire form; anything else becomes an `Unknown` status of that code.
    pub fn from_response(code: u16, body: &[u8]) -> Self {
        match serde_json::from_slice::<Status>(body) {
            Ok(mut status) if !status.reason.is_empty() || status.code != 0 => {
                status.code = code;
                status
            }
            _ => Self::new(
                code,
                "Unknown",
                String::from_utf8_lossy(body).trim().to_owned(),
            ),
        }
    }

    /// Whether the reason is `NotFound`.
    pub fn is_not_found(&self) -> bool {
        self.reason == "NotFound"
    }

    /// Whether the reason is `AlreadyExists`.
    pub fn is_already_exists(&self) -> bool {
        self.reason == "AlreadyExists"
    }

    /// Whether the reason is `Conflict`.
    pub fn is_conflict(&self) -> bool {
        self.reason == "Conflict"
    }

    /// Whether a watch or list must begin anew: `Expired` or `Gone`.
    pub fn is_expired(&self) -> bool {
        self.reason == "Expired" || self.reason == "Gone" || self.code == 410
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_object_is_told_each_thing_once() {
        let cause = |field: &str, message: &str| Cause {
            reason: "FieldValueInvalid".to_owned(),
            message: message.to_owned(),
            field: field.to_owned(),
        };
        let causes = vec![cause("a", "bad"), cause("b", "bad"), cause("a", "bad")];
        let status = Status::invalid("apps", "Deployment", "web", causes);
        assert_eq!(
            status.message,
            "Deployment.apps \"web\" is invalid: [a: bad, b: bad]"
        );
        assert_eq!(status.details.map(|d| d.causes.len()), Some(3));
        let one = Status::invalid("", "Pod", "p", vec![cause("a", "bad"); 2]);
        assert_eq!(one.message, "Pod \"p\" is invalid: a: bad");
    }
}
