//! Who am I, and what may I: questions that are answered and not stored.

use pilothouse_client::UserInfo;
use serde_json::{Value, json};

use crate::harness::{Answer, Api};

const AUTHENTICATION: &str = "/apis/authentication.k8s.io/v1";
const AUTHORIZATION: &str = "/apis/authorization.k8s.io/v1";

fn question(path: &str, kind: &str, spec: Value) -> String {
    let api_version = path.trim_start_matches("/apis/");
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"creationTimestamp": null}, "spec": spec})
        .to_string()
}

async fn ask(api: &Api, user: &UserInfo, path: &str, kind: &str, spec: Value) -> Answer {
    let resource = format!("{path}/{}s", kind.to_lowercase());
    api.send_as(user, "POST", &resource, &[], &question(path, kind, spec))
        .await
}

#[tokio::test]
async fn everybody_learns_who_they_are() {
    let api = Api::start().await;
    let alice = UserInfo {
        uid: "u1".to_owned(),
        extra: [("example.com/role".to_owned(), vec!["dev".to_owned()])].into(),
        ..UserInfo::new("alice", &["ops"])
    };
    let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let path = format!("{AUTHENTICATION}/selfsubjectreviews");
    let answer = api
        .send_as(&alice, "POST", &path, &[], &body.to_string())
        .await
        .expect(201);
    assert_eq!(
        answer["status"]["userInfo"],
        json!({
            "username": "alice",
            "uid": "u1",
            "groups": ["ops", "system:authenticated"],
            "extra": {"example.com/role": ["dev"]},
        })
    );
    assert!(answer["metadata"]["creationTimestamp"].is_string());
    api.get(&path)
        .await
        .refused(405, "MethodNotAllowed", "does not allow this method");
    assert_eq!(api.get(&format!("{path}/x")).await.code, 404);
}

#[tokio::test]
async fn what_is_answered_is_what_happens() {
    let api = Api::start().await;
    let (admin, alice) = (
        UserInfo::new("admin", &["system:masters"]),
        UserInfo::new("alice", &[]),
    );
    for (attributes, path) in [
        (
            json!({"resourceAttributes": {"verb": "list", "resource": "pods", "namespace": "default"}}),
            "/api/v1/namespaces/default/pods",
        ),
        (
            json!({"nonResourceAttributes": {"verb": "get", "path": "/metrics"}}),
            "/metrics",
        ),
        (
            json!({"nonResourceAttributes": {"verb": "get", "path": "/apis"}}),
            "/apis",
        ),
    ] {
        for user in [&admin, &alice] {
            let allowed = api.send_as(user, "GET", path, &[], "").await.code == 200;
            let own = ask(
                &api,
                user,
                AUTHORIZATION,
                "SelfSubjectAccessReview",
                attributes.clone(),
            )
            .await
            .expect(201);
            assert_eq!(
                own["status"],
                json!({"allowed": allowed}),
                "{} {path}",
                user.name
            );
            assert_eq!(own["spec"], attributes);
            let mut of_other = attributes.clone();
            of_other["user"] = json!(user.name);
            of_other["groups"] = json!(user.groups);
            let answer = ask(
                &api,
                &admin,
                AUTHORIZATION,
                "SubjectAccessReview",
                of_other.clone(),
            )
            .await
            .expect(201);
            assert_eq!(
                answer["status"],
                json!({"allowed": allowed}),
                "{} {path}",
                user.name
            );
            ask(&api, &alice, AUTHORIZATION, "SubjectAccessReview", of_other)
                .await
                .refused(
                    403,
                    "Forbidden",
                    "cannot create resource \"subjectaccessreviews\"",
                );
        }
    }
    ask(
        &api,
        &alice,
        AUTHORIZATION,
        "SelfSubjectAccessReview",
        json!({}),
    )
    .await
    .refused(
        422,
        "Invalid",
        "exactly one of nonResourceAttributes or resourceAttributes must be specified",
    );
}

#[tokio::test]
async fn questions_of_a_namespace_stay_in_it() {
    let api = Api::start().await;
    let path = format!("{AUTHORIZATION}/namespaces/a/localsubjectaccessreviews");
    let spec = |namespace: &str| json!({"user": "x", "groups": ["system:masters"], "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": namespace}});
    let body = |namespace| question(AUTHORIZATION, "LocalSubjectAccessReview", spec(namespace));
    let answer = api.send("POST", &path, &[], &body("a")).await.expect(201);
    assert_eq!(answer["status"], json!({"allowed": true}));
    assert_eq!(answer["metadata"]["namespace"], "a");
    api.send("POST", &path, &[], &body("b")).await.refused(
        422,
        "Invalid",
        "spec.resourceAttributes.namespace: Invalid value: \"b\": must match metadata.namespace",
    );
}

#[tokio::test]
async fn rules_are_listed() {
    let api = Api::start().await;
    let spec = json!({"namespace": "default"});
    let admin = UserInfo::new("admin", &["system:masters"]);
    let answer = ask(
        &api,
        &admin,
        AUTHORIZATION,
        "SelfSubjectRulesReview",
        spec.clone(),
    )
    .await
    .expect(201);
    assert_eq!(
        answer["status"],
        json!({
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            "incomplete": false,
        })
    );
    let alice = UserInfo::new("alice", &[]);
    let answer = ask(&api, &alice, AUTHORIZATION, "SelfSubjectRulesReview", spec)
        .await
        .expect(201);
    assert_eq!(
        answer["status"]["resourceRules"][0]["resources"],
        json!(["selfsubjectreviews"])
    );
    ask(
        &api,
        &alice,
        AUTHORIZATION,
        "SelfSubjectRulesReview",
        json!({}),
    )
    .await
    .refused(400, "BadRequest", "no namespace on request");
}

#[tokio::test]
async fn tokens_are_reviewed() {
    let api = Api::start().await;
    let token = "a-token";
    api.server
        .register_token(token, UserInfo::new("bot", &["robots"]));
    let admin = UserInfo::new("admin", &["system:masters"]);
    let answer = ask(
        &api,
        &admin,
        AUTHENTICATION,
        "TokenReview",
        json!({"token": token}),
    )
    .await
    .expect(201);
    assert_eq!(
        answer["status"],
        json!({
            "authenticated": true,
            "user": {"username": "bot", "groups": ["robots", "system:authenticated"]},
            "audiences": ["https://kubernetes.default.svc.cluster.local"],
        })
    );
    let answer = ask(
        &api,
        &admin,
        AUTHENTICATION,
        "TokenReview",
        json!({"token": "junk"}),
    )
    .await
    .expect(201);
    assert_eq!(
        answer["status"],
        json!({"user": {}, "error": "invalid bearer token"})
    );
    let elsewhere = json!({"token": token, "audiences": ["x"]});
    let answer = ask(&api, &admin, AUTHENTICATION, "TokenReview", elsewhere).await;
    assert_eq!(
        answer.expect(201)["status"],
        json!({"user": {}, "error": "invalid bearer token"})
    );
    ask(&api, &admin, AUTHENTICATION, "TokenReview", json!({}))
        .await
        .refused(400, "BadRequest", "token is required");
}

#[tokio::test]
async fn questions_are_answered_in_protobuf_too() {
    let api = Api::start().await;
    let admin = UserInfo::new("admin", &["system:masters"]);
    let media = "application/vnd.kubernetes.protobuf";
    let headers = [("accept", media)];
    let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let path = format!("{AUTHENTICATION}/selfsubjectreviews");
    let sent = body.to_string();
    let answer = api.send_as(&admin, "POST", &path, &headers, &sent).await;
    assert_eq!((answer.code, answer.header("content-type")), (201, media));
    let json = pilothouse_api::protobuf::to_json(&answer.body).unwrap();
    let review: Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(review["status"]["userInfo"]["username"], "admin");
    let refused = api.send_as(&admin, "POST", &path, &headers, "{").await;
    assert_eq!((refused.code, refused.header("content-type")), (400, media));
}
