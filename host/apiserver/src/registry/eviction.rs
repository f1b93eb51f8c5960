//! `pods/eviction`: a deletion that asks the pod's disruption budget first.
//! Source: <https://kubernetes.io/docs/concepts/scheduling-eviction/api-eviction/>
//!
//! A pod that disrupts nobody is deleted as it is now: should it become ready meanwhile, its budget is asked after all.

use bytes::Bytes;
use k8s_openapi::api::{
    core::v1::Pod,
    policy::v1::{Eviction, PodDisruptionBudget},
};
use pilothouse_api::Status;
use pilothouse_client::UserInfo;

use super::{
    Call, Current, DeleteOptions, Registry, Resource, Selection,
    kinds::pod_disruption_budget::eviction as budgets,
    update::{Subresource, Updated},
};
use crate::query::{ListOptions, Query};

/// Who writes budgets.
const USER: &str = "system:apiserver";

/// Evicts the pod that the URL names.
pub(crate) async fn evict(
    registry: &Registry,
    pods: &Resource,
    call: &Call,
    (namespace, name): (&str, &str),
    eviction: &Eviction,
) -> Result<(), Status> {
    let named = eviction.metadata.name.as_deref().unwrap_or_default();
    if !named.is_empty() && named != name {
        return Err(Status::bad_request(format!(
            "name in URL does not match name in Eviction object: {name} != {named}"
        )));
    }
    let options = match &eviction.delete_options {
        None => DeleteOptions::default(),
        Some(options) => {
            let body = serde_json::to_vec(options).map_err(Status::internal)?;
            DeleteOptions::parse(&Bytes::from(body), &Query::default())?
        }
    };
    let evicting = Evicting {
        registry,
        pods,
        call,
        dry_run: call.context.dry_run || options.dry_run,
        key: (namespace, name),
        options,
    };
    evicting.run().await
}

struct Evicting<'a> {
    registry: &'a Registry,
    pods: &'a Resource,
    call: &'a Call,
    dry_run: bool,
    key: (&'a str, &'a str),
    options: DeleteOptions,
}

impl Evicting<'_> {
    async fn run(&self) -> Result<(), Status> {
        let asked_for_version = self.options.preconditions.resource_version.is_some();
        loop {
            let pod = self.pod().await?;
            if !budgets::disrupts_nothing(&pod) {
                return self.ask_and_delete(&pod).await;
            }
            let version = pod.metadata.resource_version.clone();
            let version = version.filter(|_| !budgets::is_over(&pod));
            match self.delete(version).await {
                // somebody wrote the pod: it may be ready now
                Err(status) if status.is_conflict() && !asked_for_version => {}
                outcome => return outcome,
            }
        }
    }

    async fn pod(&self) -> Result<Pod, Status> {
        let (namespace, name) = self.key;
        let current = self.registry.current(self.pods, namespace, name).await?;
        let missing = || Status::not_found(&self.pods.info.group_resource(), name);
        let current = current.ok_or_else(missing)?;
        let pod = current.object.downcast_ref::<Pod>().cloned();
        pod.ok_or_else(|| Status::internal("only pods can be evicted"))
    }

    async fn ask_and_delete(&self, pod: &Pod) -> Result<(), Status> {
        let Some(resource) = self
            .registry
            .resource("policy", "v1", "poddisruptionbudgets")
        else {
            return self.delete(None).await;
        };
        let mut budgets = self.budgets(resource, pod).await?;
        let budget = match (budgets.pop(), budgets.is_empty()) {
            (None, _) => return self.delete(None).await,
            (Some(budget), true) => budget,
            (Some(_), false) => {
                return Err(Status::new(
                    500,
                    "",
                    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
                ));
            }
        };
        let name = budget.metadata.name.as_deref().unwrap_or_default();
        if !budgets::is_free(&budget, pod) {
            self.take(resource, name).await?;
            return self.delete(None).await;
        }
        let asked_for_version = self.options.preconditions.resource_version.is_some();
        match self.delete(pod.metadata.resource_version.clone()).await {
            Err(status) if status.is_conflict() && !asked_for_version => {
                Err(budgets::still_being_processed(name))
            }
            outcome => outcome,
        }
    }

    /// The budgets that are about the pod.
    async fn budgets(
        &self,
        resource: &Resource,
        pod: &Pod,
    ) -> Result<Vec<PodDisruptionBudget>, Status> {
        let selection = Selection {
            namespace: self.key.0.to_owned(),
            ..Selection::default()
        };
        let options = ListOptions::default();
        let page = self.registry.list(resource, &selection, &options).await?;
        let mut found = Vec::new();
        for item in &page.items {
            let object = resource.strategy.decode(&item.bytes)?;
            let budget = object.downcast_ref::<PodDisruptionBudget>();
            found.extend(
                budget
                    .filter(|budget| budgets::covers(budget, pod))
                    .cloned(),
            );
        }
        Ok(found)
    }

    /// Writes into the budget that one more pod goes.
    async fn take(&self, resource: &Resource, budget: &str) -> Result<(), Status> {
        let user = UserInfo::new(USER, &["system:masters"]);
        let mut call = Call::new(user, &*self.registry.environment, self.dry_run);
        call.deadline = self.call.deadline;
        let now = call.context.now;
        let transform = |current: &Current| {
            let mut object = current.object.clone();
            match object.downcast_mut::<PodDisruptionBudget>() {
                Some(budget) => budgets::take(budget, self.key.1, now)?,
                None => return Err(Status::internal("a budget is of another kind")),
            }
            Ok(object)
        };
        let key = (self.key.0, budget);
        let updated =
            self.registry
                .update(resource, &call, key, Subresource::Status, &transform, None);
        updated.await.map(|_: Updated| ())
    }

    /// Marks the pod and deletes it, if it is still at `version` (`None`: whatever it is).
    async fn delete(&self, version: Option<String>) -> Result<(), Status> {
        let mut options = self.options.clone();
        options.dry_run = self.dry_run;
        let preconditions = &mut options.preconditions;
        if preconditions.resource_version.is_none() {
            preconditions.resource_version = version;
        }
        if !self.dry_run {
            let marked = self.mark(&options).await?;
            let wanted = &mut options.preconditions.resource_version;
            if wanted.is_some() {
                *wanted = marked;
            }
        }
        self.registry
            .delete(self.pods, self.call, self.key, &options)
            .await?;
        Ok(())
    }

    /// Writes into the pod why it goes; what comes back is its version from then on.
    async fn mark(&self, options: &DeleteOptions) -> Result<Option<String>, Status> {
        let now = self.call.context.now;
        let transform = |current: &Current| {
            super::delete::check_preconditions(self.pods, &current.object, &options.preconditions)?;
            let mut object = current.object.clone();
            match object.downcast_mut::<Pod>() {
                Some(pod) => budgets::mark(pod, now),
                None => return Err(Status::internal("only pods can be evicted")),
            }
            Ok(object)
        };
        let updated = self
            .registry
            .update(
                self.pods,
                self.call,
                self.key,
                Subresource::Status,
                &transform,
                None,
            )
            .await?;
        Ok(updated.object.metadata().resource_version.clone())
    }
}
