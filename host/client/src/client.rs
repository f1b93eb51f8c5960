//! The client: byte-oriented operations on any resource, as one user, over one transport.
//!
//! Refusals that carry `Retry-After` (429, and 5xx of an overloaded server) are retried here, for every verb: the server says
//! with it that it has done nothing. A failed transport is retried for reads only, since a write may have been done.

mod params;
mod typed;

pub use typed::resource_of;

pub use params::{DeleteOptions, ListParams, PatchType, Propagation, WatchParams};

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures::stream::BoxStream;
use http::{Method, Request, header};
use http_body_util::BodyExt;
use pilothouse_api::{GroupVersionResource, Object, Revision, SharedObject, Status};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    transport::{Body, Transport, UserInfo},
    watch::{self, WatchEvent},
};

/// How often a request is retried after a refusal with `Retry-After`.
const MAX_RETRIES: u32 = 10;
/// The longest `Retry-After` that is obeyed; a longer one is the caller's affair.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);

/// A cheap clone; see the module.
#[derive(Clone)]
pub struct Client {
    transport: Arc<dyn Transport>,
    user: Arc<UserInfo>,
}

/// One page of a list, or a whole one.
#[derive(Clone, Debug, Default)]
pub struct List {
    /// `metadata.resourceVersion`: a watch from here misses nothing.
    pub revision: Revision,
    pub items: Vec<SharedObject>,
    /// For the next page; empty on the last.
    pub continue_token: String,
}

impl Client {
    /// Acts as `user`. Over HTTPS the user is whoever the kubeconfig authenticates, and `user` is a name for logs.
    pub fn new(transport: Arc<dyn Transport>, user: UserInfo) -> Self {
        Self {
            transport,
            user: Arc::new(user),
        }
    }

    /// The same transport as another user.
    #[must_use]
    pub fn as_user(&self, user: UserInfo) -> Self {
        Self::new(self.transport.clone(), user)
    }

    /// Who it acts as.
    pub fn user(&self) -> &UserInfo {
        &self.user
    }

    /// One object. `namespace` is empty for cluster-scoped resources, here and below.
    pub async fn get(
        &self,
        of: &GroupVersionResource,
        namespace: &str,
        name: &str,
    ) -> Result<SharedObject, Status> {
        self.object(
            Method::GET,
            &path(of, namespace, name, ""),
            "",
            Bytes::new(),
        )
        .await
    }

    /// One page of at most `params.limit` objects, or everything without a limit. `fields` are the selectable fields to
    /// read into the headers.
    pub async fn list(
        &self,
        of: &GroupVersionResource,
        namespace: &str,
        params: &ListParams,
        fields: &[String],
    ) -> Result<List, Status> {
        let uri = with_query(path(of, namespace, "", ""), params.query());
        let body = self.bytes(Method::GET, &uri, "", Bytes::new()).await?;
        decode_list(&body, fields)
    }

    /// All pages; every page is of the first page's revision.
    pub async fn list_all(
        &self,
        of: &GroupVersionResource,
        namespace: &str,
        params: &ListParams,
        fields: &[String],
    ) -> Result<List, Status> {
        let mut params = params.clone();
        let mut all = self.list(of, namespace, &params, fields).await?;
        while !all.continue_token.is_empty() {
            params.continue_token = std::mem::take(&mut all.continue_token);
            params.resource_version.clear();
            let page = self.list(of, namespace, &params, fields).await?;
            all.items.extend(page.items);
            all.continue_token = page.continue_token;
        }
        Ok(all)
    }

    /// Events from `params.resource_version` on. The stream ends when the server ends it or after an error; an ERROR event
    /// becomes its `Status`.
    pub async fn watch(
        &self,
        of: &GroupVersionResource,
        namespace: &str,
        params: &WatchParams,
        fields: Arc<[String]>,
    ) -> Result<BoxStream<'static, Result<WatchEvent, Status>>, Status> {
        let uri = with_query(path(of, namespace, "", ""), params.query());
        let response = self.send(Method::GET, &uri, "", Bytes::new()).await?;
        Ok(watch::events(response.into_body(), fields))
    }

    /// The created object comes back.
    pub async fn create(
        &self,
        of: &GroupVersionResource,
        namespace: &str,
        object: impl Into<Bytes>,
    ) -> Result<SharedObject, Status> {
        let uri = path(of, namespace, "", "");
        self.object(Method::POST, &uri, JSON, object.into()).await
    }

    /// Replaces an object; a stale `resourceVersion` in it is a `Conflict`.
    pub async fn update(
        &self,
        of: &GroupVersionResource,
        namespace: &str,
        name: &str,
        object: impl Into<Bytes>,
    ) -> Result<SharedObject, Status> {
        self.update_subresource(of, namespace, name, "", object)
            .await
    }

    /// Replaces an object's status.
    pub async fn update_status(
        &self,
        of: &GroupVersionResource,
        namespace: &str,
        name: &str,
        object: impl Into<Bytes>,
    ) -> Result<SharedObject, Status> {
        self.update_subresource(of, namespace, name, "status", object)
            .await
    }

    /// PUT to a subresource: `status`, `scale`, `finalize`.
    pub async fn update_subresource(
        &self,
        of: &GroupVersionResource,
        namespace: &str,
        name: &str,
        subresource: &str,
        object: impl Into<Bytes>,
    ) -> Result<SharedObject, Status> {
        let uri = path(of, namespace, name, subresource);
        self.object(Method::PUT, &uri, JSON, object.into()).await
    }

    /// GET of a subresource, such as `scale`.
    pub async fn get_subresource(
        &self,
        of: &GroupVersionResource,
        namespace: &str,
        name: &str,
        subresource: &str,
    ) -> Result<SharedObject, Status> {
        let uri = path(of, namespace, name, subresource);
        self.object(Method::GET, &uri, "", Bytes::new()).await
    }

    /// Patches an object, or a subresource of it if that is not empty.
    pub async fn patch(
        &self,
        of: &GroupVersionResource,
        namespace: &str,
        name: &str,
        subresource: &str,
        kind: PatchType,
        patch: impl Into<Bytes>,
    ) -> Result<SharedObject, Status> {
        let uri = path(of, namespace, name, subresource);
        self.object(Method::PATCH, &uri, kind.content_type(), patch.into())
            .await
    }

    /// Deletes an object. The answer is the object if the server sent it (it is then still there, deleting, or of a kind
    /// whose last state comes back), else nothing.
    pub async fn delete(
        &self,
        of: &GroupVersionResource,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<Option<SharedObject>, Status> {
        let uri = path(of, namespace, name, "");
        let body = self
            .bytes(Method::DELETE, &uri, JSON, options.to_json().into())
            .await?;
        if is_status(&body) {
            return Ok(None);
        }
        Ok(Some(Arc::new(Object::from_response(body, NO_FIELDS)?)))
    }

    /// Deletes everything in a namespace that the selectors of `params` match.
    pub async fn delete_collection(
        &self,
        of: &GroupVersionResource,
        namespace: &str,
        params: &ListParams,
        options: &DeleteOptions,
    ) -> Result<(), Status> {
        let uri = with_query(path(of, namespace, "", ""), params.query());
        self.bytes(Method::DELETE, &uri, JSON, options.to_json().into())
            .await?;
        Ok(())
    }

    /// POST to a subresource, such as `binding` and `eviction`. The answer is what the server sent, usually a `Status`.
    pub async fn create_subresource(
        &self,
        of: &GroupVersionResource,
        namespace: &str,
        name: &str,
        subresource: &str,
        object: impl Into<Bytes>,
    ) -> Result<Bytes, Status> {
        let uri = path(of, namespace, name, subresource);
        self.bytes(Method::POST, &uri, JSON, object.into()).await
    }

    /// GET of any path, such as `/apis` or `/readyz`.
    pub async fn raw(&self, path: &str) -> Result<Bytes, Status> {
        self.bytes(Method::GET, path, "", Bytes::new()).await
    }

    async fn object(
        &self,
        method: Method,
        uri: &str,
        content_type: &str,
        body: Bytes,
    ) -> Result<SharedObject, Status> {
        let bytes = self.bytes(method, uri, content_type, body).await?;
        Ok(Arc::new(Object::from_response(bytes, NO_FIELDS)?))
    }

    async fn bytes(
        &self,
        method: Method,
        uri: &str,
        content_type: &str,
        body: Bytes,
    ) -> Result<Bytes, Status> {
        let response = self.send(method, uri, content_type, body).await?;
        collect(response.into_body()).await
    }

    /// Sends with retries; a refusal is an error.
    async fn send(
        &self,
        method: Method,
        uri: &str,
        content_type: &str,
        body: Bytes,
    ) -> Result<http::Response<Body>, Status> {
        let mut retries = 0;
        loop {
            let request = request(&self.user, &method, uri, content_type, body.clone())?;
            let (status, wait) = match self.transport.send(&self.user, request).await {
                Ok(response) if response.status().is_success() => return Ok(response),
                Ok(response) => refusal(response).await,
                Err(status) if method == Method::GET && retries == 0 => {
                    (status, Some(Duration::ZERO))
                }
                Err(status) => (status, None),
            };
            match wait {
                Some(wait) if retries < MAX_RETRIES && wait <= MAX_RETRY_AFTER => {
                    retries += 1;
                    tokio::time::sleep(wait).await;
                }
                _ => return Err(status),
            }
        }
    }
}

const JSON: &str = "application/json";
const NO_FIELDS: &[&str] = &[];

/// What a user is called where it owns fields: `kube-scheduler` for `system:kube-scheduler`, a plugin's name for a plugin.
fn agent(user: &UserInfo) -> String {
    let name = user.name.rsplit(':').next().unwrap_or_default();
    let name = if name.is_empty() { "pilothouse" } else { name };
    format!("{name}/{}", env!("CARGO_PKG_VERSION"))
}

fn request(
    user: &UserInfo,
    method: &Method,
    uri: &str,
    content_type: &str,
    body: Bytes,
) -> Result<Request<Bytes>, Status> {
    let mut request = Request::builder()
        .method(method)
        .uri(uri)
        .header(header::ACCEPT, JSON)
        .header(header::USER_AGENT, agent(user));
    if !content_type.is_empty() {
        request = request.header(header::CONTENT_TYPE, content_type);
    }
    request
        .body(body)
        .map_err(|error| Status::bad_request(format!("{uri:?} is no request: {error}")))
}

/// The `Status` of a refused request, and how long to wait before it may be repeated.
async fn refusal(response: http::Response<Body>) -> (Status, Option<Duration>) {
    let code = response.status();
    let retryable = code.as_u16() == 429 || code.is_server_error();
    let seconds = response.headers().get(header::RETRY_AFTER);
    let seconds = seconds.and_then(|value| value.to_str().ok()?.parse().ok());
    let wait = seconds.filter(|_| retryable).map(Duration::from_secs);
    match collect(response.into_body()).await {
        Ok(body) => (Status::from_response(code.as_u16(), &body), wait),
        Err(status) => (status, wait),
    }
}

async fn collect(body: Body) -> Result<Bytes, Status> {
    let collected = body.collect().await;
    let collected = collected
        .map_err(|error| Status::new(500, "InternalError", format!("broken response: {error}")))?;
    Ok(collected.to_bytes())
}

/// `/apis/apps/v1/namespaces/default/deployments/web/scale`; empty parts are left out.
pub(crate) fn path(
    of: &GroupVersionResource,
    namespace: &str,
    name: &str,
    subresource: &str,
) -> String {
    let mut path = of.url_prefix();
    if !namespace.is_empty() {
        path.push_str("/namespaces/");
        path.push_str(&params::segment(namespace));
    }
    path.push('/');
    path.push_str(&of.resource);
    for part in [name, subresource] {
        if !part.is_empty() {
            path.push('/');
            path.push_str(&params::segment(part));
        }
    }
    path
}

fn with_query(path: String, query: String) -> String {
    match query.as_str() {
        "" => path,
        query => format!("{path}?{query}"),
    }
}

/// Whether the document is a `v1` `Status`.
fn is_status(body: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Kind<'a> {
        #[serde(borrow, default)]
        kind: std::borrow::Cow<'a, str>,
    }
    serde_json::from_slice::<Kind<'_>>(body).is_ok_and(|k| k.kind == "Status")
}

fn decode_list(body: &Bytes, fields: &[String]) -> Result<List, Status> {
    #[derive(Deserialize)]
    struct Wire<'a> {
        #[serde(default)]
        metadata: ListMeta,
        #[serde(borrow, default)]
        items: Option<Vec<&'a RawValue>>,
    }
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct ListMeta {
        resource_version: String,
        #[serde(rename = "continue")]
        continue_token: String,
    }
    let wire: Wire<'_> = serde_json::from_slice(body)
        .map_err(|error| Status::internal(format!("undecodable list: {error}")))?;
    let items = wire.items.unwrap_or_default().into_iter().map(|item| {
        // a copy: a slice would keep the whole list alive as long as one of its objects
        let bytes = Bytes::copy_from_slice(item.get().as_bytes());
        Object::from_response(bytes, fields).map(Arc::new)
    });
    Ok(List {
        revision: Revision(wire.metadata.resource_version.parse().unwrap_or(0)),
        items: items.collect::<Result<_, _>>()?,
        continue_token: wire.metadata.continue_token,
    })
}

#[cfg(test)]
mod tests;
