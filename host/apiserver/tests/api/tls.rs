//! Over the network: TLS, both HTTP versions, certificates and tokens, restarts.

use std::{fs, path::Path, sync::Arc};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use pilothouse_client::UserInfo;
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::harness::{Api, MAPS, config_map};

/// How a client shows who it is.
enum Who<'a> {
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

/// One request over its own connection.
async fn request(
    api: &Api,
    who: Who<'_>,
    http2: bool,
    method: &str,
    path: &str,
    body: &str,
) -> (u16, String) {
    let connector = TlsConnector::from(Arc::new(client(api.dir.path(), &who, http2)));
    let stream = TcpStream::connect(api.server.address()).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let io = TokioIo::new(connector.connect(name, stream).await.unwrap());
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

#[tokio::test]
async fn a_body_that_is_too_large_is_refused_over_the_network_too() {
    let api = Api::start().await;
    let big = config_map("a", &"x".repeat(4 * 1024 * 1024)).to_string();
    let (code, body) = request(&api, Who::Admin, true, "POST", MAPS, &big).await;
    assert_eq!(code, 413, "{body}");
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
