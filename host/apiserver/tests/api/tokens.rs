//! Tokens of service accounts: asked for, used, reviewed, refused when what they stand for is gone.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use pilothouse_client::UserInfo;
use serde_json::{Value, json};

use crate::harness::{Api, PODS, pod};

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

async fn with_account(api: &Api, name: &str) -> Value {
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}});
    api.post(ACCOUNTS, account).await.expect(201)
}

fn request(spec: Value) -> Value {
    json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec})
}

/// Asks for a token; the answer is the whole TokenRequest.
async fn issue(api: &Api, account: &str, spec: Value) -> Value {
    let path = format!("{ACCOUNTS}/{account}/token");
    api.post(&path, request(spec)).await.expect(201)
}

fn token(answer: &Value) -> &str {
    answer["status"]["token"].as_str().unwrap()
}

fn claims(answer: &Value) -> Value {
    let payload = token(answer).split('.').nth(1).unwrap();
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).unwrap()).unwrap()
}

/// What a TokenReview says about a token.
async fn review(api: &Api, token: &str, audiences: &[&str]) -> Value {
    let review = json!({
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": token, "audiences": audiences},
    });
    let path = "/apis/authentication.k8s.io/v1/tokenreviews";
    api.post(path, review).await.expect(201)["status"].take()
}

/// The cache of a resource has seen all that has been written: a list is consistent.
async fn seen_by_cache(api: &Api, path: &str) {
    api.get(path).await.expect(200);
}

#[tokio::test]
async fn a_token_says_for_whom_whom_and_how_long() {
    let api = Api::start().await;
    let account = with_account(&api, "robot").await;
    let answer = issue(&api, "robot", json!({})).await;
    assert_eq!(answer["kind"], "TokenRequest");
    assert_eq!(answer["metadata"]["name"], "robot");
    assert_eq!(answer["metadata"]["namespace"], "default");
    assert_eq!(answer["spec"]["audiences"], json!([ISSUER]));
    assert_eq!(answer["spec"]["expirationSeconds"], 3600);
    let claims = claims(&answer);
    assert_eq!(claims["iss"], ISSUER);
    assert_eq!(claims["aud"], json!([ISSUER]));
    assert_eq!(claims["sub"], "system:serviceaccount:default:robot");
    let seconds = |claim: &str| claims[claim].as_i64().unwrap();
    assert_eq!(seconds("exp") - seconds("iat"), 3600);
    assert_eq!(seconds("nbf"), seconds("iat"));
    assert_eq!(claims["jti"].as_str().unwrap().len(), 36);
    let uid = &account["metadata"]["uid"];
    assert_eq!(
        claims["kubernetes.io"],
        json!({"namespace": "default", "serviceaccount": {"name": "robot", "uid": uid}})
    );
    let expires: jiff::Timestamp = answer["status"]["expirationTimestamp"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    assert_eq!(expires.as_second(), seconds("exp"));
    assert_eq!(
        review(&api, token(&answer), &[]).await,
        json!({
            "authenticated": true,
            "audiences": [ISSUER],
            "user": {
                "username": "system:serviceaccount:default:robot",
                "uid": uid,
                "groups": ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"],
                "extra": {"authentication.kubernetes.io/credential-id": [format!("JTI={}", claims["jti"].as_str().unwrap())]},
            },
        })
    );
}

#[tokio::test]
async fn what_may_not_be_asked_is_refused() {
    let api = Api::start().await;
    with_account(&api, "robot").await;
    api.post(PODS, pod("p")).await.expect(201);
    let bound = |kind: &str, name: &str, uid: &str| {
        let api_version = if kind == "Deployment" {
            "apps/v1"
        } else {
            "v1"
        };
        json!({"boundObjectRef": {"apiVersion": api_version, "kind": kind, "name": name, "uid": uid}})
    };
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}});
    api.post("/api/v1/namespaces/default/secrets", secret)
        .await
        .expect(201);
    let path = format!("{ACCOUNTS}/robot/token");
    // what is asked, code, reason, part of the message
    for (spec, code, reason, message) in [
        (
            json!({"expirationSeconds": 599}),
            422,
            "Invalid",
            "spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes",
        ),
        (
            json!({"expirationSeconds": 0}),
            422,
            "Invalid",
            "less than 10 minutes",
        ),
        (
            json!({"expirationSeconds": (1i64 << 32) + 1}),
            422,
            "Invalid",
            "may not specify a duration larger than 2^32 seconds",
        ),
        (
            bound("Pod", "none", ""),
            404,
            "NotFound",
            "pods \"none\" not found",
        ),
        (
            bound("Pod", "p", ""),
            400,
            "BadRequest",
            "cannot bind token for serviceaccount \"robot\" to pod running with different serviceaccount name.",
        ),
        (
            bound("Secret", "s", "wrong"),
            409,
            "Conflict",
            "the UID in the bound object reference (wrong) does not match the UID in record",
        ),
        (
            bound("Node", "none", ""),
            404,
            "NotFound",
            "nodes \"none\" not found",
        ),
        (
            bound("Deployment", "d", ""),
            400,
            "BadRequest",
            "cannot bind token to object of type apps/v1, Kind=Deployment",
        ),
    ] {
        api.post(&path, request(spec))
            .await
            .refused(code, reason, message);
    }
    let elsewhere = json!({
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "metadata": {"name": "other"},
        "spec": {},
    });
    let refused = api.post(&path, elsewhere).await;
    refused.refused(
        422,
        "Invalid",
        "must match the service account name if specified",
    );
    let missing = format!("{ACCOUNTS}/none/token");
    let refused = api.post(&missing, request(json!({}))).await;
    refused.refused(404, "NotFound", "serviceaccounts \"none\" not found");
    api.get(&path).await.refused(405, "MethodNotAllowed", "");
    let none = api.post(&format!("{PODS}/p/token"), json!({})).await;
    assert_eq!(none.code, 404, "pods have no tokens");
}

#[tokio::test]
async fn a_token_is_worth_what_it_is_bound_to() {
    let api = Api::start().await;
    with_account(&api, "robot").await;
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}});
    let node = api.post("/api/v1/nodes", node).await.expect(201);
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "o"}});
    api.post("/api/v1/namespaces/default/secrets", secret)
        .await
        .expect(201);
    let mut with_robot = pod("o");
    with_robot["spec"]["serviceAccountName"] = json!("robot");
    with_robot["spec"]["nodeName"] = json!("n");
    let pod = api.post(PODS, with_robot.clone()).await.expect(201);
    let other_node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "o"}});
    api.post("/api/v1/nodes", other_node).await.expect(201);

    let bound =
        |kind: &str| json!({"boundObjectRef": {"apiVersion": "v1", "kind": kind, "name": "o"}});
    let of_pod = issue(&api, "robot", bound("Pod")).await;
    let said = claims(&of_pod)["kubernetes.io"].take();
    assert_eq!(
        said["pod"],
        json!({"name": "o", "uid": pod["metadata"]["uid"]})
    );
    assert_eq!(
        said["node"],
        json!({"name": "n", "uid": node["metadata"]["uid"]})
    );
    let extra = review(&api, token(&of_pod), &[]).await["user"]["extra"].take();
    for (key, value) in [
        ("pod-name", &pod["metadata"]["name"]),
        ("pod-uid", &pod["metadata"]["uid"]),
        ("node-name", &node["metadata"]["name"]),
        ("node-uid", &node["metadata"]["uid"]),
    ] {
        assert_eq!(
            extra[format!("authentication.kubernetes.io/{key}")],
            json!([value])
        );
    }

    for (kind, path, again) in [
        (
            "Pod",
            format!("{PODS}/o?gracePeriodSeconds=0"),
            Some((PODS, with_robot)),
        ),
        (
            "Secret",
            "/api/v1/namespaces/default/secrets/o".to_owned(),
            None,
        ),
        ("Node", "/api/v1/nodes/o".to_owned(), None),
    ] {
        let answer = issue(&api, "robot", bound(kind)).await;
        let works = review(&api, token(&answer), &[]).await;
        assert_eq!(works["authenticated"], true, "{kind}: {works}");
        api.delete(&path).await.expect(200);
        seen_by_cache(&api, path.rsplit_once('/').unwrap().0).await;
        let gone = review(&api, token(&answer), &[]).await;
        assert_eq!(
            gone,
            json!({"user": {}, "error": "service account token has been invalidated"}),
            "{kind}"
        );
        if let Some((path, object)) = again {
            api.post(path, object).await.expect(201);
            let another = review(&api, token(&answer), &[]).await;
            let error = another["error"].as_str().unwrap();
            assert!(error.contains("pod UID ("), "{error}");
        }
    }
    // the account itself
    let answer = issue(&api, "robot", json!({})).await;
    api.delete(&format!("{ACCOUNTS}/robot")).await.expect(200);
    seen_by_cache(&api, ACCOUNTS).await;
    let gone = review(&api, token(&answer), &[]).await;
    assert_eq!(gone["error"], "serviceaccounts \"robot\" not found");
    with_account(&api, "robot").await;
    let another = review(&api, token(&answer), &[]).await;
    let error = another["error"].as_str().unwrap();
    assert!(error.contains("does not match claim"), "{error}");
}

#[tokio::test]
async fn a_token_is_for_its_audience() {
    let api = Api::start().await;
    with_account(&api, "robot").await;
    let answer = issue(&api, "robot", json!({"audiences": ["vault", "mail"]})).await;
    for (asked, audiences) in [
        (&["vault"][..], Some(json!(["vault"]))),
        (&["mail", "vault", "x"], Some(json!(["vault", "mail"]))),
        (&["x"], None),
        (&[], None), // for this server
    ] {
        let status = review(&api, token(&answer), asked).await;
        match audiences {
            Some(audiences) => assert_eq!(status["audiences"], audiences, "{asked:?}"),
            None => {
                assert_eq!(status["authenticated"], Value::Null, "{asked:?}");
                let error = status["error"].as_str().unwrap();
                assert!(
                    error.contains("token audiences [\"vault\", \"mail\"] is invalid"),
                    "{error}"
                );
            }
        }
    }
}

#[tokio::test]
async fn what_kubelets_ask_for_lives_longer_than_it_says() {
    let api = Api::start().await;
    with_account(&api, "robot").await;
    let mut with_robot = pod("p");
    with_robot["spec"]["serviceAccountName"] = json!("robot");
    api.post(PODS, with_robot).await.expect(201);
    let to_pod = json!({"apiVersion": "v1", "kind": "Pod", "name": "p"});
    // seconds asked for, bound to the pod, audience, lives a year
    for (seconds, to, audience, extended) in [
        (3607, &to_pod, ISSUER, true),
        (3607, &Value::Null, ISSUER, false),
        (3607, &to_pod, "vault", false),
        (3608, &to_pod, ISSUER, false),
    ] {
        let spec =
            json!({"expirationSeconds": seconds, "boundObjectRef": to, "audiences": [audience]});
        let answer = issue(&api, "robot", spec).await;
        let claims = claims(&answer);
        let life = claims["exp"].as_i64().unwrap() - claims["iat"].as_i64().unwrap();
        assert_eq!(
            life,
            if extended { 31_536_000 } else { seconds },
            "{seconds} {audience}"
        );
        let warn = claims["kubernetes.io"]["warnafter"].as_i64();
        assert_eq!(
            warn.map(|at| at - claims["iat"].as_i64().unwrap()),
            extended.then_some(3607)
        );
        let shown: jiff::Timestamp = answer["status"]["expirationTimestamp"]
            .as_str()
            .unwrap()
            .parse()
            .unwrap();
        assert_eq!(shown.as_second() - claims["iat"].as_i64().unwrap(), seconds);
    }
}

#[tokio::test]
async fn the_issuer_describes_itself_to_those_who_hold_its_tokens() {
    let api = Api::start().await;
    let account = UserInfo::new("system:serviceaccount:a:b", &["system:serviceaccounts"]);
    let configuration = "/.well-known/openid-configuration";
    let answer = api.send_as(&account, "GET", configuration, &[], "").await;
    assert_eq!(answer.header("cache-control"), "public, max-age=3600");
    let found = answer.expect(200);
    assert_eq!(found["issuer"], ISSUER);
    let uri = format!("https://{}/openid/v1/jwks", api.server.address());
    assert_eq!(found["jwks_uri"], json!(uri));
    let keys = api
        .send_as(&account, "GET", "/openid/v1/jwks", &[], "")
        .await;
    assert_eq!(keys.header("content-type"), "application/jwk-set+json");
    let keys = keys.expect(200);
    assert_eq!(
        (&keys["keys"][0]["kty"], &keys["keys"][0]["use"]),
        (&json!("EC"), &json!("sig"))
    );
    with_account(&api, "robot").await;
    let answer = issue(&api, "robot", json!({})).await;
    let header = URL_SAFE_NO_PAD
        .decode(token(&answer).split('.').next().unwrap())
        .unwrap();
    let header: Value = serde_json::from_slice(&header).unwrap();
    assert_eq!(
        header,
        json!({"alg": "ES256", "kid": keys["keys"][0]["kid"]})
    );
    let other = UserInfo::new("alice", &[]);
    for path in [configuration, "/openid/v1/jwks"] {
        let refused = api.send_as(&other, "GET", path, &[], "").await;
        refused.refused(403, "Forbidden", "cannot get path");
    }
}

/// A Secret in which the token of an account is to be kept.
fn token_secret(name: &str, account: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "annotations": {"kubernetes.io/service-account.name": account}},
        "type": "kubernetes.io/service-account-token",
    })
}

#[tokio::test]
async fn a_secret_of_an_account_is_filled_and_goes_with_it() {
    const SECRETS: &str = "/api/v1/namespaces/default/secrets";
    let api = Api::start().await;
    let account = with_account(&api, "robot").await;
    let version = account["metadata"]["resourceVersion"].as_str().unwrap();
    let mut watch = api
        .watch(&format!("{SECRETS}?watch=1&resourceVersion={version}"), &[])
        .await;
    api.post(SECRETS, token_secret("of-robot", "robot"))
        .await
        .expect(201);
    api.post(SECRETS, token_secret("of-nobody", "nobody"))
        .await
        .expect(201);
    let mut filled = Value::Null;
    let mut seen = Vec::new();
    while seen.len() < 4 {
        let event = watch.next().await.unwrap();
        let name = event["object"]["metadata"]["name"].as_str().unwrap();
        seen.push(format!("{} {name}", event["type"].as_str().unwrap()));
        if seen.last().unwrap() == "MODIFIED of-robot" {
            filled = event["object"].clone();
        }
    }
    seen.sort();
    assert_eq!(
        seen,
        [
            "ADDED of-nobody",
            "ADDED of-robot",
            "DELETED of-nobody",
            "MODIFIED of-robot"
        ]
    );
    let data = |key: &str| {
        let bytes =
            base64::engine::general_purpose::STANDARD.decode(filled["data"][key].as_str().unwrap());
        String::from_utf8(bytes.unwrap()).unwrap()
    };
    assert_eq!(data("namespace"), "default");
    assert!(data("ca.crt").starts_with("-----BEGIN CERTIFICATE-----"));
    let uid = &account["metadata"]["uid"];
    assert_eq!(
        &filled["metadata"]["annotations"]["kubernetes.io/service-account.uid"],
        uid
    );
    let token = data("token");
    let status = review(&api, &token, &[]).await;
    assert_eq!(
        status["user"]["username"],
        "system:serviceaccount:default:robot"
    );
    assert_eq!(status["user"]["extra"], Value::Null);

    let mark =
        json!({"metadata": {"labels": {"kubernetes.io/legacy-token-invalid-since": "2026-01-01"}}});
    api.patch(&format!("{SECRETS}/of-robot"), "merge", mark)
        .await
        .expect(200);
    seen_by_cache(&api, SECRETS).await;
    let status = review(&api, &token, &[]).await;
    let error = status["error"].as_str().unwrap();
    assert!(error.contains("has been marked invalid"), "{error}");

    api.delete(&format!("{ACCOUNTS}/robot")).await.expect(200);
    while watch.next().await.unwrap()["type"] != "DELETED" {}
    seen_by_cache(&api, SECRETS).await;
    let status = review(&api, &token, &[]).await;
    assert_eq!(
        status["error"],
        "service account token has been invalidated"
    );
}
