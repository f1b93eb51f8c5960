//! The `kube` crate as a client: typed API, watcher, reflector semantics, on both engines.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        core::v1::{ConfigMap, Pod},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams},
    runtime::{WatchStreamExt, watcher},
};
use pilothouse_e2e::{Cluster, ClusterOptions};
use serde_json::json;

use crate::bad_input::administrator;

fn map(name: &str, value: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(BTreeMap::from([("set".to_owned(), value.to_owned())])),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([("value".to_owned(), value.to_owned())])),
        ..ConfigMap::default()
    }
}

async fn everything_a_rust_client_does(options: ClusterOptions) -> Result<()> {
    let cluster = Cluster::start_with(options)?;
    let client = administrator(&cluster).await?;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");

    let created = maps
        .create(&PostParams::default(), &map("a", "one"))
        .await?;
    ensure!(created.metadata.uid.is_some() && created.metadata.creation_timestamp.is_some());
    let conflict = maps.create(&PostParams::default(), &map("a", "one")).await;
    assert_eq!(code(conflict)?, (409, "AlreadyExists".to_owned()));

    let mut changed = created.clone();
    changed.data = Some(BTreeMap::from([("value".to_owned(), "two".to_owned())]));
    let changed = maps.replace("a", &PostParams::default(), &changed).await?;
    ensure!(changed.metadata.resource_version != created.metadata.resource_version);
    let stale = maps.replace("a", &PostParams::default(), &created).await;
    assert_eq!(code(stale)?, (409, "Conflict".to_owned()));
    let same = maps.replace("a", &PostParams::default(), &changed).await?;
    assert_eq!(
        same.metadata.resource_version, changed.metadata.resource_version,
        "a write of the same bytes took a revision"
    );

    let patched = maps
        .patch(
            "a",
            &PatchParams::default(),
            &Patch::Merge(json!({"data": {"more": "yes"}})),
        )
        .await?;
    assert_eq!(patched.data.context("no data")?.len(), 2);
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    maps.create(&dry, &map("never", "x")).await?;
    ensure!(
        maps.get_opt("never").await?.is_none(),
        "a dry run stored something"
    );

    paginates_consistently(&maps).await?;
    watches_resume(&client, &maps).await?;
    Ok(())
}

fn code<T>(result: kube::Result<T>) -> Result<(u16, String)> {
    match result {
        Ok(_) => anyhow::bail!("the request should have been refused"),
        Err(kube::Error::Api(status)) => Ok((status.code, status.reason.clone())),
        Err(error) => Err(error.into()),
    }
}

async fn paginates_consistently(maps: &Api<ConfigMap>) -> Result<()> {
    for n in 0..25 {
        maps.create(
            &PostParams::default(),
            &map(&format!("page-{n:02}"), "page"),
        )
        .await?;
    }
    let mut names = Vec::new();
    let mut params = ListParams::default().labels("set=page").limit(10);
    let mut versions = Vec::new();
    loop {
        let page = maps.list(&params).await?;
        names.extend(page.items.into_iter().filter_map(|m| m.metadata.name));
        versions.push(page.metadata.resource_version);
        if versions.len() == 1 {
            maps.create(&PostParams::default(), &map("page-99", "page"))
                .await?;
            maps.delete("page-20", &DeleteParams::default()).await?;
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => break,
        }
    }
    let expected: Vec<String> = (0..25).map(|n| format!("page-{n:02}")).collect();
    assert_eq!(names, expected, "pages are not of one revision");
    versions.dedup();
    assert_eq!(versions.len(), 1, "pages report several revisions");
    Ok(())
}

async fn watches_resume(client: &Client, maps: &Api<ConfigMap>) -> Result<()> {
    let from = maps
        .list(&ListParams::default())
        .await?
        .metadata
        .resource_version
        .context("no revision")?;
    for value in ["one", "two", "three"] {
        let patch = Patch::Merge(
            json!({"metadata": {"name": "w", "labels": {"set": value}}, "data": {"value": value}}),
        );
        match maps.get_opt("w").await? {
            None => drop(
                maps.create(&PostParams::default(), &map("w", value))
                    .await?,
            ),
            Some(_) => drop(maps.patch("w", &PatchParams::default(), &patch).await?),
        }
    }
    maps.delete("w", &DeleteParams::default()).await?;

    let all = WatchParams::default().fields("metadata.name=w").timeout(20);
    let seen = first_events(maps, &all, &from, 4).await?;
    assert_eq!(
        seen,
        [
            "ADDED one",
            "MODIFIED two",
            "MODIFIED three",
            "DELETED three"
        ]
    );
    let selected = WatchParams::default().labels("set=two").timeout(20);
    let seen = first_events(maps, &selected, &from, 2).await?;
    assert_eq!(
        seen,
        ["ADDED two", "DELETED two"],
        "a selector watch must show entering and leaving"
    );

    let deployments: Api<Deployment> = Api::namespaced(client.clone(), "default");
    let deployment = serde_json::from_value(json!({
        "metadata": {"name": "web"},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}}}
    }))?;
    deployments
        .create(&PostParams::default(), &deployment)
        .await?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    let mut running = std::collections::BTreeSet::new();
    let mut stream = watcher(pods.clone(), watcher::Config::default().labels("app=web"))
        .applied_objects()
        .boxed();
    while running.len() < 3 {
        let pod = stream.try_next().await?.context("the watcher ended")?;
        if pod.status.as_ref().and_then(|s| s.phase.as_deref()) == Some("Running") {
            running.insert(pod.metadata.name);
        }
    }
    let mut scale = deployments.get_scale("web").await?;
    assert_eq!(scale.spec.as_ref().and_then(|s| s.replicas), Some(3));
    scale.spec.get_or_insert_default().replicas = Some(1);
    scale.metadata.resource_version = None; // the controller writes the status meanwhile
    deployments
        .replace_scale("web", &PostParams::default(), &scale)
        .await?;
    assert_eq!(
        deployments.get("web").await?.spec.and_then(|s| s.replicas),
        Some(1)
    );
    Ok(())
}

async fn first_events(
    maps: &Api<ConfigMap>,
    params: &WatchParams,
    from: &str,
    count: usize,
) -> Result<Vec<String>> {
    let stream = maps.watch(params, from).await?;
    let mut seen = Vec::new();
    let mut stream = stream.boxed();
    while seen.len() < count {
        let (kind, map) = match stream.try_next().await?.context("the watch ended early")? {
            WatchEvent::Added(map) => ("ADDED", map),
            WatchEvent::Modified(map) => ("MODIFIED", map),
            WatchEvent::Deleted(map) => ("DELETED", map),
            WatchEvent::Bookmark(_) => continue,
            WatchEvent::Error(status) => anyhow::bail!("the watch failed: {status:?}"),
        };
        seen.push(format!("{kind} {}", map.data.unwrap_or_default()["value"]));
    }
    Ok(seen)
}

#[tokio::test]
async fn a_rust_client_on_the_embedded_engine() -> Result<()> {
    everything_a_rust_client_does(ClusterOptions::default()).await
}

#[tokio::test]
async fn a_rust_client_on_etcd() -> Result<()> {
    let options = ClusterOptions {
        etcd: true,
        ..ClusterOptions::default()
    };
    everything_a_rust_client_does(options).await
}

#[tokio::test]
async fn a_finalizer_holds_an_object_until_it_is_removed() -> Result<()> {
    let cluster = Cluster::start()?;
    let maps: Api<ConfigMap> = Api::namespaced(administrator(&cluster).await?, "default");
    let mut held = map("held", "x");
    held.metadata.finalizers = Some(vec!["example.com/hold".to_owned()]);
    maps.create(&PostParams::default(), &held).await?;
    maps.delete("held", &DeleteParams::default()).await?;
    let terminating = maps.get("held").await?;
    ensure!(terminating.metadata.deletion_timestamp.is_some());
    let again = maps.create(&PostParams::default(), &map("held", "y")).await;
    assert_eq!(code(again)?.1, "AlreadyExists");
    let more = json!({"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}});
    let refused = maps
        .patch("held", &PatchParams::default(), &Patch::Merge(more))
        .await;
    assert_eq!(
        code(refused)?,
        (422, "Invalid".to_owned()),
        "a finalizer was added to a deleting object"
    );
    let none = json!({"metadata": {"finalizers": null}});
    maps.patch("held", &PatchParams::default(), &Patch::Merge(none))
        .await?;
    ensure!(
        maps.get_opt("held").await?.is_none(),
        "removing the last finalizer must delete the object"
    );
    Ok(())
}

#[tokio::test]
async fn a_watch_too_far_back_says_expired() -> Result<()> {
    let cluster = Cluster::start()?;
    let maps: Api<ConfigMap> = Api::namespaced(administrator(&cluster).await?, "default");
    let stream = maps.watch(&WatchParams::default(), "1").await?;
    let mut stream = stream.boxed();
    loop {
        match stream
            .try_next()
            .await?
            .context("the watch ended without an answer")?
        {
            WatchEvent::Error(status) => {
                assert_eq!((status.code, status.reason.as_str()), (410, "Expired"));
                return Ok(());
            }
            WatchEvent::Bookmark(_) => {}
            event => anyhow::ensure!(
                matches!(event, WatchEvent::Added(_)),
                "an event that cannot follow revision 1"
            ),
        }
        if maps.get_opt("stop").await?.is_some() {
            return Ok(()); // history since revision 1 is still kept: the watch is served, which is as right
        }
        maps.create(&PostParams::default(), &map("stop", "x"))
            .await?;
    }
}
