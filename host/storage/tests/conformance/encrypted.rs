//! The suite through encryption at rest, and what only it does.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use pilothouse_api::GroupResource;
use pilothouse_storage::{
    AtRest, BoxFuture, Encrypted, EncryptionConfig, KeyLayout, Lease, RangeRequest, Revision,
    Storage, StorageError, Txn, WatchRequest, encryption::ROOT,
};

use crate::{
    embedded::EmbeddedEngine,
    harness::{Engine, Watched},
};

const SECRETBOX: &str =
    "secretbox: {keys: [{name: a, secret: YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXoxMjM0NTY=}]}";
const GCM: &str = "aesgcm: {keys: [{name: b, secret: c2VjcmV0IGlzIHNlY3VyZQ==}]}";

fn config(resource: &str, providers: &[&str]) -> EncryptionConfig {
    let providers: Vec<String> = providers.iter().map(|p| format!("{{{p}}}")).collect();
    let text = format!(
        "{{apiVersion: apiserver.config.k8s.io/v1, kind: EncryptionConfiguration, resources: [{{resources: ['{resource}'], providers: [{}]}}]}}",
        providers.join(", ")
    );
    match EncryptionConfig::parse(&text) {
        Ok(config) => config,
        Err(error) => panic!("{error}"),
    }
}

fn layout() -> KeyLayout {
    let secrets = GroupResource {
        group: "".into(),
        resource: "secrets".into(),
    };
    KeyLayout::new([("secrets".to_owned(), secrets)])
}

struct EncryptedEngine {
    inner: Box<dyn Engine>,
    storage: Arc<Encrypted>,
}

impl EncryptedEngine {
    fn make() -> Box<dyn Engine> {
        let inner = EmbeddedEngine::make();
        let config = config("*.*", &[GCM]);
        let storage = Encrypted::new(inner.storage(), config, layout(), ROOT);
        Box::new(Self {
            inner,
            storage: Arc::new(storage),
        })
    }
}

impl Engine for EncryptedEngine {
    fn storage(&self) -> Arc<dyn Storage> {
        self.storage.clone()
    }

    fn pass_time<'a>(&'a self, time: Duration) -> BoxFuture<'a, ()> {
        self.inner.pass_time(time)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn encrypted() {
    crate::conformance(&EncryptedEngine::make).await;
}

async fn put(storage: &dyn Storage, key: &str, expected: Revision, value: &str) -> Revision {
    let value = Bytes::from(value.to_owned());
    let txn = Txn::put_if(key, expected, value, Lease::default());
    let response = storage.txn(txn).await.expect("put");
    assert!(response.succeeded, "{key} is not at {expected}");
    response.revision
}

/// What is under a key: its value, or what is the matter.
async fn found(storage: &dyn Storage, key: &str) -> (String, AtRest) {
    let response = storage.get(key, None).await.expect("get");
    let kv = response.kv.expect("is there");
    (String::from_utf8_lossy(&kv.value).into_owned(), kv.at_rest)
}

#[tokio::test]
async fn only_the_resources_named_are_encrypted_and_keys_rotate() {
    let engine = EmbeddedEngine::make();
    let raw = engine.storage();
    let storage = Encrypted::new(raw.clone(), config("secrets", &[SECRETBOX]), layout(), ROOT);
    let (secret, pod) = ("/registry/secrets/default/db", "/registry/pods/default/web");
    let first = put(&storage, secret, Revision(0), "hidden").await;
    put(&storage, pod, Revision(0), "plain").await;
    assert!(
        found(&*raw, secret)
            .await
            .0
            .starts_with("k8s:enc:secretbox:v1:a:")
    );
    assert_eq!(found(&*raw, pod).await.0, "plain");
    assert_eq!(
        found(&storage, secret).await,
        ("hidden".to_owned(), AtRest::Fresh)
    );

    // another provider in front: what is there is stale until it is written again
    storage.reload(config("secrets", &[GCM, SECRETBOX]));
    assert_eq!(
        found(&storage, secret).await,
        ("hidden".to_owned(), AtRest::Stale)
    );
    let second = put(&storage, secret, first, "hidden").await;
    assert!(
        found(&*raw, secret)
            .await
            .0
            .starts_with("k8s:enc:aesgcm:v1:b:")
    );
    assert_eq!(
        found(&storage, secret).await,
        ("hidden".to_owned(), AtRest::Fresh)
    );

    // the old one can go: the present is readable, the past is not and says why
    storage.reload(config("secrets", &[GCM]));
    assert_eq!(
        found(&storage, secret).await,
        ("hidden".to_owned(), AtRest::Fresh)
    );
    let past = storage
        .get(secret, Some(first))
        .await
        .expect("get")
        .kv
        .expect("is there");
    match past.readable() {
        Err(StorageError::Unreadable { key, why }) => {
            assert_eq!(&*key, secret);
            assert!(
                why.contains(r#"by provider secretbox with key "a""#),
                "{why}"
            );
        }
        other => panic!("{other:?}"),
    }
    let mut watch = Watched::of(
        &storage,
        WatchRequest {
            previous: true,
            ..WatchRequest::new("/registry/secrets/", Revision(0))
        },
    )
    .await;
    let events = watch.events(2).await;
    assert!(events[0].kv.readable().is_err());
    assert_eq!(events[1].kv.readable().ok(), Some(&Bytes::from("hidden")));
    let previous = events[1].previous.as_ref().expect("the pair before");
    assert!(previous.readable().is_err());

    // without any configuration the engine itself tells
    let bare = raw
        .get(secret, None)
        .await
        .expect("get")
        .kv
        .expect("is there");
    let error = bare.readable().expect_err("encrypted").to_string();
    assert!(
        error.contains("no --encryption-provider-config is given"),
        "{error}"
    );
    // who lost the race is shown what is there
    let lost = Txn::put_if(secret, first, Bytes::from("late"), Lease::default());
    let lost = storage.txn(lost).await.expect("transaction");
    let there = lost.gets[0].as_ref().expect("is there");
    assert_eq!(
        (there.mod_revision, &*there.value),
        (second, &b"hidden"[..])
    );
}

#[tokio::test]
async fn one_unreadable_value_does_not_hide_its_neighbours() {
    let engine = EmbeddedEngine::make();
    let raw = engine.storage();
    let storage = Encrypted::new(raw.clone(), config("secrets", &[GCM]), layout(), "/tenant");
    // the prefix is part of what is authenticated: without it the value is another one's
    put(&storage, "/registry/secrets/a/1", Revision(0), "one").await;
    put(&*raw, "/registry/secrets/a/2", Revision(0), "plain").await;
    put(&storage, "/registry/secrets/a/3", Revision(0), "three").await;
    let request = RangeRequest::prefix("/registry/secrets/");
    let read = |kvs: Vec<pilothouse_storage::KeyValue>| -> Vec<Option<Bytes>> {
        kvs.iter().map(|kv| kv.readable().ok().cloned()).collect()
    };
    let kvs = storage.range(request.clone()).await.expect("range").kvs;
    assert_eq!(read(kvs), [Some("one".into()), None, Some("three".into())]);
    let without_prefix = Encrypted::new(raw, config("secrets", &[GCM]), layout(), ROOT);
    let kvs = without_prefix.range(request).await.expect("range").kvs;
    assert_eq!(read(kvs), [None, None, None]);
}

#[tokio::test]
async fn many_bytes_are_decrypted_too() {
    let engine = EmbeddedEngine::make();
    let storage = Encrypted::new(engine.storage(), config("secrets", &[GCM]), layout(), ROOT);
    let value = "x".repeat(200 << 10);
    for name in ["a", "b", "c"] {
        put(
            &storage,
            &format!("/registry/secrets/n/{name}"),
            Revision(0),
            &value,
        )
        .await;
    }
    let request = RangeRequest::prefix("/registry/secrets/");
    let kvs = storage.range(request.clone()).await.expect("range").kvs;
    assert_eq!(kvs.len(), 3);
    assert!(
        kvs.iter()
            .all(|kv| kv.value == value && kv.at_rest == AtRest::Fresh)
    );
    let keys = RangeRequest {
        keys_only: true,
        ..request
    };
    let kvs = storage.range(keys).await.expect("range").kvs;
    assert!(
        kvs.iter()
            .all(|kv| kv.value.is_empty() && kv.at_rest == AtRest::Fresh)
    );
}
