//! Over the network: TLS, both HTTP versions, certificates and tokens, restarts.

use std::{fs, path::Path, sync::Arc};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use pilothouse_client::{Transport, UserInfo};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::harness::{Api, MAPS, config_map};

/// How a client shows who it is.
pub(crate) enum Who<'a> {
    Nobody,
    Token(&'a str),
    Admin,
}

fn client(dir: &Path, who: &Who<'_>, http2: bool) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    let ca = fs::read(dir.join("pki/ca.crt")).unwrap();
    roots
        .add(CertificateDer::from_pem_slice(&ca).unwrap())
        .unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match who {
        Who::Admin => {
            let certificate = fs::read(dir.join("pki/admin.crt")).unwrap();
            let key = fs::read(dir.join("pki/admin.key")).unwrap();
            let chain = vec![CertificateDer::from_pem_slice(&certificate).unwrap()];
            builder
                .with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(&key).unwrap())
                .unwrap()
        }
        Who::Nobody | Who::Token(_) => builder.with_no_client_auth(),
    };
    let protocol: &[u8] = if http2 { b"h2" } else { b"http/1.1" };
    config.alpn_protocols = vec![protocol.to_vec()];
    config
}

/// A connection after its handshake.
pub(crate) async fn connect(
    api: &Api,
    who: &Who<'_>,
    http2: bool,
) -> TokioIo<TlsStream<TcpStream>> {
    let connector = TlsConnector::from(Arc::new(client(api.dir.path(), who, http2)));
    let stream = TcpStream::connect(api.server.address()).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    TokioIo::new(connector.connect(name, stream).await.unwrap())
}

/// One request over its own connection.
async fn request(
    api: &Api,
    who: Who<'_>,
    http2: bool,
    method: &str,
    path: &str,
    body: &str,
) -> (u16, String) {
    let io = connect(api, &who, http2).await;
    let mut request = Request::builder().method(method);
    if let Who::Token(token) = who {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let body = Full::new(Bytes::copy_from_slice(body.as_bytes()));
    let response = match http2 {
        true => {
            let (mut sender, connection) =
                hyper::client::conn::http2::handshake(TokioExecutor::new(), io)
                    .await
                    .unwrap();
            tokio::spawn(connection);
            let request = request
                .uri(format!("https://localhost{path}"))
                .body(body)
                .unwrap();
            sender.send_request(request).await.unwrap()
        }
        false => {
            let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
            tokio::spawn(connection);
            let request = request
                .uri(path)
                .header("host", "localhost")
                .body(body)
                .unwrap();
            sender.send_request(request).await.unwrap()
        }
    };
    let code = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (code, String::from_utf8_lossy(&body).into_owned())
}

#[tokio::test]
async fn certificates_and_tokens_say_who_it_is() {
    let api = Api::start().await;
    api.server
        .register_token("secret", UserInfo::new("system:kube-scheduler", &[]));
    api.server.register_token("weak", UserInfo::new("x", &[]));
    let map = config_map("a", "1").to_string();
    for http2 in [false, true] {
        let name = config_map(if http2 { "h2" } else { "h1" }, "1").to_string();
        assert_eq!(
            request(&api, Who::Admin, http2, "POST", MAPS, &name)
                .await
                .0,
            201
        );
        assert_eq!(
            request(&api, Who::Token("secret"), http2, "GET", MAPS, "")
                .await
                .0,
            200
        );
        let (code, body) = request(&api, Who::Token("weak"), http2, "POST", MAPS, &map).await;
        assert_eq!(code, 403);
        assert!(body.contains("cannot create resource"), "{body}");
        let (code, body) = request(&api, Who::Token("wrong"), http2, "GET", MAPS, "").await;
        assert_eq!(code, 401);
        assert!(body.contains("\"reason\":\"Unauthorized\""), "{body}");
        assert_eq!(
            request(&api, Who::Nobody, http2, "GET", MAPS, "").await.0,
            401
        );
        assert_eq!(
            request(&api, Who::Nobody, http2, "GET", "/readyz", "")
                .await
                .0,
            200
        );
        assert_eq!(
            request(&api, Who::Nobody, http2, "GET", "/version", "")
                .await
                .0,
            200
        );
    }
}

/// A watch over a WebSocket.
struct WebSocket(TokioIo<hyper::upgrade::Upgraded>);

impl WebSocket {
    /// Shakes hands; the answer is the protocol that the server chose, or the code of its refusal.
    async fn open(
        api: &Api,
        who: Who<'_>,
        path: &str,
        headers: &[(&str, &str)],
    ) -> Result<(Self, String), u16> {
        let io = connect(api, &who, false).await;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
        tokio::spawn(connection.with_upgrades());
        let mut request = Request::get(path)
            .header("host", "localhost")
            .header("connection", "Upgrade")
            .header("upgrade", "websocket")
            .header("sec-websocket-version", "13")
            .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(Bytes::new())).unwrap();
        let response = sender.send_request(request).await.unwrap();
        if response.status() != 101 {
            return Err(response.status().as_u16());
        }
        assert_eq!(
            response.headers()["sec-websocket-accept"],
            "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
        );
        let protocol = response.headers().get("sec-websocket-protocol");
        let protocol = protocol.map_or("", |p| p.to_str().unwrap()).to_owned();
        let upgraded = hyper::upgrade::on(response).await.unwrap();
        Ok((Self(TokioIo::new(upgraded)), protocol))
    }

    /// The kind and the data of the next frame.
    async fn next(&mut self) -> (u8, Vec<u8>) {
        let kind = self.0.read_u8().await.unwrap();
        let length = match self.0.read_u8().await.unwrap() {
            126 => u64::from(self.0.read_u16().await.unwrap()),
            127 => self.0.read_u64().await.unwrap(),
            short => u64::from(short),
        };
        let mut data = vec![0; length as usize];
        self.0.read_exact(&mut data).await.unwrap();
        (kind & 0x0f, data)
    }

    async fn event(&mut self) -> (String, String) {
        let (kind, data) = self.next().await;
        assert_eq!(kind, 1, "JSON is text");
        let event: serde_json::Value = serde_json::from_slice(&data).unwrap();
        let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
        (
            text(&event["type"]),
            text(&event["object"]["metadata"]["name"]),
        )
    }
}

#[tokio::test]
async fn a_watch_may_come_over_a_websocket() {
    let api = Api::start().await;
    for name in ["a", "b"] {
        api.post(MAPS, config_map(name, "1")).await.expect(201);
    }
    let path = format!("{MAPS}?watch=1");
    let added = |name: &str| ("ADDED".to_owned(), name.to_owned());
    let (mut watch, _) = WebSocket::open(&api, Who::Admin, &path, &[])
        .await
        .ok()
        .unwrap();
    // events that are ready together still come one a frame
    assert_eq!(watch.event().await, added("a"));
    assert_eq!(watch.event().await, added("b"));
    api.post(MAPS, config_map("c", "1")).await.expect(201);
    assert_eq!(watch.event().await, added("c"));
    // a ping, masked with zeros, is answered; a close ends it
    watch
        .0
        .write_all(&[0x89, 0x82, 0, 0, 0, 0, b'h', b'i'])
        .await
        .unwrap();
    assert_eq!(watch.next().await, (10, b"hi".to_vec()));
    watch.0.write_all(&[0x88, 0x80, 0, 0, 0, 0]).await.unwrap();
    assert_eq!(watch.next().await.0, 8);

    let accept = [("accept", "application/vnd.kubernetes.protobuf")];
    let (mut binary, _) = WebSocket::open(&api, Who::Admin, &path, &accept)
        .await
        .ok()
        .unwrap();
    let (kind, data) = binary.next().await;
    assert_eq!((kind, &data[..7]), (2, &b"\x0a\x05ADDED"[..]));
    let (mut short, _) = WebSocket::open(
        &api,
        Who::Admin,
        &format!("{path}&timeoutSeconds=1&resourceVersion=5"),
        &[],
    )
    .await
    .ok()
    .unwrap();
    while short.next().await.0 != 8 {}
}

#[tokio::test]
async fn a_websocket_may_bring_its_token_along() {
    let api = Api::start().await;
    api.server
        .register_token("secret", UserInfo::new("root", &["system:masters"]));
    let path = format!("{MAPS}?watch=1");
    // base64url of the token; the server chooses the other protocol
    let right = "base64url.bearer.authorization.k8s.io.c2VjcmV0, json.example";
    let wrong = "base64url.bearer.authorization.k8s.io.d3Jvbmc, json.example";
    let headers = [("sec-websocket-protocol", right)];
    let (_, chosen) = WebSocket::open(&api, Who::Nobody, &path, &headers)
        .await
        .ok()
        .unwrap();
    assert_eq!(chosen, "json.example");
    let headers = [("sec-websocket-protocol", wrong)];
    assert_eq!(
        WebSocket::open(&api, Who::Nobody, &path, &headers)
            .await
            .err(),
        Some(401)
    );
    assert_eq!(
        WebSocket::open(&api, Who::Nobody, &path, &[]).await.err(),
        Some(401)
    );
}

#[tokio::test]
async fn a_shutdown_ends_watches_and_tells_clients_to_go() {
    let api = Api::start().await;
    let io = connect(&api, &Who::Admin, true).await;
    let (mut sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), io)
        .await
        .unwrap();
    let connection = tokio::spawn(connection);
    let get = |path: &str| {
        let request = Request::get(format!("https://localhost{path}"));
        request.body(Full::new(Bytes::new())).unwrap()
    };
    let ready = sender.send_request(get("/readyz")).await.unwrap();
    assert_eq!(ready.status(), 200);
    let watch = sender.send_request(get("/api/v1/namespaces?watch=1"));
    let watch = watch.await.unwrap();
    assert_eq!(watch.status(), 200);
    let transport = api.server.transport();
    let stopping = tokio::spawn(api.server.shutdown());
    // the watch ends as it should, so does the connection, and nothing new is begun on it
    watch.into_body().collect().await.unwrap();
    connection.await.unwrap().unwrap();
    assert!(sender.send_request(get("/version")).await.is_err());
    stopping.await.unwrap();
    let admin = UserInfo::new("admin", &["system:masters"]);
    let request = Request::get("/readyz?verbose").body(Bytes::new()).unwrap();
    let unready = transport.send(&admin, request).await.unwrap();
    assert_eq!(unready.status(), 500);
    let report = unready.into_body().collect().await.unwrap().to_bytes();
    let report = String::from_utf8_lossy(&report);
    assert!(
        report.contains("[-]shutdown failed: reason withheld\n"),
        "{report}"
    );
    assert!(report.ends_with("readyz check failed\n"), "{report}");
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused_over_the_network_too() {
    let api = Api::start().await;
    for (megabytes, http2) in [(4, true), (4, false), (12, true), (12, false)] {
        let big = config_map("a", &"x".repeat(megabytes * 1024 * 1024)).to_string();
        let (code, body) = request(&api, Who::Admin, http2, "POST", MAPS, &big).await;
        assert_eq!(code, 413, "{megabytes} {http2}: {body}");
        assert!(
            body.contains("\"reason\":\"RequestEntityTooLarge\""),
            "{body}"
        );
    }
}

#[tokio::test]
async fn a_second_start_keeps_keys_and_data() {
    let api = Api::start().await;
    let map = api.post(MAPS, config_map("a", "1")).await.expect(201);
    let ca = fs::read(api.dir.path().join("pki/ca.crt")).unwrap();
    let namespace = api.get("/api/v1/namespaces/default").await.expect(200);
    let api = api.restart().await;
    assert_eq!(fs::read(api.dir.path().join("pki/ca.crt")).unwrap(), ca);
    assert_eq!(api.get(&format!("{MAPS}/a")).await.expect(200), map);
    assert_eq!(
        api.get("/api/v1/namespaces/default").await.expect(200),
        namespace
    );
    let kubeconfig = fs::read_to_string(api.server.kubeconfig()).unwrap();
    assert!(
        kubeconfig.contains(&format!("server: {}\n", api.server.url())),
        "{kubeconfig}"
    );
    assert_eq!(
        request(&api, Who::Admin, true, "GET", MAPS, "").await.0,
        200
    );
}

#[tokio::test]
async fn the_head_of_a_watch_comes_before_its_first_event() {
    let api = Api::start().await;
    let list = api.get(MAPS).await.expect(200);
    let from = list["metadata"]["resourceVersion"].as_str().unwrap();
    let path = format!("{MAPS}?watch=1&resourceVersion={from}");
    let media = "application/vnd.kubernetes.protobuf";
    for (accept, content_type) in [
        ("application/json", "application/json"),
        (media, "application/vnd.kubernetes.protobuf;stream=watch"),
    ] {
        let io = connect(&api, &Who::Admin, false).await;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
        tokio::spawn(connection);
        let request = Request::get(&path)
            .header("host", "localhost")
            .header("accept", accept)
            .body(Full::new(Bytes::new()))
            .unwrap();
        // nothing happens that could be told
        let response = sender.send_request(request).await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], content_type);
    }
}
