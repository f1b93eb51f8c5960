//! Every limit stops a plugin that runs into it, says which it was, and leaves the host as it was.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use pilothouse_api::Status;
use pilothouse_plugin::{
    CallError, Clock, Engine, EngineConfig, Limit, Limits, Revision, Settings,
    admission::{MutateAnswer, Trial},
    capability::Grant,
    cluster::{CallingPlugin, Cluster, GroupVersionResource},
    contract::SampleCluster,
    manifest::ObjectNeed,
    testing,
};
use serde_json::json;
use tokio::time::Instant;

struct Subject {
    revision: Arc<Revision>,
    cluster: Arc<SampleCluster>,
}

async fn subject(behaviour: &str, limits: Limits) -> Subject {
    subject_of(EngineConfig::default(), behaviour, limits).await
}

async fn subject_of(config: EngineConfig, behaviour: &str, limits: Limits) -> Subject {
    let engine = Engine::new(config).unwrap();
    let cluster = SampleCluster::new();
    let settings = Settings {
        config: Some(json!({ "behaviour": behaviour })),
        limits,
        ..Settings::default()
    };
    let wasm = testing::component("bad-admission");
    let revision = Revision::load(&engine, "bad", &wasm, settings, cluster.clone()).await;
    Subject {
        revision: Arc::new(revision.unwrap()),
        cluster,
    }
}

impl Subject {
    async fn mutate(&self) -> Result<MutateAnswer, CallError> {
        let mut trial = Trial::new(&self.revision, 0, ObjectNeed::Full);
        let request = testing::pod_request(&testing::pod());
        let answer = trial.mutate(&request).await?;
        Ok(answer.unwrap())
    }

    async fn limit(&self) -> Limit {
        match self.mutate().await.unwrap_err() {
            CallError::Limit {
                plugin,
                interface,
                limit,
            } => {
                assert_eq!((&*plugin, interface), ("Bad", "admission/mutate"));
                limit
            }
            other => panic!("{other}"),
        }
    }
}

#[tokio::test]
async fn a_plugin_that_never_returns_runs_out_of_time() {
    let limits = Limits {
        time_ms: 20,
        ..Limits::default()
    };
    assert_eq!(subject("spin", limits).await.limit().await, Limit::Time(20));
}

#[tokio::test]
async fn instructions_have_a_limit_that_does_not_depend_on_the_machine() {
    let limits = Limits {
        instructions: Some(5_000_000),
        ..Limits::default()
    };
    let expected = Limit::Instructions(5_000_000);
    assert_eq!(
        subject("spin", limits.clone()).await.limit().await,
        expected
    );
    let mut counts = Vec::new();
    for _ in 0..2 {
        let subject = subject("good", limits.clone()).await;
        subject.mutate().await.unwrap();
        counts.push(subject.revision.figures().instructions);
    }
    assert_eq!(counts[0], counts[1]);
    assert!((1..5_000_000).contains(&counts[0]), "{counts:?}");
}

#[tokio::test]
async fn other_tasks_of_the_thread_run_meanwhile() {
    let subject = subject("spin", Limits::default()).await;
    let other = async {
        for _ in 0..5 {
            tokio::task::yield_now().await;
        }
        "done first"
    };
    tokio::select! {
        answer = subject.mutate() => panic!("{answer:?}"),
        first = other => assert_eq!(first, "done first"),
    }
}

#[tokio::test]
async fn waiting_has_a_limit_too() {
    let limits = Limits {
        wait_ms: 30,
        ..Limits::default()
    };
    assert_eq!(
        subject("sleep", limits).await.limit().await,
        Limit::Wait(30)
    );
}

#[tokio::test]
async fn a_callers_deadline_is_not_held_against_the_plugin() {
    let subject = subject("sleep", Limits::default()).await;
    let mut trial = Trial::new(&subject.revision, 0, ObjectNeed::Full);
    let mut request = testing::pod_request(&testing::pod());
    request.deadline = Some(Instant::now() + Duration::from_millis(20));
    let error = trial.mutate(&request).await.unwrap_err();
    assert!(
        matches!(
            &error,
            CallError::Limit {
                limit: Limit::Deadline,
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(error.cause(), None);
}

/// Takes every write and never answers.
struct Hanging;

#[async_trait]
impl Cluster for Hanging {
    async fn create(
        &self,
        _: CallingPlugin<'_>,
        _: &GroupVersionResource,
        _: &str,
        _: Bytes,
    ) -> Result<Bytes, Status> {
        std::future::pending().await
    }
}

#[tokio::test]
async fn a_cluster_that_hangs_is_not_held_against_the_plugin() {
    let settings = Settings {
        config: Some(json!({ "behaviour": "write-always" })),
        limits: Limits {
            wait_ms: 500,
            ..Limits::default()
        },
        ..Settings::default()
    };
    let engine = Engine::new(EngineConfig::default()).unwrap();
    let wasm = testing::component("bad-admission");
    let revision = Revision::load(&engine, "bad", &wasm, settings, Arc::new(Hanging)).await;
    let revision = Arc::new(revision.unwrap());
    let mut trial = Trial::new(&revision, 0, ObjectNeed::Full);
    let request = testing::pod_request(&testing::pod());
    let denial = trial.mutate(&request).await.unwrap().unwrap_err();
    assert_eq!((denial.code, denial.reason.as_str()), (504, "Timeout"));
}

#[tokio::test]
async fn memory_has_a_limit() {
    let limits = Limits {
        memory_bytes: 8 << 20,
        time_ms: 5000,
        ..Limits::default()
    };
    assert_eq!(
        subject("allocate", limits).await.limit().await,
        Limit::Memory(8 << 20)
    );
}

#[tokio::test]
async fn output_has_a_limit() {
    let limits = Limits {
        output_bytes: 1 << 20,
        time_ms: 5000,
        ..Limits::default()
    };
    assert_eq!(
        subject("flood", limits).await.limit().await,
        Limit::Output(1 << 20)
    );
}

#[tokio::test]
async fn calls_of_the_host_have_a_limit() {
    let limits = Limits {
        host_calls: 100,
        ..Limits::default()
    };
    assert_eq!(
        subject("call-host-forever", limits).await.limit().await,
        Limit::HostCalls(100)
    );
}

/// A clock that stands still.
struct Noon;

impl Clock for Noon {
    fn now_ms(&self) -> u64 {
        0
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }
}

#[tokio::test(start_paused = true)]
async fn who_writes_for_ever_waits_and_is_then_refused() {
    let config = EngineConfig {
        clock: Arc::new(Noon),
        ..EngineConfig::default()
    };
    let limits = Limits {
        writes_per_second: 1,
        ..Limits::default()
    };
    let subject = subject_of(config, "write-always", limits).await;
    let mut waits = Vec::new();
    let refusal = loop {
        let begun = Instant::now();
        let mut trial = Trial::new(&subject.revision, 0, ObjectNeed::Full);
        let request = testing::pod_request(&testing::pod());
        match trial.mutate(&request).await.unwrap() {
            Ok(_) => waits.push(begun.elapsed().as_secs()),
            Err(denial) => break denial.message,
        }
    };
    assert_eq!(waits, [0, 0, 1]);
    assert!(refusal.contains("spec.limits.writesPerSecond"), "{refusal}");
}

#[tokio::test]
async fn a_trap_carries_the_panics_message() {
    match subject("trap", Limits::default())
        .await
        .mutate()
        .await
        .unwrap_err()
    {
        CallError::Trap { cause, .. } => assert!(cause.contains("on purpose"), "{cause}"),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_trap_tells_where_it_was() {
    let cause = async |lines: bool| {
        let config = EngineConfig {
            lines,
            ..EngineConfig::default()
        };
        let subject = subject_of(config, "recurse", Limits::default()).await;
        subject.mutate().await.unwrap_err().to_string()
    };
    for lines in [false, true] {
        let cause = cause(lines).await;
        assert!(cause.contains(", in "), "{cause}");
        assert!(cause.contains("recurse"), "{cause}");
    }
}

#[tokio::test]
async fn the_stack_has_a_limit() {
    match subject("recurse", Limits::default())
        .await
        .mutate()
        .await
        .unwrap_err()
    {
        CallError::Trap { cause, .. } => {
            // A language keeps part of its stack in its memory: whichever ends first.
            let known = ["call stack exhausted", "out of bounds memory access"];
            assert!(known.iter().any(|known| cause.contains(known)), "{cause}");
        }
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn too_many_lines_are_dropped_and_cost_nothing_else() {
    let limits = Limits {
        log_bytes: 2000,
        time_ms: 5000,
        ..Limits::default()
    };
    let subject = subject("chatter", limits).await;
    subject.mutate().await.unwrap();
    let log = subject.revision.log();
    assert_eq!(log.lines().len(), 2);
    assert_eq!(log.dropped(), 998);
}

#[tokio::test]
async fn what_a_plugin_has_no_capability_for_is_refused() {
    let subject = subject("overreach", Limits::default()).await;
    let mut trial = Trial::new(&subject.revision, 0, ObjectNeed::Full);
    let answer = trial
        .mutate(&testing::pod_request(&testing::pod()))
        .await
        .unwrap();
    let denial = answer.unwrap_err();
    assert_eq!((denial.code, denial.reason.as_str()), (403, "Forbidden"));
    let expected = "plugin Bad has no capability to create resource \"secrets\" in API group \"\"";
    assert!(denial.message.starts_with(expected), "{}", denial.message);
    assert!(denial.message.contains("spec.capabilities of Plugin bad"));
    assert!(subject.cluster.take_writes().is_empty());
}

#[tokio::test]
async fn a_grant_narrows_what_the_manifest_asks_for() {
    let engine = Engine::new(EngineConfig::default()).unwrap();
    let cluster = SampleCluster::new();
    let settings = Settings {
        config: Some(json!({ "behaviour": "write-always" })),
        granted: Grant::Nothing,
        ..Settings::default()
    };
    let wasm = testing::component("bad-admission");
    let revision = Revision::load(&engine, "bad", &wasm, settings, cluster.clone())
        .await
        .unwrap();
    let mut trial = Trial::new(&Arc::new(revision), 0, ObjectNeed::Full);
    let answer = trial
        .mutate(&testing::pod_request(&testing::pod()))
        .await
        .unwrap();
    assert_eq!(answer.unwrap_err().code, 403);
    assert!(cluster.take_writes().is_empty());
}

#[tokio::test]
async fn a_dead_instance_is_replaced() {
    let subject = subject("trap", Limits::default()).await;
    let mut trial = Trial::new(&subject.revision, 0, ObjectNeed::Full);
    let request = testing::pod_request(&testing::pod());
    for _ in 0..2 {
        let error = trial.mutate(&request).await.unwrap_err();
        assert!(matches!(error, CallError::Trap { .. }), "{error}");
    }
}
