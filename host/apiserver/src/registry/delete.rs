//! Deletion: preconditions, grace, finalizers, collections.
//! Source: <https://kubernetes.io/docs/concepts/overview/working-with-objects/finalizers/> and
//! <https://kubernetes.io/docs/concepts/architecture/garbage-collection/>

use bytes::Bytes;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use pilothouse_api::{Revision, Status};
use pilothouse_storage::KeyValue;
use serde::Deserialize;

use super::{
    Attributes, Call, Current, Registry, Resource, create::Put, erased::AnyObject, read_current,
};
use crate::{
    admission::Operation,
    query::{self, Query, invalid_option},
};

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// What becomes of dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Propagation {
    Background,
    Foreground,
    Orphan,
}

/// What must be true of the object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Preconditions {
    pub uid: Option<String>,
    pub resource_version: Option<String>,
}

/// The options of deletions, checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    pub grace_period_seconds: Option<i64>,
    pub preconditions: Preconditions,
    pub propagation: Option<Propagation>,
    pub dry_run: bool,
}

/// The wire form.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Wire {
    kind: String,
    grace_period_seconds: Option<i64>,
    preconditions: Option<Preconditions>,
    propagation_policy: Option<String>,
    orphan_dependents: Option<bool>,
    dry_run: Vec<String>,
}

impl DeleteOptions {
    /// Reads them from a body, or from the query if there is none.
    pub(crate) fn parse(body: &Bytes, query: &Query) -> Result<Self, Status> {
        let wire = match body.is_empty() {
            false => serde_json::from_slice(body).map_err(|error| {
                Status::bad_request(format!("DeleteOptions cannot be read: {error}"))
            })?,
            true => Wire {
                grace_period_seconds: query.number("gracePeriodSeconds")?,
                propagation_policy: query.get("propagationPolicy").map(str::to_owned),
                orphan_dependents: query.optional_flag("orphanDependents"),
                dry_run: query.all("dryRun").map(str::to_owned).collect(),
                ..Wire::default()
            },
        };
        if !matches!(wire.kind.as_str(), "" | "DeleteOptions") {
            return Err(Status::bad_request(format!(
                "expected DeleteOptions, got {}",
                wire.kind
            )));
        }
        let refuse = |reason: &str, message: String| {
            Err(invalid_option(
                "DeleteOptions",
                "propagationPolicy",
                reason,
                message,
            ))
        };
        let propagation = match (wire.propagation_policy.as_deref(), wire.orphan_dependents) {
            (Some(policy), Some(_)) => {
                let message = format!(
                    "Invalid value: {policy:?}: orphanDependents and deletionPropagation cannot be both set"
                );
                return refuse("FieldValueInvalid", message);
            }
            (Some("Background"), None) | (None, Some(false)) => Some(Propagation::Background),
            (Some("Foreground"), None) => Some(Propagation::Foreground),
            (Some("Orphan"), None) | (None, Some(true)) => Some(Propagation::Orphan),
            (None, None) => None,
            (Some(other), None) => {
                let message = format!(
                    "Unsupported value: {other:?}: supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\""
                );
                return refuse("FieldValueNotSupported", message);
            }
        };
        Ok(Self {
            grace_period_seconds: wire.grace_period_seconds.map(|s| if s < 0 { 1 } else { s }),
            preconditions: wire.preconditions.unwrap_or_default(),
            propagation,
            dry_run: query::dry_run(wire.dry_run.iter().map(String::as_str), "DeleteOptions")?,
        })
    }
}

/// How a deletion ended.
#[derive(Debug)]
pub enum Deleted {
    /// It is gone; this was its last state.
    Gone(AnyObject),
    /// It is marked and waits for its grace or its finalizers.
    Pending(AnyObject),
}

impl Registry {
    /// Deletes an object, or marks it as being deleted.
    pub async fn delete(
        &self,
        resource: &Resource,
        call: &Call,
        (namespace, name): (&str, &str),
        options: &DeleteOptions,
    ) -> Result<Deleted, Status> {
        let key = resource.info.storage_key(namespace, name);
        let mut found = self.current(resource, namespace, name).await?;
        loop {
            let Some(current) = found else {
                return Err(Status::not_found(&resource.info.group_resource(), name));
            };
            match self
                .try_delete(resource, call, &key, current, options)
                .await?
            {
                Attempt::Done(deleted) => return Ok(deleted),
                Attempt::Conflict(kv) => {
                    found = kv.map(|kv| read_current(resource, kv)).transpose()?
                }
            }
        }
    }

    async fn try_delete(
        &self,
        resource: &Resource,
        call: &Call,
        key: &str,
        current: Current,
        options: &DeleteOptions,
    ) -> Result<Attempt, Status> {
        let object = &current.object;
        check_preconditions(resource, object, &options.preconditions)?;
        resource.strategy.validate_delete(object)?;
        let attributes = Attributes {
            subresource: "",
            operation: Operation::Delete,
            kind: None,
            namespace: match resource.info.gvr.resource == "namespaces" {
                true => object.name(),
                false => object.namespace(),
            },
            name: object.name(),
        };
        self.validate(resource, call, &attributes, None, Some(object))
            .await?;
        let dry_run = call.context.dry_run || options.dry_run;
        match plan(resource, object, options, call.context.now) {
            Plan::Nothing => Ok(Attempt::Done(Deleted::Pending(current.object))),
            Plan::Mark(mut marked) => {
                if dry_run {
                    return Ok(Attempt::Done(Deleted::Pending(marked)));
                }
                let put = self
                    .put(resource, key, current.revision, &mut marked, call, None)
                    .await?;
                Ok(match put {
                    Put::Written(revision) => {
                        marked.metadata_mut().resource_version = Some(revision.to_string());
                        Attempt::Done(Deleted::Pending(marked))
                    }
                    Put::Conflict(found) => Attempt::Conflict(found),
                    Put::Lost => Attempt::Conflict(self.found(key).await?),
                })
            }
            Plan::Remove if dry_run => Ok(Attempt::Done(Deleted::Gone(current.object))),
            Plan::Remove => self.remove_now(resource, key, current).await,
        }
    }

    async fn remove_now(
        &self,
        resource: &Resource,
        key: &str,
        current: Current,
    ) -> Result<Attempt, Status> {
        let Current {
            mut object,
            revision,
            ..
        } = current;
        Ok(
            match self.take_away(resource, key, revision, &object).await? {
                Put::Written(Revision(revision)) => {
                    object.metadata_mut().resource_version = Some(revision.to_string());
                    Attempt::Done(Deleted::Gone(object))
                }
                Put::Conflict(found) => Attempt::Conflict(found),
                Put::Lost => Attempt::Conflict(self.found(key).await?),
            },
        )
    }
}

enum Attempt {
    Done(Deleted),
    Conflict(Option<KeyValue>),
}

/// What is to be done to the stored object.
enum Plan {
    /// It is being deleted already, and no sooner.
    Nothing,
    Mark(AnyObject),
    Remove,
}

fn plan(
    resource: &Resource,
    object: &AnyObject,
    options: &DeleteOptions,
    now: jiff::Timestamp,
) -> Plan {
    let strategy = &*resource.strategy;
    let mut marked = object.clone();
    let grace = match object.metadata().deletion_timestamp {
        Some(_) => match shorten(marked.metadata_mut(), options.grace_period_seconds) {
            Shortened::Pending => return Plan::Nothing,
            Shortened::To(seconds) => seconds,
            Shortened::Over => 0,
        },
        None => {
            let grace = strategy.deletion_grace_seconds(object, options.grace_period_seconds);
            let seconds = grace.unwrap_or(0).max(0);
            let metadata = marked.metadata_mut();
            metadata.deletion_timestamp = Some(Time(after(now, seconds)));
            metadata.deletion_grace_period_seconds = Some(seconds);
            if let Some(generation) = metadata.generation.filter(|g| *g > 0) {
                metadata.generation = Some(generation + 1);
            }
            seconds
        }
    };
    if strategy.garbage_collected() {
        let orphan = strategy.orphans_by_default();
        settle_finalizers(marked.metadata_mut(), options.propagation, orphan);
    }
    let held = marked
        .metadata()
        .finalizers
        .as_ref()
        .is_some_and(|f| !f.is_empty())
        || strategy.has_own_finalizers(&marked);
    if grace == 0 && !held {
        return Plan::Remove;
    }
    if object.metadata().deletion_timestamp.is_none() {
        strategy.prepare_for_deletion(&mut marked);
    }
    match marked.metadata() == object.metadata() {
        true => Plan::Nothing,
        false => Plan::Mark(marked),
    }
}

enum Shortened {
    /// A longer or equal grace was asked: nothing changes.
    Pending,
    To(i64),
    /// The grace is over already.
    Over,
}

/// A second deletion may only shorten the grace.
fn shorten(metadata: &mut ObjectMeta, asked: Option<i64>) -> Shortened {
    let Some(left) = metadata.deletion_grace_period_seconds.filter(|s| *s > 0) else {
        return Shortened::Over;
    };
    let Some(asked) = asked.filter(|s| *s < left) else {
        return Shortened::Pending;
    };
    if let Some(at) = &mut metadata.deletion_timestamp {
        at.0 = after(at.0, asked - left);
    }
    metadata.deletion_grace_period_seconds = Some(asked);
    Shortened::To(asked)
}

fn after(time: jiff::Timestamp, seconds: i64) -> jiff::Timestamp {
    time.checked_add(jiff::SignedDuration::from_secs(seconds))
        .unwrap_or(time)
}

/// Adds or removes the garbage collector's finalizers: as asked, else as they are, else by the kind's default.
fn settle_finalizers(
    metadata: &mut ObjectMeta,
    asked: Option<Propagation>,
    orphans_by_default: bool,
) {
    let finalizers = metadata.finalizers.get_or_insert_default();
    let has = |name: &str| finalizers.iter().any(|f| f == name);
    let policy = asked.unwrap_or(match () {
        () if has(ORPHAN) => Propagation::Orphan,
        () if has(FOREGROUND) => Propagation::Foreground,
        () if orphans_by_default => Propagation::Orphan,
        () => Propagation::Background,
    });
    let wanted = match policy {
        Propagation::Orphan => Some(ORPHAN),
        Propagation::Foreground => Some(FOREGROUND),
        Propagation::Background => None,
    };
    finalizers.retain(|f| (f != ORPHAN && f != FOREGROUND) || Some(f.as_str()) == wanted);
    if let Some(wanted) = wanted
        && !finalizers.iter().any(|f| f == wanted)
    {
        finalizers.push(wanted.to_owned());
    }
    if finalizers.is_empty() {
        metadata.finalizers = None;
    }
}

/// 409 unless the object is as the caller says.
pub(super) fn check_preconditions(
    resource: &Resource,
    object: &AnyObject,
    preconditions: &Preconditions,
) -> Result<(), Status> {
    let refuse = |what: &str, wanted: &str, found: &str, happened: &str| {
        let why = format!(
            "the {what} in the precondition ({wanted}) does not match the {what} in record ({found}). The object might have been {happened}"
        );
        Err(Status::conflict(
            &resource.info.group_resource(),
            object.name(),
            why,
        ))
    };
    if let Some(uid) = &preconditions.uid
        && uid != object.uid()
    {
        return refuse("UID", uid, object.uid(), "deleted and then recreated");
    }
    let version = object
        .metadata()
        .resource_version
        .as_deref()
        .unwrap_or_default();
    if let Some(wanted) = &preconditions.resource_version
        && wanted != version
    {
        return refuse("ResourceVersion", wanted, version, "modified");
    }
    Ok(())
}

/// The `Success` status that answers a final deletion: `kubectl delete` waits for its uid.
pub(crate) fn success(resource: &Resource, object: &AnyObject) -> Vec<u8> {
    let mut details = serde_json::json!({
        "name": object.name(),
        "kind": resource.info.gvr.resource,
        "uid": object.uid(),
    });
    if !resource.info.gvr.group.is_empty() {
        details["group"] = resource.info.gvr.group.as_ref().into();
    }
    let status = serde_json::json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": details,
    });
    status.to_string().into_bytes()
}
