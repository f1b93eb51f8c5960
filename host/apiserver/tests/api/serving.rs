//! How requests are let in, and how they are let finish: flow control and shutdown, over the network.

use std::{ops::RangeInclusive, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, client::conn::http1::SendRequest};
use hyper_util::rt::TokioExecutor;
use pilothouse_api::Status;
use pilothouse_apiserver::admission::{self, AdmissionChain, Mutation, NoAdmission, Phase};
use pilothouse_client::UserInfo;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::Semaphore,
    task::JoinHandle,
};

use crate::{
    harness::{Api, MAPS, config_map},
    tls::{Who, connect},
};

const FLOW: &str = "/apis/flowcontrol.apiserver.k8s.io/v1";

/// Holds requests up that create something with `slow` in its name, until it is opened; says how many have come.
struct Gate {
    come: Semaphore,
    open: Semaphore,
}

impl Gate {
    fn closed() -> Arc<Self> {
        Arc::new(Self {
            come: Semaphore::new(0),
            open: Semaphore::new(0),
        })
    }

    /// Waits until so many more are held up.
    async fn has_held(&self, requests: u32) {
        self.come.acquire_many(requests).await.unwrap().forget();
    }

    fn open(&self) {
        self.open.add_permits(1000);
    }
}

#[async_trait]
impl AdmissionChain for Gate {
    fn wants(&self, phase: Phase, _: &admission::Request) -> bool {
        phase == Phase::Validate
    }

    async fn mutate(
        &self,
        _: admission::Request,
        _: Option<admission::Readable<'_>>,
    ) -> Result<Mutation, Status> {
        unreachable!("it wants to validate")
    }

    async fn validate(&self, request: &admission::Request) -> Result<Vec<String>, Status> {
        if request.name.contains("slow") {
            self.come.add_permits(1);
            self.open.acquire().await.unwrap().forget();
        }
        Ok(Vec::new())
    }
}

/// A connection over which one request at a time goes, HTTP/1.1.
async fn dial(api: &Api) -> (SendRequest<Full<Bytes>>, JoinHandle<hyper::Result<()>>) {
    let io = connect(api, &Who::Nobody, false).await;
    let (sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
    (sender, tokio::spawn(connection))
}

fn request(token: &str, method: &str, path: &str, body: &Value) -> Request<Full<Bytes>> {
    let body = match body {
        Value::Null => Bytes::new(),
        body => body.to_string().into(),
    };
    Request::builder()
        .method(method)
        .uri(path)
        .header("host", "localhost")
        .header("authorization", format!("Bearer {token}"))
        .body(Full::new(body))
        .unwrap()
}

/// One request over its own connection.
async fn send(api: &Api, request: Request<Full<Bytes>>) -> Response<Incoming> {
    let (mut sender, _) = dial(api).await;
    sender.send_request(request).await.unwrap()
}

fn register(api: &Api) {
    for (token, user, groups) in [
        ("scheduler", "system:kube-scheduler", &[][..]),
        ("alice", "alice", &[]),
        ("root", "root", &["system:masters"]),
    ] {
        api.server
            .register_token(token, UserInfo::new(user, groups));
    }
}

#[tokio::test]
async fn answers_name_the_schema_and_the_level_that_they_are_charged_to() {
    let api = Api::start().await;
    register(&api);
    for (token, path, code, schema, level) in [
        ("alice", "/apis", 200, "global-default", "global-default"),
        ("alice", MAPS, 403, "global-default", "global-default"),
        ("alice", "/readyz", 200, "probes", "exempt"),
        ("root", MAPS, 200, "exempt", "exempt"),
        ("scheduler", MAPS, 200, "kube-scheduler", "workload-high"),
        (
            "scheduler",
            "/api/v1/pods?watch=1",
            200,
            "kube-scheduler",
            "workload-high",
        ),
    ] {
        let answer = send(&api, request(token, "GET", path, &Value::Null)).await;
        assert_eq!(answer.status(), code, "{token} {path}");
        for (header, resource, name) in [
            ("x-kubernetes-pf-flowschema-uid", "flowschemas", schema),
            (
                "x-kubernetes-pf-prioritylevel-uid",
                "prioritylevelconfigurations",
                level,
            ),
        ] {
            let object = api
                .get(&format!("{FLOW}/{resource}/{name}"))
                .await
                .expect(200);
            let uid = object["metadata"]["uid"].as_str().unwrap();
            assert_eq!(answer.headers()[header], uid, "{token} {path}");
        }
    }
    let nobody = send(&api, request("wrong", "GET", MAPS, &Value::Null)).await;
    assert_eq!(nobody.status(), 401);
    assert!(
        !nobody
            .headers()
            .contains_key("x-kubernetes-pf-flowschema-uid")
    );
}

#[tokio::test]
async fn a_level_that_is_full_refuses_and_nobody_else_notices() {
    let gate = Gate::closed();
    let api = Api::with_options(gate.clone(), |options| {
        options.max_requests_inflight = 4;
        options.max_mutating_requests_inflight = 4;
    })
    .await;
    register(&api);
    // all levels but one lend nothing, and that one does not let wait
    let levels = api
        .get(&format!("{FLOW}/prioritylevelconfigurations"))
        .await
        .expect(200);
    for level in levels["items"].as_array().unwrap() {
        let name = level["metadata"]["name"].as_str().unwrap();
        let spec = match name {
            "exempt" | "catch-all" => continue,
            "workload-high" => {
                json!({"lendablePercent": 0, "limitResponse": {"type": "Reject", "queuing": null}})
            }
            _ => json!({"lendablePercent": 0}),
        };
        let patch = json!({"spec": {"limited": spec}});
        let path = format!("{FLOW}/prioritylevelconfigurations/{name}");
        api.patch(&path, "merge", patch).await.expect(200);
    }
    // 8 seats, 40 of 245 shares: two, once all of the changes are known
    let mut held = Vec::new();
    let refused = loop {
        let name = format!("slow-{}", held.len());
        let (mut sender, _) = dial(&api).await;
        let create = request("scheduler", "POST", MAPS, &config_map(&name, "1"));
        let mut answer = tokio::spawn(async move { sender.send_request(create).await.unwrap() });
        tokio::select! {
            answer = &mut answer => break answer.unwrap(),
            () = gate.has_held(1) => held.push(answer),
        }
        assert!(held.len() < 100, "nobody is refused");
    };
    assert_eq!(refused.status(), 429);
    assert_eq!(refused.headers()["retry-after"], "1");
    let body = refused.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(body, "Too many requests, please try again later.\n");
    // others are served, so are exempt requests, and so is what stays open
    for (token, path, code) in [
        ("alice", "/apis", 200),
        ("root", MAPS, 200),
        ("scheduler", "/readyz", 200),
        ("scheduler", "/api/v1/pods?watch=1", 200),
        ("scheduler", MAPS, 429),
    ] {
        let answer = send(&api, request(token, "GET", path, &Value::Null)).await;
        assert_eq!(answer.status(), code, "{token} {path}");
    }
    gate.open();
    for answer in held {
        assert_eq!(answer.await.unwrap().status(), 201);
    }
    let answer = send(&api, request("scheduler", "GET", MAPS, &Value::Null)).await;
    assert_eq!(answer.status(), 200);
}

#[tokio::test]
async fn writes_under_way_are_finished_when_the_server_stops() {
    let gate = Gate::closed();
    let api = Api::with_admission(gate.clone()).await;
    register(&api);
    let (transport, admin) = (
        api.server.transport(),
        UserInfo::new("root", &["system:masters"]),
    );
    // one over a connection of its own, with an idle one beside it, and one over HTTP/2
    let (mut idle, idle_connection) = dial(&api).await;
    let ready = idle
        .send_request(request("root", "GET", "/readyz", &Value::Null))
        .await
        .unwrap();
    ready.into_body().collect().await.unwrap();
    let (mut sender, connection) = dial(&api).await;
    let create = request("root", "POST", MAPS, &config_map("slow-1", "1"));
    let first = tokio::spawn(async move { sender.send_request(create).await.unwrap() });
    let io = connect(&api, &Who::Admin, true).await;
    let (mut sender, connection2) = hyper::client::conn::http2::handshake(TokioExecutor::new(), io)
        .await
        .unwrap();
    let connection2 = tokio::spawn(connection2);
    let create = Request::post(format!("https://localhost{MAPS}"));
    let body = config_map("slow-2", "1").to_string();
    let create = create.body(Full::new(Bytes::from(body))).unwrap();
    let second = tokio::spawn(async move { sender.send_request(create).await.unwrap() });
    gate.has_held(2).await;

    let Api { server, dir, .. } = api;
    let stopping = tokio::spawn(server.shutdown());
    idle_connection.await.unwrap().unwrap();
    assert!(!stopping.is_finished());
    gate.open();
    let first = first.await.unwrap();
    assert_eq!(first.status(), 201);
    assert_eq!(first.headers()["connection"], "close");
    assert_eq!(second.await.unwrap().status(), 201);
    connection.await.unwrap().unwrap();
    connection2.await.unwrap().unwrap();
    stopping.await.unwrap();
    let list = Request::get(MAPS).body(Bytes::new()).unwrap();
    let list = pilothouse_client::Transport::send(&transport, &admin, list)
        .await
        .unwrap();
    let list = list.into_body().collect().await.unwrap().to_bytes();
    let list: Value = serde_json::from_slice(&list).unwrap();
    assert_eq!(list["items"].as_array().unwrap().len(), 2);
    drop(dir);
}

#[tokio::test]
async fn an_http2_client_is_told_to_go_away() {
    const GOAWAY: u8 = 7;
    let api = Api::start().await;
    let mut io = connect(&api, &Who::Admin, true).await.into_inner();
    // the preface and empty settings. Source: RFC 9113, 3.4
    io.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
        .await
        .unwrap();
    io.flush().await.unwrap();
    let mut kinds = Vec::new();
    let mut stopping = None;
    let Api { server, dir, .. } = api;
    let mut server = Some(server);
    while !kinds.contains(&GOAWAY) {
        let mut head = [0; 9];
        io.read_exact(&mut head).await.unwrap();
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        io.read_exact(&mut payload).await.unwrap();
        kinds.push(head[3]);
        if head[3] == GOAWAY {
            assert_eq!(payload[4..8], [0; 4], "without an error");
        }
        if let Some(server) = server.take() {
            stopping = Some(tokio::spawn(server.shutdown()));
        }
    }
    drop(io);
    stopping.unwrap().await.unwrap();
    drop(dir);
}

#[tokio::test]
async fn while_it_is_leaving_a_server_is_not_ready_and_serves_on() {
    let api = Api::with_options(Arc::new(NoAdmission), |options| {
        options.shutdown_delay = Duration::from_millis(300);
    })
    .await;
    register(&api);
    let (mut sender, _) = dial(&api).await;
    let Api { server, dir, .. } = api;
    let address = server.address();
    let stopping = tokio::spawn(server.shutdown());
    tokio::task::yield_now().await;
    for (path, code) in [("/readyz", 500), ("/livez", 200), (MAPS, 200)] {
        let answer = sender
            .send_request(request("root", "GET", path, &Value::Null))
            .await
            .unwrap();
        assert_eq!(answer.status(), code, "{path}");
        assert!(!answer.headers().contains_key("connection"), "{path}");
        answer.into_body().collect().await.unwrap();
    }
    tokio::net::TcpStream::connect(address).await.unwrap();
    stopping.await.unwrap();
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
    drop(dir);
}

#[tokio::test]
async fn what_cannot_be_used_is_said_at_start() {
    use pilothouse_apiserver::{ApiServer, ApiServerOptions};
    use pilothouse_storage::{Embedded, EmbeddedOptions};

    let dir = tempfile::tempdir().unwrap();
    let junk = dir.path().join("junk");
    std::fs::write(&junk, "only-a-token\n").unwrap();
    let storage = Arc::new(Embedded::open(EmbeddedOptions::new(dir.path().join("db"))).unwrap());
    let cases: [(&dyn Fn(&mut ApiServerOptions), &str); 9] = [
        (
            &|o| o.token_auth_file = Some(junk.clone()),
            "junk: line 1: fewer than the fields",
        ),
        (
            &|o| o.token_auth_file = Some("none".into()),
            "none: No such file",
        ),
        (
            &|o| o.client_ca_file = Some(junk.clone()),
            "--client-ca-file",
        ),
        (
            &|o| o.client_ca_file = Some("none".into()),
            "none: No such file",
        ),
        (
            &|o| o.service_node_port_range = RangeInclusive::new(3000, 2000),
            "--service-node-port-range 3000-2000",
        ),
        (
            &|o| o.service_node_port_range = 0..=10,
            "--service-node-port-range 0-10",
        ),
        (
            &|o| o.service_cluster_ip_ranges.clear(),
            "--service-cluster-ip-range",
        ),
        (
            &|o| {
                o.service_cluster_ip_ranges = ["10.0.0.0/16", "10.1.0.0/16"]
                    .map(|r| r.parse().unwrap())
                    .to_vec()
            },
            "--service-cluster-ip-range must be one range, or one of IPv4 and one of IPv6",
        ),
        (
            &|o| (o.max_requests_inflight, o.max_mutating_requests_inflight) = (0, 0),
            "--max-requests-inflight",
        ),
    ];
    for (change, why) in cases {
        let mut options = crate::harness::options(dir.path());
        change(&mut options);
        let started = ApiServer::start(options, storage.clone(), Arc::new(NoAdmission)).await;
        let refused = started.err().unwrap().to_string();
        assert!(
            refused.contains(why),
            "{refused:?} does not contain {why:?}"
        );
    }
}
