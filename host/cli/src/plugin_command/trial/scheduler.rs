//! Scheduler plugins on trial: the input is a Pod, the cluster its nodes and the pods on them.

use std::sync::Arc;

use anyhow::{Result, ensure};
use async_trait::async_trait;
use bytes::Bytes;
use pilothouse_api::Revision as ResourceVersion;
use pilothouse_plugin::{
    Revision,
    contract::{SampleCluster, sample},
    manifest::ExtensionPoint,
    scheduler::{Component as _, Sandboxed, SchedulerPlugin},
};
use pilothouse_scheduler::{Judge, NodeInfo, PodInfo, Verdict};
use serde_json::{Value, json};

use super::{Documents, Trial, documents::place};

struct SchedulerTrial {
    plugin: SchedulerPlugin,
    revision: Arc<Revision>,
    judge: Judge,
    pod: PodInfo,
}

/// One, if the plugin judges nodes.
pub(super) fn trials(
    revision: &Revision,
    plugin: u32,
    documents: &Documents,
) -> Result<Vec<Box<dyn Trial>>> {
    let revision = Arc::new(revision.isolated(SampleCluster::new()));
    let Some(component) = Sandboxed::new(&revision) else {
        return Ok(Vec::new());
    };
    let Some(plugin) = component.plugins().iter().find(|p| p.index == plugin) else {
        return Ok(Vec::new());
    };
    let plugin = plugin.clone();
    ensure!(
        plugin.settings.has_cycle(),
        "it only takes part in binding, which needs a control plane"
    );
    let input = documents.input.clone().unwrap_or_else(sample::pod);
    let kind = &input["kind"];
    ensure!(kind == "Pod", "it judges Pods, and the input is a {kind}");
    let nodes = documents.nodes().into_iter().map(|node| {
        let node = NodeInfo::parse(ResourceVersion::default(), json_of(&node))?;
        Ok(node)
    });
    let pods = documents.of_kind("Pod").enumerate().map(|(at, pod)| {
        let pod = pod_info(pod.clone(), at + 1)?;
        Ok(Arc::new(pod))
    });
    let judge = Judge::new(
        Arc::new(component),
        nodes.collect::<Result<_>>()?,
        pods.collect::<Result<_>>()?,
    );
    Ok(vec![Box::new(SchedulerTrial {
        pod: pod_info(input, 0)?,
        plugin,
        revision,
        judge,
    })])
}

/// Objects that people write have no uid.
fn pod_info(pod: Value, number: usize) -> Result<PodInfo> {
    let mut pod = place(pod)?.object;
    if pod["metadata"]["uid"].is_null() {
        pod["metadata"]["uid"] = format!("00000000-0000-4000-8000-{number:012}").into();
    }
    Ok(PodInfo::parse(ResourceVersion::default(), json_of(&pod))?)
}

fn json_of(object: &Value) -> Bytes {
    object.to_string().into()
}

#[async_trait]
impl Trial for SchedulerTrial {
    fn plugin(&self) -> &str {
        &self.plugin.name
    }

    fn interface(&self) -> &'static str {
        match self.plugin.settings.has(ExtensionPoint::Filter) {
            true => "scheduler/filter",
            false => "scheduler/score",
        }
    }

    fn revision(&self) -> &Revision {
        &self.revision
    }

    async fn call(&mut self) -> Result<Value> {
        Ok(match self.judge.judge(&self.plugin, &self.pod).await? {
            Verdict::Refused(reasons) => json!({ "refused": reasons }),
            Verdict::Nodes(nodes) => {
                let nodes = nodes.into_iter().map(|verdict| {
                    let mut shown = json!({ "fits": verdict.reasons.is_empty() });
                    if !verdict.reasons.is_empty() {
                        shown["reasons"] = json!(verdict.reasons);
                    }
                    if let Some(score) = verdict.score {
                        shown["score"] = json!(score);
                    }
                    (verdict.node, shown)
                });
                json!({ "nodes": nodes.collect::<serde_json::Map<_, _>>() })
            }
        })
    }

    fn renew(&mut self) {
        self.judge.renew();
    }
}
