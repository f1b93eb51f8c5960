//! Paths, methods, media types, sizes, headers.

use pilothouse_client::UserInfo;
use serde_json::json;

use crate::harness::{Api, MAPS, PODS, config_map};

#[tokio::test]
async fn what_is_wrong_with_a_request_is_said_with_the_right_code() {
    let api = Api::start().await;
    api.post(MAPS, config_map("a", "1")).await.expect(201);
    let map = config_map("b", "1").to_string();
    let big = format!("{{\"x\":\"{}\"}}", "y".repeat(4 * 1024 * 1024));
    let one = format!("{MAPS}/a");
    // method, path, content type, body, code, reason, part of the message
    let cases = [
        (
            "GET",
            format!("{MAPS}/none"),
            "",
            "",
            404,
            "NotFound",
            "configmaps \"none\" not found",
        ),
        (
            "POST",
            one.clone(),
            "",
            map.as_str(),
            405,
            "MethodNotAllowed",
            "does not allow this method",
        ),
        (
            "PUT",
            MAPS.to_owned(),
            "",
            map.as_str(),
            405,
            "MethodNotAllowed",
            "",
        ),
        (
            "PATCH",
            MAPS.to_owned(),
            "",
            "{}",
            405,
            "MethodNotAllowed",
            "",
        ),
        (
            "DELETE",
            "/api/v1/pods".to_owned(),
            "",
            "",
            405,
            "MethodNotAllowed",
            "",
        ),
        (
            "POST",
            "/api/v1/pods".to_owned(),
            "",
            "{}",
            405,
            "MethodNotAllowed",
            "",
        ),
        (
            "POST",
            "/version".to_owned(),
            "",
            "{}",
            405,
            "MethodNotAllowed",
            "",
        ),
        (
            "POST",
            MAPS.to_owned(),
            "",
            big.as_str(),
            413,
            "RequestEntityTooLarge",
            "3145728",
        ),
        (
            "POST",
            MAPS.to_owned(),
            "text/plain",
            map.as_str(),
            415,
            "UnsupportedMediaType",
            "text/plain",
        ),
        (
            "POST",
            MAPS.to_owned(),
            "",
            "{\"metadata\":",
            400,
            "BadRequest",
            "",
        ),
        ("POST", MAPS.to_owned(), "", "[1]", 400, "BadRequest", ""),
        (
            "POST",
            MAPS.to_owned(),
            "application/yaml",
            "a: [",
            400,
            "BadRequest",
            "YAML",
        ),
        (
            "POST",
            MAPS.to_owned(),
            "",
            "{\"metadata\":{\"name\":7}}",
            400,
            "BadRequest",
            "ConfigMap in version \"v1\" cannot be handled as a ConfigMap",
        ),
        (
            "POST",
            MAPS.to_owned(),
            "",
            "{\"apiVersion\":\"apps/v1\",\"kind\":\"ConfigMap\"}",
            400,
            "BadRequest",
            "the API version in the data (apps/v1) does not match the expected API version (v1)",
        ),
        (
            "POST",
            MAPS.to_owned(),
            "",
            "{\"kind\":\"Secret\"}",
            400,
            "BadRequest",
            "Secret",
        ),
        (
            "POST",
            format!("{MAPS}?dryRun=Some"),
            "",
            map.as_str(),
            422,
            "Invalid",
            "dryRun",
        ),
        (
            "POST",
            format!("{MAPS}?fieldValidation=Odd"),
            "",
            map.as_str(),
            422,
            "Invalid",
            "fieldValidation",
        ),
        (
            "POST",
            format!("{MAPS}?timeout=soon"),
            "",
            map.as_str(),
            400,
            "BadRequest",
            "invalid duration",
        ),
        (
            "POST",
            MAPS.to_owned(),
            "",
            "{\"metadata\":{\"name\":\"No Name\"}}",
            422,
            "Invalid",
            "ConfigMap \"No Name\" is invalid: metadata.name: Invalid value",
        ),
        (
            "POST",
            MAPS.to_owned(),
            "",
            "{}",
            422,
            "Invalid",
            "name or generateName is required",
        ),
        (
            "GET",
            format!("{MAPS}?limit=many"),
            "",
            "",
            400,
            "BadRequest",
            "limit",
        ),
        (
            "GET",
            format!("{MAPS}?fieldSelector=spec.color%3Dred"),
            "",
            "",
            400,
            "BadRequest",
            "spec.color",
        ),
        (
            "GET",
            format!("{MAPS}?labelSelector=a%3D%3D%3Db"),
            "",
            "",
            400,
            "BadRequest",
            "",
        ),
        (
            "GET",
            format!("{MAPS}?resourceVersion=abc"),
            "",
            "",
            400,
            "BadRequest",
            "resource version",
        ),
        (
            "GET",
            format!("{MAPS}?continue=abc"),
            "",
            "",
            400,
            "BadRequest",
            "continue key is not valid",
        ),
        (
            "DELETE",
            format!("{one}?propagationPolicy=Away"),
            "",
            "",
            422,
            "Invalid",
            "propagationPolicy",
        ),
    ];
    for (method, path, content_type, body, code, reason, message) in &cases {
        let headers = [("content-type", *content_type)];
        let headers = if content_type.is_empty() {
            &[][..]
        } else {
            &headers[..]
        };
        let answer = api.send(method, path, headers, body).await;
        assert_eq!(answer.code, *code, "{method} {path}: {}", answer.text());
        answer.refused(*code, reason, message);
    }
    // nothing of all that has changed anything
    let maps = api.get(MAPS).await.expect(200);
    assert_eq!(maps["items"].as_array().unwrap().len(), 1);
    assert_eq!(maps["items"][0]["data"]["key"], "1");
}

#[tokio::test]
async fn unknown_paths_get_plain_text() {
    let api = Api::start().await;
    for path in [
        "/nothing",
        "/api/v1/nothings",
        "/api/v9/pods",
        "/apis/none/v1/things",
        "/api/v1/namespaces/default/nodes",
        "/api/v1/pods/a",
        "/api/v1/namespaces/default/pods/a/nothing",
        "/api/v1/namespaces/default/pods/a/status/deeper",
        "/api/v1/namespaces/default/configmaps/a/status",
        "/api/v1/namespaces/default/configmaps/a/scale",
    ] {
        let answer = api.get(path).await;
        assert_eq!(
            (answer.code, answer.text().as_str()),
            (404, "404 page not found\n"),
            "{path}"
        );
        assert!(
            answer.header("content-type").starts_with("text/plain"),
            "{path}"
        );
    }
}

#[tokio::test]
async fn every_answer_has_its_headers() {
    let api = Api::start().await;
    for path in ["/version", MAPS, "/nothing", &format!("{MAPS}/none")] {
        let answer = api.get(path).await;
        assert!(!answer.header("audit-id").is_empty(), "{path}");
        assert_eq!(
            answer.header("cache-control"),
            "no-cache, private",
            "{path}"
        );
    }
    let answer = api.send("GET", MAPS, &[("audit-id", "mine")], "").await;
    assert_eq!(answer.header("audit-id"), "mine");
}

#[tokio::test]
async fn authorization_comes_before_routing() {
    let api = Api::start().await;
    let nobody = UserInfo::new("x", &[]);
    for path in [PODS, "/api/v1/namespaces/default/nothings"] {
        let refused = api.send_as(&nobody, "GET", path, &[], "").await;
        refused.refused(403, "Forbidden", "User \"x\" cannot list resource");
    }
    let answer = api.send_as(&nobody, "GET", PODS, &[], "").await.json();
    assert_eq!(
        answer["message"],
        "pods is forbidden: User \"x\" cannot list resource \"pods\" in API group \"\" in the namespace \"default\""
    );
    assert_eq!(
        api.send_as(&nobody, "GET", "/api/v1", &[], "").await.code,
        200
    );
}

#[tokio::test]
async fn bodies_and_answers_may_be_yaml() {
    let api = Api::start().await;
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: from-yaml\ndata:\n  greeting: \"yes\"\n";
    let headers = [
        ("content-type", "application/yaml"),
        ("accept", "application/yaml"),
    ];
    let answer = api.send("POST", MAPS, &headers, yaml).await;
    assert_eq!(answer.code, 201, "{}", answer.text());
    assert_eq!(answer.header("content-type"), "application/yaml");
    assert!(
        answer.text().contains("name: from-yaml"),
        "{}",
        answer.text()
    );
    let stored = api.get(&format!("{MAPS}/from-yaml")).await.expect(200);
    assert_eq!(stored["data"], json!({ "greeting": "yes" }));
}

#[tokio::test]
async fn what_is_not_offered_is_406_and_pretty_is_indented() {
    let api = Api::start().await;
    let answer = api.send("GET", MAPS, &[("accept", "text/html")], "").await;
    answer.refused(406, "NotAcceptable", "application/json");
    let cbor = "application/cbor";
    let answer = api.send("GET", MAPS, &[("accept", cbor)], "").await;
    answer.refused(406, "NotAcceptable", "application/json");
    let answer = api.send(
        "GET",
        MAPS,
        &[("accept", "application/cbor, application/json;q=0.5")],
        "",
    );
    answer.await.expect(200);
    let answer = api
        .send("POST", MAPS, &[("content-type", cbor)], "{}")
        .await;
    answer.refused(415, "UnsupportedMediaType", "application/json");
    let pretty = api.get("/api/v1/namespaces/default?pretty=true").await;
    assert!(pretty.text().starts_with("{\n  \""), "{}", pretty.text());
    assert_eq!(pretty.json()["kind"], "Namespace");
}

#[tokio::test]
async fn long_lists_are_compressed_if_the_client_takes_it() {
    use std::io::Read;
    let api = Api::start().await;
    for index in 0..4 {
        let map = config_map(&format!("big-{index}"), &"x".repeat(60_000));
        api.post(MAPS, map).await.expect(201);
    }
    let plain = api.get(MAPS).await;
    assert_eq!(plain.header("content-encoding"), "");
    let gzip = api
        .send("GET", MAPS, &[("accept-encoding", "gzip")], "")
        .await;
    assert_eq!(
        (gzip.header("content-encoding"), gzip.header("vary")),
        ("gzip", "Accept-Encoding")
    );
    assert!(gzip.body.len() < plain.body.len() / 10);
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(&gzip.body[..])
        .read_to_end(&mut unpacked)
        .unwrap();
    assert_eq!(unpacked, plain.body);
    let short = api
        .send(
            "GET",
            &format!("{MAPS}/big-0"),
            &[("accept-encoding", "gzip")],
            "",
        )
        .await;
    assert_eq!(short.header("content-encoding"), "");
}

#[tokio::test]
async fn unknown_fields_follow_field_validation() {
    let api = Api::start().await;
    let odd = |name: &str| json!({ "metadata": { "name": name }, "data": {}, "colour": "red" });
    let warned = api.post(MAPS, odd("a")).await;
    assert_eq!(warned.code, 201);
    assert_eq!(
        warned.header("warning"),
        "299 - \"unknown field \\\"colour\\\"\""
    );
    let ignored = api
        .post(&format!("{MAPS}?fieldValidation=Ignore"), odd("b"))
        .await;
    assert_eq!((ignored.code, ignored.header("warning")), (201, ""));
    let strict = api
        .post(&format!("{MAPS}?fieldValidation=Strict"), odd("c"))
        .await;
    strict.refused(
        400,
        "BadRequest",
        "strict decoding error: unknown field \"colour\"",
    );
    let path = format!("{MAPS}/a?fieldValidation=Strict");
    let patched = api.patch(&path, "merge", json!({ "colour": "blue" })).await;
    patched.refused(422, "Invalid", "unknown field \"colour\"");
}
