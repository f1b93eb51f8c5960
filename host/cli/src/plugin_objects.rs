//! Plugin objects and the plugin registry, kept in step: two ways to the same thing.
//!
//! ```text
//!  watched directory ──► registry ──► a Plugin object for each component, its status what the registry says
//!  Plugin object ── spec.config, limits, capabilities ──► registry
//!                ── spec.source.path of no watched file ──► registry
//!                ── spec.candidate ──► registry, beside what serves
//!                ── deleted ──► the component goes, with its file in the directory
//! ```
//!
//! Of several processes that keep their data in one place, each loads what objects and its own directory say, and one, elected,
//! writes: objects, statuses, and the end of objects whose file is gone. All should have the same files.
//!
//! Invariants: one task decides it all, from the present state of both sides, and waits for no load; what ships with the host cannot be deleted, its
//! object comes back; a status is written only when it changed.

mod loads;
mod remembered;
mod settings;
mod status;

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use pilothouse_api::{GroupVersionResource, Kind, Status, plugin_kind::Plugin};
use pilothouse_client::{
    CacheEvent, Client, DeleteOptions, EventRecorder, Handler, InformerSet, Regarding,
};
use pilothouse_plugin::{
    CandidateState, LoadError, PluginRegistry, PluginState, PluginStatus, Settings, Source,
};
use serde_json::{Map, Value};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::builtins::BUILTIN_PLUGINS;

use loads::{Loads, Wish};

pub(crate) use remembered::Remembered;

const PLUGINS: GroupVersionResource =
    GroupVersionResource::of("plugins.pilothouse.dev", "v1alpha1", "plugins");
/// How often figures are brought up to date, and a failed attempt is made again.
const FIGURES: Duration = Duration::from_secs(5);

/// What the process itself knows and plugins are configured with: component, then keys of `spec.config`.
pub(crate) type HostConfig = BTreeMap<&'static str, Map<String, Value>>;

/// The objects of one server and the registry of this process.
#[derive(Clone)]
pub(crate) struct PluginObjects {
    pub(crate) client: Client,
    pub(crate) registry: PluginRegistry,
    /// The watched directory.
    pub(crate) directory: PathBuf,
    pub(crate) host_config: HostConfig,
    /// Where specs are kept for the next start.
    pub(crate) remembered: Remembered,
    /// Tells when the state of a plugin changes.
    pub(crate) events: EventRecorder,
    /// Whether this process is the one that writes.
    pub(crate) writes: watch::Receiver<bool>,
}

/// What the task remembers from look to look.
struct Keeper {
    side: PluginObjects,
    /// Objects that were there at the last look: one that is gone was deleted by somebody.
    known: BTreeMap<String, Plugin>,
    loads: Loads,
    /// Of candidates.
    candidates: Loads,
}

/// Wakes the task at any change of a Plugin object.
struct Wake(Arc<Notify>);

impl Handler for Wake {
    fn handle(&self, _event: &CacheEvent) {
        self.0.notify_one();
    }
}

impl PluginObjects {
    /// Keeps both sides in step until `stop`.
    pub(crate) async fn run(self, informers: InformerSet, stop: CancellationToken) {
        let informer = informers.get(&PLUGINS);
        let cache = informer.cache();
        let wake = Arc::new(Notify::new());
        let _subscription = cache.subscribe(Arc::new(Wake(wake.clone())));
        cache.wait_synced().await;
        let mut active = self.registry.subscribe();
        let mut writes = self.writes.clone();
        let mut keeper = Keeper {
            side: self,
            known: BTreeMap::new(),
            loads: Loads::new(wake.clone()),
            candidates: Loads::new(wake.clone()),
        };
        let mut figures = tokio::time::interval(FIGURES);
        loop {
            active.mark_unchanged();
            let objects = cache.list_all("");
            let objects = objects.iter().filter_map(|object| {
                let plugin = Plugin::decode(&object.bytes).ok()?;
                Some((object.header.name.clone(), plugin))
            });
            let is_writer = *writes.borrow_and_update();
            if let Err(error) = keeper.look(objects.collect(), is_writer).await {
                tracing::debug!(%error, "plugin objects and plugins are out of step; trying again");
            }
            tokio::select! {
                () = stop.cancelled() => return,
                _ = figures.tick() => {}
                () = wake.notified() => {}
                Ok(()) = writes.changed() => {}
                going_on = active.changed() => if going_on.is_err() { return },
            }
        }
    }
}

impl Keeper {
    /// Compares both sides and does what is missing on either.
    async fn look(
        &mut self,
        mut objects: BTreeMap<String, Plugin>,
        is_writer: bool,
    ) -> Result<(), Status> {
        let deleted: Vec<String> = self
            .known
            .keys()
            .filter(|name| !objects.contains_key(*name))
            .cloned()
            .collect();
        for name in deleted {
            match self.side.client.get(&PLUGINS, "", &name).await {
                Ok(_) => continue, // made just now; the cache has not seen it yet
                Err(status) if status.is_not_found() => {}
                Err(status) => return Err(status),
            }
            self.known.remove(&name);
            self.loads.forget(&name);
            self.candidates.forget(&name);
            self.side.object_was_deleted(&name).await;
        }
        for (name, object) in &objects {
            self.apply_spec(name, object);
            self.apply_candidate(name, object);
        }
        if !is_writer {
            for status in self.side.registry.status() {
                if let Some((name, object)) = objects.remove_entry(&*status.name) {
                    self.known.insert(name, object);
                }
            }
            return Ok(());
        }
        for status in self.side.registry.status() {
            let name = status.name.to_string();
            let object = match objects.remove(&name) {
                Some(object) => self.side.with_host_config(&name, object).await?,
                None => self.side.create_object(&status).await?,
            };
            let loading = self.loads.is_loading(&name);
            let object = self.side.write_status(object, &status, loading).await?;
            self.known.insert(name, object);
        }
        for (name, object) in objects {
            self.object_without_component(&name, object).await?;
        }
        Ok(())
    }

    /// Makes what the object says the component's settings, and loads what only the object names.
    fn apply_spec(&mut self, name: &str, object: &Plugin) {
        let registry = &self.side.registry;
        let status = registry.status();
        let status = status.into_iter().find(|status| &*status.name == name);
        let active = registry.active();
        let current = active
            .iter()
            .find(|component| &**component.revision.component() == name);
        let built_in = status
            .as_ref()
            .is_none_or(|status| status.source == Source::BuiltIn);
        let source = match status.map(|status| status.source) {
            Some(Source::BuiltIn) => Source::BuiltIn,
            Some(source) if current.is_some() => source,
            None if names_a_source(object) => Source::Object(name.to_owned()),
            _ => return, // what does not load at all has nothing to configure
        };
        let settings = registry.within_bounds(&source, settings::of(object));
        if registry.settings(name).as_ref() == Some(&settings) {
            if !built_in {
                self.side.remembered.keep(name, &object.spec);
            }
            return self.loads.forget(name);
        }
        let wish = Wish {
            settings: settings.clone(),
            active: current.map(|component| component.revision.digest()),
            weight: None,
        };
        let (side, component, object) = (self.side.clone(), name.to_owned(), object.clone());
        self.loads.begin(name, wish, || async move {
            let loaded = match source {
                Source::BuiltIn => side.configure_built_in(&component, settings).await,
                source => side.load_file(&component, &object, source, settings).await,
            };
            if let Err(error) = loaded {
                tracing::debug!(component, %error, "the settings of a plugin were not taken over");
            }
        });
    }

    /// Has the version beside the one that serves that the object asks for, or none. Its file is looked at again and again, so
    /// that one that comes or changes later is taken.
    fn apply_candidate(&mut self, name: &str, object: &Plugin) {
        let registry = &self.side.registry;
        let serves = |name: &str| {
            let active = registry.active();
            active.iter().any(|c| &**c.revision.component() == name)
        };
        let Some(candidate) = &object.spec.candidate else {
            self.candidates.forget(name);
            registry.remove_candidate(name);
            return;
        };
        if !serves(name) {
            return;
        }
        let settings = settings::of_candidate(object, candidate);
        let weight = settings::weight(candidate);
        let wish = Wish {
            settings: settings.clone(),
            active: None,
            weight: Some(weight),
        };
        let (side, name, source) = (self.side.clone(), name.to_owned(), candidate.source.clone());
        self.candidates.begin(&name.clone(), wish, || async move {
            let path = side.directory.join(&source.path);
            match settings::read(&path, &source.digest).await {
                Ok(wasm) => {
                    let put = side.registry.put_candidate(&name, &wasm, settings, weight);
                    _ = put.await; // the status says it
                }
                Err(error) => side
                    .registry
                    .candidate_unreadable(&name, settings, weight, error),
            }
        });
    }

    /// An object whose file is gone goes; one whose file was never there says so through the registry at the next look.
    async fn object_without_component(&mut self, name: &str, object: Plugin) -> Result<(), Status> {
        if object.status.is_none() {
            return Ok(());
        }
        self.known.remove(name);
        let options = DeleteOptions::default();
        match self.side.client.delete(&PLUGINS, "", name, &options).await {
            Err(status) if !status.is_not_found() => Err(status),
            _ => Ok(()),
        }
    }
}

impl PluginObjects {
    async fn configure_built_in(&self, name: &str, settings: Settings) -> Result<(), LoadError> {
        match BUILTIN_PLUGINS
            .iter()
            .find(|(built_in, _)| *built_in == name)
        {
            Some((name, wasm)) => self.registry.add_built_in(name, wasm, settings).await,
            None => Ok(()),
        }
    }

    async fn load_file(
        &self,
        name: &str,
        object: &Plugin,
        source: Source,
        settings: Settings,
    ) -> Result<(), LoadError> {
        let path = match &source {
            Source::File(path) => path.clone(),
            _ => self.directory.join(&object.spec.source.path),
        };
        match settings::read(&path, &object.spec.source.digest).await {
            Ok(wasm) => self.registry.put(name, &wasm, source, settings).await,
            Err(error) => {
                self.registry.unreadable(name, source, error);
                Ok(())
            }
        }
    }

    /// The object of a component that has none yet.
    async fn create_object(&self, status: &PluginStatus) -> Result<Plugin, Status> {
        let mut object = Plugin::default();
        object.metadata.name = Some(status.name.to_string());
        // a file of this name takes the place of what ships with the host
        object.spec.source.path = match &status.source {
            Source::File(path) => path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned(),
            _ => format!("{}.wasm", status.name),
        };
        object.spec.config = self
            .host_config
            .get(&*status.name)
            .cloned()
            .unwrap_or_default();
        let created = self.client.create(&PLUGINS, "", object.encode()).await?;
        Plugin::decode(&created.bytes)
    }

    /// Writes what the process knows into the object's configuration.
    async fn with_host_config(&self, name: &str, mut object: Plugin) -> Result<Plugin, Status> {
        let known = self.host_config.get(name).into_iter().flatten();
        let missing: Vec<_> = known
            .filter(|(key, value)| object.spec.config.get(*key) != Some(value))
            .collect();
        if missing.is_empty() {
            return Ok(object);
        }
        object.spec.config.extend(
            missing
                .into_iter()
                .map(|(key, value)| (key.clone(), value.clone())),
        );
        let updated = self
            .client
            .update(&PLUGINS, "", name, object.encode())
            .await?;
        Plugin::decode(&updated.bytes)
    }

    async fn write_status(
        &self,
        mut object: Plugin,
        status: &PluginStatus,
        loading: bool,
    ) -> Result<Plugin, Status> {
        let wanted = Some(status::of(status, &object, loading));
        if object.status == wanted {
            return Ok(object);
        }
        let before = object.status.as_ref().map(|before| before.state.as_str());
        let ordinary = before.is_none() && status.built_in && status.state == PluginState::Serving;
        if before != Some(status.state.as_str()) && !ordinary {
            self.tell(&object, status);
        }
        self.tell_of_candidate(&object, status);
        object.status = wanted;
        let updated = self
            .client
            .update_status(&PLUGINS, "", &status.name, object.encode())
            .await?;
        Plugin::decode(&updated.bytes)
    }

    /// An Event about the state that a plugin is in now.
    fn tell(&self, object: &Plugin, status: &PluginStatus) {
        let good = matches!(status.state, PluginState::Serving | PluginState::Shadow);
        let why = status.conditions.iter().rev().find_map(|condition| {
            let message = &condition.message;
            (condition.is_bad() && !message.is_empty()).then(|| message.clone())
        });
        let digest = status.digest.map(|digest| format!("{digest} serves"));
        let note = match status.state {
            PluginState::Serving => digest,
            PluginState::Shadow => Some("it is asked, but does not act".to_owned()),
            _ => why.or(digest),
        };
        let note = note.unwrap_or_default();
        self.record(object, good, status.state.as_str(), &note);
    }

    /// An Event about the state that the candidate is in now, if that is another one.
    fn tell_of_candidate(&self, object: &Plugin, status: &PluginStatus) {
        let before = object.status.as_ref().and_then(|s| s.candidate.as_ref());
        let before = before.map(|candidate| (candidate.state.as_str(), candidate.weight));
        let Some(candidate) = &status.candidate else {
            return;
        };
        let now = (candidate.state.as_str(), candidate.weight.into());
        if before == Some(now) {
            return;
        }
        let (reason, digest) = (format!("Candidate{}", now.0), candidate.digest);
        let digest = digest.map(|digest| digest.to_string()).unwrap_or_default();
        let (good, note) = match candidate.state {
            CandidateState::Shadow => (true, format!("{digest} is asked, but does not act")),
            CandidateState::Weighted => (true, format!("{digest} decides {} of 100 calls", now.1)),
            CandidateState::Withdrawn | CandidateState::Failed => {
                (false, candidate.message.clone())
            }
        };
        self.record(object, good, &reason, &note);
    }

    fn record(&self, object: &Plugin, good: bool, reason: &str, note: &str) {
        let regarding = Regarding {
            api_version: "plugins.pilothouse.dev/v1alpha1".to_owned(),
            kind: "Plugin".to_owned(),
            name: object.metadata.name.clone().unwrap_or_default(),
            uid: object.metadata.uid.clone().unwrap_or_default(),
            ..Regarding::default()
        };
        let kind = if good { "Normal" } else { "Warning" };
        self.events
            .record("plugin-registry", regarding, kind, reason, "", note);
    }

    /// Somebody deleted the object: the component goes too, or what ships with the host gets its object back.
    async fn object_was_deleted(&self, name: &str) {
        let status = self
            .registry
            .status()
            .into_iter()
            .find(|status| &*status.name == name);
        match status.map(|status| status.source) {
            Some(Source::File(path)) => match tokio::fs::remove_file(&path).await {
                Ok(()) => drop(self.registry.remove(name).await),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => {
                    tracing::warn!(path = %path.display(), %error, "the file of a deleted plugin stays")
                }
            },
            Some(Source::Object(_)) => drop(self.registry.remove(name).await),
            Some(Source::BuiltIn) | None => {}
        }
    }
}

/// Whether the object itself is why a component should be loaded, and not a file that is gone or what once shipped.
fn names_a_source(object: &Plugin) -> bool {
    let made_for = object.status.as_ref().map(|status| status.source.as_str());
    !object.spec.source.path.is_empty() && matches!(made_for, None | Some("" | "Object"))
}
