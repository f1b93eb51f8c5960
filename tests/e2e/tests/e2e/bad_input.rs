//! Bad input gets a `Status` with the right reason, and nothing changes.

use anyhow::{Context, Result, ensure};
use http_body_util::BodyExt;
use kube::{Client, Config, config::KubeConfigOptions, config::Kubeconfig};
use pilothouse_e2e::Cluster;
use serde_json::Value;

/// A client for raw requests as the cluster's administrator.
pub(crate) async fn administrator(cluster: &Cluster) -> Result<Client> {
    let kubeconfig = Kubeconfig::read_from(cluster.kubeconfig())?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}

async fn send(
    client: &Client,
    method: &str,
    path: &str,
    content_type: &str,
    body: &str,
) -> Result<(u16, Value)> {
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", content_type);
    let response = client
        .send(request.body(kube::client::Body::from(body.as_bytes().to_vec()))?)
        .await?;
    let code = response.status().as_u16();
    let bytes = response
        .into_body()
        .collect()
        .await
        .map_err(|e| anyhow::anyhow!("{e}"))?
        .to_bytes();
    let value = serde_json::from_slice(&bytes)
        .with_context(|| String::from_utf8_lossy(&bytes).into_owned())?;
    Ok((code, value))
}

const JSON: &str = "application/json";

#[tokio::test]
async fn refusals_have_the_right_code_and_reason() -> Result<()> {
    let cluster = Cluster::start()?;
    let client = administrator(&cluster).await?;
    let pods = "/api/v1/namespaces/default/pods";
    let maps = "/api/v1/namespaces/default/configmaps";
    let large = format!(
        r#"{{"metadata":{{"name":"big"}},"data":{{"a":"{}"}}}}"#,
        "x".repeat(4 << 20)
    );
    let map = |name: &str| {
        format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}}}}"#)
    };
    let before = cluster.kubectl("get configmaps,pods,namespaces -A -o name")?;
    let cases: &[(&str, &str, &str, &str, u16, &str)] = &[
        ("POST", maps, JSON, "{", 400, "BadRequest"),
        ("POST", maps, JSON, "", 400, "BadRequest"),
        ("POST", maps, JSON, "[]", 400, "BadRequest"),
        ("POST", maps, JSON, "null", 400, "BadRequest"),
        (
            "POST",
            maps,
            JSON,
            r#"{"metadata":{"name":"a"},"data":"text"}"#,
            400,
            "BadRequest",
        ),
        (
            "POST",
            maps,
            JSON,
            r#"{"metadata":{"name":7}}"#,
            400,
            "BadRequest",
        ),
        (
            "POST",
            maps,
            JSON,
            r#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"}}"#,
            400,
            "BadRequest",
        ),
        (
            "POST",
            maps,
            JSON,
            r#"{"apiVersion":"v2","kind":"ConfigMap","metadata":{"name":"a"}}"#,
            400,
            "BadRequest",
        ),
        ("POST", maps, JSON, &map("Upper_Case"), 422, "Invalid"),
        ("POST", maps, JSON, &map(""), 422, "Invalid"),
        (
            "POST",
            maps,
            JSON,
            r#"{"metadata":{"name":"a","namespace":"other"}}"#,
            400,
            "BadRequest",
        ),
        (
            "POST",
            maps,
            JSON,
            r#"{"metadata":{"name":"a","labels":{"-bad":"x"}}}"#,
            422,
            "Invalid",
        ),
        ("POST", maps, JSON, &large, 413, "RequestEntityTooLarge"),
        (
            "POST",
            maps,
            "text/html",
            &map("a"),
            415,
            "UnsupportedMediaType",
        ),
        (
            "POST",
            "/api/v1/namespaces/missing/configmaps",
            JSON,
            &map("a"),
            404,
            "NotFound",
        ),
        (
            "POST",
            pods,
            JSON,
            r#"{"metadata":{"name":"p"},"spec":{"containers":[]}}"#,
            422,
            "Invalid",
        ),
        (
            "POST",
            pods,
            JSON,
            r#"{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c"}]}}"#,
            422,
            "Invalid",
        ),
        (
            "POST",
            pods,
            JSON,
            r#"{"metadata":{"name":"p"},"spec":{"containers":{"name":"c"}}}"#,
            400,
            "BadRequest",
        ),
        (
            "GET",
            "/api/v1/namespaces/default/pods/none",
            JSON,
            "",
            404,
            "NotFound",
        ),
        (
            "GET",
            "/api/v1/namespaces/default/pods?labelSelector=a%3D%3D%3Db",
            JSON,
            "",
            400,
            "BadRequest",
        ),
        (
            "GET",
            "/api/v1/namespaces/default/pods?fieldSelector=spec.nope%3Dx",
            JSON,
            "",
            400,
            "BadRequest",
        ),
        (
            "GET",
            "/api/v1/namespaces/default/pods?resourceVersion=abc",
            JSON,
            "",
            400,
            "BadRequest",
        ),
        (
            "GET",
            "/api/v1/namespaces/default/pods?continue=%21%21",
            JSON,
            "",
            400,
            "BadRequest",
        ),
        (
            "GET",
            "/api/v1/namespaces/default/pods?timeout=soon",
            JSON,
            "",
            400,
            "BadRequest",
        ),
        (
            "PUT",
            "/api/v1/namespaces/default/configmaps/none",
            JSON,
            &map("none"),
            404,
            "NotFound",
        ),
        (
            "PUT",
            "/api/v1/namespaces/default/configmaps/a",
            JSON,
            &map("b"),
            400,
            "BadRequest",
        ),
        (
            "PATCH",
            "/api/v1/namespaces/default/configmaps/none",
            "application/merge-patch+json",
            "{}",
            404,
            "NotFound",
        ),
        (
            "PATCH",
            "/api/v1/namespaces/kube-system",
            "application/json",
            "{}",
            415,
            "UnsupportedMediaType",
        ),
        (
            "PATCH",
            "/api/v1/namespaces/default",
            "application/json-patch+json",
            "{}",
            400,
            "BadRequest",
        ),
        (
            "DELETE",
            "/api/v1/namespaces/default/configmaps/none",
            JSON,
            "",
            404,
            "NotFound",
        ),
        (
            "DELETE",
            "/api/v1/namespaces/kube-system",
            JSON,
            "",
            403,
            "Forbidden",
        ),
        (
            "POST",
            "/api/v1/namespaces/default/pods/none/binding",
            JSON,
            r#"{"target":{"name":"node-0"}}"#,
            404,
            "NotFound",
        ),
        (
            "POST",
            "/api/v1/namespaces/default/configmaps/a",
            JSON,
            &map("a"),
            405,
            "MethodNotAllowed",
        ),
        (
            "PUT",
            "/api/v1/namespaces/default/configmaps",
            JSON,
            &map("a"),
            405,
            "MethodNotAllowed",
        ),
    ];
    let mut wrong = Vec::new();
    for (method, path, content_type, body, code, reason) in cases {
        match send(&client, method, path, content_type, body).await {
            Ok((got, status)) => {
                let is_status = status["kind"] == "Status"
                    && status["status"] == "Failure"
                    && status["code"] == got;
                if got != *code || status["reason"] != *reason || !is_status {
                    wrong.push(format!(
                        "{method} {path} {:.60}: wanted {code} {reason}, got {got} {status}",
                        body
                    ));
                }
            }
            Err(error) => wrong.push(format!("{method} {path} {:.60}: {error:#}", body)),
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(
        cluster.kubectl("get configmaps,pods,namespaces -A -o name")?,
        before,
        "a refused request changed something"
    );
    Ok(())
}

#[tokio::test]
async fn a_malformed_question_is_a_bad_request() -> Result<()> {
    let cluster = Cluster::start()?;
    let client = administrator(&cluster).await?;
    for path in [
        "/apis/authentication.k8s.io/v1/selfsubjectreviews",
        "/apis/authentication.k8s.io/v1/tokenreviews",
        "/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews",
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
        "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        "/api/v1/namespaces/default/pods/x/eviction",
        "/api/v1/namespaces/default/pods/x/binding",
        "/api/v1/namespaces/default/serviceaccounts/default/token",
    ] {
        for body in [
            "",
            "[]",
            "3",
            "null",
            r#""x""#,
            r#"{"metadata":3}"#,
            r#"{"metadata":[]}"#,
        ] {
            let (code, text) = send(&client, "POST", path, JSON, body).await?;
            assert_eq!(code, 400, "{path} {body}: {text}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn an_unknown_path_is_plain_text() -> Result<()> {
    let cluster = Cluster::start()?;
    let client = administrator(&cluster).await?;
    for path in [
        "/apis/none.example/v1/things",
        "/api/v1/nothings",
        "/nowhere",
    ] {
        let request = http::Request::get(path).body(kube::client::Body::empty())?;
        let response = client.send(request).await?;
        assert_eq!(response.status(), 404, "{path}");
        let bytes = response
            .into_body()
            .collect()
            .await
            .map_err(|e| anyhow::anyhow!("{e}"))?
            .to_bytes();
        assert_eq!(
            String::from_utf8_lossy(&bytes).trim_end(),
            "404 page not found",
            "{path}"
        );
    }
    Ok(())
}

#[test]
fn validation_names_every_wrong_field() -> Result<()> {
    let cluster = Cluster::start()?;
    let pod = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"bad"},"spec":{"restartPolicy":"Sometimes",
        "containers":[{"name":"UPPER","image":"i","ports":[{"containerPort":70000}]}]}}"#;
    let refused = cluster
        .kubectl_with_input("create -f - --validate=false", pod)?
        .refused()?;
    for text in [
        r#"The Pod "bad" is invalid:"#,
        r#"spec.containers[0].name: Invalid value: "UPPER""#,
        "spec.containers[0].ports[0].containerPort: Invalid value: 70000",
        r#"spec.restartPolicy: Unsupported value: "Sometimes""#,
    ] {
        ensure!(refused.contains(text), "{text:?} is missing in:\n{refused}");
    }
    let unknown = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"odd"},"spec":{"containerz":[],"containers":[{"name":"c","image":"i"}]}}"#;
    let refused = cluster
        .kubectl_with_input("create -f -", unknown)?
        .refused()?;
    ensure!(
        refused.contains(r#"unknown field "spec.containerz""#),
        "{refused}"
    );
    Ok(())
}
