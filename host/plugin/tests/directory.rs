//! The watched directory with real files and real events.

use std::{fs, path::Path, sync::Arc, time::Duration};

use async_trait::async_trait;
use pilothouse_plugin::{
    Active, Digest, Engine, EngineConfig, LoadError, PluginDirectory, PluginRegistry, PluginState,
    RegistryConfig, Revision, Settings, SmokeContract, Source, capability::Grant, testing,
};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

/// Long enough for a loaded machine; the tests wait for events, not for time.
const PATIENCE: Duration = Duration::from_secs(60);

async fn until(active: &mut watch::Receiver<Active>, what: impl Fn(&Active) -> bool) -> Active {
    let found = tokio::time::timeout(PATIENCE, active.wait_for(|now| what(now))).await;
    found.expect("it did not come about").unwrap().clone()
}

fn registry() -> PluginRegistry {
    let engine = Engine::new(EngineConfig::default()).unwrap();
    PluginRegistry::new(RegistryConfig::new(engine)).unwrap()
}

fn copy(component: &str, to: &Path) {
    fs::write(to, testing::component(component)).unwrap();
}

#[tokio::test]
async fn files_come_change_and_go() {
    let dir = tempfile::tempdir().unwrap();
    let registry = registry();
    let mut active = registry.subscribe();
    let directory = PluginDirectory::open(dir.path(), registry.clone()).unwrap();
    let stop = CancellationToken::new();
    let running = tokio::spawn(directory.run(stop.clone()));
    let file = dir.path().join("My_Policy.wasm");

    copy("admission-priority", &file);
    let now = until(&mut active, |now| now.len() == 1).await;
    let first = now[0].revision.digest();
    assert_eq!(&**now[0].revision.component(), "my-policy");
    assert_eq!(registry.status()[0].source, Source::File(file.clone()));

    copy("admission-default-toleration-seconds", &file);
    until(&mut active, |now| {
        now.first().is_some_and(|a| a.revision.digest() != first)
    })
    .await;

    fs::write(dir.path().join("notes.txt"), "no plugin").unwrap();
    fs::write(dir.path().join(".hidden.wasm"), "no plugin").unwrap();
    fs::remove_file(&file).unwrap();
    until(&mut active, |now| now.is_empty()).await;

    stop.cancel();
    running.await.unwrap();
}

#[tokio::test]
async fn half_a_file_is_not_taken_for_the_whole() {
    let dir = tempfile::tempdir().unwrap();
    let registry = registry();
    let mut active = registry.subscribe();
    let directory = PluginDirectory::open(dir.path(), registry.clone()).unwrap();
    let stop = CancellationToken::new();
    let running = tokio::spawn(directory.run(stop.clone()));
    let file = dir.path().join("policy.wasm");
    let wasm = testing::component("admission-priority");

    fs::write(&file, &wasm[..wasm.len() / 2]).unwrap();
    tokio::time::timeout(PATIENCE, async {
        while registry.status().is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("the half was never looked at");
    assert!(registry.active().is_empty());

    fs::write(&file, &wasm).unwrap();
    until(&mut active, |now| now.len() == 1).await;
    stop.cancel();
    running.await.unwrap();
}

#[tokio::test]
async fn a_disabled_plugin_is_not_called_until_the_brake_is_released() {
    let dir = tempfile::tempdir().unwrap();
    let (file, brake) = (
        dir.path().join("My_Policy.wasm"),
        dir.path().join("my-policy.disabled"),
    );
    copy("admission-priority", &file);
    fs::write(&brake, "").unwrap();
    fs::write(dir.path().join("shipped.disabled"), "").unwrap();
    let registry = registry();
    let shipped = testing::component("admission-service-account");
    registry.add_built_ins(&[("shipped", &shipped)]).await;
    let mut active = registry.subscribe();
    let mut directory = PluginDirectory::open(dir.path(), registry.clone()).unwrap();
    directory.load_all().await;
    assert!(registry.active().is_empty());
    let states = registry.status().into_iter().map(|status| status.state);
    assert!(states.eq([PluginState::Disabled; 2]));
    let stop = CancellationToken::new();
    let running = tokio::spawn(directory.run(stop.clone()));
    fs::remove_file(&brake).unwrap();
    until(&mut active, |now| now.len() == 1).await;
    fs::write(&brake, "").unwrap();
    until(&mut active, |now| now.is_empty()).await;
    stop.cancel();
    running.await.unwrap();
}

#[tokio::test]
async fn what_is_there_at_the_start_is_loaded_at_once() {
    let dir = tempfile::tempdir().unwrap();
    copy("admission-priority", &dir.path().join("a.wasm"));
    copy("admission-service-account", &dir.path().join("b.wasm"));
    let registry = registry();
    let mut directory = PluginDirectory::open(dir.path(), registry.clone()).unwrap();
    directory.load_all().await;
    let names: Vec<String> = registry
        .active()
        .iter()
        .map(|a| a.revision.component().to_string())
        .collect();
    assert_eq!(names, ["a", "b"]);
}

#[tokio::test]
async fn a_new_version_keeps_the_settings_of_the_one_before() {
    let dir = tempfile::tempdir().unwrap();
    let registry = registry();
    let mut directory = PluginDirectory::open(dir.path(), registry.clone()).unwrap();
    let file = dir.path().join("policy.wasm");
    copy("admission-priority", &file);
    directory.load_all().await;
    let settings = Settings {
        granted: Grant::Nothing,
        ..Settings::default()
    };
    let wasm = testing::component("admission-priority");
    let source = Source::File(file.clone());
    registry
        .put("policy", &wasm, source, settings.clone())
        .await
        .unwrap();

    copy("admission-service-account", &file);
    directory.load_all().await;
    let active = registry.active();
    assert_eq!(
        active[0].revision.digest(),
        digest("admission-service-account")
    );
    assert_eq!(*active[0].revision.settings(), settings);
}

fn digest(component: &str) -> Digest {
    Digest::of(&testing::component(component))
}

#[cfg(unix)]
#[tokio::test]
async fn a_link_to_itself_holds_up_no_other_file() {
    let dir = tempfile::tempdir().unwrap();
    let link = dir.path().join("loop.wasm");
    std::os::unix::fs::symlink(&link, &link).unwrap();
    copy("admission-priority", &dir.path().join("a.wasm"));
    let registry = registry();
    let mut directory = PluginDirectory::open(dir.path(), registry.clone()).unwrap();
    directory.load_all().await;
    assert_eq!(&**registry.active()[0].revision.component(), "a");
}

/// A contract that a component named `slow` does not get through before it is told so.
#[derive(Default)]
struct Gate {
    entered: Notify,
    open: Notify,
}

#[async_trait]
impl SmokeContract for Gate {
    fn family(&self) -> &'static str {
        "admission"
    }

    async fn check(&self, revision: &Revision) -> Result<(), String> {
        if &**revision.component() == "slow" {
            self.entered.notify_one();
            self.open.notified().await;
        }
        Ok(())
    }
}

fn gated() -> (PluginRegistry, Arc<Gate>) {
    let engine = Engine::new(EngineConfig::default()).unwrap();
    let gate = Arc::new(Gate::default());
    let config = RegistryConfig {
        contracts: vec![gate.clone()],
        ..RegistryConfig::new(engine)
    };
    (PluginRegistry::new(config).unwrap(), gate)
}

#[tokio::test]
async fn a_load_that_takes_long_holds_up_no_other_and_ends_with_its_file() {
    let dir = tempfile::tempdir().unwrap();
    let (registry, gate) = gated();
    let mut active = registry.subscribe();
    let directory = PluginDirectory::open(dir.path(), registry.clone()).unwrap();
    let stop = CancellationToken::new();
    let running = tokio::spawn(directory.run(stop.clone()));
    let slow = dir.path().join("slow.wasm");

    copy("admission-priority", &slow);
    gate.entered.notified().await;
    copy("admission-priority", &dir.path().join("quick.wasm"));
    until(&mut active, |now| now.len() == 1).await;

    copy("admission-service-account", &slow);
    gate.entered.notified().await; // the newer version is tried instead
    fs::remove_file(&slow).unwrap();
    fs::remove_file(dir.path().join("quick.wasm")).unwrap();
    until(&mut active, |now| now.is_empty()).await;
    stop.cancel();
    running.await.unwrap();
}

#[tokio::test]
async fn what_is_removed_while_it_loads_does_not_come_back() {
    let (registry, gate) = gated();
    let loading = registry.clone();
    let load = tokio::spawn(async move {
        let wasm = testing::component("admission-priority");
        let source = Source::Object("slow".to_owned());
        loading
            .put("slow", &wasm, source, Settings::default())
            .await
    });
    gate.entered.notified().await;
    registry.remove("slow").await;
    gate.open.notify_one();
    assert_eq!(load.await.unwrap(), Err(LoadError::Removed));
    assert!(registry.active().is_empty() && registry.status().is_empty());
}
