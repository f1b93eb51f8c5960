//! Admission plugins on trial: the input is an object that somebody writes, or a whole AdmissionReview.

use std::sync::Arc;

use anyhow::{Result, bail, ensure};
use async_trait::async_trait;
use pilothouse_plugin::{
    Revision,
    admission::{Request, User, response},
    contract::{SampleCluster, sample},
    manifest::{AdmissionSettings, Phase},
};
use serde_json::Value;

use super::{Documents, Trial, documents::place};
use crate::flags::TrialOperation;

struct AdmissionTrial {
    plugin: String,
    phase: Phase,
    revision: Arc<Revision>,
    trial: pilothouse_plugin::admission::Trial,
    request: Request,
}

/// One for each phase that the plugin takes part in.
pub(super) fn trials(
    revision: &Revision,
    plugin: u32,
    documents: &Documents,
) -> Result<Vec<Box<dyn Trial>>> {
    let entry = &revision.manifest().plugins[plugin as usize];
    let Some(settings) = &entry.admission else {
        return Ok(Vec::new());
    };
    let request = request(settings, documents)?;
    let of = &request.resource;
    ensure!(
        settings.matches(
            request.operation.in_rules(),
            &of.group,
            &of.version,
            &of.resource,
            &request.subresource,
            request.namespaced,
        ),
        "it is not called for {:?} of {of}: none of its rules matches",
        request.operation
    );
    let cluster = SampleCluster::new();
    for object in &documents.cluster {
        let placed = place(object.clone())?;
        let namespace = placed.object["metadata"]["namespace"].as_str();
        cluster.put(
            &placed.resource.resource,
            namespace.unwrap_or_default(),
            &placed.object,
        );
    }
    let revision = Arc::new(revision.isolated(cluster));
    let mut trials: Vec<Box<dyn Trial>> = Vec::new();
    for phase in settings.phases.iter().copied() {
        let trial = pilothouse_plugin::admission::Trial::new(&revision, plugin, settings.object);
        if trial.exports(phase) {
            trials.push(Box::new(AdmissionTrial {
                plugin: entry.name.clone(),
                phase,
                revision: Arc::clone(&revision),
                trial,
                request: request.clone(),
            }));
        }
    }
    Ok(trials)
}

/// What the documents ask for; without an input the first of the contract's samples that the plugin's rules match.
fn request(settings: &AdmissionSettings, documents: &Documents) -> Result<Request> {
    let Some(input) = &documents.input else {
        let Some(request) = sample::requests(settings).into_iter().next() else {
            bail!("none of the sample objects matches its rules; give one with --input");
        };
        return Ok(request);
    };
    if input["kind"] == "AdmissionReview" {
        return Request::from_review(input).map_err(anyhow::Error::msg);
    }
    let placed = place(input.clone())?;
    let operation = documents.operation.into();
    let mut request = sample::request(&placed.resource, operation, &placed.object);
    request.namespaced = placed.namespaced;
    if placed.resource.resource == "namespaces" {
        request.namespace.clone_from(&request.name);
    }
    request.user = User {
        name: documents.user.clone(),
        groups: documents.groups.clone(),
        ..User::default()
    };
    if let (Some(old), TrialOperation::Update) = (&documents.old, documents.operation) {
        request.old_object = Some(place(old.clone())?.object.to_string().into());
    }
    Ok(request)
}

#[async_trait]
impl Trial for AdmissionTrial {
    fn plugin(&self) -> &str {
        &self.plugin
    }

    fn interface(&self) -> &'static str {
        match self.phase {
            Phase::Mutate => "admission/mutate",
            Phase::Validate => "admission/validate",
        }
    }

    fn revision(&self) -> &Revision {
        &self.revision
    }

    async fn call(&mut self) -> Result<Value> {
        let request = &self.request;
        Ok(match self.phase {
            Phase::Mutate => match self.trial.mutate(request).await? {
                Ok(made) => response(request, Ok((Some(&made.json_patch), &made.warnings))),
                Err(denial) => response(request, Err(denial)),
            },
            Phase::Validate => match self.trial.validate(request).await? {
                Ok(warnings) => response(request, Ok((None, &warnings))),
                Err(denial) => response(request, Err(denial)),
            },
        })
    }

    fn renew(&mut self) {
        self.trial.renew();
    }
}
