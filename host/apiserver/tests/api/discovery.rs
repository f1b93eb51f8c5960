//! What the server says about itself.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{facts, harness::Api};

const AGGREGATED: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

fn named<'a>(list: &'a Value, key: &str, name: &str) -> &'a Value {
    let rows = list.as_array().unwrap();
    rows.iter()
        .find(|row| row[key] == name)
        .unwrap_or(&Value::Null)
}

#[tokio::test]
async fn the_old_lists_name_everything() {
    let api = Api::start().await;
    assert_eq!(api.get("/api").await.expect(200)["versions"], json!(["v1"]));
    let groups = api.get("/apis").await.expect(200);
    let apps = named(&groups["groups"], "name", "apps");
    assert_eq!(
        apps["preferredVersion"],
        json!({ "groupVersion": "apps/v1", "version": "v1" })
    );
    assert_eq!(api.get("/apis/apps").await.expect(200)["kind"], "APIGroup");
    let core = api.get("/api/v1").await.expect(200);
    assert_eq!(
        (&core["kind"], &core["groupVersion"]),
        (&json!("APIResourceList"), &json!("v1"))
    );
    let pods = named(&core["resources"], "name", "pods");
    assert_eq!(
        (
            &pods["shortNames"],
            &pods["categories"],
            &pods["namespaced"]
        ),
        (&json!(["po"]), &json!(["all"]), &json!(true))
    );
    assert_eq!(
        pods["verbs"],
        json!([
            "create",
            "delete",
            "deletecollection",
            "get",
            "list",
            "patch",
            "update",
            "watch"
        ])
    );
    for (name, kind) in [
        ("pods/binding", "Binding"),
        ("pods/eviction", "Eviction"),
        ("pods/status", "Pod"),
        ("namespaces/finalize", "Namespace"),
        ("bindings", "Binding"),
    ] {
        assert_eq!(
            named(&core["resources"], "name", name)["kind"],
            kind,
            "{name}"
        );
    }
    let scale = api.get("/apis/apps/v1").await.expect(200);
    let scale = named(&scale["resources"], "name", "deployments/scale").clone();
    assert_eq!(
        (&scale["group"], &scale["version"], &scale["kind"]),
        (&json!("autoscaling"), &json!("v1"), &json!("Scale"))
    );
}

#[tokio::test]
async fn the_aggregated_form_is_tagged() {
    let api = Api::start().await;
    for path in ["/api", "/apis"] {
        let answer = api.send("GET", path, &[("accept", AGGREGATED)], "").await;
        assert_eq!(
            answer.header("content-type"),
            "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        );
        assert_eq!(answer.header("vary"), "Accept");
        let list = answer.expect(200);
        assert_eq!(
            (&list["kind"], &list["apiVersion"]),
            (
                &json!("APIGroupDiscoveryList"),
                &json!("apidiscovery.k8s.io/v2")
            )
        );
        let etag = answer.header("etag").to_owned();
        let again = api
            .send(
                "GET",
                path,
                &[("accept", AGGREGATED), ("if-none-match", &etag)],
                "",
            )
            .await;
        assert_eq!((again.code, again.body.len()), (304, 0));
    }
    let core = api
        .send("GET", "/api", &[("accept", AGGREGATED)], "")
        .await
        .json();
    let pods = named(
        &core["items"][0]["versions"][0]["resources"],
        "resource",
        "pods",
    );
    assert_eq!(
        (&pods["scope"], &pods["singularResource"]),
        (&json!("Namespaced"), &json!("pod"))
    );
    assert_eq!(
        named(&pods["subresources"], "subresource", "status")["verbs"],
        json!(["get", "patch", "update"])
    );
}

/// `Kind` or `group/version/Kind`, as the table of facts writes the kind of a subresource.
fn kind_of(response_kind: &Value, group: &str, version: &str) -> String {
    let text = |key: &str| response_kind[key].as_str().unwrap_or_default().to_owned();
    match (text("group") == group, text("version") == version) {
        (true, true) => text("kind"),
        _ => format!("{}/{}/{}", text("group"), text("version"), text("kind")),
    }
}

#[tokio::test]
async fn discovery_is_that_of_kubernetes() {
    let api = Api::start().await;
    let mut rows: BTreeMap<(String, String, String), Value> = BTreeMap::new();
    let mut order: Vec<String> = Vec::new();
    for path in ["/api", "/apis"] {
        let list = api
            .send("GET", path, &[("accept", AGGREGATED)], "")
            .await
            .expect(200);
        for group in list["items"].as_array().unwrap() {
            let name = group["metadata"]["name"].as_str().unwrap_or_default();
            order.push(name.to_owned());
            for version in group["versions"].as_array().unwrap() {
                let text = version["version"].as_str().unwrap();
                for row in version["resources"].as_array().unwrap() {
                    let resource = row["resource"].as_str().unwrap();
                    let key = (name.to_owned(), text.to_owned(), resource.to_owned());
                    rows.insert(key, row.clone());
                }
            }
        }
    }
    let empty = || json!([]);
    let list = |row: &Value, key: &str| row.get(key).cloned().unwrap_or_else(empty);
    let facts = facts::facts();
    for fact in &facts {
        let key = (
            fact.group.to_owned(),
            fact.version.to_owned(),
            fact.resource.to_owned(),
        );
        let Some(row) = rows.remove(&key) else {
            assert!(!fact.served, "{key:?} is not served");
            continue;
        };
        let scope = if fact.namespaced {
            "Namespaced"
        } else {
            "Cluster"
        };
        assert_eq!(row["scope"], scope, "{key:?}");
        assert_eq!(
            row["responseKind"],
            json!({"group": fact.group, "version": fact.version, "kind": fact.kind}),
            "{key:?}"
        );
        assert_eq!(row["singularResource"], fact.kind.to_lowercase(), "{key:?}");
        assert_eq!(row["verbs"], json!(fact.verbs), "{key:?}");
        assert_eq!(list(&row, "shortNames"), json!(fact.short_names), "{key:?}");
        assert_eq!(list(&row, "categories"), json!(fact.categories), "{key:?}");
        let mut below: BTreeMap<String, Value> = list(&row, "subresources")
            .as_array()
            .unwrap()
            .iter()
            .map(|row| (row["subresource"].as_str().unwrap().to_owned(), row.clone()))
            .collect();
        for subresource in &fact.subresources {
            let Some(row) = below.remove(subresource.name) else {
                assert!(
                    !subresource.served,
                    "{key:?}/{} is not served",
                    subresource.name
                );
                continue;
            };
            let kind = kind_of(&row["responseKind"], fact.group, fact.version);
            assert_eq!(kind, subresource.kind, "{key:?}/{}", subresource.name);
            assert_eq!(
                row["verbs"],
                json!(subresource.verbs),
                "{key:?}/{}",
                subresource.name
            );
        }
        assert!(
            below.is_empty(),
            "{key:?} has {below:?}, which Kubernetes has not"
        );
    }
    rows.retain(|(group, ..), _| group != "plugins.pilothouse.dev");
    assert!(rows.is_empty(), "{:?} are not of v1.36", rows.keys());

    let mut expected: Vec<&str> = Vec::new();
    for fact in facts
        .iter()
        .filter(|fact| order.iter().any(|group| group == fact.group))
    {
        if !expected.contains(&fact.group) {
            expected.push(fact.group);
        }
    }
    assert_eq!(order[..expected.len()], expected, "the order of groups");
}

#[tokio::test]
async fn health_version_and_metrics_are_there() {
    let api = Api::start().await;
    for path in ["/healthz", "/livez", "/readyz", "/readyz/ping"] {
        let answer = api.get(path).await;
        assert_eq!((answer.code, answer.text().as_str()), (200, "ok"), "{path}");
    }
    let verbose = api.get("/readyz?verbose").await.text();
    assert!(
        verbose.contains("[+]etcd ok\n")
            && verbose.contains("[+]informer-sync ok\n")
            && verbose.ends_with("readyz check passed\n"),
        "{verbose}"
    );
    assert_eq!(api.get("/readyz/nothing").await.code, 404);
    let version = api.get("/version").await.expect(200);
    assert_eq!(
        (&version["major"], &version["minor"]),
        (&json!("1"), &json!("36"))
    );
    assert!(
        version["gitVersion"]
            .as_str()
            .unwrap()
            .starts_with("v1.36.")
    );
    api.get("/api/v1/namespaces/default").await.expect(200);
    let metrics = api.get("/metrics").await.text();
    let line = metrics.lines().find(|l| {
        l.starts_with("apiserver_request_total") && l.contains("resource=\"namespaces\"")
    });
    let line = line.unwrap_or_else(|| panic!("{metrics}"));
    assert!(
        line.contains("verb=\"GET\"") && line.contains("code=\"200\"") && line.ends_with(" 1"),
        "{line}"
    );
}

#[tokio::test]
async fn schemas_are_hashed() {
    let api = Api::start().await;
    let index = api.get("/openapi/v3").await.expect(200);
    let url = index["paths"]["apis/apps/v1"]["serverRelativeURL"]
        .as_str()
        .unwrap();
    let document = api.get(url).await;
    assert!(document.header("cache-control").contains("immutable"));
    assert!(
        document.expect(200)["components"]["schemas"]["io.k8s.api.apps.v1.Deployment"].is_object()
    );
    let wrong = api.get("/openapi/v3/apis/apps/v1?hash=00").await;
    assert_eq!((wrong.code, wrong.header("location")), (301, url));
    assert_eq!(api.get("/openapi/v3/apis/none/v1").await.code, 404);
}

#[tokio::test]
async fn documents_that_are_known_are_not_sent_again() {
    let api = Api::start().await;
    for path in ["/openapi/v2", "/openapi/v3/api/v1"] {
        let document = api.get(path).await;
        assert_eq!(document.code, 200, "{path}");
        assert!(document.header("vary").contains("Accept"), "{path}");
        let etag = document.header("etag").to_owned();
        for (known, code) in [
            (etag.as_str(), 304),
            ("\"other\"", 200),
            (&format!("\"x\", W/{etag}"), 304),
        ] {
            let again = api.send("GET", path, &[("if-none-match", known)], "").await;
            assert_eq!(
                (again.code, again.body.is_empty()),
                (code, code == 304),
                "{path} {known}"
            );
            assert_eq!(again.header("etag"), etag, "{path}");
        }
    }
    let v2 = api.get("/openapi/v2").await.expect(200);
    assert_eq!(v2["swagger"], "2.0");
    let accept = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
    let binary = api
        .send("GET", "/openapi/v2", &[("accept", accept)], "")
        .await;
    assert!(
        binary
            .header("content-type")
            .starts_with("application/com.github.proto-openapi.spec.v2")
    );
    assert!(
        binary.body.starts_with(b"\x0a\x032.0"),
        "the first field is the version"
    );
    let paths = v2["paths"].as_object().unwrap();
    assert!(paths.contains_key("/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale"));
}

#[tokio::test]
async fn checks_are_excluded_by_name() {
    let api = Api::start().await;
    let report = api
        .get("/readyz?verbose&exclude=etcd&exclude=unknown")
        .await;
    let expected = "[+]ping ok\n[+]etcd excluded: ok\n[+]informer-sync ok\n[+]shutdown ok\n\
        warn: some health checks cannot be excluded: no matches for \"unknown\"\nreadyz check passed\n";
    assert_eq!((report.code, report.text().as_str()), (200, expected));
    let live = api.get("/livez?verbose=false").await.text();
    assert_eq!(live, "[+]ping ok\n[+]etcd ok\nlivez check passed\n");
    for (path, code) in [
        ("/readyz/etcd", 200),
        ("/readyz/shutdown", 200),
        ("/livez/shutdown", 404),
    ] {
        assert_eq!(api.get(path).await.code, code, "{path}");
    }
}

#[tokio::test]
async fn metrics_have_the_names_that_dashboards_ask_for() {
    let api = Api::start().await;
    let path = "/api/v1/namespaces/default/configmaps";
    let map = json!({ "metadata": { "name": "a" } });
    api.post(path, map.clone()).await.expect(201);
    api.post(&format!("{path}?dryRun=All"), map)
        .await
        .expect(409);
    api.get(path).await.expect(200);
    let mut watch = api.watch(&format!("{path}?watch=1"), &[]).await;
    watch.next().await.unwrap();
    api.delete(&format!("{path}/a")).await.expect(200);
    watch.next().await.unwrap();
    let answer = api.get("/metrics").await;
    assert_eq!(
        answer.header("content-type"),
        "text/plain; version=0.0.4; charset=utf-8"
    );
    let text = answer.text();
    let of = |labels: &str| format!("group=\"\",version=\"v1\",resource=\"configmaps\"{labels}");
    let lines = [
        "# TYPE apiserver_request_total counter".to_owned(),
        format!(
            "apiserver_request_total{{verb=\"POST\",dry_run=\"\",{},code=\"201\"}} 1",
            of(",subresource=\"\",scope=\"resource\",component=\"apiserver\"")
        ),
        format!(
            "apiserver_request_total{{verb=\"POST\",dry_run=\"All\",{},code=\"409\"}} 1",
            of(",subresource=\"\",scope=\"resource\",component=\"apiserver\"")
        ),
        format!(
            "apiserver_response_sizes_count{{verb=\"LIST\",{}}} 1",
            of(",subresource=\"\",scope=\"namespace\",component=\"apiserver\"")
        ),
        format!(
            "apiserver_request_duration_seconds_count{{verb=\"LIST\",{}}} 1",
            of(",subresource=\"\",scope=\"namespace\",component=\"apiserver\"")
        ),
        format!(
            "apiserver_longrunning_requests{{verb=\"WATCH\",{}}} 1",
            of(",subresource=\"\",scope=\"namespace\",component=\"apiserver\"")
        ),
        format!("apiserver_watch_events_total{{{}}} 1", of("")),
        "apiserver_resource_objects{group=\"\",resource=\"configmaps\"} 0".to_owned(),
        "apiserver_current_inflight_requests{request_kind=\"mutating\"} 0".to_owned(),
    ];
    for line in &lines {
        assert!(
            text.lines().any(|found| found == line),
            "{line} is missing in\n{text}"
        );
    }
    assert!(
        text.contains("kubernetes_build_info{major=\"1\",minor=\"36\","),
        "{text}"
    );
    let wanted = [("accept", "application/openmetrics-text")];
    let open = api.send("GET", "/metrics", &wanted, "").await;
    assert!(
        open.header("content-type")
            .starts_with("application/openmetrics-text")
    );
    assert!(open.text().ends_with("# EOF\n"));
}

#[tokio::test]
async fn the_first_objects_are_there() {
    let api = Api::start().await;
    for path in [
        "/api/v1/namespaces/default",
        "/api/v1/namespaces/kube-system",
        "/api/v1/namespaces/kube-public",
        "/api/v1/namespaces/kube-node-lease",
        "/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical",
        "/apis/scheduling.k8s.io/v1/priorityclasses/system-cluster-critical",
    ] {
        api.get(path).await.expect(200);
    }
    let service = api
        .get("/api/v1/namespaces/default/services/kubernetes")
        .await
        .expect(200);
    assert_eq!(service["spec"]["clusterIP"], "10.96.0.1");
}
