//! A server on a fresh database, and requests to it.

use std::{
    net::{IpAddr, Ipv4Addr},
    path::Path,
    sync::Arc,
};

use bytes::Bytes;
use http::{HeaderMap, Method, Request};
use http_body_util::BodyExt;
use pilothouse_apiserver::{
    ApiServer, ApiServerOptions, InProcess, RunningServer,
    admission::{AdmissionChain, NoAdmission},
};
use pilothouse_client::{Body, Transport, UserInfo};
use pilothouse_storage::{Embedded, EmbeddedOptions, Storage};
use serde_json::Value;
use tempfile::TempDir;

/// A running server and a user of it.
pub(crate) struct Api {
    pub server: RunningServer,
    pub dir: TempDir,
    storage: Arc<dyn Storage>,
    transport: InProcess,
    user: UserInfo,
}

/// An answer, read to its end.
pub(crate) struct Answer {
    pub code: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        match serde_json::from_slice(&self.body) {
            Ok(value) => value,
            Err(error) => panic!("{error}: {}", self.text()),
        }
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }

    /// The answer's JSON, which must have come with this code.
    #[track_caller]
    pub(crate) fn expect(&self, code: u16) -> Value {
        assert_eq!(self.code, code, "{}", self.text());
        self.json()
    }

    /// The refusal must have this code and reason, and the message contain this text.
    #[track_caller]
    pub(crate) fn refused(&self, code: u16, reason: &str, message: &str) -> Value {
        let status = self.expect(code);
        assert_eq!(status["kind"], "Status");
        assert_eq!(status["status"], "Failure");
        assert_eq!(
            status["reason"].as_str().unwrap_or_default(),
            reason,
            "{status}"
        );
        let found = status["message"].as_str().unwrap_or_default();
        assert!(
            found.contains(message),
            "{found:?} does not contain {message:?}"
        );
        status
    }
}

/// How a server under test is started.
pub(crate) fn options(dir: &Path) -> ApiServerOptions {
    ApiServerOptions {
        bind_address: Ipv4Addr::LOCALHOST.into(),
        secure_port: 0,
        data_dir: dir.to_owned(),
        ..ApiServerOptions::default()
    }
}

impl Api {
    pub(crate) async fn start() -> Self {
        Self::with_admission(Arc::new(NoAdmission)).await
    }

    pub(crate) async fn with_admission(admission: Arc<dyn AdmissionChain>) -> Self {
        Self::on(TempDir::new().unwrap(), admission, |_| ()).await
    }

    pub(crate) async fn with_options(
        admission: Arc<dyn AdmissionChain>,
        change: impl FnOnce(&mut ApiServerOptions),
    ) -> Self {
        Self::on(TempDir::new().unwrap(), admission, change).await
    }

    async fn on(
        dir: TempDir,
        admission: Arc<dyn AdmissionChain>,
        change: impl FnOnce(&mut ApiServerOptions),
    ) -> Self {
        let storage = EmbeddedOptions::new(dir.path().join("db"));
        Self::with_everything(dir, storage, admission, change).await
    }

    /// Starts a server on an embedded engine that runs like this.
    pub(crate) async fn on_storage(
        dir: TempDir,
        storage: EmbeddedOptions,
        admission: Arc<dyn AdmissionChain>,
    ) -> Self {
        Self::with_everything(dir, storage, admission, |_| ()).await
    }

    async fn with_everything(
        dir: TempDir,
        storage: EmbeddedOptions,
        admission: Arc<dyn AdmissionChain>,
        change: impl FnOnce(&mut ApiServerOptions),
    ) -> Self {
        let mut options = options(dir.path());
        change(&mut options);
        let storage = Embedded::open(storage).unwrap();
        let storage: Arc<dyn Storage> = Arc::new(storage);
        let server = ApiServer::start(options, storage.clone(), admission)
            .await
            .unwrap();
        Self {
            transport: server.transport(),
            server,
            storage,
            dir,
            user: UserInfo::new("admin", &["system:masters"]),
        }
    }

    /// A second server on the same storage, which others reach under another address.
    pub(crate) async fn another(&self, advertise_address: Option<IpAddr>) -> Self {
        let dir = TempDir::new().unwrap();
        let options = ApiServerOptions {
            advertise_address,
            ..options(dir.path())
        };
        let admission = Arc::new(NoAdmission);
        let server = ApiServer::start(options, self.storage.clone(), admission)
            .await
            .unwrap();
        Self {
            transport: server.transport(),
            server,
            storage: self.storage.clone(),
            dir,
            user: self.user.clone(),
        }
    }

    /// Posts until it is created: what another server gave back is known here a little later.
    pub(crate) async fn eventually_post(&self, path: &str, body: Value) -> Value {
        loop {
            let answer = self.post(path, body.clone()).await;
            if answer.code != 422 {
                return answer.expect(201);
            }
            tokio::task::yield_now().await;
        }
    }

    /// What the server keeps everything in.
    pub(crate) fn storage(&self) -> &dyn Storage {
        &*self.storage
    }

    /// Stops the server and starts another one on the same directory.
    pub(crate) async fn restart(self) -> Self {
        Self::on(self.stop().await, Arc::new(NoAdmission), |_| ()).await
    }

    /// Stops the server and closes its storage; leaves the directory.
    pub(crate) async fn stop(self) -> TempDir {
        let Self {
            server,
            transport,
            storage,
            dir,
            ..
        } = self;
        drop(transport);
        server.shutdown().await;
        while Arc::strong_count(&storage) > 1 {
            tokio::task::yield_now().await; // its caches are about to let go
        }
        drop(storage);
        dir
    }

    /// Makes storage forget everything but the present.
    pub(crate) async fn forget_history(&self) {
        let now = self.storage.current_revision().await.unwrap();
        self.storage.compact(now).await.unwrap();
    }

    /// Sends a request and gives back its head, with the body still to be read.
    pub(crate) async fn open(
        &self,
        user: &UserInfo,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> http::Response<Body> {
        let mut request = Request::builder()
            .method(Method::from_bytes(method.as_bytes()).unwrap())
            .uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Bytes::copy_from_slice(body)).unwrap();
        self.transport.send(user, request).await.unwrap()
    }

    pub(crate) async fn send_as(
        &self,
        user: &UserInfo,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let response = self.open(user, method, path, headers, body.as_bytes());
        Self::read(response.await).await
    }

    /// Sends what is no text.
    pub(crate) async fn send_bytes(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        Self::read(self.open(&self.user, method, path, headers, body).await).await
    }

    async fn read(response: http::Response<Body>) -> Answer {
        let (head, body) = response.into_parts();
        Answer {
            code: head.status.as_u16(),
            headers: head.headers,
            body: body.collect().await.unwrap().to_bytes(),
        }
    }

    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        self.send_as(&self.user, method, path, headers, body).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], "").await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.send("POST", path, &[], &body.to_string()).await
    }

    pub(crate) async fn put(&self, path: &str, body: Value) -> Answer {
        self.send("PUT", path, &[], &body.to_string()).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.send("DELETE", path, &[], "").await
    }

    /// PATCH with `json`, `merge` or `strategic-merge`.
    pub(crate) async fn patch(&self, path: &str, kind: &str, body: Value) -> Answer {
        let media = format!("application/{kind}-patch+json");
        self.send(
            "PATCH",
            path,
            &[("content-type", &media)],
            &body.to_string(),
        )
        .await
    }

    /// Server-side apply, with what follows `?fieldManager=` in the query.
    pub(crate) async fn apply(&self, path: &str, manager: &str, body: Value) -> Answer {
        let headers = [("content-type", "application/apply-patch+yaml")];
        let path = format!("{path}?fieldManager={manager}");
        self.send("PATCH", &path, &headers, &body.to_string()).await
    }

    /// Opens a watch.
    pub(crate) async fn watch(&self, path: &str, headers: &[(&str, &str)]) -> Watch {
        let response = self.open(&self.user, "GET", path, headers, b"").await;
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "application/json");
        Watch {
            body: response.into_body(),
            rest: Vec::new(),
        }
    }
}

/// An open watch.
pub(crate) struct Watch {
    body: Body,
    rest: Vec<u8>,
}

impl Watch {
    /// The next event; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.rest.iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let frame = self.body.frame().await?.unwrap();
            self.rest.extend_from_slice(frame.data_ref().unwrap());
        }
    }

    /// Type and name of the next event.
    pub(crate) async fn event(&mut self) -> (String, String) {
        let event = self.next().await.unwrap();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (
            text(&event["type"]),
            text(&event["object"]["metadata"]["name"]),
        )
    }
}

/// A ConfigMap.
pub(crate) fn config_map(name: &str, value: &str) -> Value {
    serde_json::json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": name },
        "data": { "key": value },
    })
}

/// A Pod with one container.
pub(crate) fn pod(name: &str) -> Value {
    serde_json::json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": name },
        "spec": { "containers": [{ "name": "main", "image": "nginx" }] },
    })
}

/// Where ConfigMaps of the default namespace are.
pub(crate) const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// Where its Pods are.
pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";
