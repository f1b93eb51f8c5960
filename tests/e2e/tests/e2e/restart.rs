//! What was acknowledged is there after `kill -9`; ctrl-C stops cleanly; a second start reuses everything.

use std::{collections::BTreeMap, sync::Arc};

use anyhow::{Context, Result, ensure};
use k8s_openapi::{api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{
    Api,
    api::{ListParams, PostParams},
};
use pilothouse_e2e::Cluster;
use tokio::{sync::Mutex, task::JoinSet};

use crate::bad_input::administrator;

const WRITERS: usize = 8;
const WRITES_BEFORE_THE_KILL: usize = 300;

fn map(writer: usize, n: usize) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(format!("w{writer}-{n}")),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([(
            "payload".to_owned(),
            format!("{writer}-{n}-").repeat(64),
        )])),
        ..ConfigMap::default()
    }
}

#[tokio::test]
async fn kill_9_under_write_load_loses_nothing_acknowledged() -> Result<()> {
    let mut cluster = Cluster::start()?;
    for round in 0..2 {
        let maps: Api<ConfigMap> = Api::namespaced(administrator(&cluster).await?, "default");
        let acknowledged = Arc::new(Mutex::new(BTreeMap::new()));
        let enough = Arc::new(tokio::sync::Notify::new());
        let mut writers = JoinSet::new();
        for writer in 0..WRITERS {
            let (maps, acknowledged, enough) = (maps.clone(), acknowledged.clone(), enough.clone());
            writers.spawn(async move {
                for n in 0.. {
                    let Ok(created) = maps
                        .create(&PostParams::default(), &map(writer + 10 * round, n))
                        .await
                    else {
                        return;
                    };
                    let mut acknowledged = acknowledged.lock().await;
                    acknowledged.insert(created.metadata.name.clone(), created);
                    if acknowledged.len() == WRITES_BEFORE_THE_KILL {
                        enough.notify_one();
                    }
                }
            });
        }
        enough.notified().await;
        cluster.process.kill()?;
        writers.join_all().await;
        cluster.restart()?;

        let maps: Api<ConfigMap> = Api::namespaced(administrator(&cluster).await?, "default");
        let found = maps.list(&ListParams::default()).await?;
        let found: BTreeMap<_, _> = found
            .items
            .into_iter()
            .map(|m| (m.metadata.name.clone(), m))
            .collect();
        for (name, object) in acknowledged.lock().await.iter() {
            let stored = found
                .get(name)
                .with_context(|| format!("{name:?} was acknowledged and is lost"))?;
            assert_eq!(stored, object, "an object changed over the crash");
        }
        for object in found.values().filter(|m| {
            m.metadata
                .name
                .as_deref()
                .unwrap_or_default()
                .starts_with('w')
        }) {
            let payload = &object.data.as_ref().context("half an object")?["payload"];
            ensure!(payload.len() >= 64 * 4, "half an object: {object:?}");
        }
    }
    Ok(())
}

#[test]
fn ctrl_c_stops_cleanly_and_a_second_start_reuses_the_data() -> Result<()> {
    let mut cluster = Cluster::start()?;
    cluster.kubectl("create deployment web --image=nginx --replicas=3")?;
    cluster.kubectl("rollout status deployment/web --timeout=60s")?;
    let pods = cluster.kubectl("get pods -o jsonpath={.items[*].metadata.uid}")?;
    let authority = std::fs::read(cluster.data_dir().join("pki/ca.crt"))?;
    assert_eq!(
        cluster.process.interrupt()?,
        Some(0),
        "{}",
        cluster.process.output()
    );

    cluster.restart()?;
    assert_eq!(
        std::fs::read(cluster.data_dir().join("pki/ca.crt"))?,
        authority,
        "the CA changed"
    );
    assert_eq!(
        cluster.kubectl("get pods -o jsonpath={.items[*].metadata.uid}")?,
        pods
    );
    cluster.kubectl("scale deployment web --replicas=4")?;
    cluster.kubectl("rollout status deployment/web --timeout=60s")?;
    Ok(())
}

#[test]
fn a_second_process_on_the_same_data_is_refused() -> Result<()> {
    let cluster = Cluster::start()?;
    let second = cluster.pilothouse("up --secure-port 0")?;
    ensure!(!second.status.success());
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    ensure!(said.contains("in use"), "{said}");
    Ok(())
}
