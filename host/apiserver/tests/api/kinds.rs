//! What is peculiar to some kinds, seen through the whole pipeline.

use pilothouse_client::UserInfo;
use serde_json::{Value, json};

use crate::harness::Api;

const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";

#[tokio::test]
async fn what_is_served_is_listed_as_api_services() {
    let api = Api::start().await;
    let services = "/apis/apiregistration.k8s.io/v1/apiservices";
    let apps = api.get(&format!("{services}/v1.apps")).await.expect(200);
    assert_eq!(
        apps["spec"],
        json!({"group": "apps", "version": "v1", "groupPriorityMinimum": 17800, "versionPriority": 15})
    );
    assert_eq!(apps["status"]["conditions"][0]["status"], "True");
    let table = api
        .send("GET", services, &[("accept", TABLE)], "")
        .await
        .expect(200);
    let cells: Vec<&Value> = table["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| &row["cells"])
        .collect();
    let core = cells.iter().find(|cells| cells[0] == "v1.").unwrap();
    assert_eq!((&core[1], &core[2]), (&json!("Local"), &json!("True")));
    assert!(
        !cells
            .iter()
            .any(|cells| cells[0] == "v1.apiregistration.k8s.io")
    );

    let cidr = api
        .get("/apis/networking.k8s.io/v1/servicecidrs/kubernetes")
        .await
        .expect(200);
    assert_eq!(cidr["spec"]["cidrs"], json!(["10.96.0.0/16"]));
    assert_eq!(cidr["status"]["conditions"][0]["type"], "Ready");
}

#[tokio::test]
async fn put_makes_a_role_that_is_missing_but_no_ingress_class() {
    let api = Api::start().await;
    let path = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles/system:x";
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "system:x"},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
    });
    api.put(path, role.clone()).await.expect(201);
    api.put(path, role).await.expect(200);
    let class = json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "IngressClass",
        "metadata": {"name": "nginx"},
        "spec": {"controller": "example.com/nginx"},
    });
    api.put("/apis/networking.k8s.io/v1/ingressclasses/nginx", class)
        .await
        .refused(
            404,
            "NotFound",
            "ingressclasses.networking.k8s.io \"nginx\" not found",
        );
}

#[tokio::test]
async fn an_ingress_counts_generations_and_keeps_its_status() {
    let api = Api::start().await;
    let ingresses = "/apis/networking.k8s.io/v1/namespaces/default/ingresses";
    let ingress = json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {"name": "web"},
        "spec": {"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}},
    });
    let made = api.post(ingresses, ingress).await.expect(201);
    assert_eq!(made["metadata"]["generation"], 1);
    let path = format!("{ingresses}/web");
    let status = json!({"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}, "spec": {"ingressClassName": "x"}});
    let served = api
        .patch(&format!("{path}/status"), "merge", status)
        .await
        .expect(200);
    assert_eq!(
        served["status"]["loadBalancer"]["ingress"][0]["ip"],
        "192.0.2.1"
    );
    assert_eq!(
        (
            &served["metadata"]["generation"],
            &served["spec"]["ingressClassName"]
        ),
        (&json!(1), &Value::Null)
    );
    let change = json!({"status": {"loadBalancer": {}}, "spec": {"ingressClassName": "x"}});
    let changed = api.patch(&path, "merge", change).await.expect(200);
    assert_eq!(
        changed["status"]["loadBalancer"]["ingress"][0]["ip"],
        "192.0.2.1"
    );
    assert_eq!(changed["metadata"]["generation"], 2);
}

#[tokio::test]
async fn namespaces_are_not_deleted_by_the_dozen() {
    let api = Api::start().await;
    api.delete("/api/v1/namespaces").await.refused(
        405,
        "MethodNotAllowed",
        "does not allow this method",
    );
}

#[tokio::test]
async fn certificates_are_asked_for_approved_and_issued() {
    use base64::{Engine, engine::general_purpose::STANDARD};
    let api = Api::start().await;
    let key = rcgen::KeyPair::generate().unwrap();
    let parameters = rcgen::CertificateParams::new(vec!["alice.example.com".to_owned()]).unwrap();
    let pem = parameters.serialize_request(&key).unwrap().pem().unwrap();
    let requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let body = json!({
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": "alice"},
        "spec": {
            "request": STANDARD.encode(pem),
            "signerName": "example.com/signer",
            "usages": ["client auth"],
            "username": "somebody else",
        },
    });
    let admin = UserInfo::new("admin", &["system:masters"]);
    let made = api
        .send_as(&admin, "POST", requests, &[], &body.to_string())
        .await
        .expect(201);
    assert_eq!(made["spec"]["username"], "admin");
    let path = format!("{requests}/alice");
    let approve =
        json!({"status": {"conditions": [{"type": "Approved", "status": "True", "reason": "Ok"}]}});
    api.patch(&format!("{path}/status"), "merge", approve.clone())
        .await
        .refused(
            422,
            "Invalid",
            "updates may not add a condition of type \"Approved\"",
        );
    let ignored = api.patch(&path, "merge", approve.clone()).await.expect(200);
    assert_eq!(ignored["status"].get("conditions"), None);
    let approved = api
        .patch(&format!("{path}/approval"), "merge", approve)
        .await
        .expect(200);
    assert!(approved["status"]["conditions"][0]["lastUpdateTime"].is_string());
    let certificate = parameters.self_signed(&key).unwrap().pem();
    let issue = json!({"status": {"certificate": STANDARD.encode(certificate)}});
    api.patch(&format!("{path}/approval"), "merge", issue.clone())
        .await
        .expect(200);
    assert_eq!(
        api.get(&path).await.expect(200)["status"].get("certificate"),
        None
    );
    api.patch(&format!("{path}/status"), "merge", issue)
        .await
        .expect(200);
    let table = api
        .send("GET", requests, &[("accept", TABLE)], "")
        .await
        .expect(200);
    assert_eq!(table["rows"][0]["cells"][5], "Approved,Issued");
    let selected = format!("{requests}?fieldSelector=spec.signerName%3Dexample.com/other");
    assert_eq!(api.get(&selected).await.expect(200)["items"], json!([]));
}

#[tokio::test]
async fn the_fixed_priority_levels_are_there_and_stay_as_they_are() {
    let api = Api::start().await;
    let group = "/apis/flowcontrol.apiserver.k8s.io/v1";
    let levels: &[&str] = &[
        "catch-all",
        "exempt",
        "global-default",
        "leader-election",
        "node-high",
        "system",
        "workload-high",
        "workload-low",
    ];
    let schemas: &[&str] = &[
        "catch-all",
        "exempt",
        "global-default",
        "kube-controller-manager",
        "kube-scheduler",
        "kube-system-service-accounts",
        "probes",
        "service-accounts",
        "system-leader-election",
        "system-node-high",
        "system-nodes",
    ];
    for (resource, expected) in [
        ("prioritylevelconfigurations", levels),
        ("flowschemas", schemas),
    ] {
        let listed = api.get(&format!("{group}/{resource}")).await.expect(200);
        let names: Vec<&Value> = listed["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| &item["metadata"]["name"])
            .collect();
        assert_eq!(names, expected, "{resource}");
    }
    let change = json!({"spec": {"matchingPrecedence": 77}});
    api.patch(&format!("{group}/flowschemas/exempt"), "merge", change)
        .await
        .refused(
            422,
            "Invalid",
            "spec of 'exempt' must equal the fixed value",
        );
}
