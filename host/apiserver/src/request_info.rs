//! What a request is about, read from its method and path alone.
//! Source: <https://kubernetes.io/docs/reference/access-authn-authz/authorization/#determine-the-request-verb>

use http::Method;
use percent_encoding::percent_decode_str;

use crate::query::Query;

/// The attributes that authorization, routing, audit and metrics look at. Absent parts are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestInfo {
    /// False: `path` and `verb` (the lower-case method) are all there is.
    pub is_resource: bool,
    pub path: String,
    pub verb: &'static str,
    pub group: String,
    pub version: String,
    pub namespace: String,
    pub resource: String,
    pub subresource: String,
    pub name: String,
    /// The name stands in the path; that of a list comes from its field selector.
    pub named: bool,
}

/// Path elements below a namespace that belong to the namespace itself.
const NAMESPACE_SUBRESOURCES: [&str; 2] = ["status", "finalize"];

impl RequestInfo {
    /// Reads method, path and the few query parameters that decide the verb.
    pub(crate) fn parse(method: &Method, path: &str, query: &Query) -> Self {
        let mut info = Self {
            path: path.to_owned(),
            verb: method_word(method),
            ..Self::default()
        };
        let parts: Vec<String> = path
            .trim_matches('/')
            .split('/')
            .map(|part| percent_decode_str(part).decode_utf8_lossy().into_owned())
            .collect();
        let mut rest = match parts.as_slice() {
            [api, version, rest @ ..] if api == "api" && !rest.is_empty() => {
                info.version.clone_from(version);
                rest
            }
            [apis, group, version, rest @ ..] if apis == "apis" && !rest.is_empty() => {
                info.group.clone_from(group);
                info.version.clone_from(version);
                rest
            }
            _ => return info,
        };
        info.is_resource = true;
        info.verb = method_verb(method);
        let mut old_watch = false;
        if let [first, deeper @ ..] = rest
            && first == "watch"
            && !deeper.is_empty()
        {
            // the old form of a watch: /api/v1/watch/namespaces/x/pods/y
            old_watch = true;
            rest = deeper;
        }
        if let [first, namespace, deeper @ ..] = rest
            && first == "namespaces"
        {
            info.namespace.clone_from(namespace);
            if let [next, ..] = deeper
                && !NAMESPACE_SUBRESOURCES.contains(&next.as_str())
            {
                rest = deeper;
            }
        }
        let part = |index: usize| rest.get(index).cloned().unwrap_or_default();
        (info.resource, info.name, info.subresource) = (part(0), part(1), part(2));
        info.named = !info.name.is_empty();
        info.settle_verb(old_watch, query);
        info
    }

    /// A GET without a name is a list or a watch, a DELETE without one a deletecollection. Of a list or watch of one name the
    /// name counts, so that rules on names apply.
    fn settle_verb(&mut self, old_watch: bool, query: &Query) {
        if old_watch {
            self.verb = "watch";
        } else if self.name.is_empty() && self.verb == "get" {
            self.verb = match query.flag("watch") {
                true => "watch",
                false => "list",
            };
            self.name = exact_name(query).unwrap_or_default();
        } else if self.name.is_empty() && self.verb == "delete" {
            self.verb = "deletecollection";
        }
    }

    /// Whether the path goes on below a subresource; only what is behind a proxy has paths of its own.
    pub(crate) fn is_too_deep(path: &str, info: &Self) -> bool {
        if info.subresource == "proxy" {
            return false;
        }
        let expected = match (info.group.is_empty(), info.namespace.is_empty()) {
            (true, true) => 2,
            (true, false) => 4,
            (false, true) => 3,
            (false, false) => 5,
        };
        path.trim_matches('/').split('/').count() > expected + 3
    }

    /// Whether the request stays open: no deadline applies.
    pub(crate) fn is_long_running(&self) -> bool {
        self.is_resource && self.verb == "watch"
    }

    /// Whether it may change something.
    pub(crate) fn is_mutating(&self) -> bool {
        self.is_resource && !matches!(self.verb, "get" | "list" | "watch")
    }
}

/// The name that a field selector fixes: `metadata.name=x`.
fn exact_name(query: &Query) -> Option<String> {
    query.get("fieldSelector")?.split(',').find_map(|term| {
        let (field, value) = term.split_once('=')?;
        let value = value.strip_prefix('=').unwrap_or(value);
        (field == "metadata.name" && !value.is_empty()).then(|| value.to_owned())
    })
}

fn method_verb(method: &Method) -> &'static str {
    match method.as_str() {
        "POST" => "create",
        "GET" | "HEAD" => "get",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" => "delete",
        _ => method_word(method),
    }
}

fn method_word(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "get",
        "HEAD" => "head",
        "POST" => "post",
        "PUT" => "put",
        "PATCH" => "patch",
        "DELETE" => "delete",
        "OPTIONS" => "options",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_methods_become_verbs_and_names() {
        // method, path?query, verb, group/version, namespace, resource, subresource, name
        let cases = [
            ("GET", "/api/v1/pods", "list", "/v1", "", "pods", "", ""),
            ("GET", "/api/v1/pods/", "list", "/v1", "", "pods", "", ""),
            (
                "HEAD",
                "/api/v1/namespaces/a/pods/b",
                "get",
                "/v1",
                "a",
                "pods",
                "",
                "b",
            ),
            (
                "GET",
                "/api/v1/pods?watch=1",
                "watch",
                "/v1",
                "",
                "pods",
                "",
                "",
            ),
            (
                "GET",
                "/api/v1/pods?watch=true",
                "watch",
                "/v1",
                "",
                "pods",
                "",
                "",
            ),
            (
                "GET",
                "/api/v1/pods?watch=false",
                "list",
                "/v1",
                "",
                "pods",
                "",
                "",
            ),
            (
                "GET",
                "/api/v1/watch/namespaces/a/pods",
                "watch",
                "/v1",
                "a",
                "pods",
                "",
                "",
            ),
            (
                "GET",
                "/apis/apps/v1/deployments?fieldSelector=metadata.name%3Dx",
                "list",
                "apps/v1",
                "",
                "deployments",
                "",
                "x",
            ),
            (
                "DELETE",
                "/apis/apps/v1/namespaces/a/deployments",
                "deletecollection",
                "apps/v1",
                "a",
                "deployments",
                "",
                "",
            ),
            (
                "DELETE",
                "/apis/apps/v1/namespaces/a/deployments/b",
                "delete",
                "apps/v1",
                "a",
                "deployments",
                "",
                "b",
            ),
            (
                "PUT",
                "/apis/apps/v1/namespaces/a/deployments/b/scale",
                "update",
                "apps/v1",
                "a",
                "deployments",
                "scale",
                "b",
            ),
            (
                "PATCH",
                "/api/v1/nodes/n/status",
                "patch",
                "/v1",
                "",
                "nodes",
                "status",
                "n",
            ),
            (
                "GET",
                "/api/v1/namespaces",
                "list",
                "/v1",
                "",
                "namespaces",
                "",
                "",
            ),
            (
                "GET",
                "/api/v1/namespaces/a",
                "get",
                "/v1",
                "a",
                "namespaces",
                "",
                "a",
            ),
            (
                "PUT",
                "/api/v1/namespaces/a/finalize",
                "update",
                "/v1",
                "a",
                "namespaces",
                "finalize",
                "a",
            ),
            (
                "PUT",
                "/api/v1/namespaces/a/status",
                "update",
                "/v1",
                "a",
                "namespaces",
                "status",
                "a",
            ),
            (
                "POST",
                "/api/v1/namespaces/a/bindings",
                "create",
                "/v1",
                "a",
                "bindings",
                "",
                "",
            ),
            (
                "POST",
                "/api/v1/namespaces/a/pods/p/binding",
                "create",
                "/v1",
                "a",
                "pods",
                "binding",
                "p",
            ),
        ];
        for (method, target, verb, group_version, namespace, resource, subresource, name) in cases {
            let (path, query) = target.split_once('?').unwrap_or((target, ""));
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            let info = RequestInfo::parse(&method, path, &Query::parse(Some(query)));
            assert!(info.is_resource, "{target}");
            assert_eq!(
                (
                    info.verb,
                    format!("{}/{}", info.group, info.version).as_str()
                ),
                (verb, group_version),
                "{target}"
            );
            assert_eq!(
                [
                    &info.namespace,
                    &info.resource,
                    &info.subresource,
                    &info.name
                ],
                [namespace, resource, subresource, name],
                "{target}"
            );
        }
    }

    #[test]
    fn other_paths_are_not_resources() {
        for path in [
            "/",
            "/api",
            "/api/v1",
            "/apis",
            "/apis/apps",
            "/apis/apps/v1",
            "/healthz",
            "/foo/bar/baz",
        ] {
            let info = RequestInfo::parse(&Method::GET, path, &Query::default());
            assert!(!info.is_resource, "{path}");
            assert_eq!((info.verb, info.path.as_str()), ("get", path));
        }
    }
}
