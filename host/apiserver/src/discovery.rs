//! What the server offers: the lists that clients read before anything else, in their old and their aggregated form.
//! Source: <https://kubernetes.io/docs/concepts/overview/kubernetes-api/#discovery-api>
//!
//! The documents are made once; asking for them costs no work.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, header};
use pilothouse_client::Body;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::{
    handlers::{component_status, connect::Connect},
    negotiation::{Negotiated, clauses},
    registry::{Registry, Resource},
    response,
    reviews::{self, REVIEWS},
};

const UPDATE_VERBS: [&str; 3] = ["get", "patch", "update"];

/// A document with its entity tag.
#[derive(Clone, Debug)]
struct Tagged {
    body: Bytes,
    etag: HeaderValue,
}

/// All discovery documents.
#[derive(Debug)]
pub(crate) struct Discovery {
    /// `/api` and `/apis`: the groups, and everything below them.
    core_aggregated: Tagged,
    groups_aggregated: Tagged,
    /// By path: `/api`, `/apis`, `/api/v1`, `/apis/apps`, `/apis/apps/v1`.
    documents: BTreeMap<String, Bytes>,
}

/// A row of a resource list.
pub(crate) struct Row {
    pub(crate) name: String,
    /// Empty: the resource's own.
    pub(crate) kind: &'static str,
    /// Of the kind, where it is not the resource's own: `autoscaling/v1` for Scale.
    pub(crate) group_version: Option<(&'static str, &'static str)>,
    pub(crate) verbs: &'static [&'static str],
}

impl Discovery {
    /// Describes what a registry serves; `address` is where clients find the server.
    pub(crate) fn new(registry: &Registry, address: &str) -> Self {
        let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
        let stored = registry
            .resources()
            .iter()
            .map(|resource| &resource.info.gvr);
        let stored = stored.map(|gvr| (&*gvr.group, &*gvr.version));
        let reviews = REVIEWS.iter().map(|review| (review.group, review.version));
        for (group, version) in stored.chain(reviews) {
            let at = match groups.iter().position(|(g, _)| *g == group) {
                Some(at) => at,
                None => {
                    groups.push((group, Vec::new()));
                    groups.len() - 1
                }
            };
            let versions = &mut groups[at].1;
            if !versions.contains(&version) {
                versions.push(version);
            }
        }
        for (_, versions) in &mut groups {
            versions.sort_by_key(|version| version_rank(version));
        }
        groups.sort_by_key(|(group, _)| std::cmp::Reverse(priority(group))); // stable: others stay in order
        let of_version = |group: &str, version: &str| -> Vec<&Resource> {
            let of_it =
                |r: &&Resource| r.info.gvr.group == *group && r.info.gvr.version == *version;
            registry
                .resources()
                .iter()
                .map(|r| &**r)
                .filter(of_it)
                .collect()
        };

        let mut documents = BTreeMap::new();
        let mut add = |path: String, document: Value| {
            documents.insert(path, Bytes::from(document.to_string()));
        };
        let mut legacy_groups = Vec::new();
        let (mut core, mut named) = (Vec::new(), Vec::new());
        for (group, versions) in &groups {
            let version_items: Vec<Value> = versions
                .iter()
                .map(|version| {
                    let resources = of_version(group, version);
                    add(
                        list_path(group, version),
                        legacy_list(group, version, &resources),
                    );
                    aggregated_version(group, version, &resources)
                })
                .collect();
            let item = json!({
                "metadata": if group.is_empty() { json!({}) } else { json!({ "name": group }) },
                "versions": version_items,
            });
            match group.is_empty() {
                true => core.push(item),
                false => {
                    named.push(item);
                    let document = legacy_group(group, versions);
                    legacy_groups.push(document.clone());
                    add(format!("/apis/{group}"), with_type("APIGroup", document));
                }
            }
        }
        add(
            "/api".to_owned(),
            json!({
                "kind": "APIVersions",
                "versions": ["v1"],
                "serverAddressByClientCIDRs": [{ "clientCIDR": "0.0.0.0/0", "serverAddress": address }],
            }),
        );
        add(
            "/apis".to_owned(),
            json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": legacy_groups }),
        );
        Self {
            core_aggregated: aggregated(core),
            groups_aggregated: aggregated(named),
            documents,
        }
    }

    /// The answer to a discovery path; `None`: it is not one.
    pub(crate) fn answer(
        &self,
        path: &str,
        headers: &HeaderMap,
        negotiated: Negotiated,
    ) -> Option<Response<Body>> {
        let path = match path.trim_end_matches('/') {
            "" => return None,
            path => path,
        };
        let tagged = match path {
            "/api" => Some(&self.core_aggregated),
            "/apis" => Some(&self.groups_aggregated),
            _ => None,
        };
        if let (Some(tagged), Some(version)) = (tagged, wants_aggregated(headers)) {
            return Some(answer_aggregated(tagged, version, headers));
        }
        let document = self.documents.get(path)?.clone();
        let mut response = response::document(200, document, negotiated, headers);
        if tagged.is_some() {
            response
                .headers_mut()
                .append(header::VARY, HeaderValue::from_static("Accept"));
        }
        Some(response)
    }
}

fn answer_aggregated(
    tagged: &Tagged,
    version: &'static str,
    headers: &HeaderMap,
) -> Response<Body> {
    let content_type = match version {
        "v2beta1" => "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
        _ => "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
    };
    let body = match version {
        "v2beta1" => {
            let text = String::from_utf8_lossy(&tagged.body);
            let beta = text.replacen("apidiscovery.k8s.io/v2", "apidiscovery.k8s.io/v2beta1", 1);
            beta.into()
        }
        _ => tagged.body.clone(),
    };
    let response = response::response(200, content_type, body);
    let mut response = response::tagged(response, &tagged.etag, headers);
    let cache = HeaderValue::from_static("public");
    response.headers_mut().insert(header::CACHE_CONTROL, cache);
    response
}

/// The version of the aggregated form that the client prefers to the old one.
fn wants_aggregated(headers: &HeaderMap) -> Option<&'static str> {
    for clause in clauses(headers) {
        if !matches!(clause.media, "application/json" | "*/*" | "application/*") {
            continue;
        }
        match (clause.param("as"), clause.param("g"), clause.param("v")) {
            ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2") => return Some("v2"),
            ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2beta1") => return Some("v2beta1"),
            ("", ..) => return None,
            _ => {}
        }
    }
    None
}

fn aggregated(items: Vec<Value>) -> Tagged {
    let document = json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    });
    let body = Bytes::from(document.to_string());
    let digest: String = Sha256::digest(&body)
        .iter()
        .map(|b| format!("{b:02X}"))
        .collect();
    let etag = HeaderValue::from_str(&format!("\"{digest}\""))
        .unwrap_or(HeaderValue::from_static("\"0\""));
    Tagged { body, etag }
}

/// Stable versions before beta before alpha, each newest first.
fn version_rank(version: &str) -> (u8, std::cmp::Reverse<u32>, std::cmp::Reverse<u32>) {
    let digits = version.trim_start_matches('v');
    let (major, rest) = digits.split_at(
        digits
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(digits.len()),
    );
    let (class, minor) = match (rest.strip_prefix("beta"), rest.strip_prefix("alpha")) {
        (Some(minor), _) => (1, minor),
        (_, Some(minor)) => (2, minor),
        _ => (0, ""),
    };
    let number = |text: &str| std::cmp::Reverse(text.parse().unwrap_or(0));
    (class, number(major), number(minor))
}

/// Where a group stands among the others, and with it which of two resources of one name a client means by it. These are
/// the numbers of the groups' APIServices.
pub(crate) fn priority(group: &str) -> i32 {
    match group {
        "" => 18_000,
        "apiregistration.k8s.io" => 17_900,
        "apps" => 17_800,
        "events.k8s.io" => 17_750,
        "authentication.k8s.io" => 17_700,
        "authorization.k8s.io" => 17_600,
        "autoscaling" => 17_500,
        "batch" => 17_400,
        "certificates.k8s.io" => 17_300,
        "networking.k8s.io" => 17_200,
        "policy" => 17_100,
        "rbac.authorization.k8s.io" => 17_000,
        "storage.k8s.io" => 16_800,
        "apiextensions.k8s.io" | "admissionregistration.k8s.io" => 16_700,
        "scheduling.k8s.io" => 16_600,
        "coordination.k8s.io" => 16_500,
        "node.k8s.io" => 16_300,
        "discovery.k8s.io" | "resource.k8s.io" => 16_200,
        "flowcontrol.apiserver.k8s.io" => 16_100,
        _ => 1_000,
    }
}

fn list_path(group: &str, version: &str) -> String {
    match group {
        "" => format!("/api/{version}"),
        group => format!("/apis/{group}/{version}"),
    }
}

fn group_version(group: &str, version: &str) -> String {
    match group {
        "" => version.to_owned(),
        group => format!("{group}/{version}"),
    }
}

fn with_type(kind: &str, mut document: Value) -> Value {
    document["kind"] = kind.into();
    document["apiVersion"] = "v1".into();
    document
}

fn legacy_group(group: &str, versions: &[&str]) -> Value {
    let version = |version: &&str| json!({ "groupVersion": group_version(group, version), "version": version });
    json!({
        "name": group,
        "versions": versions.iter().map(version).collect::<Vec<_>>(),
        "preferredVersion": versions.first().map(version),
    })
}

fn legacy_list(group: &str, version: &str, resources: &[&Resource]) -> Value {
    let mut rows = Vec::new();
    for resource in resources {
        let info = &resource.info;
        let mut main = json!({
            "name": info.gvr.resource,
            "singularName": info.singular,
            "namespaced": info.namespaced,
            "kind": info.kind,
            "verbs": resource.verbs(),
        });
        if !info.short_names.is_empty() {
            main["shortNames"] = json!(info.short_names);
        }
        if !info.categories.is_empty() {
            main["categories"] = json!(info.categories);
        }
        main["storageVersionHash"] = json!(storage_version_hash(resource));
        rows.push(main);
        for row in subresources(resource) {
            let mut document = json!({
                "name": format!("{}/{}", info.gvr.resource, row.name),
                "singularName": "",
                "namespaced": info.namespaced,
                "kind": if row.kind.is_empty() { &*info.kind } else { row.kind },
                "verbs": row.verbs,
            });
            if let Some((group, version)) = row.group_version {
                document["group"] = json!(group);
                document["version"] = json!(version);
            }
            rows.push(document);
        }
    }
    for review in reviews::of(group, version) {
        rows.push(json!({
            "name": review.resource,
            "singularName": review.kind.to_lowercase(),
            "namespaced": review.namespaced,
            "kind": review.kind,
            "verbs": ["create"],
        }));
    }
    if serves_statuses(resources) {
        rows.push(json!({
            "name": component_status::PLURAL,
            "singularName": "componentstatus",
            "namespaced": false,
            "kind": component_status::KIND,
            "shortNames": ["cs"],
            "verbs": ["get", "list"],
        }));
    }
    rows.sort_by(|a, b| a["name"].as_str().cmp(&b["name"].as_str()));
    json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": group_version(group, version),
        "resources": rows,
    })
}

fn aggregated_version(group: &str, version: &str, resources: &[&Resource]) -> Value {
    let mut rows: Vec<Value> = resources.iter().map(|r| aggregated_resource(r)).collect();
    for review in reviews::of(group, version) {
        rows.push(json!({
            "resource": review.resource,
            "responseKind": { "group": group, "version": version, "kind": review.kind },
            "scope": if review.namespaced { "Namespaced" } else { "Cluster" },
            "singularResource": review.kind.to_lowercase(),
            "verbs": ["create"],
        }));
    }
    if serves_statuses(resources) {
        rows.push(json!({
            "resource": component_status::PLURAL,
            "responseKind": { "group": "", "version": "v1", "kind": component_status::KIND },
            "scope": "Cluster",
            "singularResource": "componentstatus",
            "shortNames": ["cs"],
            "verbs": ["get", "list"],
        }));
    }
    rows.sort_by(|a, b| a["resource"].as_str().cmp(&b["resource"].as_str()));
    json!({ "version": version, "resources": rows, "freshness": "Current" })
}

fn aggregated_resource(resource: &Resource) -> Value {
    let info = &resource.info;
    let kind_of = |kind: &str, group_version: Option<(&str, &str)>| {
        let (group, version) = group_version.unwrap_or((&info.gvr.group, &info.gvr.version));
        json!({ "group": group, "version": version, "kind": if kind.is_empty() { &info.kind } else { kind } })
    };
    let mut document = json!({
        "resource": info.gvr.resource,
        "responseKind": kind_of("", None),
        "scope": if info.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": info.singular,
        "verbs": resource.verbs(),
    });
    if !info.short_names.is_empty() {
        document["shortNames"] = json!(info.short_names);
    }
    if !info.categories.is_empty() {
        document["categories"] = json!(info.categories);
    }
    let below: Vec<Value> = subresources(resource)
        .iter()
        .map(|row| {
            json!({
                "subresource": row.name,
                "responseKind": kind_of(row.kind, row.group_version),
                "verbs": row.verbs,
            })
        })
        .collect();
    if !below.is_empty() {
        document["subresources"] = json!(below);
    }
    document
}

/// The subresources of a resource.
pub(crate) fn subresources(resource: &Resource) -> Vec<Row> {
    let row = |name: &str, kind, group_version, verbs| Row {
        name: name.to_owned(),
        kind,
        group_version,
        verbs,
    };
    let mut rows = Vec::new();
    if resource.is_pods() {
        rows.push(row("binding", "Binding", None, &["create"]));
        rows.push(row(
            "eviction",
            "Eviction",
            Some(("policy", "v1")),
            &["create"],
        ));
    }
    if resource.is_service_accounts() {
        let of = Some(("authentication.k8s.io", "v1"));
        rows.push(row("token", "TokenRequest", of, &["create"]));
    }
    rows.extend(Connect::rows(resource));
    for name in resource.strategy.part_names() {
        rows.push(row(name, "", None, &UPDATE_VERBS));
    }
    if resource.strategy.has_finalize() {
        rows.push(row("finalize", "", None, &["update"]));
    }
    if resource.strategy.has_scale() {
        rows.push(row(
            "scale",
            "Scale",
            Some(("autoscaling", "v1")),
            &UPDATE_VERBS,
        ));
    }
    if resource.strategy.has_status() {
        rows.push(row("status", "", None, &UPDATE_VERBS));
    }
    rows.sort_by(|a, b| a.name.cmp(&b.name));
    rows
}

/// Whether the components' statuses are among these: they stand beside pods, and nothing keeps them.
fn serves_statuses(resources: &[&Resource]) -> bool {
    resources.iter().any(|r| r.is_pods())
}

/// Changes when the stored form of a resource does; the same for all versions of it.
fn storage_version_hash(resource: &Resource) -> String {
    use base64::{Engine, engine::general_purpose::STANDARD};
    let info = resource.cache.resource();
    let digest = Sha256::digest(format!(
        "{}/{}/{}",
        info.gvr.group, info.gvr.version, info.kind
    ));
    STANDARD.encode(&digest[..8])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stable_versions_come_first_and_new_before_old() {
        let mut versions = ["v1alpha1", "v1", "v2beta2", "v2beta10", "v2", "v1beta1"];
        versions.sort_by_key(|version| version_rank(version));
        assert_eq!(
            versions,
            ["v2", "v1", "v2beta10", "v2beta2", "v1beta1", "v1alpha1"]
        );
    }

    #[test]
    fn the_old_form_wins_if_it_is_asked_first() {
        let cases = [
            (
                "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json",
                Some("v2"),
            ),
            (
                "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json",
                Some("v2beta1"),
            ),
            (
                "application/json, application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
                None,
            ),
            ("application/json", None),
            ("*/*", None),
        ];
        for (accept, expected) in cases {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
            assert_eq!(wants_aggregated(&headers), expected, "{accept}");
        }
    }
}
