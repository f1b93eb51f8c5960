//! Writes: revisions, compare-and-swap, several steps at once, refusals.

use bytes::Bytes;
use pilothouse_storage::{Compare, Lease, Op, Revision, StorageError, Txn};

use crate::harness::{Case, just, text};

pub(crate) async fn every_write_takes_one_revision(case: Case) {
    let before = case.current().await;
    let first = case.put("a", "1").await;
    let second = case.put("a", "2").await;
    let third = case.delete("a").await;
    assert_eq!(first, Revision(before.0 + 1));
    assert_eq!(second, Revision(before.0 + 2));
    assert_eq!(third, Revision(before.0 + 3));
    assert_eq!(case.current().await, third);
}

pub(crate) async fn nothing_written_takes_no_revision(case: Case) {
    let revision = case.put("a", "1").await;
    assert_eq!(case.delete("absent").await, revision);
    let key = case.key("a");
    let response = case.txn(just(vec![Op::Get { key }])).await;
    assert_eq!(response.revision, revision);
    assert_eq!(case.current().await, revision);
}

pub(crate) async fn revisions_and_versions_of_a_key(case: Case) {
    let created = case.put("a", "1").await;
    let changed = case.put("a", "2").await;
    let get = case.storage.get(&case.key("a"), None).await.expect("get");
    let kv = get.kv.expect("a");
    assert_eq!(get.revision, changed);
    assert_eq!((kv.create_revision, kv.mod_revision), (created, changed));
    assert_eq!((kv.version, text(&kv.value).as_str()), (2, "2"));

    case.delete("a").await;
    let again = case.put("a", "3").await;
    let kv = case
        .storage
        .get(&case.key("a"), None)
        .await
        .expect("get")
        .kv
        .expect("a");
    assert_eq!(
        (kv.create_revision, kv.mod_revision, kv.version),
        (again, again, 1)
    );
}

pub(crate) async fn put_if_creates_changes_and_refuses(case: Case) {
    let key = case.key("a");
    let put = |expected, value: &str| {
        Txn::put_if(
            &key,
            expected,
            Bytes::from(value.to_owned()),
            Lease::default(),
        )
    };
    let created = case.txn(put(Revision(0), "1")).await;
    assert!(created.succeeded);
    assert!(created.gets.is_empty());

    let refused = case.txn(put(Revision(0), "other")).await;
    assert!(!refused.succeeded);
    let found = refused.gets[0].clone().expect("the present pair");
    assert_eq!(
        (found.mod_revision, text(&found.value).as_str()),
        (created.revision, "1")
    );
    assert_eq!(refused.revision, created.revision);

    let changed = case.txn(put(created.revision, "2")).await;
    assert!(changed.succeeded);
    let stale = case.txn(put(created.revision, "3")).await;
    assert!(!stale.succeeded);
    assert_eq!(case.value("a", None).await.as_deref(), Some("2"));
}

pub(crate) async fn delete_if_deletes_and_refuses(case: Case) {
    let revision = case.put("a", "1").await;
    let stale = case
        .txn(Txn::delete_if(&case.key("a"), Revision(revision.0 - 1)))
        .await;
    assert!(!stale.succeeded);
    assert_eq!(
        stale.gets[0].as_ref().map(|kv| kv.mod_revision),
        Some(revision)
    );

    let deleted = case.txn(Txn::delete_if(&case.key("a"), revision)).await;
    assert!(deleted.succeeded);
    assert_eq!(deleted.revision, Revision(revision.0 + 1));
    assert_eq!(case.value("a", None).await, None);

    let absent = case.txn(Txn::delete_if(&case.key("a"), revision)).await;
    assert!(!absent.succeeded);
    assert_eq!(absent.gets, [None]);
}

pub(crate) async fn all_compares_must_hold(case: Case) {
    let a = case.put("a", "1").await;
    let b = case.put("b", "1").await;
    let swap = |b_expected| Txn {
        compares: vec![
            Compare::ModRevision(case.key("a"), a),
            Compare::ModRevision(case.key("b"), b_expected),
            Compare::ModRevision(case.key("c"), Revision(0)),
        ],
        success: vec![case.op_put("c", "made", Lease::default())],
        failure: vec![],
    };
    assert!(!case.txn(swap(a)).await.succeeded);
    assert!(case.txn(swap(b)).await.succeeded);
    assert!(!case.txn(swap(b)).await.succeeded, "c exists now");
}

pub(crate) async fn steps_share_a_revision_and_see_each_other(case: Case) {
    case.put("old", "1").await;
    let response = case
        .txn(just(vec![
            case.op_put("new", "2", Lease::default()),
            Op::Get {
                key: case.key("new"),
            },
            Op::Delete {
                key: case.key("old"),
            },
            Op::Get {
                key: case.key("old"),
            },
        ]))
        .await;
    let new = response.gets[0].clone().expect("new");
    assert_eq!(
        (new.mod_revision, text(&new.value).as_str()),
        (response.revision, "2")
    );
    assert_eq!(response.gets[1], None);
    assert_eq!(case.all(None).await, ["new=2"]);
    let before = Revision(response.revision.0 - 1);
    assert_eq!(case.all(Some(before)).await, ["old=1"]);
}

pub(crate) async fn a_key_written_twice_is_refused_whole(case: Case) {
    let before = case.current().await;
    let twice = just(vec![
        case.op_put("a", "1", Lease::default()),
        case.op_put("a", "2", Lease::default()),
    ]);
    let error = case.storage.txn(twice).await.expect_err("refused");
    assert!(matches!(error, StorageError::Invalid(_)), "{error:?}");
    assert_eq!(case.current().await, before);
    assert_eq!(case.value("a", None).await, None);
}

pub(crate) async fn any_bytes_are_kept(case: Case) {
    let all: Vec<u8> = (0..=255).collect();
    for (name, value) in [
        ("empty", Vec::new()),
        ("protobuf", b"k8s\0\x0a\x0b\xff\xfe".to_vec()),
        ("all", all),
        ("large", vec![7; 1 << 20]),
    ] {
        let key = case.key(name);
        let value = Bytes::from(value);
        let txn = Txn::put_if(&key, Revision(0), value.clone(), Lease::default());
        assert!(case.txn(txn).await.succeeded, "{name}");
        let get = case.storage.get(&key, None).await.expect("get");
        assert_eq!(get.kv.map(|kv| kv.value), Some(value), "{name}");
    }
}

pub(crate) async fn an_empty_key_is_refused(case: Case) {
    let put = Op::Put {
        key: String::new(),
        value: Bytes::from("1"),
        lease: Lease::default(),
    };
    let error = case
        .storage
        .txn(just(vec![put]))
        .await
        .expect_err("refused");
    assert!(matches!(error, StorageError::Invalid(_)), "{error:?}");
}
