use std::time::Duration;

use super::*;
use crate::testing::{Script, json, list};

static PODS: GroupVersionResource = GroupVersionResource::of("", "v1", "pods");
static DEPLOYMENTS: GroupVersionResource = GroupVersionResource::of("apps", "v1", "deployments");

#[tokio::test]
async fn requests_have_the_paths_methods_and_types_of_the_api() {
    let (client, script) = Script::client();
    let object = json("a", "b", 7, "");
    for _ in 0..6 {
        script.answer(200, &[], &object);
    }
    assert_eq!(
        client.get(&PODS, "a", "b").await.unwrap().revision,
        Revision(7)
    );
    client
        .get(&GroupVersionResource::of("", "v1", "nodes"), "", "n")
        .await
        .unwrap();
    client
        .create(&DEPLOYMENTS, "a", object.clone())
        .await
        .unwrap();
    client
        .update_status(&DEPLOYMENTS, "a", "b", object.clone())
        .await
        .unwrap();
    let patch = client.patch(&DEPLOYMENTS, "a", "b", "scale", PatchType::Merge, "{}");
    patch.await.unwrap();
    let options = DeleteOptions {
        propagation: Some(Propagation::Foreground),
        ..DeleteOptions::uid("u")
    };
    client.delete(&PODS, "a", "b", &options).await.unwrap();

    let requests = script.requests();
    let lines: Vec<String> = requests
        .iter()
        .map(|r| format!("{} {}", r.method(), r.uri()))
        .collect();
    assert_eq!(
        lines,
        [
            "GET /api/v1/namespaces/a/pods/b",
            "GET /api/v1/nodes/n",
            "POST /apis/apps/v1/namespaces/a/deployments",
            "PUT /apis/apps/v1/namespaces/a/deployments/b/status",
            "PATCH /apis/apps/v1/namespaces/a/deployments/b/scale",
            "DELETE /api/v1/namespaces/a/pods/b",
        ]
    );
    assert_eq!(
        requests[4].headers()["content-type"],
        "application/merge-patch+json"
    );
    assert_eq!(
        requests[5].body(),
        r#"{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Foreground","preconditions":{"uid":"u"}}"#
    );
}

#[tokio::test]
async fn names_and_selectors_are_escaped() {
    let (client, script) = Script::client();
    script.answer(200, &[], &json("a", "b", 1, ""));
    script.answer(200, &[], &list(1, &[]));
    client.get(&PODS, "a", "b/../c?x").await.unwrap();
    client
        .list(&PODS, "a", &ListParams::labels("app=web,x in (a, b)"), &[])
        .await
        .unwrap();
    assert_eq!(
        script.asked(),
        [
            "GET /api/v1/namespaces/a/pods/b%2F..%2Fc%3Fx",
            "GET /api/v1/namespaces/a/pods?labelSelector=app%3Dweb%2Cx%20in%20%28a%2C%20b%29",
        ]
    );
}

#[tokio::test]
async fn pages_are_joined_and_items_keep_their_bytes() {
    let (client, script) = Script::client();
    let (one, two) = (
        json("a", "one", 1, ""),
        json("a", "two", 2, r#" ,"generation":3"#),
    );
    script.answer(
        200,
        &[],
        &format!(r#"{{"metadata":{{"resourceVersion":"9","continue":"next"}},"items":[{one}]}}"#),
    );
    script.answer(200, &[], &list(9, std::slice::from_ref(&two)));
    let params = ListParams {
        limit: 1,
        resource_version: "5".to_owned(),
        ..Default::default()
    };
    let all = client.list_all(&PODS, "", &params, &[]).await.unwrap();
    assert_eq!(all.revision, Revision(9));
    assert_eq!(all.items[1].bytes, two);
    assert_eq!(all.items[1].header.generation, 3);
    assert_eq!(
        script.asked(),
        [
            "GET /api/v1/pods?resourceVersion=5&limit=1",
            "GET /api/v1/pods?limit=1&continue=next"
        ]
    );
    script.answer(
        200,
        &[],
        r#"{"metadata":{"resourceVersion":"3"},"items":null}"#,
    );
    assert!(
        client
            .list(&PODS, "", &ListParams::default(), &[])
            .await
            .unwrap()
            .items
            .is_empty()
    );
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_obeyed_for_every_verb_and_not_for_ever() {
    let (client, script) = Script::client();
    let began = tokio::time::Instant::now();
    script.answer(429, &[("retry-after", "3")], "slow down");
    script.answer(503, &[("retry-after", "2")], "");
    script.answer(201, &[], &json("a", "b", 1, ""));
    client.create(&PODS, "a", "{}").await.unwrap();
    assert_eq!(began.elapsed(), Duration::from_secs(5));
    assert_eq!(script.asked().len(), 3);

    for _ in 0..=MAX_RETRIES {
        script.answer(429, &[("retry-after", "1")], "slow down");
    }
    let status = client.get(&PODS, "a", "b").await.unwrap_err();
    assert_eq!((status.code, status.message.as_str()), (429, "slow down"));

    script.answer(429, &[], ""); // without Retry-After it is the caller's affair
    assert_eq!(client.get(&PODS, "a", "b").await.unwrap_err().code, 429);
    script.answer(409, &[("retry-after", "1")], "");
    assert_eq!(client.get(&PODS, "a", "b").await.unwrap_err().code, 409);
}

#[tokio::test(start_paused = true)]
async fn a_broken_connection_is_tried_again_for_reads_only() {
    let (client, script) = Script::client();
    script.break_down();
    script.answer(200, &[], &json("a", "b", 1, ""));
    client.get(&PODS, "a", "b").await.unwrap();

    script.break_down();
    assert_eq!(client.create(&PODS, "a", "{}").await.unwrap_err().code, 503);
    assert_eq!(script.asked().len(), 3);
}

#[tokio::test]
async fn a_delete_answers_with_the_object_or_with_nothing() {
    let (client, script) = Script::client();
    script.answer(200, &[], &json("a", "b", 4, ""));
    let pod = client
        .delete(&PODS, "a", "b", &DeleteOptions::default())
        .await
        .unwrap();
    assert_eq!(pod.unwrap().revision, Revision(4));
    script.answer(
        200,
        &[],
        r#"{"kind":"Status","apiVersion":"v1","status":"Success","details":{"name":"b"}}"#,
    );
    let none = client
        .delete(&PODS, "a", "b", &DeleteOptions::default())
        .await
        .unwrap();
    assert!(none.is_none());
}

#[tokio::test]
async fn refusals_are_statuses() {
    let (client, script) = Script::client();
    script.refuse(&Status::not_found(&PODS.group_resource(), "b"));
    let status = client.get(&PODS, "a", "b").await.unwrap_err();
    assert!(status.is_not_found());
    assert_eq!(status.message, r#"pods "b" not found"#);
}
