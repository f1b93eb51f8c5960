//! Who makes a request: client certificates and bearer tokens, static ones and those of service accounts.
//! Source: <https://kubernetes.io/docs/reference/access-authn-authz/authentication/>

mod service_accounts;
mod token_file;

use std::{collections::HashMap, path::Path};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use http::HeaderMap;
use parking_lot::RwLock;
use pilothouse_api::Status;
use pilothouse_client::UserInfo;
use sha2::{Digest, Sha256};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::{handlers::websocket, server::StartError};
pub(crate) use service_accounts::ServiceAccounts;

/// Paths that anybody may read.
const OPEN_PATHS: [&str; 4] = ["/healthz", "/livez", "/readyz", "/version"];

/// The user that nobody has shown to be anybody else.
const ANONYMOUS: &str = "system:anonymous";

/// What the WebSocket protocol that is a token begins with.
const BEARER_PROTOCOL: &str = "base64url.bearer.authorization.k8s.io.";

/// Whose token it is, and for which of the audiences that were asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) user: UserInfo,
    pub(crate) audiences: Vec<String>,
}

/// Knows tokens: static ones by digest, so that looking one up tells nothing about the others.
#[derive(Default)]
pub(crate) struct Authenticator {
    tokens: RwLock<HashMap<[u8; 32], UserInfo>>,
    service_accounts: Option<ServiceAccounts>,
}

impl Authenticator {
    /// One that knows no static tokens yet.
    pub(crate) fn new(service_accounts: ServiceAccounts) -> Self {
        Self {
            tokens: RwLock::default(),
            service_accounts: Some(service_accounts),
        }
    }

    /// Registers a token: of a component of the host, or of a line of the token file.
    pub(crate) fn register_token(&self, token: &str, user: UserInfo) {
        self.tokens.write().insert(digest(token), user);
    }

    /// Reads a static token file.
    pub(crate) fn read_token_file(&self, path: &Path) -> Result<(), StartError> {
        for (token, user) in token_file::read(path)? {
            self.register_token(&token, user);
        }
        Ok(())
    }

    /// Whom requests of this server are for.
    fn audiences(&self) -> &[String] {
        self.service_accounts
            .as_ref()
            .map_or(&[], |accounts| accounts.tokens.options.audiences())
    }

    /// Whose token this is, and for which of these audiences (none: for this server); or why it is nobody's.
    pub(crate) async fn identify(
        &self,
        token: &str,
        audiences: &[String],
    ) -> Result<Identity, String> {
        let ours = self.audiences();
        let asked = if audiences.is_empty() {
            ours
        } else {
            audiences
        };
        let known = self.tokens.read().get(&digest(token)).cloned();
        if let Some(user) = known {
            // a static token is for this server, whatever that is called
            let audiences = common(ours, asked);
            if !audiences.is_empty() || asked.is_empty() {
                return Ok(Identity { user, audiences });
            }
        } else if let Some(accounts) = &self.service_accounts
            && let Some(identity) = accounts.authenticate(token, asked).await?
        {
            return Ok(identity);
        }
        Err("invalid bearer token".to_owned())
    }

    /// The user of a token that came with a request.
    async fn token_user(&self, token: &str) -> Result<UserInfo, Status> {
        match self.identify(token, &[]).await {
            Ok(identity) => Ok(identity.user),
            Err(why) => {
                tracing::debug!(why, "a token is refused");
                Err(Status::unauthorized())
            }
        }
    }

    /// The user of a request: that of its token if it has one, else that of the connection's certificate. A wrong token is
    /// 401 whatever the certificate; so is nobody, except on the open paths.
    pub(crate) async fn authenticate(
        &self,
        headers: &HeaderMap,
        certificate: Option<&UserInfo>,
        path: &str,
    ) -> Result<UserInfo, Status> {
        if let Some(header) = headers.get(http::header::AUTHORIZATION) {
            let token = header
                .to_str()
                .ok()
                .and_then(bearer)
                .ok_or_else(Status::unauthorized)?;
            return self.token_user(token).await;
        }
        if websocket::is_asked_for(headers)
            && let Some(token) = protocol_token(headers)?
        {
            return self.token_user(&token).await;
        }
        if let Some(user) = certificate {
            return Ok(user.clone());
        }
        match is_open(path) {
            true => Ok(UserInfo {
                name: ANONYMOUS.to_owned(),
                groups: vec!["system:unauthenticated".to_owned()],
                ..UserInfo::default()
            }),
            false => Err(Status::unauthorized()),
        }
    }
}

/// Those of `some` that are among `others`.
fn common(some: &[String], others: &[String]) -> Vec<String> {
    let both = some.iter().filter(|one| others.contains(one));
    both.cloned().collect()
}

/// Browsers cannot set headers of a WebSocket, but protocols: the token is one of them, `base64url` without padding.
/// It must not stand alone, for the server has to choose another one.
fn protocol_token(headers: &HeaderMap) -> Result<Option<String>, Status> {
    let offered = headers.get_all(http::header::SEC_WEBSOCKET_PROTOCOL);
    let offered = offered.iter().filter_map(|value| value.to_str().ok());
    let (tokens, others): (Vec<&str>, Vec<&str>) = offered
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .partition(|protocol| is_bearer_protocol(protocol));
    match (tokens.as_slice(), others.is_empty()) {
        ([], _) => Ok(None),
        ([token], false) => {
            let token = URL_SAFE_NO_PAD.decode(&token[BEARER_PROTOCOL.len()..]).ok();
            let token = token.and_then(|token| String::from_utf8(token).ok());
            token.map(Some).ok_or_else(Status::unauthorized)
        }
        _ => Err(Status::unauthorized()),
    }
}

/// Whether a WebSocket protocol is a token.
pub(crate) fn is_bearer_protocol(protocol: &str) -> bool {
    protocol.starts_with(BEARER_PROTOCOL)
}

/// Whether anybody may read a path: health and version, and the single checks below health.
pub(crate) fn is_open(path: &str) -> bool {
    OPEN_PATHS.iter().any(|open| {
        path.strip_prefix(open)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

/// The user that a verified client certificate names: its common name, its organizations as groups.
pub(crate) fn certificate_user(der: &[u8]) -> Option<UserInfo> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let subject = certificate.subject();
    let name = subject.iter_common_name().next()?.as_str().ok()?;
    let groups: Vec<&str> = subject
        .iter_organization()
        .filter_map(|o| o.as_str().ok())
        .collect();
    if name.is_empty() {
        return None;
    }
    let mut user = UserInfo::new(name, &groups);
    let digest: String = Sha256::digest(der)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let key = "authentication.kubernetes.io/credential-id".to_owned();
    user.extra.insert(key, vec![format!("X509SHA256={digest}")]);
    Some(user)
}

fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.trim().split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token).into()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn header(value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert("authorization", HeaderValue::from_str(value).unwrap());
        headers
    }

    #[tokio::test]
    async fn a_token_may_come_as_a_websocket_protocol() {
        let authenticator = Authenticator::default();
        authenticator.register_token("secret", UserInfo::new("alice", &[]));
        let token = format!("{BEARER_PROTOCOL}{}", URL_SAFE_NO_PAD.encode("secret"));
        let wrong = format!("{BEARER_PROTOCOL}{}", URL_SAFE_NO_PAD.encode("guess"));
        let odd = format!("{BEARER_PROTOCOL}!");
        // the offered protocols, whether it is a WebSocket, the user or nothing
        let cases = [
            (format!("{token}, json.example"), true, Some("alice")),
            (format!("json.example,{token}"), true, Some("alice")),
            (format!("json.example,{token}"), false, None),
            (token.clone(), true, None),
            (format!("{token}, {token}, x"), true, None),
            (format!("{wrong}, x"), true, None),
            (format!("{odd}, x"), true, None),
            ("x".to_owned(), true, None),
        ];
        for (protocols, is_websocket, user) in cases {
            let mut headers = HeaderMap::new();
            let protocols = HeaderValue::from_str(&protocols).unwrap();
            headers.insert("sec-websocket-protocol", protocols.clone());
            if is_websocket {
                headers.insert("connection", HeaderValue::from_static("Upgrade"));
                headers.insert("upgrade", HeaderValue::from_static("websocket"));
            }
            let found = authenticator.authenticate(&headers, None, "/api/v1/pods");
            let found = found.await.ok().map(|user| user.name);
            assert_eq!(found.as_deref(), user, "{protocols:?}");
        }
    }

    #[tokio::test]
    async fn nobody_is_refused_except_on_open_paths() {
        let authenticator = Authenticator::default();
        let none = HeaderMap::new();
        for (path, allowed) in [
            ("/healthz", true),
            ("/readyz/ping", true),
            ("/version", true),
            ("/versions", false),
            ("/api/v1/pods", false),
            ("/metrics", false),
        ] {
            let found = authenticator.authenticate(&none, None, path).await;
            assert_eq!(found.is_ok(), allowed, "{path}");
        }
        let admin = UserInfo::new("admin", &["system:masters"]);
        assert_eq!(
            authenticator
                .authenticate(&none, Some(&admin), "/api")
                .await
                .unwrap(),
            admin
        );
        for wrong in ["Bearer nope", "Basic YTpi", "Bearer ", "junk"] {
            let wrong = header(wrong);
            let refused = authenticator.authenticate(&wrong, Some(&admin), "/healthz");
            assert_eq!(refused.await.unwrap_err().code, 401, "{wrong:?}");
        }
    }
}
