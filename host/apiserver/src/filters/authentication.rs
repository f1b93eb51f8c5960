//! Who makes a request: client certificates and bearer tokens.
//! Source: <https://kubernetes.io/docs/reference/access-authn-authz/authentication/>

use std::{collections::HashMap, io, path::Path};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use http::HeaderMap;
use parking_lot::RwLock;
use pilothouse_api::Status;
use pilothouse_client::UserInfo;
use sha2::{Digest, Sha256};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::handlers::websocket;

/// Paths that anybody may read.
const OPEN_PATHS: [&str; 4] = ["/healthz", "/livez", "/readyz", "/version"];

/// The user that nobody has shown to be anybody else.
const ANONYMOUS: &str = "system:anonymous";

/// What the WebSocket protocol that is a token begins with.
const BEARER_PROTOCOL: &str = "base64url.bearer.authorization.k8s.io.";

/// Bearer tokens by digest, so that looking one up tells nothing about the others.
#[derive(Debug, Default)]
pub(crate) struct Authenticator {
    tokens: RwLock<HashMap<[u8; 32], UserInfo>>,
}

impl Authenticator {
    /// Registers a token: of a component of the host, or of a line of the token file.
    pub(crate) fn register_token(&self, token: &str, user: UserInfo) {
        self.tokens.write().insert(digest(token), user);
    }

    /// Reads a static token file: `token,user,uid,"group1,group2"` a line; uid and groups may be missing.
    pub(crate) fn read_token_file(&self, path: &Path) -> io::Result<()> {
        for (number, line) in std::fs::read_to_string(path)?.lines().enumerate() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let fields = csv_fields(line);
            let [token, name, rest @ ..] = fields.as_slice() else {
                let message = format!("line {} has fewer than two fields", number + 1);
                return Err(io::Error::new(io::ErrorKind::InvalidData, message));
            };
            if token.is_empty() || name.is_empty() {
                let message = format!("line {}: token and user must not be empty", number + 1);
                return Err(io::Error::new(io::ErrorKind::InvalidData, message));
            }
            let groups: Vec<&str> = rest
                .get(1)
                .map(|groups| {
                    groups
                        .split(',')
                        .map(str::trim)
                        .filter(|g| !g.is_empty())
                        .collect()
                })
                .unwrap_or_default();
            let mut user = UserInfo::new(name, &groups);
            user.uid = rest.first().cloned().unwrap_or_default();
            self.register_token(token, user);
        }
        Ok(())
    }

    /// The user whose token this is.
    pub(crate) fn token_user(&self, token: &str) -> Option<UserInfo> {
        self.tokens.read().get(&digest(token)).cloned()
    }

    /// The user of a request: that of its token if it has one, else that of the connection's certificate. A wrong token is
    /// 401 whatever the certificate; so is nobody, except on the open paths.
    pub(crate) fn authenticate(
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
            return self.token_user(token).ok_or_else(Status::unauthorized);
        }
        if websocket::is_asked_for(headers)
            && let Some(token) = protocol_token(headers)?
        {
            return self.token_user(&token).ok_or_else(Status::unauthorized);
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
    (!name.is_empty()).then(|| UserInfo::new(name, &groups))
}

fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.trim().split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token).into()
}

/// The fields of one CSV line; quotes keep commas together and are doubled inside.
fn csv_fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        let field = match fields.last_mut() {
            Some(field) => field,
            None => break,
        };
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                field.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            c => field.push(c),
        }
    }
    fields.iter().map(|f| f.trim().to_owned()).collect()
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

    #[test]
    fn the_token_file_names_users_and_groups() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "t1,alice,u1,\"dev,ops\"\n\nt2,bob\n").unwrap();
        let authenticator = Authenticator::default();
        authenticator.read_token_file(file.path()).unwrap();
        let alice = authenticator
            .authenticate(&header("Bearer t1"), None, "/api")
            .unwrap();
        assert_eq!((alice.name.as_str(), alice.uid.as_str()), ("alice", "u1"));
        assert_eq!(alice.groups, ["dev", "ops", "system:authenticated"]);
        let bob = authenticator
            .authenticate(&header("bearer t2"), None, "/api")
            .unwrap();
        assert_eq!(bob.groups, ["system:authenticated"]);
        std::fs::write(file.path(), "only-a-token\n").unwrap();
        assert!(authenticator.read_token_file(file.path()).is_err());
    }

    #[test]
    fn a_token_may_come_as_a_websocket_protocol() {
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
            let found = found.ok().map(|user| user.name);
            assert_eq!(found.as_deref(), user, "{protocols:?}");
        }
    }

    #[test]
    fn nobody_is_refused_except_on_open_paths() {
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
            assert_eq!(
                authenticator.authenticate(&none, None, path).is_ok(),
                allowed,
                "{path}"
            );
        }
        let admin = UserInfo::new("admin", &["system:masters"]);
        assert_eq!(
            authenticator
                .authenticate(&none, Some(&admin), "/api")
                .unwrap(),
            admin
        );
        for wrong in ["Bearer nope", "Basic YTpi", "Bearer ", "junk"] {
            let refused = authenticator.authenticate(&header(wrong), Some(&admin), "/healthz");
            assert_eq!(refused.unwrap_err().code, 401, "{wrong}");
        }
    }
}
