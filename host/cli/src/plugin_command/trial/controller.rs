//! Controllers on trial: the input is an object that one of its watches maps to a key; writes go to a small world in memory.

use anyhow::{Result, anyhow, ensure};
use async_trait::async_trait;
use pilothouse_plugin::{
    Revision,
    cluster::GroupVersionResource,
    contract::controller::{Fixture, Key, SingleRun},
};
use serde_json::{Value, json};

use super::{
    Documents, Trial,
    documents::{Placed, place},
};

struct ControllerTrial {
    plugin: String,
    run: SingleRun,
    world: Vec<Fixture>,
    key: Key,
}

/// One for each key that the input is mapped to.
pub(super) fn trials(
    revision: &Revision,
    plugin: u32,
    documents: &Documents,
) -> Result<Vec<Box<dyn Trial>>> {
    let plugin = &revision.manifest().plugins[plugin as usize].name;
    let new = || {
        let run = SingleRun::new(revision, plugin);
        run.ok_or_else(|| anyhow!("there is no controller of this name"))
    };
    let run = new()?;
    let inputs = match &documents.input {
        Some(input) => vec![fixture(input)?],
        None => run.samples(),
    };
    let mut keys = run.keys(&inputs);
    ensure!(
        !keys.is_empty(),
        "none of its watches maps the input to a key; give an object that it reconciles with --input"
    );
    if documents.input.is_none() {
        keys.truncate(1);
    }
    let cluster = documents.cluster.iter().map(fixture);
    let cluster: Vec<Fixture> = cluster.collect::<Result<_>>()?;
    let world: Vec<Fixture> = inputs.into_iter().chain(cluster).collect();
    keys.into_iter()
        .map(|key| {
            let trial = ControllerTrial {
                plugin: plugin.clone(),
                run: new()?,
                world: world.clone(),
                key,
            };
            Ok(Box::new(trial) as Box<dyn Trial>)
        })
        .collect()
}

fn fixture(object: &Value) -> Result<Fixture> {
    let Placed {
        resource, object, ..
    } = place(object.clone())?;
    Ok(Fixture {
        resource: GroupVersionResource {
            group: resource.group.into_owned(),
            version: resource.version.into_owned(),
            resource: resource.resource.into_owned(),
        },
        object,
    })
}

#[async_trait]
impl Trial for ControllerTrial {
    fn plugin(&self) -> &str {
        &self.plugin
    }

    fn interface(&self) -> &'static str {
        "controller/reconcile"
    }

    fn revision(&self) -> &Revision {
        self.run.revision()
    }

    /// The world begins anew with each call.
    async fn call(&mut self) -> Result<Value> {
        self.run.set(&self.world);
        let ran = self.run.reconcile(&self.key).await?;
        let mut shown = json!({ "key": format!("{}/{}", self.key.namespace, self.key.name) });
        match ran.answer {
            Ok(None) => shown["result"] = "done".into(),
            Ok(Some(after)) => shown["requeueAfter"] = format!("{after:?}").into(),
            Err(why) => shown["failed"] = why.into(),
        }
        shown["writes"] = json!(ran.writes);
        if let Some(forbidden) = ran.forbidden {
            shown["forbidden"] = forbidden.into();
        }
        Ok(shown)
    }

    fn renew(&mut self) {} // each reconcile has an instance of its own
}
