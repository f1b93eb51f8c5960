//! What a component says about itself: the JSON of `pilothouse:host/manifest`, whose fields wit/README.md describes.

use serde::Serialize;

/// The whole manifest. Families add their plugins through their `declare` functions; the position of a plugin is the index by
/// which the host calls it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Manifest {
    pub plugins: Vec<Plugin>,
}

/// One plugin of the component: its name, what it may do, and the section of its family.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Plugin {
    pub name: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<Capability>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admission: Option<crate::admission::Settings>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<crate::controller::Settings>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<crate::scheduler::Settings>,
}

impl Manifest {
    /// The JSON form.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default() // strings, numbers and lists only: cannot fail
    }
}

/// One rule of what a plugin may do to the cluster, as a rule of an RBAC role. `"*"` means any; no names mean all names.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Capability {
    pub verbs: Vec<String>,
    pub api_groups: Vec<String>,
    /// Plurals; a subresource is `pods/status`.
    pub resources: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<String>,
}

impl Capability {
    /// These verbs on these resources of one group (`""` for core), whatever their names.
    pub fn new(verbs: &[&str], group: &str, resources: &[&str]) -> Self {
        Self {
            verbs: strings(verbs),
            api_groups: vec![group.to_owned()],
            resources: strings(resources),
            resource_names: Vec::new(),
        }
    }
}

pub(crate) fn strings(from: &[&str]) -> Vec<String> {
    from.iter().map(|s| (*s).to_owned()).collect()
}

/// Implemented by [`crate::export!`] for the component.
#[doc(hidden)]
pub trait Source {
    fn manifest() -> Manifest;
}

impl<T: Source> crate::bindings::manifest::exports::pilothouse::host::manifest::Guest for T {
    fn describe() -> String {
        T::manifest().to_json()
    }
}
