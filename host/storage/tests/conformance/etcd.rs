//! The suite on etcd, and what is peculiar to it: prefixes, TLS, lost connections, foreign writers, compaction with others.

use std::{path::Path, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::StreamExt;
use pilothouse_storage::{
    BoxFuture, Etcd, EtcdOptions, Lease, Revision, Storage, StorageError, Txn, WatchRequest,
};
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};

use crate::{
    etcd_server::{EtcdServer, TlsFiles},
    harness::{Engine, PATIENCE},
};

struct EtcdEngine(Arc<Etcd>);

impl Engine for EtcdEngine {
    fn storage(&self) -> Arc<dyn Storage> {
        self.0.clone()
    }

    /// Etcd's clock cannot be moved; whoever waits for what happens waits a little longer.
    fn pass_time<'a>(&'a self, _: Duration) -> BoxFuture<'a, ()> {
        Box::pin(async {})
    }
}

fn options(server: &EtcdServer) -> EtcdOptions {
    EtcdOptions::new([&server.endpoint])
}

async fn put(storage: &dyn Storage, key: &str, value: &str) -> Revision {
    let value = Bytes::from(value.to_owned());
    let txn = Txn::put_if(key, Revision(0), value, Lease::default());
    let response = storage.txn(txn).await.expect("put");
    assert!(response.succeeded, "{key} exists");
    response.revision
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcd() {
    let (server, _dir) = EtcdServer::start();
    let engine = Arc::new(Etcd::connect(options(&server)).await.expect("connect"));
    crate::conformance(&|| Box::new(EtcdEngine(engine.clone()))).await;
}

#[tokio::test]
async fn prefixes_separate_tenants() {
    let (server, _dir) = EtcdServer::start();
    let tenant = |prefix: &str| EtcdOptions {
        prefix: prefix.to_owned(),
        ..options(&server)
    };
    let one = Etcd::connect(tenant("/one")).await.expect("connect");
    let other = Etcd::connect(tenant("/other")).await.expect("connect");
    let outside = Etcd::connect(tenant("")).await.expect("connect");
    let start = one.current_revision().await.expect("revision");
    let request = WatchRequest::new("/registry/", start);
    let mut watch = one.watch(request).await.expect("watch");
    put(&other, "/registry/pods/a", "other").await;
    let revision = put(&one, "/registry/pods/a", "one").await;

    let batch = tokio::time::timeout(PATIENCE, watch.next())
        .await
        .expect("in time");
    let batch = batch.expect("open").expect("batch");
    assert_eq!(batch.events.len(), 1);
    assert_eq!(&*batch.events[0].kv.key, "/registry/pods/a");
    assert_eq!(batch.events[0].kv.mod_revision, revision);
    let seen = outside
        .get("/one/registry/pods/a", None)
        .await
        .expect("get");
    assert_eq!(seen.kv.map(|kv| kv.value), Some(Bytes::from("one")));
}

#[tokio::test]
async fn a_watch_survives_a_restart_of_etcd() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let server = EtcdServer::start_in(dir.path(), 0, None);
    let port = server.port();
    let storage = Etcd::connect(options(&server)).await.expect("connect");
    let first = put(&storage, "/registry/pods/a", "1").await;
    let request = WatchRequest::new("/registry/pods/", first);
    let mut watch = storage.watch(request).await.expect("watch");
    assert!(futures::poll!(watch.next()).is_pending());

    drop(server);
    let down = storage
        .get("/registry/pods/a", None)
        .await
        .expect_err("down");
    assert!(matches!(down, StorageError::Unavailable(_)), "{down:?}");
    let server = EtcdServer::start_in(dir.path(), port, None);
    let other = Etcd::connect(options(&server)).await.expect("connect");
    let second = put(&other, "/registry/pods/b", "2").await;
    let batch = tokio::time::timeout(PATIENCE, watch.next())
        .await
        .expect("in time");
    assert_eq!(batch.expect("open").expect("batch").revision, second);
}

#[tokio::test]
async fn api_servers_on_one_etcd_share_the_compaction() {
    let (server, _dir) = EtcdServer::start();
    let compacting = || EtcdOptions {
        compaction_interval: Some(Duration::from_millis(100)),
        ..options(&server)
    };
    let one = Etcd::connect(compacting()).await.expect("connect");
    let _other = Etcd::connect(compacting()).await.expect("connect");
    let old = put(&one, "/registry/pods/a", "1").await;
    let request = WatchRequest::new("compact_rev_key", old);
    let mut rounds = one.watch(request).await.expect("watch");
    let mut last = Revision(0);
    for _ in 0..4 {
        let batch = tokio::time::timeout(PATIENCE, rounds.next())
            .await
            .expect("in time");
        let batch = batch.expect("open").expect("batch");
        assert!(batch.revision > last);
        last = batch.revision;
    }
    match one.get("/registry/pods/a", Some(old)).await {
        Err(StorageError::Compacted { oldest, .. }) => assert!(oldest > old),
        other => panic!("expected Compacted, got {other:?}"),
    }
}

/// A CA and a certificate from it for 127.0.0.1, for server and client alike.
fn certificates(dir: &Path) -> TlsFiles {
    let ca_key = KeyPair::generate().expect("key");
    let mut ca = CertificateParams::new(Vec::new()).expect("parameters");
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca_cert = ca.self_signed(&ca_key).expect("CA");
    let issuer = Issuer::new(ca, ca_key);
    let key = KeyPair::generate().expect("key");
    let mut leaf = CertificateParams::new(["127.0.0.1".to_owned()]).expect("parameters");
    leaf.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    let cert = leaf.signed_by(&key, &issuer).expect("certificate");
    let write = |name: &str, pem: String| {
        let path = dir.join(name);
        std::fs::write(&path, pem).expect("write");
        path
    };
    TlsFiles {
        ca: write("ca.pem", ca_cert.pem()),
        cert: write("cert.pem", cert.pem()),
        key: write("key.pem", key.serialize_pem()),
    }
}

#[tokio::test]
async fn tls_with_client_certificates() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let files = certificates(dir.path());
    let server = EtcdServer::start_in(dir.path(), 0, Some(&files));
    let with_certificate = EtcdOptions {
        ca_file: Some(files.ca.clone()),
        cert_file: Some(files.cert.clone()),
        key_file: Some(files.key.clone()),
        timeout: Duration::from_secs(5),
        ..options(&server)
    };
    let storage = Etcd::connect(with_certificate.clone())
        .await
        .expect("connect");
    put(&storage, "/registry/pods/a", "1").await;
    storage.health().await.expect("healthy");

    let without = EtcdOptions {
        cert_file: None,
        key_file: None,
        ..with_certificate.clone()
    };
    assert!(matches!(
        Etcd::connect(without).await.err(),
        Some(StorageError::Unavailable(_))
    ));
    for incomplete in [
        EtcdOptions {
            key_file: None,
            ..with_certificate.clone()
        },
        EtcdOptions {
            ca_file: None,
            ..with_certificate
        },
    ] {
        let error = Etcd::connect(incomplete).await.err();
        assert!(matches!(error, Some(StorageError::Invalid(_))), "{error:?}");
    }
}

#[tokio::test]
async fn an_etcd_that_is_not_there_is_unavailable() {
    let nobody = EtcdOptions {
        timeout: Duration::from_millis(500),
        ..EtcdOptions::new(["http://127.0.0.1:1"])
    };
    let error = Etcd::connect(nobody).await.err().expect("nobody is there");
    assert!(matches!(error, StorageError::Unavailable(_)), "{error:?}");
}
