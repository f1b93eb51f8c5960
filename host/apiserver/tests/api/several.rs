//! Two API servers over one storage: numbers are given out once, and the kubernetes Service has both as endpoints.

use std::{collections::HashSet, net::IpAddr};

use serde_json::{Value, json};

use crate::harness::Api;

const SERVICES: &str = "/api/v1/namespaces/default/services";
const ADDRESSES: &str = "/apis/networking.k8s.io/v1/ipaddresses";
const ENDPOINTS: &str = "/api/v1/namespaces/default/endpoints/kubernetes";
const SLICE: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes";

fn service(name: &str, kind: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": { "name": name },
        "spec": { "type": kind, "ports": [{ "port": 80 }] },
    })
}

fn with_ip(name: &str, ip: &str) -> Value {
    let mut service = service(name, "ClusterIP");
    service["spec"]["clusterIP"] = json!(ip);
    service
}

#[tokio::test]
async fn no_number_is_given_out_twice() {
    let one = Api::start().await;
    let other = one.another(None).await;
    let mut ips = HashSet::new();
    let mut ports = HashSet::new();
    // both begin with the same free numbers, at the same time
    for n in 0..15 {
        let (a, b) = tokio::join!(
            one.post(SERVICES, service(&format!("a{n}"), "NodePort")),
            other.post(SERVICES, service(&format!("b{n}"), "NodePort")),
        );
        for created in [a.expect(201), b.expect(201)] {
            let spec = &created["spec"];
            assert!(ips.insert(spec["clusterIP"].to_string()), "{spec}");
            assert!(
                ports.insert(spec["ports"][0]["nodePort"].to_string()),
                "{spec}"
            );
        }
    }
    let (a, b) = tokio::join!(
        one.post(SERVICES, with_ip("mine", "10.96.0.50")),
        other.post(SERVICES, with_ip("yours", "10.96.0.50")),
    );
    let refused = match (a.code, b.code) {
        (201, _) => b,
        _ => {
            a.refused(422, "Invalid", "provided IP is already allocated");
            assert_eq!(b.code, 201);
            a
        }
    };
    refused.refused(422, "Invalid", "provided IP is already allocated");
    let taken = one
        .get(&format!("{ADDRESSES}/10.96.0.50"))
        .await
        .expect(200);
    assert_eq!(taken["spec"]["parentRef"]["resource"], "services");
    assert_eq!(
        taken["metadata"]["labels"],
        json!({
            "ipaddress.kubernetes.io/ip-family": "IPv4",
            "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
        })
    );
}

#[tokio::test]
async fn what_one_server_gives_back_the_other_may_give_out() {
    let one = Api::start().await;
    let other = one.another(None).await;
    let mut wanted = with_ip("first", "10.96.0.60");
    wanted["spec"]["type"] = json!("NodePort");
    wanted["spec"]["ports"][0]["nodePort"] = json!(30080);
    one.post(SERVICES, wanted.clone()).await.expect(201);
    wanted["metadata"]["name"] = json!("second");
    other
        .post(SERVICES, wanted.clone())
        .await
        .refused(422, "Invalid", "already allocated");
    // by becoming another type, then by going
    let patch =
        json!({ "spec": { "type": "ClusterIP", "ports": [{ "port": 80, "nodePort": null }] } });
    let first = format!("{SERVICES}/first");
    one.patch(&first, "merge", patch).await.expect(200);
    one.delete(&first).await.expect(200);
    let address = format!("{ADDRESSES}/10.96.0.60");
    other
        .get(&address)
        .await
        .refused(404, "NotFound", "10.96.0.60");
    other.get(SERVICES).await.expect(200); // has seen it go
    let created = other.eventually_post(SERVICES, wanted).await;
    assert_eq!(created["spec"]["clusterIP"], "10.96.0.60");
    assert_eq!(created["spec"]["ports"][0]["nodePort"], 30080);
    let owner = one.get(&address).await.expect(200);
    assert_eq!(owner["spec"]["parentRef"]["name"], "second");
}

#[tokio::test]
async fn the_kubernetes_service_has_the_servers_that_are_alive() {
    let first: IpAddr = [192, 0, 2, 1].into();
    let second: IpAddr = [192, 0, 2, 2].into();
    let nowhere = Api::start().await; // on the loopback: no endpoint
    nowhere.get(ENDPOINTS).await.refused(404, "NotFound", "");
    let one = nowhere.another(Some(first)).await;
    let other = one.another(Some(second)).await;
    let expect = async |api: &Api, expected: &[IpAddr]| {
        let endpoints = api.get(ENDPOINTS).await.expect(200);
        let addresses: Vec<Value> = expected.iter().map(|ip| json!({ "ip": ip })).collect();
        assert_eq!(endpoints["subsets"][0]["addresses"], json!(addresses));
        assert_eq!(endpoints["subsets"][0]["ports"][0]["name"], "https");
        let slice = api.get(SLICE).await.expect(200);
        let shown = slice["endpoints"].as_array().unwrap();
        let shown: Vec<&Value> = shown.iter().map(|e| &e["addresses"][0]).collect();
        assert_eq!(json!(shown), json!(expected));
    };
    expect(&one, &[first, second]).await;
    let lease = "/registry/masterleases/192.0.2.1";
    let kept = one.storage().get(lease, None).await.unwrap().kv.unwrap();
    assert_ne!(kept.lease.0, 0, "it runs out by itself");
    one.server.shutdown().await;
    expect(&other, &[second]).await;
}
