use parking_lot::Mutex;
use pilothouse_api::GroupVersionResource;

use super::*;
use crate::testing::object;

fn cache() -> Arc<Cache> {
    let info = ResourceInfo {
        gvr: GroupVersionResource::of("", "v1", "pods"),
        kind: "Pod".into(),
        singular: "pod".into(),
        namespaced: true,
        short_names: Vec::new(),
        categories: Vec::new(),
        selectable_fields: vec!["spec.nodeName".to_owned()],
        storage_prefix: "pods".into(),
    };
    let indexes = vec![
        Index::Label("app".to_owned()),
        Index::Field(0, "spec.nodeName".to_owned()),
    ];
    Arc::new(Cache::new(info, indexes))
}

fn names(objects: &[SharedObject]) -> Vec<String> {
    let name = |o: &SharedObject| format!("{}/{}", o.header.namespace, o.header.name);
    objects.iter().map(name).collect()
}

/// A handler that writes down what it hears.
fn listener() -> (Arc<dyn Handler>, Arc<Mutex<Vec<String>>>) {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let into = heard.clone();
    let handler = move |event: &CacheEvent| {
        let name = &event.object().header.name;
        into.lock().push(match event {
            CacheEvent::Added(o) => format!("+{name}@{}", o.revision),
            CacheEvent::Modified { old, new } => {
                format!("~{name}@{}>{}", old.revision, new.revision)
            }
            CacheEvent::Deleted(o) => format!("-{name}@{}", o.revision),
        });
    };
    (Arc::new(handler), heard)
}

fn owned(uid: &str, app: &str) -> String {
    format!(
        r#","labels":{{"app":"{app}"}},"ownerReferences":[{{"apiVersion":"v1","kind":"X","name":"x","uid":"{uid}"}}]"#
    )
}

#[test]
fn lists_by_namespace_labels_fields_and_owner() {
    let cache = cache();
    assert!(!cache.synced());
    let on_node = |name: &str, revision: u64, node: &str| {
        let bytes = format!(
            r#"{{"metadata":{{"namespace":"a","name":"{name}","resourceVersion":"{revision}"}},"spec":{{"nodeName":"{node}"}}}}"#
        );
        Arc::new(pilothouse_api::Object::from_response(bytes.into(), &["spec.nodeName"]).unwrap())
    };
    cache.replace(
        vec![
            object("b", "two", 2, &owned("u1", "web")),
            object("a", "one", 1, &owned("u1", "db")),
            on_node("three", 3, "n1"),
        ],
        Revision(9),
    );
    assert!(cache.synced());
    assert_eq!(cache.revision(), Revision(9));
    let list = |namespace: &str, labels: &str, fields: &str| {
        let labels = LabelSelector::parse(labels).unwrap();
        let fields = cache.field_selector(fields).unwrap();
        names(&cache.list(namespace, &labels, &fields))
    };
    assert_eq!(list("", "", ""), ["a/one", "a/three", "b/two"]);
    assert_eq!(list("a", "", ""), ["a/one", "a/three"]);
    assert_eq!(list("c", "", ""), [""; 0]);
    assert_eq!(list("", "app=web", ""), ["b/two"]);
    assert_eq!(list("a", "app=web", ""), [""; 0]);
    assert_eq!(list("", "app in (web,db)", ""), ["a/one", "b/two"]);
    assert_eq!(list("", "!app", ""), ["a/three"]);
    assert_eq!(list("", "", "spec.nodeName=n1"), ["a/three"]);
    assert_eq!(list("", "", "spec.nodeName!=n1"), ["a/one", "b/two"]);
    assert_eq!(list("", "", "metadata.name=one"), ["a/one"]);
    assert!(cache.field_selector("status.podIP=x").is_err());
    assert_eq!(names(&cache.owned_by("", "u1")), ["a/one", "b/two"]);
    assert_eq!(names(&cache.owned_by("b", "u1")), ["b/two"]);
    assert_eq!(cache.len(), 3);
}

#[test]
fn indexes_follow_changes_and_deletions() {
    let cache = cache();
    cache.replace(vec![], Revision(1));
    cache.upsert(object("a", "x", 2, &owned("u1", "web")));
    cache.upsert(object("a", "x", 3, &owned("u2", "db")));
    assert!(cache.owned_by("", "u1").is_empty());
    assert_eq!(names(&cache.owned_by("", "u2")), ["a/x"]);
    assert!(
        cache
            .indexed(&Index::Label("app".to_owned()), "web")
            .is_empty()
    );
    cache.remove(&object("a", "x", 4, &owned("u3", "none")));
    assert!(cache.owned_by("", "u2").is_empty());
    assert!(cache.is_empty());
    assert_eq!(cache.revision(), Revision(4));
    cache.remove(&object("a", "x", 5, ""));
    assert_eq!(cache.len(), 0);
}

#[test]
fn handlers_hear_each_change_once_and_the_present_when_they_join() {
    let cache = cache();
    let (first, heard) = listener();
    let subscription = cache.subscribe(first);
    cache.replace(
        vec![object("a", "x", 1, ""), object("a", "y", 2, "")],
        Revision(2),
    );
    cache.upsert(object("a", "x", 3, ""));
    cache.upsert(object("a", "x", 3, "")); // the same version again
    assert_eq!(
        std::mem::take(&mut *heard.lock()),
        ["+x@1", "+y@2", "~x@1>3"]
    );

    let (late, late_heard) = listener();
    let _late = cache.subscribe(late);
    assert_eq!(*late_heard.lock(), ["+x@3", "+y@2"]);

    drop(subscription);
    cache.remove(&object("a", "y", 4, ""));
    assert!(heard.lock().is_empty());
    assert_eq!(late_heard.lock().pop().unwrap(), "-y@4");
}

#[test]
fn a_relist_tells_the_differences_and_takes_another_uid_for_another_object() {
    let cache = cache();
    let (handler, heard) = listener();
    let _subscription = cache.subscribe(handler);
    let gone = object("a", "gone", 1, &owned("u", "web"));
    cache.replace(
        vec![
            gone,
            object("a", "same", 2, ""),
            object("a", "new-uid", 3, ""),
        ],
        Revision(3),
    );
    heard.lock().clear();
    let bytes =
        r#"{"metadata":{"namespace":"a","name":"new-uid","uid":"other","resourceVersion":"8"}}"#;
    let other =
        Arc::new(pilothouse_api::Object::from_response(bytes.into(), &["spec.nodeName"]).unwrap());
    cache.replace(
        vec![
            object("a", "same", 2, ""),
            other,
            object("b", "born", 7, ""),
        ],
        Revision(9),
    );
    assert_eq!(
        *heard.lock(),
        ["-new-uid@3", "-gone@1", "+new-uid@8", "+born@7"]
    );
    assert!(cache.owned_by("", "u").is_empty());
    assert_eq!(cache.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn waits_for_a_revision_or_gives_up() {
    let cache = cache();
    assert!(
        !cache
            .wait_revision(Revision(5), Duration::from_secs(1))
            .await
    );
    cache.replace(vec![], Revision(3));
    let waiting = cache.wait_revision(Revision(5), Duration::from_secs(1));
    let arriving = async { cache.reached(Revision(5)) };
    assert!(tokio::join!(waiting, arriving).0);
    cache.reached(Revision(4));
    assert_eq!(cache.revision(), Revision(5), "never goes back");
}
