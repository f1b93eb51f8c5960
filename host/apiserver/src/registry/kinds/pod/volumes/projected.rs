//! Volumes that show several sources as one tree.
//! Source: <https://kubernetes.io/docs/concepts/storage/projected-volumes/>

use k8s_openapi::api::core::v1::{
    ClusterTrustBundleProjection, DownwardAPIVolumeFile, PodCertificateProjection,
    ProjectedVolumeSource, ServiceAccountTokenProjection, VolumeProjection,
};
use pilothouse_api::field::{ErrorList, FieldError, Path};

use super::{Taken, validate_items, validate_mode};
use crate::registry::kinds::{
    checks,
    pod::{Owner, env, paths},
};

pub(super) fn validate(
    errors: &mut ErrorList,
    path: &Path,
    projected: &ProjectedVolumeSource,
    owner: &Owner<'_>,
) {
    let mut taken = Taken::default();
    for (i, source) in projected.sources.iter().flatten().enumerate() {
        validate_source(errors, (path, i), source, owner, &mut taken);
    }
}

fn validate_source<'a>(
    errors: &mut ErrorList,
    (volume, i): (&Path, usize),
    source: &'a VolumeProjection,
    owner: &Owner<'_>,
    taken: &mut Taken<'a>,
) {
    let path = volume.child("sources").index(i);
    let mut sources = 0;
    if let Some(secret) = &source.secret {
        sources += 1;
        let path = path.child("secret");
        checks::required(errors, &path.child("name"), &secret.name);
        validate_items(errors, &path.child("items"), secret.items.as_deref());
        for item in secret.items.iter().flatten() {
            taken.take(errors, volume, &item.path, &secret.name);
        }
    }
    if let Some(map) = &source.config_map {
        sources += 1;
        let path = path.child("configMap");
        checks::required(errors, &path.child("name"), &map.name);
        validate_items(errors, &path.child("items"), map.items.as_deref());
        for item in map.items.iter().flatten() {
            taken.take(errors, volume, &item.path, &map.name);
        }
    }
    if let Some(downward) = &source.downward_api {
        sources += 1;
        for file in downward.items.iter().flatten() {
            validate_downward_file(errors, &path.child("downwardAPI"), file);
            taken.take(errors, volume, &file.path, &file.path);
        }
    }
    if let Some(token) = &source.service_account_token {
        sources += 1;
        validate_token(
            errors,
            volume,
            &path.child("serviceAccountToken"),
            token,
            owner,
        );
    }
    if let Some(bundle) = &source.cluster_trust_bundle {
        sources += 1;
        validate_trust_bundle(errors, &path.child("clusterTrustBundle"), bundle);
        taken.take(errors, volume, &bundle.path, &bundle.path);
    }
    if let Some(certificate) = &source.pod_certificate {
        sources += 1;
        validate_certificate(errors, &path.child("podCertificate"), certificate);
    }
    if sources > 1 {
        errors.push(FieldError::forbidden(
            &path,
            "may not specify more than 1 volume type per source",
        ));
    }
}

/// A file of the downward API: a field of the pod or a resource of a container.
pub(super) fn validate_downward_file(
    errors: &mut ErrorList,
    path: &Path,
    file: &DownwardAPIVolumeFile,
) {
    checks::required(errors, &path.child("path"), &file.path);
    paths::local(errors, &path.child("path"), &file.path);
    match (&file.field_ref, &file.resource_field_ref) {
        (Some(field), other) => {
            let field_path = path.child("fieldRef");
            env::validate_field_ref(errors, &field_path, field, &env::FILE_FIELDS);
            if other.is_some() {
                errors.push(FieldError::invalid(
                    path,
                    "resource",
                    "fieldRef and resourceFieldRef can not be specified simultaneously",
                ));
            }
        }
        (None, Some(resource)) => {
            let path = path.child("resourceFieldRef");
            env::validate_resource_ref(errors, &path, resource, true);
        }
        (None, None) => errors.push(FieldError::required(
            path,
            "one of fieldRef and resourceFieldRef is required",
        )),
    }
    validate_mode(errors, &path.child("mode"), file.mode);
}

fn validate_token(
    errors: &mut ErrorList,
    volume: &Path,
    path: &Path,
    token: &ServiceAccountTokenProjection,
    owner: &Owner<'_>,
) {
    const TEN_MINUTES: i64 = 10 * 60;
    const MAX: i64 = 1 << 32;
    let seconds = token.expiration_seconds.unwrap_or_default();
    let seconds_path = path.child("expirationSeconds");
    if seconds < TEN_MINUTES {
        errors.push(FieldError::invalid(
            &seconds_path,
            seconds,
            "may not specify a duration less than 10 minutes",
        ));
    }
    if seconds > MAX {
        errors.push(FieldError::invalid(
            &seconds_path,
            seconds,
            "may not specify a duration larger than 2^32 seconds",
        ));
    }
    match token.path.as_str() {
        "" => errors.push(FieldError::required(&volume.child("path"), "")),
        target => paths::local(errors, &volume.child("path"), target),
    }
    if owner.is_pod() && !owner.has_service_account {
        errors.push(FieldError::forbidden(
            path,
            "must not be specified when serviceAccountName is not set",
        ));
    }
}

fn validate_trust_bundle(
    errors: &mut ErrorList,
    path: &Path,
    bundle: &ClusterTrustBundleProjection,
) {
    match (&bundle.name, &bundle.signer_name) {
        (Some(name), Some(signer)) => errors.push(FieldError::invalid(
            path,
            serde_json::json!({"Name": name, "SignerName": signer}),
            "only one of name and signerName may be used",
        )),
        (Some(name), None) => {
            if name.is_empty() {
                let path = path.child("name");
                errors.push(FieldError::required(&path, "must be a valid object name"));
            }
            if bundle.label_selector.is_some() {
                errors.push(FieldError::forbidden(
                    &path.child("labelSelector"),
                    "labelSelector must be unset if name is specified",
                ));
            }
        }
        (None, Some(signer)) => {
            if signer.is_empty() {
                let path = path.child("signerName");
                errors.push(FieldError::required(&path, "must be a valid signer name"));
            }
            let selector = bundle.label_selector.as_ref();
            checks::label_selector(errors, &path.child("labelSelector"), selector);
        }
        (None, None) => errors.push(FieldError::required(
            path,
            "either name or signerName must be specified",
        )),
    }
    checks::required(errors, &path.child("path"), &bundle.path);
    paths::local(errors, &path.child("path"), &bundle.path);
}

fn validate_certificate(
    errors: &mut ErrorList,
    path: &Path,
    certificate: &PodCertificateProjection,
) {
    const KEY_TYPES: [&str; 6] = [
        "ECDSAP256",
        "ECDSAP384",
        "ECDSAP521",
        "ED25519",
        "RSA3072",
        "RSA4096",
    ];
    checks::required(errors, &path.child("signerName"), &certificate.signer_name);
    checks::one_of(
        errors,
        &path.child("keyType"),
        &certificate.key_type,
        &KEY_TYPES,
    );
    let files = [
        ("credentialBundlePath", &certificate.credential_bundle_path),
        ("keyPath", &certificate.key_path),
        ("certificateChainPath", &certificate.certificate_chain_path),
    ];
    let mut any = false;
    for (field, target) in files {
        let target = target.as_deref().unwrap_or_default();
        any |= !target.is_empty();
        paths::local(errors, &path.child(field), target);
    }
    if !any {
        errors.push(FieldError::required(
            path,
            "specify at least one of credentialBundlePath, keyPath, and certificateChainPath",
        ));
    }
}
