//! An API server in memory behind a [`Transport`]: reads, writes with their conflicts, watches with history, discovery.
//! Faults can be injected: refusals, expired history, watches that fall behind.

use std::{
    collections::{BTreeMap, VecDeque},
    pin::Pin,
    sync::Arc,
};

use bytes::Bytes;
use futures::StreamExt;
use http::Method;
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use parking_lot::Mutex;
use pilothouse_api::{GroupVersionResource, Header, Status, selector::LabelSelector};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::objects::{Objects, Target};
use crate::{
    client::Client,
    discovery::ServedResource,
    transport::{Body, Transport, UserInfo},
};

/// A request as it arrived.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    pub user: String,
    pub method: Method,
    /// Path and query.
    pub uri: String,
    pub body: Value,
}

/// See the module.
pub struct FakeServer {
    state: Arc<Mutex<State>>,
    /// The revision up to which watches are served.
    shown: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    objects: Objects,
    served: BTreeMap<GroupVersionResource, ServedResource>,
    requests: Vec<Request>,
    refusals: VecDeque<(Method, String, Status)>,
    held: bool,
    broken_groups: Vec<String>,
}

const VERBS: [&str; 8] = [
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];

impl FakeServer {
    /// Serves config maps, namespaces, nodes, pods, leases, replica sets and deployments; empty.
    pub fn new() -> Arc<Self> {
        let server = Self {
            state: Arc::default(),
            shown: watch::Sender::new(0),
        };
        for (group, version, resource, kind, namespaced) in [
            ("", "v1", "configmaps", "ConfigMap", true),
            ("", "v1", "namespaces", "Namespace", false),
            ("", "v1", "nodes", "Node", false),
            ("", "v1", "pods", "Pod", true),
            ("coordination.k8s.io", "v1", "leases", "Lease", true),
            ("events.k8s.io", "v1", "events", "Event", true),
            ("apps", "v1", "deployments", "Deployment", true),
            ("apps", "v1", "replicasets", "ReplicaSet", true),
        ] {
            server.serve(
                GroupVersionResource::of(group, version, resource),
                kind,
                namespaced,
            );
        }
        Arc::new(server)
    }

    /// A client of it.
    pub fn client(self: &Arc<Self>) -> Client {
        Client::new(self.clone(), UserInfo::new("tester", &["system:masters"]))
    }

    /// Serves another resource.
    pub fn serve(&self, gvr: GroupVersionResource, kind: &str, namespaced: bool) {
        let served = ServedResource {
            gvr: gvr.clone(),
            kind: kind.to_owned(),
            namespaced,
            verbs: VERBS.map(str::to_owned).to_vec(),
        };
        self.state.lock().served.insert(gvr, served);
    }

    /// Serves a resource no longer.
    pub fn unserve(&self, gvr: &GroupVersionResource) {
        self.state.lock().served.remove(gvr);
    }

    /// Discovery of these group versions fails from now on.
    pub fn break_discovery(&self, group_versions: &[&str]) {
        let broken = group_versions.iter().map(|s| (*s).to_owned()).collect();
        self.state.lock().broken_groups = broken;
    }

    /// Refuses the next request of a method whose path begins so.
    pub fn refuse_next(&self, method: Method, path: &str, status: Status) {
        let refusal = (method, path.to_owned(), status);
        self.state.lock().refusals.push_back(refusal);
    }

    /// Watches are told nothing until [`Self::release_watches`].
    pub fn hold_watches(&self) {
        self.state.lock().held = true;
    }

    /// Watches catch up.
    pub fn release_watches(&self) {
        let mut state = self.state.lock();
        state.held = false;
        self.shown.send_replace(state.objects.revision);
    }

    /// Forgets the history: a watch that resumes is told that it is too old.
    pub fn compact(&self) {
        let mut state = self.state.lock();
        state.objects.oldest = state.objects.revision;
        state.objects.history.clear();
    }

    /// The requests since the last call, watches and lists left out.
    pub fn take_requests(&self) -> Vec<Request> {
        let mut requests = std::mem::take(&mut self.state.lock().requests);
        requests.retain(|r| !is_informer(r));
        requests
    }

    /// The revision of the last change.
    pub fn revision(&self) -> u64 {
        self.state.lock().objects.revision
    }

    fn handle(&self, user: &UserInfo, request: &http::Request<Bytes>) -> Result<Answer, Status> {
        let mut state = self.state.lock();
        let uri = request.uri().to_string();
        let body: Value = match request.body().is_empty() {
            true => Value::Null,
            false => serde_json::from_slice(request.body())
                .map_err(|error| Status::bad_request(error.to_string()))?,
        };
        state.requests.push(Request {
            user: user.name.clone(),
            method: request.method().clone(),
            uri: uri.clone(),
            body: body.clone(),
        });
        let refused = state
            .refusals
            .iter()
            .position(|(method, path, _)| method == request.method() && uri.starts_with(path));
        if let Some((_, _, status)) = refused.and_then(|at| state.refusals.remove(at)) {
            return Err(status);
        }
        let path = request.uri().path();
        if let Some(document) = state.discovery(path)? {
            return Ok(Answer::Whole(document));
        }
        let query = query(&uri);
        let Some((served, namespace, name, subresource)) = state.route(path) else {
            let message = "the server could not find the requested resource";
            return Err(Status::new(404, "NotFound", message));
        };
        let at = Target {
            served: &served,
            namespace: &namespace,
            name: &name,
            subresource: &subresource,
        };
        let answer = state.answer(request, &at, &query, body)?;
        if !state.held {
            self.shown.send_replace(state.objects.revision);
        }
        Ok(answer)
    }
}

enum Answer {
    Whole(Value),
    Watch {
        resource: GroupVersionResource,
        namespace: String,
        from: u64,
    },
}

impl State {
    fn answer(
        &mut self,
        request: &http::Request<Bytes>,
        at: &Target<'_>,
        query: &BTreeMap<String, String>,
        body: Value,
    ) -> Result<Answer, Status> {
        let objects = &mut self.objects;
        let collection = at.name.is_empty();
        let whole = match *request.method() {
            Method::GET if collection && query.contains_key("watch") => {
                let from = query.get("resourceVersion").and_then(|v| v.parse().ok());
                return Ok(Answer::Watch {
                    resource: at.served.gvr.clone(),
                    namespace: at.namespace.to_owned(),
                    from: from.unwrap_or(0),
                });
            }
            Method::GET if collection => {
                let mut items = objects.list(&at.served.gvr, at.namespace);
                items.retain(|item| selected(item, query));
                json!({
                    "kind": format!("{}List", at.served.kind),
                    "metadata": {"resourceVersion": objects.revision.to_string()},
                    "items": items,
                })
            }
            Method::GET => objects.get(at)?.clone(),
            Method::POST if collection => objects.create(at, body)?,
            Method::POST if at.subresource == "binding" => {
                let mut pod = objects.get(at)?.clone();
                pod["spec"]["nodeName"] = body["target"]["name"].clone();
                objects.update(at, pod)?
            }
            Method::PUT => objects.update(at, body)?,
            Method::PATCH => {
                let mut patched = objects.get(at)?.clone();
                json_patch::merge(&mut patched, &body);
                objects.update(at, patched)?
            }
            Method::DELETE if collection => {
                for item in objects.list(&at.served.gvr, at.namespace) {
                    let header = decode(&item);
                    if selected(&item, query) {
                        let each = Target {
                            namespace: &header.namespace,
                            name: &header.name,
                            ..*at
                        };
                        objects.delete(&each, &body)?;
                    }
                }
                json!({"kind": "Status", "apiVersion": "v1", "status": "Success"})
            }
            Method::DELETE => {
                let object = objects.delete(at, &body)?;
                match objects.get(at) {
                    Ok(_) => object, // still there
                    Err(_) => json!({"kind": "Status", "apiVersion": "v1", "status": "Success"}),
                }
            }
            _ => return Err(Status::method_not_allowed("no such method")),
        };
        Ok(Answer::Whole(whole))
    }

    fn discovery(&self, path: &str) -> Result<Option<Value>, Status> {
        if path == "/apis" {
            let groups = self.served.keys().filter(|gvr| !gvr.group.is_empty());
            let mut by_name = BTreeMap::new();
            for gvr in groups {
                by_name
                    .entry(gvr.group.clone())
                    .or_insert(gvr.version.clone());
            }
            let groups = by_name.into_iter().map(|(group, version)| {
                let version =
                    json!({"groupVersion": format!("{group}/{version}"), "version": version});
                json!({"name": group, "versions": [version], "preferredVersion": version})
            });
            return Ok(Some(json!({"groups": groups.collect::<Vec<_>>()})));
        }
        let mut resources = Vec::new();
        for served in self.served.values() {
            if served.gvr.url_prefix() == path {
                resources.push(json!({
                    "name": served.gvr.resource,
                    "kind": served.kind,
                    "namespaced": served.namespaced,
                    "verbs": served.verbs,
                }));
            }
        }
        if resources.is_empty() && path != "/api/v1" {
            return Ok(None);
        }
        let broken = |gv: &String| path.ends_with(gv.as_str());
        if self.broken_groups.iter().any(broken) {
            return Err(Status::new(503, "ServiceUnavailable", "down"));
        }
        Ok(Some(json!({"resources": resources})))
    }

    /// The resource, namespace, name and subresource of a path.
    fn route(&self, path: &str) -> Option<(ServedResource, String, String, String)> {
        let find = |in_namespace: bool| {
            self.served.values().find_map(|served| {
                let prefix = served.gvr.url_prefix();
                let rest = path.strip_prefix(&prefix)?.strip_prefix('/')?;
                let parts: Vec<&str> = rest.split('/').collect();
                let resource = &*served.gvr.resource;
                let (namespace, at) = match parts.as_slice() {
                    ["namespaces", namespace, found, ..] if in_namespace => {
                        (*namespace, (*found, 2))
                    }
                    [found, ..] if !in_namespace => ("", (*found, 0)),
                    _ => return None,
                };
                let part = |i: usize| parts.get(i).copied().unwrap_or_default().to_owned();
                let (found, at) = at;
                (found == resource).then(|| {
                    (
                        served.clone(),
                        namespace.to_owned(),
                        part(at + 1),
                        part(at + 2),
                    )
                })
            })
        };
        find(true).or_else(|| find(false))
    }
}

impl Transport for FakeServer {
    fn send(
        &self,
        user: &UserInfo,
        request: http::Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<http::Response<Body>, Status>> + Send + '_>> {
        let answer = self.handle(user, &request);
        Box::pin(async move {
            Ok(match answer {
                Ok(Answer::Whole(document)) => response(200, document.to_string().into()),
                Ok(Answer::Watch {
                    resource,
                    namespace,
                    from,
                }) => self.watch(resource, namespace, from),
                Err(status) => response(status.code, status.to_json().into()),
            })
        })
    }
}

fn response(code: u16, body: Bytes) -> http::Response<Body> {
    let body = Full::new(body).map_err(|never| match never {});
    let mut response = http::Response::new(body.boxed_unsync());
    *response.status_mut() = http::StatusCode::from_u16(code).unwrap_or_default();
    response
}

impl FakeServer {
    fn watch(
        &self,
        resource: GroupVersionResource,
        namespace: String,
        from: u64,
    ) -> http::Response<Body> {
        let watch = Watching {
            state: self.state.clone(),
            shown: self.shown.subscribe(),
            resource,
            namespace,
            from,
            pending: VecDeque::new(),
        };
        let lines = futures::stream::unfold(watch, |mut watch| async move {
            let line = watch.line().await?;
            Some((Ok::<_, std::io::Error>(Frame::data(line)), watch))
        });
        http::Response::new(StreamBody::new(lines.boxed()).boxed_unsync())
    }
}

/// One watch; it ends with the server.
struct Watching {
    state: Arc<Mutex<State>>,
    shown: watch::Receiver<u64>,
    resource: GroupVersionResource,
    namespace: String,
    from: u64,
    pending: VecDeque<Bytes>,
}

impl Watching {
    async fn line(&mut self) -> Option<Bytes> {
        loop {
            if let Some(line) = self.pending.pop_front() {
                return Some(line);
            }
            let from = self.from;
            let upto = *self.shown.wait_for(|shown| *shown > from).await.ok()?;
            let state = self.state.lock();
            let oldest = state.objects.oldest;
            if from < oldest {
                let gone = Status::expired(format!("too old resource version: {from} ({oldest})"));
                let gone = String::from_utf8_lossy(&gone.to_json()).into_owned();
                self.from = u64::MAX; // nothing follows
                let line = format!("{{\"type\":\"ERROR\",\"object\":{gone}}}\n");
                return Some(line.into());
            }
            let news = state.objects.history.iter().filter(|event| {
                (from..=upto).contains(&event.revision)
                    && event.revision != from
                    && event.resource == self.resource
                    && (self.namespace.is_empty() || event.namespace == self.namespace)
            });
            self.pending.extend(news.map(|event| {
                let line = json!({"type": event.kind, "object": event.object});
                Bytes::from(format!("{line}\n"))
            }));
            let bookmark = json!({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": upto.to_string()}}});
            self.pending.push_back(Bytes::from(format!("{bookmark}\n")));
            self.from = upto;
        }
    }
}

/// Lists of everything, watches and discovery: what informers do by themselves.
fn is_informer(request: &Request) -> bool {
    let uri = request.uri.as_str();
    let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
    let is_discovery = path == "/apis" || path.split('/').count() <= 4 && !path.contains("/v1/");
    request.method == Method::GET
        && (query.contains("watch=")
            || query.contains("resourceVersion=")
            || query.contains("limit=")
            || is_discovery)
}

fn query(uri: &str) -> BTreeMap<String, String> {
    let (_, query) = uri.split_once('?').unwrap_or((uri, ""));
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let decoded = |text: &str| {
        let text = percent_encoding::percent_decode_str(text);
        text.decode_utf8_lossy().into_owned()
    };
    pairs
        .map(|(name, value)| (decoded(name), decoded(value)))
        .collect()
}

fn decode(object: &Value) -> Header {
    let header = Header::decode(object.to_string().as_bytes(), &[""; 0]);
    header.map(|(header, _)| header).unwrap_or_default()
}

fn selected(object: &Value, query: &BTreeMap<String, String>) -> bool {
    let selector = query.get("labelSelector").map_or("", String::as_str);
    LabelSelector::parse(selector).is_ok_and(|selector| selector.matches(&decode(object)))
}
