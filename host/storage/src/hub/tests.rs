use super::*;
use crate::engine::{EventKind, Lease};

/// No history: a watch that asks for it fails.
struct NoHistory;

impl Source for NoHistory {
    fn replay(
        self: Arc<Self>,
        _: Arc<str>,
        after: Revision,
        upto: Revision,
    ) -> BoxStream<'static, Result<WatchBatch>> {
        let error = StorageError::Compacted {
            asked: after,
            oldest: upto,
        };
        Box::pin(futures::stream::iter([Err(error)]))
    }

    fn before<'a>(&'a self, _: &'a str, _: Revision) -> BoxFuture<'a, Result<Option<KeyValue>>> {
        Box::pin(async { Ok(None) })
    }
}

fn event(key: &str, revision: u64) -> Event {
    Event {
        kind: EventKind::Put,
        kv: KeyValue {
            key: key.into(),
            value: bytes::Bytes::new(),
            create_revision: Revision(revision),
            mod_revision: Revision(revision),
            version: 1,
            lease: Lease(0),
            at_rest: Default::default(),
        },
        previous: None,
    }
}

fn watch(hub: &Arc<Hub>, prefix: &str, after: u64) -> WatchStream {
    hub.watch(
        Arc::new(NoHistory),
        WatchRequest::new(prefix, Revision(after)),
    )
}

#[tokio::test]
async fn a_write_wakes_only_those_it_concerns() {
    let hub = Arc::new(Hub::new(Revision(1)));
    let mut pods = watch(&hub, "/registry/pods/", 1);
    let mut quiet = watch(&hub, "/registry/nodes/", 1);
    assert!(futures::poll!(pods.next()).is_pending());
    assert!(futures::poll!(quiet.next()).is_pending());
    hub.publish(&[event("/registry/pods/a", 2)], Revision(2));
    let batch = pods.next().await.expect("open").expect("batch");
    assert_eq!(batch.events.len(), 1);
    assert!(futures::poll!(quiet.next()).is_pending());

    hub.request_progress("/registry/nodes/", Revision(2));
    let progress = quiet.next().await.expect("open").expect("progress");
    assert_eq!((progress.revision, progress.events.len()), (Revision(2), 0));
}

#[tokio::test]
async fn a_watch_that_falls_behind_reads_the_history() {
    let hub = Arc::new(Hub::new(Revision(1)));
    let mut slow = watch(&hub, "/registry/pods/", 1);
    assert!(futures::poll!(slow.next()).is_pending());
    for revision in 2..QUEUE_EVENTS as u64 + 10 {
        hub.publish(&[event("/registry/pods/a", revision)], Revision(revision));
    }
    let error = slow.next().await.expect("open").expect_err("no history");
    assert!(matches!(
        error,
        StorageError::Compacted {
            asked: Revision(1),
            ..
        }
    ));
    assert!(slow.next().await.is_none(), "an error is the end");
}

#[tokio::test]
async fn closing_comes_after_what_is_queued() {
    let hub = Arc::new(Hub::new(Revision(1)));
    let mut pods = watch(&hub, "/registry/pods/", 1);
    assert!(futures::poll!(pods.next()).is_pending());
    hub.publish(&[event("/registry/pods/a", 2)], Revision(2));
    hub.close(&StorageError::Unavailable("closing".into()));
    assert_eq!(
        pods.next().await.expect("open").expect("batch").revision,
        Revision(2)
    );
    assert!(pods.next().await.expect("open").is_err());
    let mut late = watch(&hub, "/registry/pods/", 2);
    assert!(late.next().await.expect("open").is_err());
}

#[test]
fn a_dropped_watch_leaves_nothing_behind() {
    let hub = Arc::new(Hub::new(Revision(1)));
    drop([
        watch(&hub, "/registry/pods/", 1),
        watch(&hub, "/registry/po", 1),
    ]);
    let inner = hub.inner.lock();
    assert!(inner.folders.is_empty() && inner.irregular.is_empty());
}
