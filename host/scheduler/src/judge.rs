//! What one plugin says of one pod and every node, by itself: without a profile, a choice or a binding.

use std::sync::Arc;

use pilothouse_plugin::{
    CallError,
    manifest::ExtensionPoint,
    scheduler::{Component, SchedulerPlugin},
};

use crate::{
    cache::Cache,
    cycle::normalize,
    node::{NodeInfo, project_pod},
    pod::PodInfo,
    worker::Worker,
};

/// A component on trial, with the cluster that it judges.
pub struct Judge {
    component: Arc<dyn Component>,
    cache: Cache,
    worker: Worker,
    cycles: u64,
}

/// What the plugin says of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It turns the pod down as a whole.
    Refused(Vec<String>),
    /// In the order of the nodes' names.
    Nodes(Vec<NodeVerdict>),
}

/// What the plugin says of a pod on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeVerdict {
    pub node: String,
    /// Why the pod does not fit there; empty: it does.
    pub reasons: Vec<String>,
    /// 0 to 100, normalised; `None` where it does not fit, or the plugin does not score.
    pub score: Option<i64>,
}

/// Why there is no verdict.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JudgeError {
    #[error(transparent)]
    Call(#[from] CallError),
    /// The plugin says that it cannot judge.
    #[error("plugin {plugin} says: {why}")]
    Refused { plugin: String, why: String },
    #[error(
        "plugin {plugin} gave {found} answers in scheduler/{interface}; {expected} were expected"
    )]
    Answers {
        plugin: String,
        interface: &'static str,
        found: usize,
        expected: usize,
    },
}

impl Judge {
    /// `pods` that have a node are there already.
    pub fn new(
        component: Arc<dyn Component>,
        nodes: Vec<NodeInfo>,
        pods: Vec<Arc<PodInfo>>,
    ) -> Self {
        let mut cache = Cache::default();
        for node in nodes {
            cache.upsert_node(node);
        }
        for pod in pods {
            cache.observe_pod(pod);
        }
        let mut judge = Self {
            component,
            cache,
            worker: Worker::default(),
            cycles: 0,
        };
        judge.renew();
        judge
    }

    /// Forgets the instance: the next call has a fresh one.
    pub fn renew(&mut self) {
        self.worker = Worker::default();
        self.worker
            .set_components(std::slice::from_ref(&self.component));
    }

    /// One cycle of one plugin: `begin`, then `filter` over all nodes, `score` and `normalize` over those that remain.
    pub async fn judge(
        &mut self,
        plugin: &SchedulerPlugin,
        pod: &PodInfo,
    ) -> Result<Verdict, JudgeError> {
        self.worker.sync(0, &self.cache).await?;
        self.cycles += 1;
        let verdict = self.cycle(plugin, pod).await;
        if let Some(instance) = self.worker.instance(0)
            && (verdict.is_err() || instance.end(self.cycles).await.is_err())
        {
            self.worker.dispose(0);
        }
        verdict
    }

    async fn cycle(
        &mut self,
        plugin: &SchedulerPlugin,
        pod: &PodInfo,
    ) -> Result<Verdict, JudgeError> {
        let (cycle, index) = (self.cycles, plugin.index);
        let needs = self.component.needs().unwrap_or_default();
        let pod = project_pod(pod, needs);
        let Some(instance) = self.worker.instance(0) else {
            return Ok(Verdict::Nodes(Vec::new()));
        };
        let mut begun = instance.begin(cycle, &[index], &pod).await?;
        expect(plugin, "cycle", begun.len(), 1)?;
        let outcome = match begun.remove(0) {
            Ok(outcome) => outcome,
            Err(refusal) => return refused(plugin, refusal),
        };
        let all = self.cache.indexes();
        let mut verdicts: Vec<(u32, NodeVerdict)> = all
            .iter()
            .filter_map(|index| {
                let verdict = NodeVerdict {
                    node: self.cache.node(*index)?.name.clone(),
                    reasons: Vec::new(),
                    score: None,
                };
                Some((*index, verdict))
            })
            .collect();
        if let Some(only) = &outcome.nodes {
            let out = verdicts.iter_mut().filter(|(at, _)| !only.contains(at));
            for (_, verdict) in out {
                let reason = format!("node(s) didn't satisfy plugin(s) [{}]", plugin.name);
                verdict.reasons.push(reason);
            }
        }
        if outcome.filter && plugin.settings.has(ExtensionPoint::Filter) {
            let fitting = fitting(&verdicts);
            let words = instance.filter(index, cycle, &fitting).await?;
            expect(plugin, "filter", words.len(), fitting.len())?;
            let turned_down: Vec<(u32, u32)> = fitting
                .into_iter()
                .zip(words)
                .filter(|(_, word)| *word != 0)
                .collect();
            let words: Vec<u32> = turned_down.iter().map(|(_, word)| *word).collect();
            let reasons = match words.as_slice() {
                [] => Vec::new(),
                words => instance.reasons(index, cycle, words).await?,
            };
            expect(plugin, "filter", reasons.len(), words.len())?;
            for ((node, word), mut reasons) in turned_down.into_iter().zip(reasons) {
                if word & 3 == 3 {
                    return Err(JudgeError::Refused {
                        plugin: plugin.name.clone(),
                        why: reasons.join(", "),
                    });
                }
                if reasons.is_empty() {
                    reasons.push(format!("node(s) were turned down by {}", plugin.name));
                }
                if let Some((_, verdict)) = verdicts.iter_mut().find(|(at, _)| *at == node) {
                    verdict.reasons = reasons;
                }
            }
        }
        let fitting = fitting(&verdicts);
        if outcome.score && plugin.settings.has(ExtensionPoint::Score) && !fitting.is_empty() {
            let mut scores = instance.score(index, cycle, &fitting).await?;
            expect(plugin, "score", scores.len(), fitting.len())?;
            if plugin.settings.has(ExtensionPoint::Normalize) {
                scores = instance.normalize(index, cycle, &fitting, &scores).await?;
                expect(plugin, "normalize", scores.len(), fitting.len())?;
            }
            normalize(&mut scores, plugin.settings.normalize);
            let fits = verdicts.iter_mut().filter(|(_, v)| v.reasons.is_empty());
            for ((_, verdict), score) in fits.zip(scores) {
                verdict.score = Some(score);
            }
        }
        let mut verdicts: Vec<NodeVerdict> = verdicts.into_iter().map(|(_, v)| v).collect();
        verdicts.sort_by(|a, b| a.node.cmp(&b.node));
        Ok(Verdict::Nodes(verdicts))
    }
}

fn fitting(verdicts: &[(u32, NodeVerdict)]) -> Vec<u32> {
    let fitting = verdicts.iter().filter(|(_, v)| v.reasons.is_empty());
    fitting.map(|(index, _)| *index).collect()
}

fn refused(
    plugin: &SchedulerPlugin,
    refusal: pilothouse_plugin::scheduler::types::Refusal,
) -> Result<Verdict, JudgeError> {
    use pilothouse_plugin::scheduler::types::RefusalKind;
    match refusal.kind {
        RefusalKind::Error => Err(JudgeError::Refused {
            plugin: plugin.name.clone(),
            why: refusal.reasons.join(", "),
        }),
        _ => Ok(Verdict::Refused(refusal.reasons)),
    }
}

fn expect(
    plugin: &SchedulerPlugin,
    interface: &'static str,
    found: usize,
    expected: usize,
) -> Result<(), JudgeError> {
    match found == expected {
        true => Ok(()),
        false => Err(JudgeError::Answers {
            plugin: plugin.name.clone(),
            interface,
            found,
            expected,
        }),
    }
}
