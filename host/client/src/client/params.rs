//! Parameters of requests in their query and body forms.
//! Source: <https://kubernetes.io/docs/reference/using-api/api-concepts/>

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;

/// What stays readable in a path segment or a query value.
const KEPT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// A path segment.
pub(super) fn segment(text: &str) -> String {
    utf8_percent_encode(text, KEPT).to_string()
}

/// Which objects to list, from when, how many. Empty texts and 0 are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListParams {
    pub label_selector: String,
    pub field_selector: String,
    /// Empty: the latest; `0`: whatever the server has cached; else not older than.
    pub resource_version: String,
    pub limit: u32,
    pub continue_token: String,
}

/// Which events to watch, and from when.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchParams {
    pub label_selector: String,
    pub field_selector: String,
    /// Empty or `0`: begin with the present state as ADDED events.
    pub resource_version: String,
    /// The server ends the stream after so many seconds; 0: when it likes.
    pub timeout_seconds: u32,
    /// Stream the whole present state first, ended by a bookmark (a "watch list").
    pub send_initial_events: bool,
}

/// How a patch body is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchType {
    Json,
    Merge,
    Strategic,
}

/// What becomes of dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Propagation {
    Background,
    Foreground,
    Orphan,
}

/// `metav1.DeleteOptions`; the default leaves everything to the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    pub propagation: Option<Propagation>,
    pub grace_period_seconds: Option<u32>,
    pub uid: Option<String>,
    pub resource_version: Option<String>,
}

impl ListParams {
    /// By labels.
    pub fn labels(selector: impl Into<String>) -> Self {
        Self {
            label_selector: selector.into(),
            ..Self::default()
        }
    }

    pub(super) fn query(&self) -> String {
        let mut query = Query::default();
        query.add("labelSelector", &self.label_selector);
        query.add("fieldSelector", &self.field_selector);
        query.add("resourceVersion", &self.resource_version);
        query.add_number("limit", self.limit);
        query.add("continue", &self.continue_token);
        query.0
    }
}

impl WatchParams {
    pub(super) fn query(&self) -> String {
        let mut query = Query::default();
        query.add("watch", "true");
        query.add("allowWatchBookmarks", "true");
        query.add("labelSelector", &self.label_selector);
        query.add("fieldSelector", &self.field_selector);
        query.add("resourceVersion", &self.resource_version);
        query.add_number("timeoutSeconds", self.timeout_seconds);
        if self.send_initial_events {
            query.add("sendInitialEvents", "true");
            query.add("resourceVersionMatch", "NotOlderThan");
        }
        query.0
    }
}

impl PatchType {
    pub(super) fn content_type(self) -> &'static str {
        match self {
            PatchType::Json => "application/json-patch+json",
            PatchType::Merge => "application/merge-patch+json",
            PatchType::Strategic => "application/strategic-merge-patch+json",
        }
    }
}

impl DeleteOptions {
    /// Only this very object, not a later one of the same name.
    pub fn uid(uid: &str) -> Self {
        Self {
            uid: Some(uid.to_owned()),
            ..Self::default()
        }
    }

    pub(super) fn to_json(&self) -> Vec<u8> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Wire<'a> {
            kind: &'static str,
            api_version: &'static str,
            #[serde(skip_serializing_if = "Option::is_none")]
            propagation_policy: Option<Propagation>,
            #[serde(skip_serializing_if = "Option::is_none")]
            grace_period_seconds: Option<u32>,
            #[serde(skip_serializing_if = "Option::is_none")]
            preconditions: Option<Preconditions<'a>>,
        }
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Preconditions<'a> {
            #[serde(skip_serializing_if = "Option::is_none")]
            uid: Option<&'a str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            resource_version: Option<&'a str>,
        }
        let conditional = self.uid.is_some() || self.resource_version.is_some();
        let wire = Wire {
            kind: "DeleteOptions",
            api_version: "v1",
            propagation_policy: self.propagation,
            grace_period_seconds: self.grace_period_seconds,
            preconditions: conditional.then_some(Preconditions {
                uid: self.uid.as_deref(),
                resource_version: self.resource_version.as_deref(),
            }),
        };
        serde_json::to_vec(&wire).unwrap_or_default() // strings and numbers only: cannot fail
    }
}

#[derive(Default)]
struct Query(String);

impl Query {
    fn add(&mut self, name: &str, value: &str) {
        if value.is_empty() {
            return;
        }
        if !self.0.is_empty() {
            self.0.push('&');
        }
        self.0.push_str(name);
        self.0.push('=');
        self.0.extend(utf8_percent_encode(value, KEPT));
    }

    fn add_number(&mut self, name: &str, value: u32) {
        if value != 0 {
            self.add(name, &value.to_string());
        }
    }
}
