//! The suite on etcd, and what is peculiar to it: prefixes, TLS, lost connections, foreign writers, compaction with others.

use std::{path::Path, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::StreamExt;
use pilothouse_storage::{
    BoxFuture, Etcd, EtcdOptions, Lease, RangeRequest, Revision, Storage, StorageError, Txn,
    WatchRequest,
};
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};

use crate::{
    etcd_server::{EtcdServer, TlsFiles},
    harness::{Engine, PATIENCE, Watched},
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
    let alone = EtcdOptions {
        compaction_interval: None, // nothing else may take a revision
        ..options(&server)
    };
    let engine = Arc::new(Etcd::connect(alone).await.expect("connect"));
    crate::conformance(&|| Box::new(EtcdEngine(engine.clone()))).await;
}

/// Etcd as others see it.
async fn raw(server: &EtcdServer) -> etcd_client::Client {
    let client = etcd_client::Client::connect([&server.endpoint], None).await;
    client.expect("connect")
}

#[tokio::test]
async fn prefixes_separate_tenants() {
    let (server, _dir) = EtcdServer::start();
    let tenant = |prefix: &str| EtcdOptions {
        prefix: prefix.to_owned(),
        ..options(&server)
    };
    let one = Etcd::connect(tenant("/one")).await.expect("connect");
    let other = Etcd::connect(tenant("other")).await.expect("connect");
    let plain = Etcd::connect(options(&server)).await.expect("connect");
    let start = one.current_revision().await.expect("revision");
    let request = WatchRequest::new("/registry/", start);
    let mut watch = Watched::of(&one, request).await;
    put(&other, "/registry/pods/a", "other").await;
    put(&plain, "/registry/pods/a", "plain").await;
    let revision = put(&one, "/registry/pods/a", "one").await;

    let events = watch.events(1).await;
    let seen: Vec<_> = events
        .iter()
        .map(|e| (&*e.kv.key, e.kv.mod_revision))
        .collect();
    assert_eq!(seen, [("/registry/pods/a", revision)]);
    let everything = RangeRequest::prefix("");
    for (engine, value) in [(&one, "one"), (&other, "other"), (&plain, "plain")] {
        let found = engine.range(everything.clone()).await.expect("range").kvs;
        let found: Vec<(&str, &[u8])> = found.iter().map(|kv| (&*kv.key, &*kv.value)).collect();
        assert_eq!(found, [("/registry/pods/a", value.as_bytes())]);
    }
    let mut etcd = raw(&server).await;
    for key in ["/one/pods/a", "/other/pods/a", "/registry/pods/a"] {
        assert_eq!(etcd.get(key, None).await.expect("get").count(), 1, "{key}");
    }
    let outside = one.get("compact_rev_key", None).await;
    assert!(matches!(outside, Err(StorageError::Invalid(_))));
}

/// One watch for each prefix. The etcd of the tests may be one whose progress overtakes events, so none are under way here when
/// it is asked.
#[tokio::test]
async fn each_prefix_has_a_watch_of_its_own() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let server = EtcdServer::start_in(dir.path());
    let endpoint = server.endpoint.clone();
    let by_prefix = EtcdOptions {
        reliable_progress: Some(true),
        ..options(&server)
    };
    let storage = Etcd::connect(by_prefix).await.expect("connect");
    let start = storage.current_revision().await.expect("revision");
    let watch = |prefix: &'static str| Watched::of(&storage, WatchRequest::new(prefix, start));
    let mut pods = watch("/registry/pods/").await;
    let mut again = watch("/registry/pods/").await;
    let mut secrets = watch("/registry/secrets/").await;
    for watch in [&mut pods, &mut again, &mut secrets] {
        assert!(watch.is_quiet().await);
    }
    let written = put(&storage, "/registry/pods/a", "1").await;
    for watch in [&mut pods, &mut again] {
        assert_eq!(watch.revision().await, written);
    }
    // of the quiet one it is asked how far it has come
    storage.request_progress("/registry/secrets/", written);
    assert!(secrets.progress().await >= written);

    server.stop();
    let server = EtcdServer::start_at(dir.path(), &endpoint, None);
    let other = Etcd::connect(options(&server)).await.expect("connect");
    let second = put(&other, "/registry/secrets/b", "2").await;
    assert_eq!(secrets.revision().await, second);
}

#[tokio::test]
async fn a_user_of_etcd_needs_the_prefix_only() {
    let (server, _dir) = EtcdServer::start();
    let mut etcd = raw(&server).await;
    for (user, role) in [("root", "root"), ("cluster", "cluster")] {
        etcd.user_add(user, "secret", None).await.expect("user");
        etcd.role_add(role).await.expect("role");
        etcd.user_grant_role(user, role).await.expect("grant");
    }
    let below = etcd_client::Permission::read_write("/registry/").with_prefix();
    etcd.role_grant_permission("cluster", below)
        .await
        .expect("permission");
    etcd.auth_enable().await.expect("auth");

    let user = |password: &str| EtcdOptions {
        user: Some(("cluster".to_owned(), password.to_owned())),
        reliable_progress: Some(true), // a watch of all keys needs more permissions
        ..options(&server)
    };
    let storage = Etcd::connect(user("secret")).await.expect("connect");
    let start = storage.current_revision().await.expect("revision");
    let mut watch = Watched::of(&storage, WatchRequest::new("/registry/pods/", start)).await;
    assert!(watch.is_quiet().await);
    let written = put(&storage, "/registry/pods/a", "1").await;
    assert_eq!(watch.revision().await, written);
    storage.health().await.expect("healthy");

    let elsewhere = Etcd::connect(EtcdOptions {
        prefix: "/elsewhere".to_owned(),
        ..user("secret")
    });
    let by_version = Etcd::connect(EtcdOptions {
        reliable_progress: Some(false),
        ..user("secret")
    });
    let refused = [
        (elsewhere.await, "permission denied"),
        (by_version.await, "the user must be allowed to read them"),
        (Etcd::connect(user("wrong")).await, "authentication failed"),
        (Etcd::connect(options(&server)).await, "user name is empty"),
    ];
    for (connected, why) in refused {
        let error = connected.err().expect(why).to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[tokio::test]
async fn a_watch_survives_a_restart_of_etcd() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let server = EtcdServer::start_in(dir.path());
    let endpoint = server.endpoint.clone();
    let storage = Etcd::connect(options(&server)).await.expect("connect");
    let first = put(&storage, "/registry/pods/a", "1").await;
    let request = WatchRequest::new("/registry/pods/", first);
    let mut watch = Watched::of(&storage, request).await;
    assert!(watch.is_quiet().await);

    server.stop();
    let down = storage
        .get("/registry/pods/a", None)
        .await
        .expect_err("down");
    assert!(matches!(down, StorageError::Unavailable(_)), "{down:?}");
    let server = EtcdServer::start_at(dir.path(), &endpoint, None);
    let other = Etcd::connect(options(&server)).await.expect("connect");
    let second = put(&other, "/registry/pods/b", "2").await;
    assert_eq!(watch.revision().await, second);
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
    let mut etcd = raw(&server).await;
    let mut rounds = etcd.watch("compact_rev_key", None).await.expect("watch");
    let mut versions = Vec::new();
    while versions.len() < 4 {
        let round = tokio::time::timeout(PATIENCE, rounds.next()).await;
        let round = round.expect("in time").expect("open").expect("answer");
        versions.extend(
            round
                .events()
                .iter()
                .filter_map(|e| Some(e.kv()?.version())),
        );
    }
    let first = versions[0];
    let expected: Vec<i64> = (first..).take(versions.len()).collect();
    assert_eq!(versions, expected, "each round is one server's");
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
    let server = EtcdServer::start_at(dir.path(), "https://127.0.0.1:0", Some(&files));
    let with_certificate = EtcdOptions {
        ca_file: Some(files.ca.clone()),
        cert_file: Some(files.cert.clone()),
        key_file: Some(files.key.clone()),
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
