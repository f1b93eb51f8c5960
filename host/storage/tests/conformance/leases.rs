//! Leases: keys go when they run out or are revoked, all in one revision.

use std::time::Duration;

use pilothouse_storage::{EventKind, Lease, StorageError};

use crate::harness::{Case, just};

pub(crate) async fn revoking_deletes_the_keys_at_once(case: Case) {
    let lease = case
        .storage
        .grant_lease(Duration::from_secs(3600))
        .await
        .expect("grant");
    case.put_leased("b", "1", lease).await;
    case.put_leased("a", "1", lease).await;
    let kept = case.put("kept", "1").await;
    let kv = case
        .storage
        .get(&case.key("a"), None)
        .await
        .expect("get")
        .kv
        .expect("a");
    assert_eq!(kv.lease, lease);

    let mut watch = case.watch(kept).await;
    case.storage.revoke_lease(lease).await.expect("revoke");
    assert_eq!(case.all(None).await, ["kept=1"]);
    let events = watch.events(2).await;
    assert!(events.iter().all(|e| e.kind == EventKind::Delete));
    assert_eq!(events[0].kv.mod_revision, events[1].kv.mod_revision);
    assert_eq!(case.current().await.0, kept.0 + 1);

    let error = case.storage.revoke_lease(lease).await.expect_err("gone");
    assert!(
        matches!(error, StorageError::LeaseNotFound(l) if l == lease),
        "{error:?}"
    );
}

pub(crate) async fn a_lease_runs_out(case: Case) {
    let long = case
        .storage
        .grant_lease(Duration::from_secs(3600))
        .await
        .expect("grant");
    let start = case.put_leased("long", "1", long).await;
    let (short, lease) = put_in_time(&case).await;
    assert_ne!(lease, long);
    let mut watch = case.watch(start).await;
    case.engine.pass_time(short).await;
    let events = watch.events(2).await;
    let told: Vec<(&str, EventKind)> = events.iter().map(|e| (&*e.kv.key, e.kind)).collect();
    let key = case.key("short");
    assert_eq!(told, [(&*key, EventKind::Put), (&*key, EventKind::Delete)]);
    assert_eq!(case.all(None).await, ["long=1"]);
}

/// A key on a lease so short that one can wait for its end, and yet long enough to put the key meanwhile, however busy the
/// machine is; the lease and how long it was granted for.
async fn put_in_time(case: &Case) -> (Duration, Lease) {
    let mut short = Duration::from_secs(1);
    loop {
        let lease = case.storage.grant_lease(short).await.expect("grant");
        let put = just(vec![case.op_put("short", "1", lease)]);
        match case.storage.txn(put).await {
            Ok(_) => return (short, lease),
            Err(StorageError::LeaseNotFound(_)) => short *= 2,
            Err(error) => panic!("{error}"),
        }
    }
}

pub(crate) async fn a_key_follows_its_last_put(case: Case) {
    let first = case
        .storage
        .grant_lease(Duration::from_secs(3600))
        .await
        .expect("grant");
    let second = case
        .storage
        .grant_lease(Duration::from_secs(3600))
        .await
        .expect("grant");
    case.put_leased("moved", "1", first).await;
    case.put_leased("moved", "2", second).await;
    case.put_leased("freed", "1", first).await;
    case.put("freed", "2").await;
    case.put_leased("deleted", "1", first).await;
    case.delete("deleted").await;
    case.put("deleted", "2").await;
    let before = case.current().await;
    case.storage.revoke_lease(first).await.expect("revoke");
    assert_eq!(case.all(None).await, ["deleted=2", "freed=2", "moved=2"]);
    assert_eq!(
        case.current().await,
        before,
        "nothing was deleted, nothing was written"
    );
    case.storage.revoke_lease(second).await.expect("revoke");
    assert_eq!(case.all(None).await, ["deleted=2", "freed=2"]);
}

pub(crate) async fn an_unknown_lease_refuses_the_whole_transaction(case: Case) {
    let unknown = Lease(0x5eed);
    let txn = just(vec![
        case.op_put("a", "1", Lease::default()),
        case.op_put("b", "1", unknown),
    ]);
    let error = case.storage.txn(txn).await.expect_err("refused");
    assert!(matches!(error, StorageError::LeaseNotFound(_)), "{error:?}");
    assert!(case.all(None).await.is_empty());
}
