//! What storage does not take for its size: an object may be written without who owns what of it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::future::BoxFuture;
use pilothouse_api::Revision;
use pilothouse_apiserver::{ApiServer, admission::NoAdmission};
use pilothouse_client::{Transport, UserInfo};
use pilothouse_storage::{
    Embedded, EmbeddedOptions, GetResponse, Lease, Op, RangeRequest, RangeResponse, Storage,
    StorageError, Txn, TxnResponse, WatchRequest, WatchStream,
};
use serde_json::{Value, json};

use crate::harness::{MAPS, options};

type Answer<'a, T> = BoxFuture<'a, Result<T, StorageError>>;

/// Storage that takes values up to a size, as etcd does.
struct Narrow {
    inner: Embedded,
    most: AtomicUsize,
}

impl Storage for Narrow {
    fn txn(&self, txn: Txn) -> Answer<'_, TxnResponse> {
        let most = self.most.load(Ordering::Relaxed);
        let is_too_large = |op: &Op| matches!(op, Op::Put { value, .. } if value.len() > most);
        match txn.success.iter().any(is_too_large) {
            true => {
                let why = "etcd: Invalid argument: etcdserver: request is too large";
                Box::pin(async move { Err(StorageError::Invalid(why.to_owned())) })
            }
            false => self.inner.txn(txn),
        }
    }

    fn get<'a>(&'a self, key: &'a str, at: Option<Revision>) -> Answer<'a, GetResponse> {
        self.inner.get(key, at)
    }

    fn range(&self, request: RangeRequest) -> Answer<'_, RangeResponse> {
        self.inner.range(request)
    }

    fn watch(&self, request: WatchRequest) -> Answer<'_, WatchStream> {
        self.inner.watch(request)
    }

    fn request_progress(&self, prefix: &str, revision: Revision) {
        self.inner.request_progress(prefix, revision);
    }

    fn current_revision(&self) -> Answer<'_, Revision> {
        self.inner.current_revision()
    }

    fn compact(&self, revision: Revision) -> Answer<'_, ()> {
        self.inner.compact(revision)
    }

    fn grant_lease(&self, ttl: Duration) -> Answer<'_, Lease> {
        self.inner.grant_lease(ttl)
    }

    fn revoke_lease(&self, lease: Lease) -> Answer<'_, ()> {
        self.inner.revoke_lease(lease)
    }

    fn health(&self) -> Answer<'_, ()> {
        self.inner.health()
    }
}

#[tokio::test]
async fn an_object_that_is_too_large_with_managed_fields_is_kept_without() {
    let dir = tempfile::tempdir().unwrap();
    let inner = Embedded::open(EmbeddedOptions::new(dir.path().join("db"))).unwrap();
    let storage = Arc::new(Narrow {
        inner,
        most: AtomicUsize::new(usize::MAX),
    });
    let server =
        ApiServer::start(options(dir.path()), storage.clone(), Arc::new(NoAdmission)).await;
    let transport = server.unwrap().transport();
    let user = UserInfo::new("admin", &["system:masters"]);
    let post = async |name: &str, value: usize| -> (u16, Value) {
        let map = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name},
            "data": {"long-names-are-kept-twice": "x".repeat(value)},
        });
        let request = http::Request::post(MAPS)
            .body(map.to_string().into())
            .unwrap();
        let response = transport.send(&user, request).await.unwrap();
        let code = response.status().as_u16();
        let body = http_body_util::BodyExt::collect(response.into_body())
            .await
            .unwrap();
        (code, serde_json::from_slice(&body.to_bytes()).unwrap())
    };
    let (code, map) = post("a", 1000).await;
    assert_eq!(code, 201);
    assert!(map["metadata"]["managedFields"].is_array());
    let managed = map["metadata"]["managedFields"].to_string().len();
    // room for the object, but not for half of its managed fields
    let whole = map.to_string().len();
    storage.most.store(whole - managed / 2, Ordering::Relaxed);
    let (code, map) = post("b", 1000).await;
    assert_eq!(code, 201);
    assert_eq!(map["metadata"]["managedFields"], Value::Null);
    let (code, status) = post("c", 2000).await;
    assert_eq!(code, 500);
    let message = status["message"].as_str().unwrap();
    assert!(message.contains("request is too large"), "{message}");
}
