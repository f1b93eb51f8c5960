//! Bringing the number of a workload's pods to what it asks.

use pilothouse_sdk::{
    cluster::{
        Cluster, ClusterExt, DeleteOptions, ListOptions, Status as Refusal, Write, resources,
    },
    controller::{Context, Entry, Error, Key, Outcome, Owning, Reconciler, Watch},
    objects::{ObjectMeta, OwnerReference, Pod, Time},
};
use serde::Deserialize;

use crate::{
    rank::pods_to_delete,
    slow_start::slow_start,
    status,
    workload::{Kind, NewPod, Template, Workload},
};

/// At most so many pods are created or deleted in one reconcile.
const BURST_REPLICAS: usize = 500;

/// The longest generateName that is not cut.
const LONGEST_PREFIX: usize = 253;

/// The controller of one of the two kinds.
pub(crate) struct Replicas(pub(crate) Kind);

impl Reconciler for Replicas {
    fn entry(&self) -> Entry {
        let (group, plural) = (&*self.0.resource().group, &*self.0.resource().name);
        Entry::new(self.0.controller_name())
            .watch(Watch::own(self.0.resource()))
            .watch(Watch::owned_by(
                &resources::PODS,
                self.0.api_version(),
                self.0.name(),
            ))
            .watch(Watch::orphans_selected_by(
                &resources::PODS,
                "spec.selector",
            ))
            .may(&["get", "list", "watch"], group, &[plural])
            .may(&["patch", "update"], group, &[&format!("{plural}/status")])
            .may(
                &["get", "list", "watch", "create", "delete", "patch"],
                "",
                &["pods"],
            )
    }

    fn reconcile(&self, context: &Context<'_>, key: &Key) -> Result<Outcome, Error> {
        let cluster = context.cluster;
        let workload = cluster.get::<Workload>(self.0.resource(), &key.namespace, &key.name)?;
        match workload {
            Some(workload) => Run {
                cluster,
                kind: self.0,
                workload: &workload,
            }
            .run(),
            None => Ok(Outcome::Done),
        }
    }
}

struct Run<'a> {
    cluster: &'a dyn Cluster,
    kind: Kind,
    workload: &'a Workload,
}

impl Run<'_> {
    fn run(&self) -> Result<Outcome, Error> {
        let (active, terminating) = self.pods()?;
        let managed = match self.workload.metadata.is_deleting() {
            true => Ok(()),
            false => self.manage(&active),
        };
        let now = Time::from_ms(self.cluster.now_ms());
        self.write_status(&active, terminating, managed.as_ref().err(), now)?;
        managed?;
        Ok(
            match status::next_availability_ms(self.workload, &active, now) {
                Some(ms) => Outcome::RequeueAfterMs(ms),
                None => Outcome::Done,
            },
        )
    }

    /// The workload's active pods, after adoption and release, and the number of its terminating ones.
    fn pods(&self) -> Result<(Vec<Pod>, usize), Error> {
        let meta = &self.workload.metadata;
        let selector = self.kind.selector(&self.workload.spec.selector)?;
        let mut pods: Vec<Pod> =
            self.cluster
                .list_owned(&resources::PODS, &meta.namespace, &meta.uid)?;
        let selected = self.cluster.list_raw(
            &resources::PODS,
            &meta.namespace,
            &ListOptions::labels(selector.to_string()),
        )?;
        for pod in selected.iter().filter(|pod| !shows_controller(pod)) {
            let pod: Pod = serde_json::from_slice(pod)?;
            if pod.metadata.controller().is_none() {
                pods.push(pod);
            }
        }
        let terminating = pods
            .iter()
            .filter(|pod| pod.is_terminating() && pod.metadata.is_controlled_by(&meta.uid))
            .filter(|pod| selector.matches(&pod.metadata.labels))
            .count();
        pods.retain(Pod::is_active);
        let owning = Owning {
            cluster: self.cluster,
            owner: meta,
            owner_resource: self.kind.resource(),
            owner_kind: self.kind.name(),
            child_resource: &resources::PODS,
            selector: &selector,
        };
        Ok((owning.claim(pods, |_| true)?, terminating))
    }

    fn manage(&self, active: &[Pod]) -> Result<(), Error> {
        let wanted = usize::try_from(self.workload.spec.replicas).unwrap_or(0);
        if active.len() < wanted {
            self.create((wanted - active.len()).min(BURST_REPLICAS))
        } else if active.len() > wanted {
            self.delete(active, (active.len() - wanted).min(BURST_REPLICAS))
        } else {
            Ok(())
        }
    }

    fn create(&self, count: usize) -> Result<(), Error> {
        let Some(template) = &self.workload.spec.template else {
            return Err(Error::other("there is no pod template"));
        };
        let pod = serde_json::to_vec(&self.new_pod(template))?;
        let subject = self.workload.subject(self.kind);
        let mut namespace_is_terminating = false;
        let (_, failure) = slow_start(count, |batch| {
            if namespace_is_terminating {
                return Vec::new();
            }
            let answers = self.create_batch(&pod, batch).into_iter();
            let answers = answers.map(|answer| match answer {
                Ok(name) => {
                    let note = format!("Created pod: {name}");
                    self.cluster
                        .event(&subject, "SuccessfulCreate", "Create", &note);
                    Ok(())
                }
                // Every create will be refused and the namespace takes this workload along: nothing to retry or to report.
                Err(refusal) if is_namespace_terminating(&refusal) => {
                    namespace_is_terminating = true;
                    Ok(())
                }
                Err(refusal) => {
                    let note = format!("Error creating: {refusal}");
                    self.cluster
                        .warning(&subject, "FailedCreate", "Create", &note);
                    Err(refusal)
                }
            });
            answers.collect()
        });
        failure.map_or(Ok(()), |refusal| Err(refusal.into()))
    }

    /// The names of the pods created.
    fn create_batch(&self, pod: &[u8], count: usize) -> Vec<Result<String, Refusal>> {
        let create = Write::Create {
            of: resources::PODS.clone(),
            namespace: self.workload.metadata.namespace.clone(),
            object: pod.to_vec(),
        };
        let answers = self.cluster.write_all(vec![create; count]).into_iter();
        let name = |created: Vec<u8>| {
            let created: Named = serde_json::from_slice(&created).unwrap_or_default();
            created.metadata.name
        };
        answers.map(|answer| answer.map(name)).collect()
    }

    fn new_pod<'t>(&self, template: &'t Template) -> NewPod<'t> {
        let owner = &self.workload.metadata;
        let prefix = match owner.name.len() < LONGEST_PREFIX {
            true => format!("{}-", owner.name),
            false => owner.name.clone(),
        };
        NewPod {
            api_version: "v1",
            kind: "Pod",
            metadata: ObjectMeta {
                generate_name: prefix,
                namespace: owner.namespace.clone(),
                labels: template.metadata.labels.clone(),
                annotations: template.metadata.annotations.clone(),
                finalizers: template.metadata.finalizers.clone(),
                owner_references: vec![OwnerReference::controller_to(
                    self.kind.api_version(),
                    self.kind.name(),
                    owner,
                )],
                ..ObjectMeta::default()
            },
            spec: &template.spec,
        }
    }

    /// Deletes all it can; the first failure is reported after the rest has been tried.
    fn delete(&self, active: &[Pod], count: usize) -> Result<(), Error> {
        let related = if count < active.len() {
            self.related_pods(active)?
        } else {
            Vec::new()
        };
        let now = Time::from_ms(self.cluster.now_ms());
        let subject = self.workload.subject(self.kind);
        let surplus = pods_to_delete(active.to_vec(), &related, count, now);
        let deletion = |pod: &Pod| Write::Delete {
            of: resources::PODS.clone(),
            namespace: pod.metadata.namespace.clone(),
            name: pod.metadata.name.clone(),
            options: DeleteOptions::uid(&pod.metadata.uid),
        };
        let answers = self
            .cluster
            .write_all(surplus.iter().map(deletion).collect());
        let mut failure = None;
        for (pod, answer) in surplus.iter().zip(answers) {
            match answer {
                Ok(_) => {
                    let note = format!("Deleted pod: {}", pod.metadata.name);
                    self.cluster
                        .event(&subject, "SuccessfulDelete", "Delete", &note);
                }
                Err(refusal) if refusal.is_not_found() => {}
                Err(refusal) => {
                    let note = format!("Error deleting: {refusal}");
                    self.cluster
                        .warning(&subject, "FailedDelete", "Delete", &note);
                    failure = failure.or(Some(refusal));
                }
            }
        }
        failure.map_or(Ok(()), |refusal| Err(refusal.into()))
    }

    /// The pods of every workload of this kind with the same controller, so that a rollout spreads over the nodes as a whole.
    fn related_pods(&self, active: &[Pod]) -> Result<Vec<Pod>, Error> {
        let meta = &self.workload.metadata;
        let Some(owner) = meta.controller() else {
            return Ok(active.to_vec());
        };
        let siblings: Vec<Named> =
            self.cluster
                .list_owned(self.kind.resource(), &meta.namespace, &owner.uid)?;
        let mut pods = active.to_vec();
        for sibling in siblings
            .iter()
            .filter(|sibling| sibling.metadata.uid != meta.uid)
        {
            let owned = self.cluster.list_owned(
                &resources::PODS,
                &meta.namespace,
                &sibling.metadata.uid,
            )?;
            pods.extend::<Vec<Pod>>(owned);
        }
        Ok(pods)
    }

    fn write_status(
        &self,
        active: &[Pod],
        terminating: usize,
        failure: Option<&Error>,
        now: Time,
    ) -> Result<(), Error> {
        let failure = failure.map(failure_message);
        let status = status::calculate(
            self.kind,
            self.workload,
            active,
            terminating,
            failure.as_deref(),
            now,
        );
        if status == self.workload.status {
            return Ok(());
        }
        let meta = &self.workload.metadata;
        let patch = status::patch(self.workload, &status);
        let written = self.cluster.merge_patch_status::<serde::de::IgnoredAny>(
            self.kind.resource(),
            &meta.namespace,
            &meta.name,
            &patch,
        );
        match written {
            Err(refusal) if !refusal.is_not_found() => Err(refusal.into()),
            _ => Ok(()),
        }
    }
}

#[derive(Default, Deserialize)]
struct Named {
    metadata: ObjectMeta,
}

/// Whether the text of a pod names a controller, which nothing else in a pod does. Nearly every selected pod has one, and this
/// is told much faster than by decoding it; a controller written otherwise is found when it is decoded.
fn shows_controller(pod: &[u8]) -> bool {
    const CONTROLLER: &[u8] = br#""controller":true"#;
    pod.windows(CONTROLLER.len())
        .any(|window| window == CONTROLLER)
}

/// The server's own words, without the reason that the log's form has in front.
fn failure_message(error: &Error) -> String {
    match error {
        Error::Refused(refusal) => refusal.to_string(),
        Error::Other(message) => message.clone(),
    }
}

/// Refusals carry no causes, so the lifecycle admission's text is what tells it from other refusals.
fn is_namespace_terminating(refusal: &Refusal) -> bool {
    refusal.is_forbidden() && refusal.message.contains("because it is being terminated")
}

#[cfg(test)]
mod tests;
