//! The parts of `metadata` that the server keeps, the same way for every kind.
//! Source: <https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/object-meta/>

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use pilothouse_api::Status;

use super::erased::AnyObject;
use crate::environment::Environment;

/// A generated name has at most so many characters before its suffix.
const MAX_BASE: usize = 58;
const SUFFIX: usize = 5;
/// No vowels, nor digits that look like them: no words come out.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// Fills an empty namespace from the URL and refuses another one. What is cluster-scoped has none, whatever was sent.
pub(crate) fn settle_namespace(
    object: &mut AnyObject,
    namespaced: bool,
    namespace: &str,
) -> Result<(), Status> {
    let sent = object.namespace();
    if namespaced && !sent.is_empty() && sent != namespace {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    object.metadata_mut().namespace = namespaced.then(|| namespace.to_owned());
    Ok(())
}

/// Refuses a body that names another object than the URL; an empty name is filled in.
pub(crate) fn settle_name(object: &mut AnyObject, name: &str) -> Result<(), Status> {
    match object.name() {
        "" => object.metadata_mut().name = Some(name.to_owned()),
        sent if sent != name => {
            return Err(Status::bad_request(format!(
                "the name of the object ({sent}) does not match the name on the URL ({name})"
            )));
        }
        _ => {}
    }
    Ok(())
}

/// Wipes what clients may not set and sets what the server does.
pub(crate) fn fill_for_create(
    metadata: &mut ObjectMeta,
    environment: &dyn Environment,
    now: jiff::Timestamp,
) {
    metadata.deletion_timestamp = None;
    metadata.deletion_grace_period_seconds = None;
    metadata.self_link = None;
    metadata.resource_version = None;
    metadata.creation_timestamp = Some(Time(now));
    metadata.uid = Some(environment.uuid());
}

/// Keeps what an update may not change, whatever was sent. `uid` has been compared already.
pub(crate) fn fill_for_update(new: &mut ObjectMeta, old: &ObjectMeta) {
    new.uid.clone_from(&old.uid);
    new.creation_timestamp.clone_from(&old.creation_timestamp);
    new.deletion_timestamp.clone_from(&old.deletion_timestamp);
    new.deletion_grace_period_seconds = old.deletion_grace_period_seconds;
    new.self_link = None;
    new.generation = old.generation;
}

/// Drops exact duplicates among owner references; the answer is a warning if there were any.
pub(crate) fn drop_duplicate_owners(metadata: &mut ObjectMeta) -> Option<String> {
    let owners = metadata.owner_references.as_mut()?;
    let before = owners.len();
    let mut kept = Vec::with_capacity(before);
    for owner in owners.drain(..) {
        if !kept.contains(&owner) {
            kept.push(owner);
        }
    }
    *owners = kept;
    (owners.len() < before)
        .then(|| "metadata.ownerReferences contains duplicate entries; API server dedups owner references".to_owned())
}

/// A name from `generateName`: its first 58 characters and five random ones.
pub(crate) fn generate_name(base: &str, environment: &dyn Environment) -> String {
    let mut name: String = base.chars().take(MAX_BASE).collect();
    let mut random = environment.random();
    for _ in 0..SUFFIX {
        let letters = ALPHABET.len() as u128;
        name.push(char::from(ALPHABET[(random % letters) as usize]));
        random /= letters;
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::Machine;

    #[test]
    fn generated_names_are_short_and_without_vowels() {
        for base in ["web-", &"x".repeat(80)] {
            let name = generate_name(base, &Machine);
            let kept = base.len().min(58);
            assert_eq!(name.len(), kept + 5);
            assert_eq!(&name[..kept], &base[..kept]);
            assert!(
                name[kept..].bytes().all(|b| ALPHABET.contains(&b)),
                "{name}"
            );
        }
        assert_ne!(generate_name("a", &Machine), generate_name("a", &Machine));
    }

    #[test]
    fn creation_wipes_what_clients_may_not_set() {
        let now = jiff::Timestamp::from_second(1_000).unwrap();
        let mut metadata = ObjectMeta {
            uid: Some("mine".to_owned()),
            deletion_timestamp: Some(Time(now)),
            deletion_grace_period_seconds: Some(3),
            self_link: Some("/x".to_owned()),
            labels: Some([("a".to_owned(), "b".to_owned())].into()),
            ..ObjectMeta::default()
        };
        fill_for_create(&mut metadata, &Machine, now);
        assert_ne!(metadata.uid.as_deref(), Some("mine"));
        assert_eq!(metadata.creation_timestamp, Some(Time(now)));
        assert!(
            metadata.deletion_timestamp.is_none()
                && metadata.deletion_grace_period_seconds.is_none()
        );
        assert!(metadata.self_link.is_none() && metadata.labels.is_some());
    }
}
