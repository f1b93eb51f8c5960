//! The ReplicaSet of the current template: keeping its annotations up to date, and creating it.

use pilothouse_sdk::{
    cluster::{ClusterExt, Status as Refusal, resources::REPLICA_SETS},
    controller::Error,
    objects::{ObjectMeta, OwnerReference, find_condition},
};
use serde_json::{Value, json};

use super::Rollout;
use crate::{
    objects::ReplicaSet,
    revision,
    status::{
        FOUND_NEW_REPLICA_SET, NEW_REPLICA_SET_CREATED, PROGRESSING, REPLICA_SET_CREATE_ERROR,
        condition, set_condition,
    },
    template,
};

/// The longest name of an object.
const LONGEST_NAME: usize = 253;

impl Rollout<'_> {
    /// Gives an existing ReplicaSet of the template the next revision if it has not the highest, the Deployment's
    /// annotations and its `minReadySeconds`.
    pub(super) fn sync_new(&mut self) -> Result<(), Error> {
        let Some(new) = &self.new else { return Ok(()) };
        let spec = &self.deployment.spec;
        let annotations = revision::for_new_replica_set(
            &self.deployment.metadata.annotations,
            &new.metadata.annotations,
            revision::max_revision(&self.old) + 1,
        );
        let changed = annotations != new.metadata.annotations
            || new.spec.min_ready_seconds != spec.min_ready_seconds;
        let name = new.metadata.name.clone();
        if changed {
            let patch = json!({
                "metadata": {"resourceVersion": new.metadata.resource_version, "annotations": annotations},
                "spec": {"minReadySeconds": spec.min_ready_seconds},
            });
            self.new = Some(self.patch_replica_set(new, &patch)?);
        }
        self.revision = annotations.get(revision::REVISION).cloned();
        let known = find_condition(&self.conditions, PROGRESSING).is_some();
        if self.deployment.progress_deadline_seconds().is_some() && !known {
            let message = format!("Found new replica set {name:?}");
            self.note_progressing("True", FOUND_NEW_REPLICA_SET, message);
        }
        Ok(())
    }

    /// Creates the ReplicaSet of the template if there is none.
    pub(super) fn ensure_new(&mut self) -> Result<(), Error> {
        if self.new.is_some() {
            return Ok(());
        }
        let collision_count = self.deployment.status.collision_count;
        let hash = template::hash(&self.deployment.spec.template, collision_count);
        let total = self.old.iter().map(|set| set.spec.replicas).sum();
        let replicas = self.bounds.new_replicas(0, total);
        let body = self.new_replica_set(&hash, replicas);
        let name = body["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let namespace = &self.deployment.metadata.namespace;
        let created = match self
            .cluster
            .create::<Value>(&REPLICA_SETS, namespace, &body)
        {
            Ok(created) => serde_json::from_value::<ReplicaSet>(created)?,
            Err(refusal) if refusal.is_already_exists() => {
                return self.meet_existing(&name, refusal);
            }
            Err(refusal) => return Err(self.creation_failed(&name, refusal)),
        };
        if replicas > 0 {
            let note = format!("Scaled up replica set {name} from 0 to {replicas}");
            self.cluster.event(
                &self.deployment.subject(),
                "ScalingReplicaSet",
                "Scale",
                &note,
            );
        }
        self.revision = created
            .metadata
            .annotations
            .get(revision::REVISION)
            .cloned();
        self.new = Some(created);
        if self.deployment.progress_deadline_seconds().is_some() {
            let message = format!("Created new replica set {name:?}");
            self.note_progressing("True", NEW_REPLICA_SET_CREATED, message);
        }
        Ok(())
    }

    fn new_replica_set(&self, hash: &str, replicas: i32) -> Value {
        let meta = &self.deployment.metadata;
        let spec = &self.deployment.spec;
        let template = template::with_hash(&spec.template, hash);
        let mut selector = spec.selector.clone();
        if !selector["matchLabels"].is_object() {
            selector["matchLabels"] = json!({});
        }
        selector["matchLabels"][template::HASH_LABEL] = hash.into();
        let mut annotations = revision::for_new_replica_set(
            &meta.annotations,
            &Default::default(),
            revision::max_revision(&self.old) + 1,
        );
        revision::set_replicas(&mut annotations, self.bounds);
        let room = LONGEST_NAME - 1 - hash.len();
        let base: String = meta.name.chars().take(room).collect();
        json!({
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {
                "name": format!("{base}-{hash}"),
                "namespace": meta.namespace,
                "labels": template["metadata"]["labels"],
                "annotations": annotations,
                "ownerReferences": [OwnerReference::controller_to("apps/v1", "Deployment", meta)],
            },
            "spec": {
                "replicas": replicas,
                "minReadySeconds": spec.min_ready_seconds,
                "selector": selector,
                "template": template,
            },
        })
    }

    /// The name is taken: by our own ReplicaSet of this template, which the cache did not show yet, or by another template
    /// with the same hash, for which the collision count finds another name next time.
    fn meet_existing(&mut self, name: &str, refusal: Refusal) -> Result<(), Error> {
        let meta = &self.deployment.metadata;
        let existing: Option<ReplicaSet> =
            self.cluster
                .get_live(&REPLICA_SETS, &meta.namespace, name)?;
        let Some(existing) = existing else {
            return Err(refusal.into());
        };
        let is_ours = existing.metadata.is_controlled_by(&meta.uid);
        if is_ours && template::same(&existing.spec.template, &self.deployment.spec.template) {
            self.new = Some(existing);
            return self.sync_new();
        }
        let mut status = self.deployment.status.clone();
        status.collision_count = Some(status.collision_count.unwrap_or(0) + 1);
        self.write_status(status)?;
        Err(refusal.into())
    }

    /// Says in the status and in an event that there could be no new ReplicaSet.
    fn creation_failed(&mut self, name: &str, refusal: Refusal) -> Error {
        // The namespace takes the Deployment along; it is no failure of the rollout.
        if refusal.is_forbidden() && refusal.message.contains("because it is being terminated") {
            return refusal.into();
        }
        let message = format!("Failed to create new replica set {name:?}: {refusal}");
        let subject = self.deployment.subject();
        self.cluster
            .warning(&subject, REPLICA_SET_CREATE_ERROR, "Create", &message);
        if self.deployment.progress_deadline_seconds().is_some() {
            self.note_progressing("False", REPLICA_SET_CREATE_ERROR, message);
            let mut status = self.deployment.status.clone();
            status.conditions = self.conditions.clone();
            // The refusal is what the caller must see; a status that could not be written is written next time.
            if let Err(error) = self.write_status(status) {
                self.cluster
                    .warn(&format!("deployment {}: {error}", self.name()));
            }
        }
        refusal.into()
    }

    fn name(&self) -> String {
        let ObjectMeta {
            namespace, name, ..
        } = &self.deployment.metadata;
        format!("{namespace}/{name}")
    }

    fn note_progressing(&mut self, status: &str, reason: &str, message: String) {
        let condition = condition(PROGRESSING, status, reason, message, self.now);
        set_condition(&mut self.conditions, condition);
    }
}
