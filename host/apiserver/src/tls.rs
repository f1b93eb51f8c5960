//! TLS: the server's certificate, and which client certificates are believed.

use std::{fs, path::Path, sync::Arc};

use rustls::{
    RootCertStore, ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::WebPkiClientVerifier,
};

use crate::{options::ApiServerOptions, pki::Pki, server::StartError};

/// A configuration that asks for client certificates and does without.
pub(crate) fn server_config(
    options: &ApiServerOptions,
    pki: &Pki,
) -> Result<ServerConfig, StartError> {
    let (certificates, key) = match (&options.tls_cert_file, &options.tls_private_key_file) {
        (Some(certificate), Some(key)) => (read(certificate)?, read(key)?),
        (None, None) => (
            pki.server.certificate.clone().into_bytes(),
            pki.server.key.clone().into_bytes(),
        ),
        _ => {
            let why = "--tls-cert-file and --tls-private-key-file must be given together";
            return Err(StartError::Options(why.to_owned()));
        }
    };
    let chain = certificates_of(&certificates)?;
    let key = PrivateKeyDer::from_pem_slice(&key)
        .map_err(|error| StartError::Tls(format!("private key: {error}")))?;

    let mut roots = RootCertStore::empty();
    let mut believe = |pem: &[u8]| -> Result<(), StartError> {
        for certificate in certificates_of(pem)? {
            roots
                .add(certificate)
                .map_err(|error| StartError::Tls(error.to_string()))?;
        }
        Ok(())
    };
    believe(pki.ca_certificate.as_bytes())?;
    if let Some(path) = &options.client_ca_file {
        believe(&read(path)?).map_err(|error| {
            StartError::Options(format!("--client-ca-file {}: {error}", path.display()))
        })?;
    }
    let provider = Arc::new(ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .allow_unauthenticated()
        .build()
        .map_err(|error| StartError::Tls(error.to_string()))?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| {
            builder
                .with_client_cert_verifier(verifier)
                .with_single_cert(chain, key)
        })
        .map_err(|error| StartError::Tls(error.to_string()))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

fn certificates_of(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, StartError> {
    let found = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    match found {
        Ok(none) if none.is_empty() => Err(StartError::Tls("holds no certificate".to_owned())),
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(StartError::Tls(format!("certificate: {error}"))),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, StartError> {
    fs::read(path).map_err(|source| StartError::File {
        path: path.to_owned(),
        source,
    })
}
