use crate::testing::Script;

#[tokio::test]
async fn preferred_versions_win_subresources_are_left_out_and_silent_groups_are_named() {
    let (client, script) = Script::client();
    script.answer(
        200,
        &[],
        r#"{"resources":[{"name":"pods","kind":"Pod","namespaced":true,"verbs":["list","watch"]},
        {"name":"pods/status","kind":"Pod","namespaced":true,"verbs":["get"]}]}"#,
    );
    script.answer(200, &[], r#"{"groups":[{"name":"x","versions":[{"version":"v1beta1"},{"version":"v1"}],"preferredVersion":{"version":"v1"}},
        {"name":"down","versions":[{"version":"v2"}],"preferredVersion":{"version":"v2"}}]}"#);
    script.answer(
        200,
        &[],
        r#"{"resources":[{"name":"as","kind":"A","namespaced":false,"verbs":["get"]}]}"#,
    );
    script.answer(200, &[], r#"{"resources":[{"name":"as","kind":"A","namespaced":false},{"name":"bs","kind":"B","namespaced":true}]}"#);
    script.answer(503, &[], "");
    let found = client.discover().await.unwrap();
    let names: Vec<String> = found
        .resources
        .iter()
        .map(|r| format!("{} {}", r.gvr.api_version(), r.gvr.resource))
        .collect();
    assert_eq!(names, ["v1 pods", "x/v1 as", "x/v1beta1 bs"]);
    assert!(found.resources[0].can("watch") && !found.resources[0].can("delete"));
    assert_eq!(found.failed, ["down/v2"]);
    assert_eq!(
        script.asked(),
        [
            "GET /api/v1",
            "GET /apis",
            "GET /apis/x/v1",
            "GET /apis/x/v1beta1",
            "GET /apis/down/v2"
        ]
    );
}

#[tokio::test]
async fn a_user_who_may_not_ask_finds_nothing() {
    let (client, script) = Script::client();
    script.answer(403, &[], "no");
    assert_eq!(client.discover().await.unwrap_err().code, 403);
}
