//! `admin.kubeconfig`: the server's address with the admin's certificate in it.
//! Source: <https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/>

use std::path::Path;

use base64::{Engine, engine::general_purpose::STANDARD};

use crate::pki::{self, Pki, PkiError};

/// Writes the file, mode 0600. `server` is a URL: `https://127.0.0.1:6443`.
pub(crate) fn write_admin(path: &Path, server: &str, pki: &Pki) -> Result<(), PkiError> {
    let ca = STANDARD.encode(&pki.ca_certificate);
    let certificate = STANDARD.encode(&pki.admin.certificate);
    let key = STANDARD.encode(&pki.admin.key);
    let text = format!(
        "apiVersion: v1
kind: Config
clusters:
- name: pilothouse
  cluster:
    server: {server}
    certificate-authority-data: {ca}
users:
- name: kubernetes-admin
  user:
    client-certificate-data: {certificate}
    client-key-data: {key}
contexts:
- name: pilothouse
  context:
    cluster: pilothouse
    user: kubernetes-admin
current-context: pilothouse
preferences: {{}}
"
    );
    pki::write(path, &text, 0o600)
}
