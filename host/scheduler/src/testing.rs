//! Stand-ins for tests: a component that filters on CPU out of its own mirror, an API server in memory, objects.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use pilothouse_api::{GroupResource, Revision, Status};
use pilothouse_plugin::{
    CallError,
    manifest::SchedulerSettings,
    scheduler::{
        BindFailure, BindOutcome, Called, Component, Instance, Needs, Outcome, PodChange,
        SchedulerPlugin, types,
    },
};
use serde_json::{Value, json};

use crate::{Api, NodeInfo, PodEvent, PodInfo};

pub(crate) fn node(name: &str, cpu_milli: i64) -> NodeInfo {
    let json = json!({
        "metadata": { "name": name },
        "status": { "allocatable": { "cpu": format!("{cpu_milli}m") } },
    });
    NodeInfo::parse(Revision(1), json.to_string().into()).unwrap()
}

pub(crate) fn pod_json(name: &str, cpu_milli: i64) -> Value {
    json!({
        "metadata": { "name": name, "namespace": "default", "uid": name },
        "spec": { "containers": [
            { "name": "c", "resources": { "requests": { "cpu": format!("{cpu_milli}m") } } },
        ] },
        "status": { "phase": "Pending" },
    })
}

pub(crate) fn pod(json: &Value, revision: u64) -> Arc<PodInfo> {
    Arc::new(PodInfo::parse(Revision(revision), json.to_string().into()).unwrap())
}

/// What the test's plugin does besides its work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Habit {
    #[default]
    None,
    /// Traps at every nth filter.
    TrapEvery(u64),
    /// Scores 101.
    Boasts,
    /// Refuses in `begin`.
    Refuses,
}

/// Pods and nodes as the API server has them, and what was told about them.
#[derive(Default)]
pub(crate) struct Server {
    state: Mutex<State>,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) revision: u64,
    pub(crate) pods: BTreeMap<String, (u64, Value)>,
    pub(crate) events: Vec<String>,
    /// Bindings answer with this code from now on, after they were done or not.
    pub(crate) failing: Option<(u16, bool)>,
}

impl Server {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    pub(crate) fn put(&mut self, name: &str, json: Value) -> Arc<PodInfo> {
        self.revision += 1;
        self.pods
            .insert(name.to_owned(), (self.revision, json.clone()));
        pod(&json, self.revision)
    }

    pub(crate) fn pod(&self, name: &str) -> Option<Arc<PodInfo>> {
        let (revision, json) = self.pods.get(name)?;
        Some(pod(json, *revision))
    }

    /// As the API server binds: uid and resourceVersion must be those of the decision.
    fn bind(&mut self, binding: &types::Binding) -> Result<(), BindFailure> {
        let failure = |code, reason: &str| BindFailure {
            code,
            reason: reason.to_owned(),
            message: format!("{reason} {}", binding.name),
        };
        let Some((revision, mut json)) = self.pods.get(&binding.name).cloned() else {
            return Err(failure(404, "NotFound"));
        };
        let assigned = json["spec"]["nodeName"].is_string();
        if assigned
            || json["metadata"]["uid"] != binding.uid
            || revision.to_string() != binding.resource_version
        {
            return Err(failure(409, "Conflict"));
        }
        let failing = self.failing;
        if failing.is_none_or(|(_, done)| done) {
            json["spec"]["nodeName"] = binding.node_name.clone().into();
            self.put(&binding.name, json);
        }
        match failing {
            Some((code, _)) => Err(failure(code, "InternalError")),
            None => Ok(()),
        }
    }
}

#[async_trait]
impl Api for Server {
    async fn get_pod(&self, _namespace: &str, name: &str) -> Result<PodInfo, Status> {
        let resource = GroupResource {
            group: "".into(),
            resource: "pods".into(),
        };
        let found = self.lock().pod(name);
        found
            .map(|pod| (*pod).clone())
            .ok_or_else(|| Status::not_found(&resource, name))
    }

    async fn patch_pod_status(
        &self,
        namespace: &str,
        name: &str,
        patch: Vec<u8>,
    ) -> Result<(), Status> {
        self.get_pod(namespace, name).await?;
        let patch: Value = serde_json::from_slice(&patch).unwrap();
        let mut state = self.lock();
        let (_, mut json) = state.pods[name].clone();
        json["status"]["conditions"] = patch["status"]["conditions"].clone();
        state.put(name, json);
        Ok(())
    }

    fn record(&self, _pod: &PodInfo, event: PodEvent) {
        let text = format!("{} {}: {}", event.event_type, event.reason, event.note);
        self.lock().events.push(text);
    }
}

/// A component with two plugins: `Cpu` filters and scores, `Binder` binds at the server.
pub(crate) struct CpuComponent {
    plugins: Vec<SchedulerPlugin>,
    habit: Habit,
    server: Arc<Server>,
}

impl CpuComponent {
    pub(crate) fn component(
        server: &Arc<Server>,
        habit: Habit,
        policy: &str,
    ) -> Arc<dyn Component> {
        let settings = |json: Value| -> SchedulerSettings { serde_json::from_value(json).unwrap() };
        let plugin = |index, name: &str, json: Value| SchedulerPlugin {
            index,
            name: name.to_owned(),
            settings: settings(json),
        };
        let cpu = json!({
            "interfaces": ["filter", "score"], "failurePolicy": policy, "needs": ["allocatable", "pods"],
            "events": ["node-add", "node-update-allocatable", "pod-release"],
        });
        Arc::new(Self {
            plugins: vec![
                plugin(0, "Cpu", cpu),
                plugin(1, "Binder", json!({ "interfaces": ["bind"] })),
            ],
            habit,
            server: Arc::clone(server),
        })
    }
}

#[async_trait]
impl Component for CpuComponent {
    fn id(&self) -> &str {
        "cpu"
    }

    fn plugins(&self) -> &[SchedulerPlugin] {
        &self.plugins
    }

    fn needs(&self) -> Option<Needs> {
        Some(self.plugins[0].settings.needs.iter().copied().collect())
    }

    async fn instantiate(&self) -> Called<Box<dyn Instance>> {
        Ok(Box::new(CpuInstance {
            habit: self.habit,
            ..CpuInstance::default()
        }))
    }

    async fn pre_bind(
        &self,
        _plugin: u32,
        _binding: &types::Binding,
    ) -> Called<Result<(), types::Refusal>> {
        Ok(Ok(()))
    }

    async fn bind(
        &self,
        _plugin: u32,
        binding: &types::Binding,
    ) -> Called<Result<BindOutcome, BindFailure>> {
        Ok(self
            .server
            .lock()
            .bind(binding)
            .map(|()| BindOutcome::Bound))
    }

    async fn post_bind(&self, _plugin: u32, _binding: &types::Binding) -> Called<()> {
        Ok(())
    }
}

/// Keeps a mirror as the interface says, and nothing else.
#[derive(Default)]
struct CpuInstance {
    habit: Habit,
    nodes: HashMap<u32, (i64, BTreeMap<String, i64>)>,
    cycles: HashMap<u64, i64>,
    filters: u64,
    dead: bool,
}

fn cpu(quantities: &[types::Quantity]) -> i64 {
    let cpu = quantities.iter().find(|q| q.name == "cpu");
    cpu.map_or(0, |q| q.value)
}

impl CpuInstance {
    fn alive(&self) -> Called<()> {
        assert!(!self.dead, "a dead instance was called");
        Ok(())
    }

    fn left(&self, node: u32) -> Option<i64> {
        let (allocatable, pods) = self.nodes.get(&node)?;
        Some(allocatable - pods.values().sum::<i64>())
    }
}

#[async_trait]
impl Instance for CpuInstance {
    async fn apply(
        &mut self,
        _epoch: u64,
        upserts: &[types::Node],
        removed: &[u32],
        pods: &[PodChange],
    ) -> Called<()> {
        self.alive()?;
        for index in removed {
            self.nodes.remove(index);
        }
        for node in upserts {
            self.nodes.entry(node.index).or_default().0 = cpu(&node.allocatable);
        }
        for change in pods {
            let (_, pods) = self
                .nodes
                .get_mut(&change.node)
                .expect("pods of known nodes only");
            match change.added {
                true => assert_eq!(
                    pods.insert(change.pod.uid.clone(), cpu(&change.pod.requests)),
                    None
                ),
                false => assert!(
                    pods.remove(&change.pod.uid).is_some(),
                    "a pod left that was not there"
                ),
            }
        }
        Ok(())
    }

    async fn begin(
        &mut self,
        cycle: u64,
        plugins: &[u32],
        pod: &types::Pod,
    ) -> Called<Vec<Result<Outcome, types::Refusal>>> {
        self.alive()?;
        self.cycles.insert(cycle, cpu(&pod.requests));
        let outcome = match self.habit {
            Habit::Refuses => Err(types::Refusal {
                kind: types::RefusalKind::Unresolvable,
                reasons: vec!["not today".to_owned()],
            }),
            _ => Ok(Outcome {
                filter: true,
                score: true,
                nodes: None,
            }),
        };
        Ok(vec![outcome; plugins.len()])
    }

    async fn clone_cycle(&mut self, _cycle: u64, _copy: u64) -> Called<()> {
        self.alive()
    }

    async fn add_pod(&mut self, _cycle: u64, _node: u32, _pod: &types::AssignedPod) -> Called<()> {
        self.alive()
    }

    async fn remove_pod(
        &mut self,
        _cycle: u64,
        _node: u32,
        _pod: &types::AssignedPod,
    ) -> Called<()> {
        self.alive()
    }

    async fn end(&mut self, cycle: u64) -> Called<()> {
        self.cycles.remove(&cycle);
        self.alive()
    }

    async fn filter(&mut self, _plugin: u32, cycle: u64, nodes: &[u32]) -> Called<Vec<u32>> {
        self.alive()?;
        self.filters += 1;
        if let Habit::TrapEvery(n) = self.habit
            && self.filters.is_multiple_of(n)
        {
            self.dead = true;
            return Err(CallError::Trap {
                plugin: "Cpu".into(),
                interface: "scheduler/filter",
                cause: "unreachable".to_owned(),
            });
        }
        let wanted = self.cycles[&cycle];
        let word = |&node| match self.left(node) {
            Some(left) if left >= wanted => 0,
            _ => 1 | 1 << 2,
        };
        Ok(nodes.iter().map(word).collect())
    }

    async fn reasons(
        &mut self,
        _plugin: u32,
        _cycle: u64,
        words: &[u32],
    ) -> Called<Vec<Vec<String>>> {
        self.alive()?;
        Ok(words
            .iter()
            .map(|_| vec!["Insufficient cpu".to_owned()])
            .collect())
    }

    async fn score(&mut self, _plugin: u32, _cycle: u64, nodes: &[u32]) -> Called<Vec<i64>> {
        self.alive()?;
        let score = if self.habit == Habit::Boasts { 101 } else { 50 };
        Ok(vec![score; nodes.len()])
    }

    async fn normalize(
        &mut self,
        _plugin: u32,
        _cycle: u64,
        _nodes: &[u32],
        scores: &[i64],
    ) -> Called<Vec<i64>> {
        Ok(scores.to_vec())
    }

    async fn reserve(
        &mut self,
        _plugin: u32,
        _cycle: u64,
        _node: u32,
    ) -> Called<Result<Vec<u8>, types::Refusal>> {
        Ok(Ok(Vec::new()))
    }

    async fn unreserve(
        &mut self,
        _plugin: u32,
        _pod_uid: &str,
        _node_name: &str,
        _carry: &[u8],
    ) -> Called<()> {
        Ok(())
    }
}

/// The nodes on which the server's pods ask for more than `allocatable`.
pub(crate) fn overcommitted(
    state: &State,
    allocatable: &BTreeMap<String, i64>,
) -> BTreeSet<String> {
    let mut used: BTreeMap<String, i64> = BTreeMap::new();
    for name in state.pods.keys() {
        if let Some(pod) = state.pod(name) {
            *used.entry(pod.node_name.clone()).or_default() += cpu(&pod.record.requests);
        }
    }
    used.into_iter()
        .filter(|(node, cpu)| allocatable.get(node).is_some_and(|has| cpu > has))
        .map(|(node, _)| node)
        .collect()
}
