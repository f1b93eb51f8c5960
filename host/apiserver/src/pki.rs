//! Keys and certificates: made on first start, reused on every later one, leaves renewed before they expire.
//!
//! Layout under `<data-dir>/pki`: `ca.crt`, `ca.key`, `apiserver.{crt,key}`, `admin.{crt,key}`, `sa.{pub,key}` (which sign
//! tokens of service accounts); private keys have mode 0600. A file is replaced as a whole or not at all. A leaf is reused
//! only if it fits its key, names this CA and every address asked for.

use std::{
    fs, io,
    net::IpAddr,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData, SanType,
};
use x509_parser::{
    extensions::GeneralName,
    prelude::{FromDer, X509Certificate},
};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const CA_LIFE: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);
const LEAF_LIFE: Duration = Duration::from_secs(365 * 24 * 60 * 60);
/// A leaf with less life than this is renewed at start.
const RENEW_BEFORE: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// What can go wrong with keys and certificates.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    #[error("{path}: {source}")]
    File {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{path}: {reason}")]
    Damaged { path: PathBuf, reason: String },
    #[error("making a certificate: {0}")]
    Make(#[from] rcgen::Error),
}

/// A certificate with its private key, both PEM.
#[derive(Clone)]
pub(crate) struct KeyedCertificate {
    pub certificate: String,
    pub key: String,
}

/// All that the server needs.
#[derive(Clone)]
pub(crate) struct Pki {
    pub ca_certificate: String,
    pub server: KeyedCertificate,
    pub admin: KeyedCertificate,
}

/// Who a leaf is for.
struct Subject<'a> {
    common_name: &'a str,
    organization: Option<&'a str>,
    usage: ExtendedKeyUsagePurpose,
    names: &'a [String],
    addresses: &'a [IpAddr],
}

/// The DNS names under which the server is reached.
fn server_names() -> Vec<String> {
    let service = "kubernetes.default.svc.cluster.local";
    let mut names = vec!["localhost".to_owned()];
    names.extend(
        service
            .match_indices('.')
            .filter(|(at, _)| *at != "kubernetes.default.svc.cluster".len())
            .map(|(at, _)| service[..at].to_owned()),
    );
    names.push(service.to_owned());
    names
}

impl Pki {
    /// Reads what is there and makes what is missing, damaged by time or too narrow. `addresses` are the server's.
    pub(crate) fn load_or_make(dir: &Path, addresses: &[IpAddr]) -> Result<Self, PkiError> {
        fs::create_dir_all(dir).map_err(|source| file_error(dir, source))?;
        let (ca_certificate, ca_key) = certificate_authority(dir)?;
        let issuer = Issuer::from_ca_cert_pem(&ca_certificate, &ca_key)?;
        let names = server_names();
        let server = Subject {
            common_name: "kube-apiserver",
            organization: None,
            usage: ExtendedKeyUsagePurpose::ServerAuth,
            names: &names,
            addresses,
        };
        let admin = Subject {
            common_name: "kubernetes-admin",
            organization: Some("system:masters"),
            usage: ExtendedKeyUsagePurpose::ClientAuth,
            names: &[],
            addresses: &[],
        };
        Ok(Self {
            server: leaf(dir, "apiserver", &server, &issuer, &ca_certificate)?,
            admin: leaf(dir, "admin", &admin, &issuer, &ca_certificate)?,
            ca_certificate,
        })
    }
}

/// The CA of this data directory.
fn certificate_authority(dir: &Path) -> Result<(String, KeyPair), PkiError> {
    let (crt_path, key_path) = (dir.join("ca.crt"), dir.join("ca.key"));
    match (read(&crt_path)?, read(&key_path)?) {
        (Some(certificate), Some(key)) => {
            let key = KeyPair::from_pem(&key).map_err(|error| damaged(&key_path, error))?;
            if !fits(&certificate, &key) {
                return Err(damaged(&crt_path, "the certificate is not that of ca.key"));
            }
            Ok((certificate, key))
        }
        (None, None) => {
            let key = KeyPair::generate()?;
            let mut params = parameters("pilothouse", None, CA_LIFE);
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            params.key_usages = vec![
                KeyUsagePurpose::DigitalSignature,
                KeyUsagePurpose::KeyCertSign,
                KeyUsagePurpose::CrlSign,
            ];
            let certificate = params.self_signed(&key)?.pem();
            write(&key_path, &key.serialize_pem(), 0o600)?;
            write(&crt_path, &certificate, 0o644)?;
            Ok((certificate, key))
        }
        (None, Some(_)) => Err(damaged(&crt_path, "missing, though ca.key is there")),
        (Some(_), None) => Err(damaged(&key_path, "missing, though ca.crt is there")),
    }
}

/// The file of the key that signs tokens of service accounts, made if it is missing; its public half lies beside it.
pub(crate) fn service_account_key(dir: &Path) -> Result<PathBuf, PkiError> {
    fs::create_dir_all(dir).map_err(|source| file_error(dir, source))?;
    let path = dir.join("sa.key");
    if read(&path)?.is_none() {
        let key = KeyPair::generate()?;
        write(&dir.join("sa.pub"), &key.public_key_pem(), 0o644)?;
        write(&path, &key.serialize_pem(), 0o600)?;
    }
    Ok(path)
}

/// The leaf of that file name: the one on disk if it will do, else a new one.
fn leaf(
    dir: &Path,
    file: &str,
    subject: &Subject<'_>,
    issuer: &Issuer<'_, impl rcgen::SigningKey>,
    ca: &str,
) -> Result<KeyedCertificate, PkiError> {
    let (crt_path, key_path) = (
        dir.join(format!("{file}.crt")),
        dir.join(format!("{file}.key")),
    );
    if let (Some(certificate), Some(key)) = (read(&crt_path)?, read(&key_path)?)
        && KeyPair::from_pem(&key).is_ok_and(|key| fits(&certificate, &key))
        && still_good(&certificate, subject, ca)
    {
        return Ok(KeyedCertificate { certificate, key });
    }
    let key = KeyPair::generate()?;
    let mut params = parameters(subject.common_name, subject.organization, LEAF_LIFE);
    params.key_usages = vec![
        KeyUsagePurpose::DigitalSignature,
        KeyUsagePurpose::KeyEncipherment,
    ];
    params.extended_key_usages = vec![subject.usage.clone()];
    params.use_authority_key_identifier_extension = true;
    for name in subject.names {
        params
            .subject_alt_names
            .push(SanType::DnsName(name.as_str().try_into()?));
    }
    params
        .subject_alt_names
        .extend(subject.addresses.iter().copied().map(SanType::IpAddress));
    let certificate = params.signed_by(&key, issuer)?.pem();
    let key = key.serialize_pem();
    write(&key_path, &key, 0o600)?;
    write(&crt_path, &certificate, 0o644)?;
    Ok(KeyedCertificate { certificate, key })
}

fn parameters(common_name: &str, organization: Option<&str>, life: Duration) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::CommonName, common_name);
    if let Some(organization) = organization {
        params
            .distinguished_name
            .push(DnType::OrganizationName, organization);
    }
    let now = SystemTime::now();
    // machines whose clocks run behind must be able to connect at once
    params.not_before = (now - DAY).into();
    params.not_after = (now + life).into();
    params
}

/// Whether a certificate belongs to a key.
fn fits(certificate: &str, key: &KeyPair) -> bool {
    with_certificate(certificate, |certificate| {
        certificate.public_key().raw == key.subject_public_key_info()
    })
}

/// Whether a leaf has life left, comes from this CA and covers what is asked.
fn still_good(certificate: &str, subject: &Subject<'_>, ca: &str) -> bool {
    with_certificate(certificate, |leaf| {
        let lives = leaf
            .validity()
            .time_to_expiration()
            .is_some_and(|left| left.unsigned_abs() > RENEW_BEFORE);
        let mut names = Vec::new();
        if let Ok(Some(extension)) = leaf.subject_alternative_name() {
            names.extend(&extension.value.general_names);
        }
        let has_name = |name: &String| {
            names
                .iter()
                .any(|n| matches!(n, GeneralName::DNSName(n) if *n == name))
        };
        let has_address = |address: &IpAddr| {
            let octets = match address {
                IpAddr::V4(v4) => v4.octets().to_vec(),
                IpAddr::V6(v6) => v6.octets().to_vec(),
            };
            names
                .iter()
                .any(|n| matches!(n, GeneralName::IPAddress(n) if *n == octets))
        };
        lives
            && signed_by(leaf, ca)
            && subject.names.iter().all(has_name)
            && subject.addresses.iter().all(has_address)
    })
}

/// Whether a leaf names the key of this CA as its authority.
fn signed_by(leaf: &X509Certificate<'_>, ca: &str) -> bool {
    use x509_parser::extensions::ParsedExtension;
    let authority = leaf
        .iter_extensions()
        .find_map(|e| match e.parsed_extension() {
            ParsedExtension::AuthorityKeyIdentifier(id) => {
                id.key_identifier.as_ref().map(|id| id.0.to_vec())
            }
            _ => None,
        });
    with_certificate(ca, |ca| {
        ca.iter_extensions().any(|e| match e.parsed_extension() {
            ParsedExtension::SubjectKeyIdentifier(id) => authority.as_deref() == Some(id.0),
            _ => false,
        })
    })
}

fn with_certificate(pem: &str, judge: impl FnOnce(&X509Certificate<'_>) -> bool) -> bool {
    let Ok((_, pem)) = x509_parser::pem::parse_x509_pem(pem.as_bytes()) else {
        return false;
    };
    X509Certificate::from_der(&pem.contents).is_ok_and(|(_, certificate)| judge(&certificate))
}

fn read(path: &Path) -> Result<Option<String>, PkiError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(file_error(path, source)),
    }
}

/// Writes a file as a whole: a new one takes the old one's place.
pub(crate) fn write(path: &Path, text: &str, mode: u32) -> Result<(), PkiError> {
    use std::{io::Write, os::unix::fs::OpenOptionsExt};
    let beside = path.with_extension("new");
    let attempt = || {
        match fs::remove_file(&beside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(&beside)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&beside, path)
    };
    attempt().map_err(|source| file_error(path, source))
}

fn file_error(path: &Path, source: io::Error) -> PkiError {
    PkiError::File {
        path: path.to_owned(),
        source,
    }
}

fn damaged(path: &Path, reason: impl ToString) -> PkiError {
    PkiError::Damaged {
        path: path.to_owned(),
        reason: reason.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn addresses(last: u8) -> Vec<IpAddr> {
        vec![[127, 0, 0, 1].into(), [10, 96, 0, last].into()]
    }

    #[test]
    fn a_second_start_reuses_everything() {
        let dir = tempfile::tempdir().unwrap();
        let first = Pki::load_or_make(dir.path(), &addresses(1)).unwrap();
        let second = Pki::load_or_make(dir.path(), &addresses(1)).unwrap();
        assert_eq!(first.ca_certificate, second.ca_certificate);
        assert_eq!(first.server.certificate, second.server.certificate);
        assert_eq!(first.admin.certificate, second.admin.certificate);
        for key in ["ca.key", "apiserver.key", "admin.key"] {
            let mode = fs::metadata(dir.path().join(key))
                .unwrap()
                .permissions()
                .mode();
            assert_eq!(mode & 0o777, 0o600, "{key}");
        }
    }

    #[test]
    fn a_new_address_or_a_new_ca_makes_new_leaves() {
        let dir = tempfile::tempdir().unwrap();
        let first = Pki::load_or_make(dir.path(), &addresses(1)).unwrap();
        let wider = Pki::load_or_make(dir.path(), &addresses(2)).unwrap();
        assert_eq!(first.ca_certificate, wider.ca_certificate);
        assert_eq!(first.admin.certificate, wider.admin.certificate);
        assert_ne!(first.server.certificate, wider.server.certificate);
        for file in ["ca.crt", "ca.key"] {
            fs::remove_file(dir.path().join(file)).unwrap();
        }
        let third = Pki::load_or_make(dir.path(), &addresses(2)).unwrap();
        assert_ne!(third.ca_certificate, wider.ca_certificate);
        assert_ne!(third.server.certificate, wider.server.certificate);
        assert_ne!(third.admin.certificate, wider.admin.certificate);
    }

    #[test]
    fn half_a_ca_is_refused_and_not_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        Pki::load_or_make(dir.path(), &[]).unwrap();
        fs::remove_file(dir.path().join("ca.key")).unwrap();
        assert!(matches!(
            Pki::load_or_make(dir.path(), &[]),
            Err(PkiError::Damaged { .. })
        ));
        assert!(!dir.path().join("ca.key").exists());
    }

    #[test]
    fn the_server_is_known_by_its_service_names() {
        let names = server_names();
        for name in [
            "localhost",
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "kubernetes.default.svc.cluster.local",
        ] {
            assert!(names.iter().any(|n| n == name), "{name} not in {names:?}");
        }
        assert_eq!(names.len(), 5);
    }
}
