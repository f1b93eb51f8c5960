//! One reconcile of a Deployment: find its ReplicaSets, scale them as the strategy asks, and say how things stand.
//!
//! ```text
//! deleting ─────────────────────────────► status
//! paused, or the size has changed ──────► scale in proportion ──────────────────────► status
//! Recreate ──► old to 0 ──► wait for their pods to go ──► new to full size ─────────► rollout status
//! RollingUpdate ──► grow new ──else──► shrink old ──else──► clean up ───────────────► rollout status
//! ```
//!
//! A step that has scaled something ends the reconcile; the ReplicaSets' answers bring the next one. The status, including
//! what the steps noted in its conditions, is written once, at the end.

mod new_replica_set;

use pilothouse_sdk::{
    cluster::{
        Cluster, ClusterExt, DeleteOptions, ListOptions,
        resources::{DEPLOYMENTS, REPLICA_SETS},
    },
    controller::{
        Context, Entry, Error, HasMeta, Key, Outcome, Owning, Reconciler, Selector, Watch,
    },
    objects::{Condition, ObjectMeta, Time},
};
use serde::de::IgnoredAny;
use serde_json::json;

use crate::{
    bounds::{Bounds, Share, Size},
    objects::{Deployment, DeploymentStatus, ReplicaSet},
    revision, status, template,
};

/// The controller.
pub(crate) struct Deployments;

impl Reconciler for Deployments {
    fn entry(&self) -> Entry {
        Entry::new("deployment-controller")
            .watch(Watch::own(&DEPLOYMENTS))
            .watch(Watch::owned_by(&REPLICA_SETS, "apps/v1", "Deployment"))
            .watch(Watch::orphans_selected_by(&REPLICA_SETS, "spec.selector"))
            .may(&["get", "list", "watch"], "apps", &["deployments"])
            .may(&["patch"], "apps", &["deployments/status"])
            .may(
                &["get", "list", "watch", "create", "patch", "delete"],
                "apps",
                &["replicasets"],
            )
    }

    fn reconcile(&self, context: &Context<'_>, key: &Key) -> Result<Outcome, Error> {
        let cluster = context.cluster;
        let deployment = cluster.get::<Deployment>(&DEPLOYMENTS, &key.namespace, &key.name)?;
        let Some(deployment) = deployment else {
            return Ok(Outcome::Done);
        };
        let selector = Selector::from_label_selector(&deployment.spec.selector)?;
        if selector.is_empty() {
            let note = "This deployment is selecting all pods. A non-empty selector is required.";
            cluster.warning(&deployment.subject(), "SelectingAll", "Select", note);
            return Ok(Outcome::Done);
        }
        Rollout::begin(cluster, &deployment, &selector)?.run()
    }
}

impl HasMeta for ReplicaSet {
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
}

struct Rollout<'a> {
    cluster: &'a dyn Cluster,
    deployment: &'a Deployment,
    bounds: Bounds,
    now: Time,
    /// The ReplicaSet of the current template.
    new: Option<ReplicaSet>,
    /// The others, oldest first.
    old: Vec<ReplicaSet>,
    /// The status' conditions as they will be written.
    conditions: Vec<Condition>,
    /// The revision that the Deployment should be annotated with, once it is known.
    revision: Option<String>,
}

impl<'a> Rollout<'a> {
    /// Claims the Deployment's ReplicaSets and tells the one of its template from the others.
    fn begin(
        cluster: &'a dyn Cluster,
        deployment: &'a Deployment,
        selector: &Selector,
    ) -> Result<Self, Error> {
        let meta = &deployment.metadata;
        let mut sets: Vec<ReplicaSet> =
            cluster.list_owned(&REPLICA_SETS, &meta.namespace, &meta.uid)?;
        let options = ListOptions::labels(selector.to_string());
        let selected: Vec<ReplicaSet> = cluster.list(&REPLICA_SETS, &meta.namespace, &options)?;
        sets.extend(
            selected
                .into_iter()
                .filter(|set| set.metadata.controller().is_none()),
        );
        let owning = Owning {
            cluster,
            owner: meta,
            owner_resource: &DEPLOYMENTS,
            owner_kind: "Deployment",
            child_resource: &REPLICA_SETS,
            selector,
        };
        let mut sets = owning.claim(sets, |_| true)?;
        sets.sort_by(|a, b| age_and_name(a).cmp(&age_and_name(b)));
        let new = sets
            .iter()
            .position(|set| template::same(&set.spec.template, &deployment.spec.template))
            .map(|at| sets.remove(at));
        Ok(Self {
            cluster,
            deployment,
            bounds: Bounds::of(deployment),
            now: Time::from_ms(cluster.now_ms()),
            new,
            old: sets,
            conditions: deployment.status.conditions.clone(),
            revision: None,
        })
    }

    fn run(mut self) -> Result<Outcome, Error> {
        if self.deployment.metadata.is_deleting() {
            return self.write_status(self.counted());
        }
        status::note_paused(self.deployment, &mut self.conditions, self.now);
        if self.deployment.spec.paused || self.size_has_changed() {
            self.sync_new()?;
            self.scale_all()?;
            if self.deployment.spec.paused {
                self.clean_up()?;
            }
            return self.write_status(self.counted());
        }
        if self.deployment.is_recreate() {
            self.recreate()?
        } else {
            self.roll()?
        }
        let status = status::rollout(
            self.deployment,
            self.new.as_ref(),
            &self.old,
            self.conditions.clone(),
            self.now,
        );
        self.write_status(status)
    }

    /// Whether an active ReplicaSet was last scaled for another size of the Deployment.
    fn size_has_changed(&self) -> bool {
        let wanted = self.deployment.spec.replicas;
        let active = self
            .old
            .iter()
            .chain(&self.new)
            .filter(|set| set.is_active());
        let mut sizes =
            active.filter_map(|set| revision::desired_replicas(&set.metadata.annotations));
        sizes.any(|size| size != wanted)
    }

    fn roll(&mut self) -> Result<(), Error> {
        self.sync_new()?;
        self.ensure_new()?;
        if self.grow_new()? || self.shrink_old()? {
            return Ok(());
        }
        self.clean_up_if_complete()
    }

    fn recreate(&mut self) -> Result<(), Error> {
        self.sync_new()?;
        if self.shrink_all_old_to_zero()? || self.old_pods_remain() {
            return Ok(());
        }
        self.ensure_new()?;
        self.grow_new()?;
        self.clean_up_if_complete()
    }

    fn grow_new(&mut self) -> Result<bool, Error> {
        let total = self
            .old
            .iter()
            .chain(&self.new)
            .map(|set| set.spec.replicas)
            .sum();
        let Some(new) = &self.new else {
            return Ok(false);
        };
        let size = self.bounds.new_replicas(new.spec.replicas, total);
        if size == new.spec.replicas {
            return Ok(false);
        }
        self.new = Some(self.scaled(new, size)?);
        Ok(true)
    }

    fn shrink_old(&mut self) -> Result<bool, Error> {
        let size = |set: &ReplicaSet| Size {
            wanted: set.spec.replicas,
            available: set.status.available_replicas,
        };
        let active: Vec<usize> = (0..self.old.len())
            .filter(|at| self.old[*at].is_active())
            .collect();
        let old: Vec<Size> = active.iter().map(|at| size(&self.old[*at])).collect();
        let sizes = self
            .bounds
            .shrink_old(&old, self.new.as_ref().map(size).unwrap_or_default());
        let mut shrunk = false;
        for (at, size) in active.into_iter().zip(sizes) {
            shrunk |= self.scale_old(at, size)?;
        }
        Ok(shrunk)
    }

    fn shrink_all_old_to_zero(&mut self) -> Result<bool, Error> {
        let mut shrunk = false;
        for at in 0..self.old.len() {
            shrunk |= self.scale_old(at, 0)?;
        }
        Ok(shrunk)
    }

    fn scale_old(&mut self, at: usize, size: i32) -> Result<bool, Error> {
        let changes = self.old[at].spec.replicas != size;
        if changes {
            self.old[at] = self.scaled(&self.old[at], size)?;
        }
        Ok(changes)
    }

    /// Whether a pod of an old template may still run. Terminating ones count: two templates never run at the same time.
    fn old_pods_remain(&self) -> bool {
        self.old.iter().any(|set| {
            set.status.replicas > 0
                || set.status.terminating_replicas.unwrap_or(0) > 0
                || set.status.observed_generation < set.metadata.generation
        })
    }

    /// Brings the ReplicaSets to the Deployment's size without moving the rollout on.
    fn scale_all(&mut self) -> Result<(), Error> {
        let active: Vec<usize> = (0..self.old.len())
            .filter(|at| self.old[*at].is_active())
            .collect();
        let new_is_active = self.new.as_ref().is_some_and(ReplicaSet::is_active);
        match active.len() + usize::from(new_is_active) {
            0 => self.scale_only_or_newest(None),
            1 => self.scale_only_or_newest(active.first().copied()),
            _ if self.new_is_saturated() => self.shrink_all_old_to_zero().map(drop),
            _ if self.deployment.is_recreate() => Ok(()),
            _ => self.scale_in_proportion(&active, new_is_active),
        }
    }

    /// The only active ReplicaSet takes the whole size: an old one at this place, else the new one or, without one, the newest.
    fn scale_only_or_newest(&mut self, active_old: Option<usize>) -> Result<(), Error> {
        let size = self.deployment.spec.replicas;
        let at = active_old.or_else(|| match &self.new {
            Some(_) => None,
            None => self.old.len().checked_sub(1),
        });
        match (at, &self.new) {
            (Some(at), _) => self.scale_old(at, size).map(drop),
            (None, Some(new)) => {
                self.new = Some(self.scaled(new, size)?);
                Ok(())
            }
            (None, None) => Ok(()),
        }
    }

    fn new_is_saturated(&self) -> bool {
        let size = self.deployment.spec.replicas;
        self.new.as_ref().is_some_and(|new| {
            new.spec.replicas == size
                && revision::desired_replicas(&new.metadata.annotations) == Some(size)
                && new.status.available_replicas == size
        })
    }

    fn scale_in_proportion(&mut self, active_old: &[usize], with_new: bool) -> Result<(), Error> {
        let share = |set: &ReplicaSet| Share {
            wanted: set.spec.replicas,
            max_replicas_before: revision::max_replicas(&set.metadata.annotations),
            created_ms: set.metadata.creation_timestamp.unwrap_or_default().ms(),
        };
        let mut shares: Vec<Share> = active_old.iter().map(|at| share(&self.old[*at])).collect();
        shares.extend(self.new.as_ref().filter(|_| with_new).map(share));
        let sizes = self
            .bounds
            .proportional(&shares, self.deployment.status.replicas);
        for (at, size) in active_old.iter().zip(&sizes) {
            self.old[*at] = self.scaled(&self.old[*at], *size)?;
        }
        if let (Some(new), true, Some(size)) = (&self.new, with_new, sizes.last()) {
            self.new = Some(self.scaled(new, *size)?);
        }
        Ok(())
    }

    /// The ReplicaSet at another size, and noted as scaled for the Deployment's present size.
    fn scaled(&self, set: &ReplicaSet, size: i32) -> Result<ReplicaSet, Error> {
        let mut annotations = set.metadata.annotations.clone();
        revision::set_replicas(&mut annotations, self.bounds);
        let from = set.spec.replicas;
        if size == from && annotations == set.metadata.annotations {
            return Ok(set.clone());
        }
        let patch = json!({
            "metadata": {"resourceVersion": set.metadata.resource_version, "annotations": annotations},
            "spec": {"replicas": size},
        });
        let written = self.patch_replica_set(set, &patch)?;
        if size != from {
            let direction = if size > from { "up" } else { "down" };
            let name = &set.metadata.name;
            let note = format!("Scaled {direction} replica set {name} from {from} to {size}");
            self.cluster.event(
                &self.deployment.subject(),
                "ScalingReplicaSet",
                "Scale",
                &note,
            );
        }
        Ok(written)
    }

    fn patch_replica_set(
        &self,
        set: &ReplicaSet,
        patch: &serde_json::Value,
    ) -> Result<ReplicaSet, Error> {
        let meta = &set.metadata;
        Ok(self
            .cluster
            .merge_patch(&REPLICA_SETS, &meta.namespace, &meta.name, patch)?)
    }

    fn clean_up_if_complete(&self) -> Result<(), Error> {
        match self.deployment.is_complete(&self.deployment.status) {
            true => self.clean_up(),
            false => Ok(()),
        }
    }

    /// Deletes the oldest revisions above the history limit, as far as they have no pods.
    fn clean_up(&self) -> Result<(), Error> {
        let Some(limit) = self.deployment.revision_history_limit() else {
            return Ok(());
        };
        let mut sets: Vec<&ReplicaSet> = self
            .old
            .iter()
            .filter(|set| !set.metadata.is_deleting())
            .collect();
        sets.sort_by_key(|set| revision::revision(&set.metadata.annotations).unwrap_or(0));
        for set in sets.iter().take(sets.len().saturating_sub(limit)) {
            let meta = &set.metadata;
            let in_use = set.status.replicas != 0
                || set.spec.replicas != 0
                || meta.generation > set.status.observed_generation;
            if in_use {
                continue;
            }
            let options = DeleteOptions::uid(&meta.uid);
            match self
                .cluster
                .delete(&REPLICA_SETS, &meta.namespace, &meta.name, &options)
            {
                Err(refusal) if !refusal.is_not_found() => return Err(refusal.into()),
                _ => {}
            }
        }
        Ok(())
    }

    fn counted(&self) -> DeploymentStatus {
        let conditions = self.conditions.clone();
        status::counted(
            self.deployment,
            self.new.as_ref(),
            &self.old,
            conditions,
            self.now,
        )
    }

    /// Writes the status and the revision if they differ from what is stored, and says when to look again.
    fn write_status(&self, status: DeploymentStatus) -> Result<Outcome, Error> {
        let meta = &self.deployment.metadata;
        let revision = self
            .revision
            .as_ref()
            .filter(|revision| meta.annotations.get(revision::REVISION) != Some(revision));
        if status != self.deployment.status || revision.is_some() {
            let patch = status::patch(self.deployment, &status, revision.map(String::as_str));
            let written = self.cluster.merge_patch_status::<IgnoredAny>(
                &DEPLOYMENTS,
                &meta.namespace,
                &meta.name,
                &patch,
            );
            match written {
                Err(refusal) if !refusal.is_not_found() => return Err(refusal.into()),
                _ => {}
            }
        }
        Ok(
            match status::progress_check_ms(self.deployment, &status, self.now) {
                Some(ms) => Outcome::RequeueAfterMs(ms),
                None => Outcome::Done,
            },
        )
    }
}

fn age_and_name(set: &ReplicaSet) -> (Option<Time>, &str) {
    (set.metadata.creation_timestamp, &set.metadata.name)
}

#[cfg(test)]
mod tests;
