//! Updates: of the main resource and of its subresources, by replacement or by patch.

use bytes::Bytes;
use k8s_openapi::api::autoscaling::v1::{Scale, ScaleSpec, ScaleStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pilothouse_api::{
    GroupVersionKind, Revision, Status,
    field::{ErrorList, Path},
    validation,
};
use pilothouse_storage::KeyValue;

use super::{
    Attributes, Call, Current, Registry, Resource,
    create::{Put, refuse_if_any},
    erased::AnyObject,
    errors, managed, metadata, read_current,
};
use crate::admission::Operation;

/// The part of an object that a write may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subresource {
    /// The object itself, its status excepted.
    Main,
    Status,
    Scale,
    /// A namespace's own finalizers.
    Finalize,
    /// The node of a pod; no strategy is asked.
    Binding,
    /// A part of the object that the kind's strategy names.
    Part(&'static str),
}

impl Subresource {
    /// The path element.
    pub fn name(self) -> &'static str {
        match self {
            Self::Main => "",
            Self::Status => "status",
            Self::Scale => "scale",
            Self::Finalize => "finalize",
            Self::Binding => "binding",
            Self::Part(name) => name,
        }
    }
}

/// Makes the new object from the one that is stored. Runs once per attempt.
pub(crate) type Transform<'a> = dyn Fn(&Current) -> Result<AnyObject, Status> + Send + Sync + 'a;

/// Makes the object to be created where there is none to be updated.
pub(crate) type Create<'a> = dyn Fn() -> Result<AnyObject, Status> + Send + Sync + 'a;

/// How an update ended.
#[derive(Debug)]
pub struct Updated {
    pub object: AnyObject,
    /// There was none before.
    pub created: bool,
}

impl Registry {
    /// Replaces the object by what `transform` makes of it. A `resourceVersion` or `uid` in the result that differs from the
    /// stored one is 409; a write by somebody else in between runs `transform` again. `or_create` is for applies and for kinds
    /// whose PUT creates.
    pub async fn update(
        &self,
        resource: &Resource,
        call: &Call,
        (namespace, name): (&str, &str),
        subresource: Subresource,
        transform: &Transform<'_>,
        or_create: Option<&Create<'_>>,
    ) -> Result<Updated, Status> {
        let key = resource.info.storage_key(namespace, name);
        let mut found = self.current(resource, namespace, name).await?;
        loop {
            let Some(current) = found else {
                match self
                    .create_instead(resource, call, (namespace, name), or_create)
                    .await
                {
                    // somebody was quicker
                    Err(taken) if taken.is_already_exists() && !call.context.dry_run => {
                        found = self.current(resource, namespace, name).await?;
                        continue;
                    }
                    outcome => return outcome,
                }
            };
            match self
                .try_update(resource, call, &key, subresource, &current, transform)
                .await?
            {
                Attempt::Done(object) => {
                    return Ok(Updated {
                        object,
                        created: false,
                    });
                }
                Attempt::Conflict(kv) => {
                    found = kv.map(|kv| read_current(resource, kv)).transpose()?
                }
            }
        }
    }

    async fn create_instead(
        &self,
        resource: &Resource,
        call: &Call,
        (namespace, name): (&str, &str),
        or_create: Option<&Create<'_>>,
    ) -> Result<Updated, Status> {
        let missing = || Status::not_found(&resource.info.group_resource(), name);
        let mut object = or_create.ok_or_else(missing)?()?;
        if call.applies && !object.uid().is_empty() {
            let why = format!(
                "uid mismatch: the provided object specified uid {}, and no existing object was found",
                object.uid()
            );
            return Err(Status::conflict(&resource.info.group_resource(), name, why));
        }
        let version = object
            .metadata()
            .resource_version
            .as_deref()
            .unwrap_or_default();
        if !call.applies && (!matches!(version, "" | "0") || !object.uid().is_empty()) {
            return Err(missing()); // the caller means one that was there
        }
        object.metadata_mut().resource_version = None;
        object.metadata_mut().name = Some(name.to_owned());
        let object = self.create(resource, call, namespace, object).await?;
        Ok(Updated {
            object,
            created: true,
        })
    }

    async fn try_update(
        &self,
        resource: &Resource,
        call: &Call,
        key: &str,
        subresource: Subresource,
        current: &Current,
        transform: &Transform<'_>,
    ) -> Result<Attempt, Status> {
        let strategy = &*resource.strategy;
        let old = &current.object;
        let mut new = transform(current)?;
        check_preconditions(resource, subresource, &new, current)?;
        let attributes = Attributes {
            subresource: subresource.name(),
            operation: match subresource {
                Subresource::Binding => Operation::Create,
                _ => Operation::Update,
            },
            kind: admission_kind(subresource),
            namespace: old.namespace(),
            name: old.name(),
        };
        strategy.default(&mut new);
        managed::track_update(self, resource, call, subresource, &mut new, current)?;
        self.mutate(resource, call, &attributes, &mut new, Some(old))
            .await?;
        let unconditional = new
            .metadata()
            .resource_version
            .as_deref()
            .unwrap_or_default()
            .is_empty();
        if unconditional
            && (strategy.allow_unconditional_update() || subresource != Subresource::Main)
        {
            new.metadata_mut()
                .resource_version
                .clone_from(&old.metadata().resource_version);
        }
        metadata::fill_for_update(new.metadata_mut(), old.metadata());
        let reservation = self.prepare_update(resource, call, subresource, &mut new, old)?;
        let errors = update_errors(resource, subresource, &new, old);
        refuse_if_any(resource, old.name(), errors)?;
        call.warn(metadata::drop_duplicate_owners(new.metadata_mut()));
        if subresource == Subresource::Main {
            call.warn(strategy.warnings(&new));
        }
        self.validate(resource, call, &attributes, Some(&new), Some(old))
            .await?;
        if leaves_now(resource, &new, old) {
            return self
                .remove(resource, call, key, current.revision, new)
                .await;
        }
        if changes_nothing(resource, &mut new, current)? {
            return Ok(Attempt::Done(with_revision(new, current.revision)));
        }
        if call.context.dry_run {
            return Ok(Attempt::Done(new));
        }
        Ok(
            match self
                .put(resource, key, current.revision, &mut new, call, reservation)
                .await?
            {
                Put::Written(revision) => Attempt::Done(with_revision(new, revision)),
                Put::Conflict(found) => Attempt::Conflict(found),
                // other numbers are chosen, if the caller leaves that open
                Put::Lost => Attempt::Conflict(self.found(key).await?),
            },
        )
    }

    /// Keeps what this subresource may not change, counts the generation, takes what the kind shares.
    fn prepare_update(
        &self,
        resource: &Resource,
        call: &Call,
        subresource: Subresource,
        new: &mut AnyObject,
        old: &AnyObject,
    ) -> Result<Option<Box<dyn super::strategy::Reservation>>, Status> {
        let strategy = &*resource.strategy;
        match subresource {
            Subresource::Main | Subresource::Scale => {
                strategy.prepare_for_update(&call.context, new, old);
                count_generation(resource, new, old);
                strategy.reserve(new, Some(old), call.context.dry_run)
            }
            Subresource::Status => {
                strategy.prepare_for_status_update(new, old);
                strategy.settle_status(&call.context, new, old);
                Ok(None)
            }
            Subresource::Finalize => {
                strategy.prepare_for_finalize(new, old);
                Ok(None)
            }
            Subresource::Binding => Ok(None),
            Subresource::Part(name) => {
                strategy.keep_all_but(name, &call.context, new, old);
                count_generation(resource, new, old);
                Ok(None)
            }
        }
    }

    /// The write that took the last finalizer away removes the object; what comes back is its last state.
    async fn remove(
        &self,
        resource: &Resource,
        call: &Call,
        key: &str,
        revision: Revision,
        last: AnyObject,
    ) -> Result<Attempt, Status> {
        if call.context.dry_run {
            return Ok(Attempt::Done(last));
        }
        Ok(
            match self.take_away(resource, key, revision, &last).await? {
                Put::Written(revision) => Attempt::Done(with_revision(last, revision)),
                Put::Conflict(found) => Attempt::Conflict(found),
                Put::Lost => Attempt::Conflict(self.found(key).await?),
            },
        )
    }

    /// What a key holds now.
    pub(super) async fn found(&self, key: &str) -> Result<Option<KeyValue>, Status> {
        let found = self.storage.get(key, None).await;
        Ok(found.map_err(errors::from_storage)?.kv)
    }
}

enum Attempt {
    Done(AnyObject),
    /// Somebody else wrote; the key holds this now.
    Conflict(Option<KeyValue>),
}

/// Counts a change of what the generation is about.
fn count_generation(resource: &Resource, new: &mut AnyObject, old: &AnyObject) {
    if resource.strategy.generation_changed(new, old) == Some(true) {
        let generation = old.metadata().generation.unwrap_or(0);
        new.metadata_mut().generation = Some(generation + 1);
    }
}

fn with_revision(mut object: AnyObject, revision: Revision) -> AnyObject {
    object.metadata_mut().resource_version = Some(revision.to_string());
    object
}

/// What the caller says about the stored object must be true.
fn check_preconditions(
    resource: &Resource,
    subresource: Subresource,
    new: &AnyObject,
    current: &Current,
) -> Result<(), Status> {
    let gr = resource.info.group_resource();
    let old = &current.object;
    if !new.uid().is_empty() && new.uid() != old.uid() {
        let why = format!(
            "Precondition failed: UID in precondition: {}, UID in object meta: {}",
            new.uid(),
            old.uid()
        );
        return Err(Status::conflict(&gr, old.name(), why));
    }
    let sent = new
        .metadata()
        .resource_version
        .as_deref()
        .unwrap_or_default();
    if sent.is_empty() || subresource == Subresource::Binding {
        return Ok(());
    }
    match sent.parse::<u64>() {
        Ok(revision) if revision == current.revision.0 => Ok(()),
        Ok(0) => Ok(()), // as if none were given
        Ok(_) => Err(Status::conflict(&gr, old.name(), super::OBJECT_MODIFIED)),
        Err(_) => {
            let path = Path::new("metadata").child("resourceVersion");
            let error = pilothouse_api::field::FieldError::invalid(
                &path,
                sent,
                "must be an unsigned integer",
            );
            refuse_if_any(resource, old.name(), vec![error])
        }
    }
}

fn update_errors(
    resource: &Resource,
    subresource: Subresource,
    new: &AnyObject,
    old: &AnyObject,
) -> ErrorList {
    let strategy = &*resource.strategy;
    if subresource == Subresource::Binding {
        return ErrorList::new();
    }
    let path = Path::new("metadata");
    let mut errors = validation::validate_object_meta_update(new.metadata(), old.metadata(), &path);
    match subresource {
        Subresource::Status => errors.extend(strategy.validate_status_update(new, old)),
        Subresource::Finalize => errors.extend(strategy.validate(new)),
        Subresource::Part(name) => errors.extend(strategy.validate_part(name, new, old)),
        _ => {
            errors.extend(strategy.validate(new));
            errors.extend(strategy.validate_update(new, old));
        }
    }
    errors
}

/// Whether what is to be written is what is stored, and stored as it would be written. Times of managed fields alone are no change, and are taken back.
fn changes_nothing(
    resource: &Resource,
    new: &mut AnyObject,
    current: &Current,
) -> Result<bool, Status> {
    if !managed::only_times_differ(new, &current.object) {
        return Ok(!current.stale && resource.encode(new)? == current.stored);
    }
    let managed = new.managed().cloned();
    new.set_managed(current.object.managed().cloned());
    let is_same = resource.encode(new)? == current.stored;
    if !is_same {
        new.set_managed(managed);
    }
    Ok(is_same && !current.stale)
}

/// Whether nothing keeps a deleting object any more.
fn leaves_now(resource: &Resource, new: &AnyObject, old: &AnyObject) -> bool {
    let no_finalizers = |object: &AnyObject| {
        object
            .metadata()
            .finalizers
            .as_ref()
            .is_none_or(Vec::is_empty)
            && !resource.strategy.has_own_finalizers(object)
    };
    old.metadata().deletion_timestamp.is_some()
        && old.metadata().deletion_grace_period_seconds == Some(0)
        && no_finalizers(new)
}

fn admission_kind(subresource: Subresource) -> Option<GroupVersionKind> {
    match subresource {
        Subresource::Scale => Some(GroupVersionKind::of("autoscaling", "v1", "Scale")),
        Subresource::Binding => Some(GroupVersionKind::of("", "v1", "Binding")),
        _ => None,
    }
}

/// The scale subresource of an object as JSON; empty for kinds without one.
pub(crate) fn scale_document(resource: &Resource, object: &AnyObject) -> Bytes {
    let Some(view) = resource.strategy.scale(object) else {
        return Bytes::new();
    };
    let metadata = object.metadata();
    let scale = Scale {
        metadata: ObjectMeta {
            name: metadata.name.clone(),
            namespace: metadata.namespace.clone(),
            uid: metadata.uid.clone(),
            resource_version: metadata.resource_version.clone(),
            creation_timestamp: metadata.creation_timestamp.clone(),
            ..ObjectMeta::default()
        },
        spec: Some(ScaleSpec {
            replicas: Some(view.replicas),
        }),
        status: Some(ScaleStatus {
            replicas: view.status_replicas,
            selector: (!view.selector.is_empty()).then_some(view.selector),
        }),
    };
    serde_json::to_vec(&scale).unwrap_or_default().into() // plain fields: cannot fail
}

/// `spec.replicas` of a Scale; a negative one is 422.
pub(crate) fn scale_replicas(json: &[u8]) -> Result<i32, Status> {
    read_scale(json).map(|scale| scale.spec.and_then(|s| s.replicas).unwrap_or(0))
}

/// Reads and checks a Scale.
pub(crate) fn read_scale(json: &[u8]) -> Result<Scale, Status> {
    let scale: Scale = serde_json::from_slice(json).map_err(|error| {
        Status::bad_request(format!(
            "Scale in version \"v1\" cannot be handled as a Scale: {error}"
        ))
    })?;
    let replicas = scale.spec.as_ref().and_then(|s| s.replicas).unwrap_or(0);
    if replicas < 0 {
        let path = Path::new("spec").child("replicas");
        let error = pilothouse_api::field::FieldError::invalid(
            &path,
            replicas,
            "must be greater than or equal to 0",
        );
        let name = scale.metadata.name.unwrap_or_default();
        return Err(Status::invalid(
            "autoscaling",
            "Scale",
            &name,
            vec![error.into()],
        ));
    }
    Ok(scale)
}
