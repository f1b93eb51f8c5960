//! A loaded component: compiled, checked, described by its manifest, ready to be instantiated. Immutable.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use sha2::{Digest as _, Sha256};
use wasmtime::{
    Store,
    component::{Component, InstancePre},
};

use crate::{
    admission::MatchRules,
    capability::{Capabilities, Grant},
    clock::Clock,
    cluster::{Cluster, NoCluster},
    engine::{Engine, one_line},
    error::{CallError, LoadError},
    host::{Caller, HostState, PluginLog, WriteRate, bindings},
    instance::{Call, PluginInstance, refuel, slice_over},
    interfaces::Interface,
    limits::Limits,
    manifest::{ChosenPolicies, FailurePolicy, Manifest},
    probe,
    record::{Recorder, Tape},
    registry::StormPolicy,
    shadow::{Discarding, Shadow},
    stats::{Figures, Stats},
};

/// The SHA-256 of a component's bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    pub fn of(wasm: &[u8]) -> Self {
        Self(Sha256::digest(wasm).into())
    }
}

/// `sha256:…`, as images are named.
impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What the owner of a plugin decides about it: the spec of its Plugin object, or the defaults for a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// `spec.config`; `None` is `{}`.
    pub config: Option<serde_json::Value>,
    pub limits: Limits,
    /// `spec.capabilities`, or what the operator grants who has none.
    pub granted: Grant,
    /// `spec.failurePolicy`; `None` is what the manifest says.
    pub failure_policy: Option<FailurePolicy>,
    /// `spec.failurePolicies`: what counts for single interfaces.
    pub failure_policies: ChosenPolicies,
    /// `spec.matchRules`; `None` narrows nothing.
    pub match_rules: Option<MatchRules>,
    /// `spec.mode`.
    pub mode: Mode,
    /// `spec.rollback`; `None` is what the registry does for all.
    pub storm: Option<StormPolicy>,
    /// `spec.revisionHistoryLimit`: versions kept besides the active one.
    pub revision_history_limit: usize,
}

impl Settings {
    /// What ships with the host is trusted not to write for ever: it writes as fast as there is work, unless its owner says how
    /// fast.
    pub fn of_a_built_in(mut self) -> Self {
        let rate = &mut self.limits.writes_per_second;
        if *rate == Limits::default().writes_per_second {
            *rate = Limits::NONE.writes_per_second;
        }
        self
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            config: None,
            limits: Limits::default(),
            granted: Grant::default(),
            failure_policy: None,
            failure_policies: ChosenPolicies::new(),
            match_rules: None,
            mode: Mode::Enforce,
            storm: None,
            revision_history_limit: 5,
        }
    }
}

/// Whether what a plugin answers is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    #[default]
    Enforce,
    /// It is asked, but what it answers is only compared with what is done, and its writes go nowhere.
    Shadow,
}

/// Who a revision belongs to and what it uses; the same for all revisions of a component.
#[derive(Clone)]
pub(crate) struct Home {
    pub(crate) component: Arc<str>,
    pub(crate) log: Arc<PluginLog>,
    pub(crate) stats: Arc<Stats>,
    writes: Arc<WriteRate>,
    recorder: Arc<Recorder>,
    pub(crate) cluster: Arc<dyn Cluster>,
    shadow: Option<Arc<Shadow>>,
    /// Told of every failed call that is the plugin's fault.
    trapped: Trapped,
}

/// What is done about a failed call of a revision.
pub(crate) type Trapped = Arc<dyn Fn(Serial) + Send + Sync>;

/// Tells apart the revisions of this process, also those of the same bytes with other settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Serial(u64);

impl Serial {
    fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Relaxed))
    }
}

impl Home {
    pub(crate) fn new(component: &str, cluster: Arc<dyn Cluster>) -> Self {
        let component: Arc<str> = component.into();
        Self {
            log: Arc::new(PluginLog::new(Arc::clone(&component))),
            stats: Arc::new(Stats::new()),
            writes: Arc::default(),
            recorder: Arc::default(),
            component,
            cluster,
            shadow: None,
            trapped: Arc::new(|_| {}),
        }
    }

    pub(crate) fn on_trap(self, trapped: Trapped) -> Self {
        Self { trapped, ..self }
    }

    /// For a revision that does not act: its writes are noted in `shadow` and go nowhere.
    pub(crate) fn in_shadow(self, shadow: Arc<Shadow>) -> Self {
        let cluster = Discarding::new(Arc::clone(&self.cluster), Arc::clone(&shadow));
        Self {
            cluster: Arc::new(cluster),
            shadow: Some(shadow),
            ..self
        }
    }

    /// For a revision beside the one that serves: its calls are counted apart and not recorded.
    pub(crate) fn beside(self) -> Self {
        Self {
            stats: Arc::new(Stats::new()),
            recorder: Arc::default(),
            ..self
        }
    }
}

/// One loaded version of a component.
#[derive(Clone)]
pub struct Revision {
    /// The component's name: the file's stem, or the Plugin object's name.
    component: Arc<str>,
    serial: Serial,
    digest: Digest,
    interfaces: Vec<Interface>,
    manifest: Manifest,
    settings: Settings,
    callers: Arc<[Arc<Caller>]>,
    recorder: Arc<Recorder>,
    shadow: Option<Arc<Shadow>>,
    pre: InstancePre<HostState>,
    engine: Engine,
}

impl fmt::Debug for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.component, self.digest)
    }
}

impl Revision {
    /// Loads a component outside of any registry, for contracts and benchmarks: `compile → check → trial instance → manifest`.
    pub async fn load(
        engine: &Engine,
        name: &str,
        wasm: &[u8],
        settings: Settings,
        cluster: Arc<dyn Cluster>,
    ) -> Result<Self, LoadError> {
        let compiled = compile(engine, &settings.limits, wasm).await?;
        Self::start(
            engine,
            &Home::new(name, cluster),
            Digest::of(wasm),
            compiled,
            settings,
        )
        .await
    }

    /// Checks what was compiled and reads its manifest from a trial instance, which may call nothing.
    pub(crate) async fn start(
        engine: &Engine,
        home: &Home,
        digest: Digest,
        compiled: Component,
        settings: Settings,
    ) -> Result<Self, LoadError> {
        let serial = Serial::next();
        let machine = engine.machine(&settings.limits)?;
        let interfaces = probe::exports(&machine.engine, &compiled)?;
        probe::imports(&machine.engine, &compiled)?;
        let pre = machine
            .linker
            .instantiate_pre(&compiled)
            .map_err(|error| LoadError::Mismatch(one_line(&error)))?;
        let config: Arc<str> = match &settings.config {
            Some(config) => config.to_string().into(),
            None => "{}".into(),
        };
        let caller = |name: &str, capabilities: Capabilities, cluster: &Arc<dyn Cluster>| {
            Arc::new(Caller {
                name: name.into(),
                component: Arc::clone(&home.component),
                capabilities,
                config: Arc::clone(&config),
                log: Arc::clone(&home.log),
                stats: Arc::clone(&home.stats),
                writes: Arc::clone(&home.writes),
                clock: Arc::clone(engine.clock()),
                cluster: Arc::clone(cluster),
                serial,
                trapped: Arc::clone(&home.trapped),
            })
        };
        let nobody: Arc<dyn Cluster> = Arc::new(NoCluster);
        let trial = caller(&home.component, Capabilities::default(), &nobody);
        let json = describe(engine, &pre, trial, &settings.limits).await?;
        let manifest = Manifest::read(&json, &interfaces)?
            .with_failure_policies(settings.failure_policy, &settings.failure_policies);
        let callers = manifest
            .plugins
            .iter()
            .map(|entry| {
                let capabilities = Capabilities::of(entry, settings.granted.clone());
                caller(&entry.name, capabilities, &home.cluster)
            })
            .collect();
        Ok(Self {
            component: Arc::clone(&home.component),
            serial,
            digest,
            interfaces,
            manifest,
            settings,
            callers,
            recorder: Arc::clone(&home.recorder),
            shadow: home.shadow.clone(),
            pre,
            engine: engine.clone(),
        })
    }

    /// The same code for a contract: with a cluster, counters and a log of its own, and no consequences of a trap.
    pub fn isolated(&self, cluster: Arc<dyn Cluster>) -> Self {
        let home = Home::new(&self.component, cluster);
        let isolate = |caller: &Arc<Caller>| {
            Arc::new(Caller {
                log: Arc::clone(&home.log),
                stats: Arc::clone(&home.stats),
                writes: Arc::clone(&home.writes),
                cluster: Arc::clone(&home.cluster),
                trapped: Arc::clone(&home.trapped),
                ..Caller::clone(caller)
            })
        };
        Self {
            callers: self.callers.iter().map(isolate).collect(),
            recorder: home.recorder.clone(),
            shadow: None,
            ..self.clone()
        }
    }

    /// The same code with a tape between it and the host. Counters and log stay shared.
    pub(crate) fn on_tape(&self, tape: &Arc<Tape>) -> Self {
        let taped = |caller: &Arc<Caller>| {
            Arc::new(Caller {
                cluster: tape.clone(),
                clock: tape.clone(),
                ..Caller::clone(caller)
            })
        };
        Self {
            callers: self.callers.iter().map(taped).collect(),
            ..self.clone()
        }
    }

    /// The same code under other limits, for calls that nobody waits for. Counters and log stay shared.
    pub(crate) fn with_limits(&self, limits: Limits) -> Self {
        Self {
            settings: Settings {
                limits,
                ..self.settings.clone()
            },
            ..self.clone()
        }
    }

    /// Who wants to know of its calls.
    pub fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    pub(crate) fn cluster(&self) -> &Arc<dyn Cluster> {
        &self.callers[0].cluster
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.callers[0].clock
    }

    pub fn component(&self) -> &Arc<str> {
        &self.component
    }

    pub(crate) fn serial(&self) -> Serial {
        self.serial
    }

    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// The known interfaces that it exports, without the manifest.
    pub fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    /// Whether it exports `admission/mutate`, say.
    pub fn exports(&self, family: &str, interface: &str) -> bool {
        self.interfaces
            .iter()
            .any(|found| found.family() == family && found.name == interface)
    }

    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The counters of the component, which all its revisions share.
    pub fn figures(&self) -> Figures {
        self.callers[0].stats.figures()
    }

    /// The log of the component, which all its revisions share.
    pub fn log(&self) -> &PluginLog {
        &self.callers[0].log
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What is noted of it if its answers do not act.
    pub fn shadow(&self) -> Option<&Arc<Shadow>> {
        self.shadow.as_ref()
    }

    /// For the indexes of typed exports, which bindings look up once a revision.
    pub fn instance_pre(&self) -> &InstancePre<HostState> {
        &self.pre
    }

    /// The name of one of its plugins.
    pub fn plugin_name(&self, plugin: u32) -> &Arc<str> {
        match self.callers.get(plugin as usize) {
            Some(caller) => &caller.name,
            None => &self.component,
        }
    }

    /// A call ended well, but its answer is of no use: counts as a failure of the plugin.
    pub(crate) fn bad_answer(&self, plugin: u32, why: &str) -> CallError {
        const SHOWN: usize = 256; // it may quote what the plugin made
        let error = CallError::BadAnswer {
            plugin: Arc::clone(self.plugin_name(plugin)),
            why: why.chars().take(SHOWN).collect(),
        };
        let caller = self.callers.get(plugin as usize);
        if let (Some(caller), Some(cause)) = (caller, error.cause()) {
            caller.stats.fault(cause);
            (caller.trapped)(caller.serial);
        }
        error
    }

    /// A fresh instance in a store of its own. Its start counts as a call.
    pub async fn instantiate(&self) -> Result<PluginInstance, CallError> {
        let caller = Arc::clone(&self.callers[0]);
        let plugin = Arc::clone(&caller.name);
        let limits = self.settings.limits.clone();
        instantiate(
            &self.engine,
            &self.pre,
            caller,
            limits,
            Arc::clone(&self.callers),
        )
        .await
        .map_err(|error| CallError::Unavailable {
            plugin,
            why: format!("it does not start: {}", one_line(&error)),
        })
    }
}

/// Compiles on a thread that may block. Refuses what is no component without compiling.
pub(crate) async fn compile(
    engine: &Engine,
    limits: &Limits,
    wasm: &[u8],
) -> Result<Component, LoadError> {
    probe::check_header(wasm)?;
    let (engine, limits, wasm) = (engine.clone(), limits.clone(), wasm.to_vec());
    tokio::task::spawn_blocking(move || engine.machine(&limits)?.load(&wasm))
        .await
        .map_err(|error| LoadError::Compile(error.to_string()))?
}

async fn instantiate(
    engine: &Engine,
    pre: &InstancePre<HostState>,
    caller: Arc<Caller>,
    limits: Limits,
    callers: Arc<[Arc<Caller>]>,
) -> wasmtime::Result<PluginInstance> {
    let wait = tokio::time::Duration::from_millis(limits.wait_ms);
    let machine = engine.machine(&limits)?;
    let mut store = Store::new(&machine.engine, HostState::new(caller, limits));
    refuel(&mut store);
    store.limiter(|state| &mut state.budget);
    store.epoch_deadline_callback(slice_over);
    let slice = store.data_mut().budget.next_slice();
    store.set_epoch_deadline(slice);
    let instance = tokio::time::timeout(wait, pre.instantiate_async(&mut store)).await??;
    Ok(PluginInstance::new(store, instance, callers))
}

/// The manifest's JSON, from an instance that lives for this call only.
async fn describe(
    engine: &Engine,
    pre: &InstancePre<HostState>,
    caller: Arc<Caller>,
    limits: &Limits,
) -> Result<String, LoadError> {
    let start = |error: &wasmtime::Error| LoadError::Start(one_line(error));
    let callers: Arc<[Arc<Caller>]> = Arc::new([Arc::clone(&caller)]);
    let mut instance = instantiate(engine, pre, caller, limits.clone(), callers)
        .await
        .map_err(|error| start(&error))?;
    let indices = bindings::manifest::GuestIndices::new(pre)
        .map_err(|error| LoadError::Mismatch(one_line(&error)))?;
    let (store, exports) = instance.parts();
    let guest = indices
        .load(store, exports)
        .map_err(|error| LoadError::Mismatch(one_line(&error)))?;
    let call = Call {
        plugin: 0,
        interface: "host/manifest",
        deadline: None,
    };
    let failed = |error: CallError| LoadError::Start(error.to_string());
    let (store, running) = instance.enter(call).map_err(failed)?;
    let outcome = running.wait(guest.call_describe(store)).await;
    instance.leave(running, outcome).map_err(failed)
}
