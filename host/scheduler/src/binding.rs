//! Binding a pod to the node that was chosen for it: pre-bind, bind, post-bind, each call on an instance of its own, beside the
//! scheduling of the next pods.
//!
//! The binding is a compare-and-swap against the object that the decision was made on. When nobody can say whether it took
//! place (no answer, an error of the server, a plugin that failed after it asked), the pod itself is asked; a pod that is not
//! bound is then written to, so that a binding still under way finds another resourceVersion and fails. Only after that may
//! the pod's resources be given to others.

use std::{sync::Arc, time::Duration};

use pilothouse_plugin::{
    CallError,
    manifest::ExtensionPoint,
    scheduler::{BindFailure, BindOutcome, Component, EventSet, Need, types},
};

use crate::{
    api::{Api, PodEvent, Report},
    pod::PodInfo,
    profile::{Profile, ProfilePlugin},
};

/// A decision on its way to the API server.
pub struct Binding {
    pub pod: Arc<PodInfo>,
    pub node_name: String,
    pub(crate) profile: Arc<Profile>,
    pub(crate) reserved: Vec<(usize, Vec<u8>)>,
}

/// How it ended.
#[derive(Debug)]
pub enum Ended {
    Bound,
    /// The pod has changed since the decision, or is gone; as it is now.
    Stale(Option<PodInfo>),
    /// A plugin turned it down.
    Refused {
        report: Report,
        may_help: EventSet,
    },
    /// Something failed.
    Failed(Report),
}

/// A binding that has ended.
pub struct Finished {
    pub(crate) binding: Binding,
    pub ended: Ended,
}

/// How `bind` ended.
enum Outcome {
    Bound,
    Stale,
    Failed(String),
    Unknown(String),
}

/// What a look at the pod showed.
enum Looked {
    Known(Ended),
    /// It was not bound, and was written to.
    Written,
    NoAnswer,
}

impl Binding {
    /// Carries it out.
    pub async fn run(self, api: &dyn Api) -> Finished {
        let ended = match self.pre_bind().await {
            Err(ended) => ended,
            Ok(()) => self.bind(api).await,
        };
        if matches!(ended, Ended::Bound) {
            api.record(&self.pod, PodEvent::scheduled(&self.pod, &self.node_name));
            self.post_bind().await;
        }
        Finished {
            binding: self,
            ended,
        }
    }

    async fn pre_bind(&self) -> Result<(), Ended> {
        for (place, plugin) in self.profile.with(ExtensionPoint::PreBind) {
            let record = self.record(place, plugin);
            match self.component(plugin).pre_bind(plugin.index, &record).await {
                Ok(Ok(())) => {}
                Ok(Err(refusal)) => return Err(refused(plugin, &refusal)),
                Err(error) if plugin.ignores_failures_at(ExtensionPoint::PreBind) => {
                    pass_over(&self.pod, plugin, &error)
                }
                Err(error) => return Err(Ended::Failed(error_report(error.to_string()))),
            }
        }
        Ok(())
    }

    async fn bind(&self, api: &dyn Api) -> Ended {
        let why = match self.ask_binders().await {
            Outcome::Bound => return Ended::Bound,
            Outcome::Stale => return Ended::Stale(self.refresh(api).await),
            Outcome::Failed(why) => return Ended::Failed(error_report(why)),
            Outcome::Unknown(why) => why,
        };
        self.find_out(api, &why).await
    }

    async fn ask_binders(&self) -> Outcome {
        for (place, plugin) in self.profile.with(ExtensionPoint::Bind) {
            let record = self.record(place, plugin);
            let called = self.component(plugin).bind(plugin.index, &record).await;
            let rejected = |message: &str| {
                format!(
                    "binding rejected: running Bind plugin {:?}: {message}",
                    plugin.name
                )
            };
            return match called {
                Ok(Ok(BindOutcome::Bound)) => Outcome::Bound,
                Ok(Ok(BindOutcome::Skip)) => continue,
                Ok(Err(failure)) if is_stale(&failure) => Outcome::Stale,
                Ok(Err(failure)) if is_final(&failure) => {
                    Outcome::Failed(rejected(&failure.message))
                }
                Ok(Err(failure)) => Outcome::Unknown(rejected(&failure.message)),
                Err(error) => Outcome::Unknown(rejected(&error.to_string())),
            };
        }
        Outcome::Failed("no plugin binds pods".to_owned())
    }

    /// Asks the pod itself, for as long as it takes.
    async fn find_out(&self, api: &dyn Api, why: &str) -> Ended {
        let mut pause = Duration::from_millis(100);
        loop {
            match self.look(api, why).await {
                Looked::Known(ended) => return ended,
                Looked::Written => {}
                Looked::NoAnswer => {
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(Duration::from_secs(10));
                }
            }
        }
    }

    async fn look(&self, api: &dyn Api, why: &str) -> Looked {
        let (namespace, name) = (&self.pod.record.namespace, &self.pod.record.name);
        let now = match api.get_pod(namespace, name).await {
            Ok(now) if now.uid != self.pod.uid => return Looked::Known(Ended::Stale(None)),
            Ok(now) => now,
            Err(status) if status.is_not_found() => return Looked::Known(Ended::Stale(None)),
            Err(_) => return Looked::NoAnswer,
        };
        if now.node_name == self.node_name {
            return Looked::Known(Ended::Bound);
        }
        if !now.node_name.is_empty() || now.revision != self.pod.revision {
            return Looked::Known(Ended::Stale(Some(now))); // the binding, if it still comes, fails
        }
        // The revision in the message makes the write a change whatever the condition said before.
        let report = error_report(format!("{why} (at resourceVersion {})", now.revision));
        match api
            .patch_pod_status(namespace, name, report.condition(&now.uid))
            .await
        {
            Ok(()) => Looked::Written, // the binding may have come before the write: look again
            Err(_) => Looked::NoAnswer,
        }
    }

    async fn refresh(&self, api: &dyn Api) -> Option<PodInfo> {
        let (namespace, name) = (&self.pod.record.namespace, &self.pod.record.name);
        let now = api.get_pod(namespace, name).await.ok()?;
        (now.uid == self.pod.uid).then_some(now)
    }

    async fn post_bind(&self) {
        for (place, plugin) in self.profile.with(ExtensionPoint::PostBind) {
            let record = self.record(place, plugin);
            let called = self
                .component(plugin)
                .post_bind(plugin.index, &record)
                .await;
            if let Err(error) = called {
                pass_over(&self.pod, plugin, &error);
            }
        }
    }

    fn component(&self, plugin: &ProfilePlugin) -> &Arc<dyn Component> {
        &self.profile.components[plugin.component]
    }

    fn record(&self, place: usize, plugin: &ProfilePlugin) -> types::Binding {
        let carry = self.reserved.iter().find(|(at, _)| *at == place);
        let needs = self.profile.needs(plugin.component).unwrap_or_default();
        types::Binding {
            namespace: self.pod.record.namespace.clone(),
            name: self.pod.record.name.clone(),
            uid: self.pod.uid.to_string(),
            resource_version: self.pod.revision.to_string(),
            node_name: self.node_name.clone(),
            carry: carry.map(|(_, carry)| carry.clone()).unwrap_or_default(),
            json: needs.has(Need::PodJson).then(|| self.pod.json.to_vec()),
        }
    }
}

/// The pod is not what the decision was made on, or is gone.
fn is_stale(failure: &BindFailure) -> bool {
    matches!(failure.code, 404 | 409)
}

/// The server said no and will not change its mind about this request.
fn is_final(failure: &BindFailure) -> bool {
    (400..500).contains(&failure.code) && !matches!(failure.code, 408 | 429)
}

fn error_report(message: String) -> Report {
    Report {
        reason: "SchedulerError",
        message,
    }
}

fn refused(plugin: &ProfilePlugin, refusal: &types::Refusal) -> Ended {
    let message = format!(
        "running PreBind plugin {:?}: {}",
        plugin.name,
        refusal.reasons.join(", ")
    );
    match refusal.kind {
        types::RefusalKind::Error => Ended::Failed(error_report(message)),
        types::RefusalKind::Unschedulable | types::RefusalKind::Unresolvable => Ended::Refused {
            report: Report {
                reason: "Unschedulable",
                message,
            },
            may_help: plugin.events,
        },
    }
}

fn pass_over(pod: &PodInfo, plugin: &ProfilePlugin, error: &CallError) {
    tracing::warn!(%pod, plugin = %plugin.name, %error, "a failed plugin was passed over");
}
