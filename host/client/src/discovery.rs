//! Which resources an API server serves, in each group's preferred version.
//! Source: <https://kubernetes.io/docs/concepts/overview/kubernetes-api/#discovery-api>

use std::borrow::Cow;

use pilothouse_api::{GroupVersionResource, Status};
use serde::{Deserialize, de::DeserializeOwned};

use crate::client::Client;

/// One resource, without its subresources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedResource {
    pub gvr: GroupVersionResource,
    pub kind: String,
    pub namespaced: bool,
    pub verbs: Vec<String>,
}

/// The outcome of discovery.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Discovered {
    pub resources: Vec<ServedResource>,
    /// Group versions that did not answer; what they serve is unknown.
    pub failed: Vec<String>,
}

impl ServedResource {
    /// Whether a verb is served.
    pub fn can(&self, verb: &str) -> bool {
        self.verbs.iter().any(|v| v == verb)
    }
}

#[derive(Deserialize)]
struct Groups {
    groups: Vec<Group>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Group {
    name: String,
    versions: Vec<Version>,
    preferred_version: Version,
}

#[derive(Deserialize)]
struct Version {
    version: String,
}

#[derive(Deserialize)]
struct Resources {
    resources: Vec<Resource>,
}

#[derive(Deserialize)]
struct Resource {
    name: String,
    kind: String,
    namespaced: bool,
    #[serde(default)]
    verbs: Vec<String>,
}

impl Client {
    /// Asks for every group version. A resource that the preferred version lacks is taken from the first version that has it.
    pub async fn discover(&self) -> Result<Discovered, Status> {
        let mut found = Discovered::default();
        self.discover_version("", "v1", &mut found).await?;
        let groups: Groups = decode(&self.raw("/apis").await?)?;
        for group in groups.groups {
            let preferred = group.preferred_version.version.as_str();
            let others = group.versions.iter().map(|v| v.version.as_str());
            let others = others.filter(|version| *version != preferred);
            for version in [preferred].into_iter().chain(others) {
                self.discover_version(&group.name, version, &mut found)
                    .await?;
            }
        }
        Ok(found)
    }

    async fn discover_version(
        &self,
        group: &str,
        version: &str,
        found: &mut Discovered,
    ) -> Result<(), Status> {
        let of = |resource: &str| GroupVersionResource {
            group: Cow::Owned(group.to_owned()),
            version: Cow::Owned(version.to_owned()),
            resource: Cow::Owned(resource.to_owned()),
        };
        let answer = self.raw(&of("").url_prefix()).await;
        let resources: Resources = match answer.and_then(|body| decode(&body)) {
            Ok(resources) => resources,
            Err(status) if status.code == 401 || status.code == 403 => return Err(status),
            Err(_) => {
                found.failed.push(of("").api_version());
                return Ok(());
            }
        };
        for resource in resources.resources {
            let known =
                |r: &ServedResource| r.gvr.group == group && r.gvr.resource == resource.name;
            if resource.name.contains('/') || found.resources.iter().any(known) {
                continue;
            }
            found.resources.push(ServedResource {
                gvr: of(&resource.name),
                kind: resource.kind,
                namespaced: resource.namespaced,
                verbs: resource.verbs,
            });
        }
        Ok(())
    }
}

fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, Status> {
    serde_json::from_slice(body)
        .map_err(|error| Status::internal(format!("undecodable discovery document: {error}")))
}

#[cfg(test)]
mod tests;
