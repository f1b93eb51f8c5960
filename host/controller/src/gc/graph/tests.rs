use super::*;

fn header(uid: &str, owners: &[&str]) -> Header {
    let owner = |uid: &&str| OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Thing".to_owned(),
        name: format!("name-{uid}"),
        uid: (*uid).to_owned(),
        controller: None,
        block_owner_deletion: Some(true),
    };
    Header {
        name: format!("name-{uid}"),
        namespace: "a".to_owned(),
        uid: uid.to_owned(),
        owner_references: owners.iter().map(owner).collect(),
        ..Header::default()
    }
}

fn deleting(mut header: Header, finalizer: &str) -> Header {
    header.deletion_timestamp = Some("2026-01-01T00:00:00Z".to_owned());
    header.finalizers = vec![finalizer.to_owned()];
    header
}

const THINGS: GroupVersionResource = GroupVersionResource::of("", "v1", "things");

fn uids(nodes: &[GraphNode]) -> Vec<&str> {
    nodes.iter().map(|node| node.uid.as_str()).collect()
}

#[test]
fn a_deleted_owner_has_its_dependents_looked_at_and_is_gone_after_them() {
    let mut graph = Graph::default();
    assert_eq!(graph.upsert(&THINGS, &header("owner", &[])), [""; 0]);
    assert_eq!(
        graph.upsert(&THINGS, &header("d1", &["owner"])),
        [""; 0],
        "the owner is known"
    );
    graph.upsert(&THINGS, &header("d2", &["owner"]));
    assert_eq!(uids(&graph.dependents("owner")), ["d1", "d2"]);

    assert_eq!(graph.remove("owner"), ["d1", "d2"]);
    assert!(graph.get("owner").is_none());
    assert_eq!(
        uids(&graph.dependents("owner")),
        ["d1", "d2"],
        "still linked: they may be orphans"
    );
    graph.remove("d1");
    graph.remove("d2");
    assert!(graph.nodes.is_empty());
    assert_eq!(graph.remove("nobody"), [""; 0]);
}

#[test]
fn a_dependent_of_an_unknown_owner_is_looked_at_until_the_owner_is_seen() {
    let mut graph = Graph::default();
    assert_eq!(graph.upsert(&THINGS, &header("d", &["owner"])), ["d"]);
    assert_eq!(graph.candidates(), ["d"]);
    assert_eq!(
        graph.upsert(&THINGS, &header("d", &["owner"])),
        [""; 0],
        "nothing changed"
    );
    graph.upsert(&THINGS, &header("owner", &[]));
    assert_eq!(graph.candidates(), [""; 0]);
    assert_eq!(
        graph.upsert(&THINGS, &header("d", &["owner", "other"])),
        ["d"]
    );
}

#[test]
fn a_reference_that_is_not_what_it_says_is_looked_at() {
    let mut graph = Graph::default();
    let mut owner = header("owner", &[]);
    owner.namespace = "b".to_owned();
    graph.upsert(&THINGS, &owner);
    assert_eq!(
        graph.upsert(&THINGS, &header("d", &["owner"])),
        ["d"],
        "another namespace"
    );

    let mut renamed = header("e", &["cluster"]);
    renamed.owner_references[0].name = "another".to_owned();
    let mut cluster = header("cluster", &[]);
    cluster.namespace.clear();
    graph.upsert(&THINGS, &cluster);
    assert_eq!(graph.upsert(&THINGS, &renamed), ["e"], "another name");
    assert_eq!(graph.upsert(&THINGS, &header("f", &["cluster"])), [""; 0]);
}

#[test]
fn foreground_deletion_looks_at_the_owner_and_its_dependents_and_again_as_they_go() {
    let mut graph = Graph::default();
    graph.upsert(&THINGS, &header("owner", &[]));
    graph.upsert(&THINGS, &header("d1", &["owner"]));
    graph.upsert(&THINGS, &header("d2", &["owner"]));
    let owner = deleting(header("owner", &[]), FOREGROUND);
    assert_eq!(graph.upsert(&THINGS, &owner), ["d1", "d2", "owner"]);
    assert_eq!(graph.upsert(&THINGS, &owner), [""; 0], "once");
    assert_eq!(graph.candidates(), ["d1", "d2", "owner"]);

    assert_eq!(graph.remove("d1"), ["owner"]);
    let mut unblocked = header("d2", &["owner"]);
    unblocked.owner_references[0].block_owner_deletion = None;
    assert!(
        graph
            .upsert(&THINGS, &unblocked)
            .contains(&"owner".to_owned())
    );
    assert_eq!(graph.upsert(&THINGS, &header("d2", &[])), ["owner"]);
    assert_eq!(
        graph.upsert(&THINGS, &header("d3", &["owner"])),
        ["d3", "owner"],
        "a late dependent"
    );
}

#[test]
fn orphaning_looks_at_the_owner_alone() {
    let mut graph = Graph::default();
    graph.upsert(&THINGS, &header("owner", &[]));
    graph.upsert(&THINGS, &header("d", &["owner"]));
    let owner = deleting(header("owner", &[]), ORPHAN);
    assert_eq!(graph.upsert(&THINGS, &owner), ["owner"]);
    assert!(graph.get("owner").unwrap().deleting);
    assert_eq!(graph.candidates(), ["owner"]);
}

#[test]
fn a_relist_finds_what_was_deleted_unseen() {
    let mut graph = Graph::default();
    let others = GroupVersionResource::of("", "v1", "others");
    graph.upsert(&THINGS, &header("owner", &[]));
    graph.upsert(&others, &header("d", &["owner"]));
    let kept = header("kept", &[]);
    assert_eq!(graph.replace(&THINGS, &[&kept]), ["d"]);
    assert!(
        graph.get("owner").is_none() && graph.get("kept").is_some() && graph.get("d").is_some()
    );
    assert_eq!(graph.replace(&others, &[]), [""; 0]);
    assert!(graph.get("d").is_none());
}
