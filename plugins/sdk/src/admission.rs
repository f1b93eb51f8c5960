//! Admission plugins: judge and change objects before they are stored.
//! Source: <https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/>

use serde::{Serialize, de::DeserializeOwned};

use crate::{
    bindings,
    cluster::{Cluster, Host, Status},
    manifest::{Capability, Manifest, strings},
    patch::Patch,
};

pub use crate::bindings::admission::types::{
    Cause, Denial, GroupVersionKind, GroupVersionResource, Operation, Request, Subject, User,
};

/// One admission plugin. Override what it does; export `mutate`, `validate` or both.
pub trait Admission: Sync {
    /// Its name, match rules and settings.
    fn entry(&self) -> Entry;

    /// What to change in the object. Applied to its own output, it must change nothing.
    fn mutate(&self, _cluster: &dyn Cluster, _request: &Request) -> Result<Mutation, Denial> {
        Ok(Mutation::default())
    }

    /// Whether the request may go on, with warnings for its sender.
    fn validate(&self, _cluster: &dyn Cluster, _request: &Request) -> Result<Vec<String>, Denial> {
        Ok(Vec::new())
    }
}

/// What a mutation changes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mutation {
    pub patch: Patch,
    pub warnings: Vec<String>,
}

impl From<Patch> for Mutation {
    fn from(patch: Patch) -> Self {
        Self {
            patch,
            warnings: Vec::new(),
        }
    }
}

/// A plugin's entry in the manifest.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    name: String,
    capabilities: Vec<Capability>,
    settings: Settings,
}

/// The `admission` section of a plugin in the manifest.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Settings {
    rules: Vec<Rule>,
    object: &'static str,
    failure_policy: &'static str,
    order: i32,
    phases: Vec<&'static str>,
}

/// Which requests reach the plugin, as a rule of a webhook configuration.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    operations: Vec<String>,
    api_groups: Vec<String>,
    api_versions: Vec<String>,
    resources: Vec<String>,
}

impl Entry {
    /// A plugin that sees nothing yet, fails closed, gets the objects, and is called for both phases if exported for both.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            capabilities: Vec::new(),
            settings: Settings {
                rules: Vec::new(),
                object: "full",
                failure_policy: "Fail",
                order: 0,
                phases: vec!["mutate", "validate"],
            },
        }
    }

    /// Adds a rule: operations as `CREATE`, one group (`""` for core, `*` for all), plurals, `pods/eviction` or `*`.
    #[must_use]
    pub fn on(mut self, operations: &[&str], group: &str, resources: &[&str]) -> Self {
        self.settings.rules.push(Rule {
            operations: strings(operations),
            api_groups: vec![group.to_owned()],
            api_versions: vec!["*".to_owned()],
            resources: strings(resources),
        });
        self
    }

    /// The plugin judges by names alone and gets no objects.
    #[must_use]
    pub fn without_object(mut self) -> Self {
        self.settings.object = "none";
        self
    }

    /// A trap or limit lets the request pass instead of refusing it.
    #[must_use]
    pub fn ignore_failures(mut self) -> Self {
        self.settings.failure_policy = "Ignore";
        self
    }

    /// Lower runs first; built-in plugins use -1000 to -1.
    #[must_use]
    pub fn order(mut self, order: i32) -> Self {
        self.settings.order = order;
        self
    }

    /// It has nothing to say in the validating phase.
    #[must_use]
    pub fn mutate_only(mut self) -> Self {
        self.settings.phases = vec!["mutate"];
        self
    }

    /// It has nothing to say in the mutating phase.
    #[must_use]
    pub fn validate_only(mut self) -> Self {
        self.settings.phases = vec!["validate"];
        self
    }

    /// Asks for a capability.
    #[must_use]
    pub fn may(mut self, verbs: &[&str], group: &str, resources: &[&str]) -> Self {
        self.capabilities
            .push(Capability::new(verbs, group, resources));
        self
    }
}

impl Request {
    /// The new object as any type, best a small one with the few fields that matter. A request without one, or with one that
    /// does not fit, is refused with 400.
    pub fn object<T: DeserializeOwned>(&self) -> Result<T, Denial> {
        self.decode(self.object.as_deref(), "object")
    }

    /// The object before an update or delete, as [`Request::object`].
    pub fn old_object<T: DeserializeOwned>(&self) -> Result<T, Denial> {
        self.decode(self.old_object.as_deref(), "oldObject")
    }

    /// A 403 in Kubernetes' form: `pods "web" is forbidden: <why>`. An object without a name yet is called by the base of it.
    pub fn forbidden(&self, why: impl std::fmt::Display) -> Denial {
        let (resource, name) = (self.group_resource(), self.known_name());
        Denial::new(
            403,
            "Forbidden",
            format!("{resource} \"{name}\" is forbidden: {why}"),
        )
    }

    fn known_name(&self) -> String {
        #[derive(Default, serde::Deserialize)]
        #[serde(default)]
        struct Named {
            metadata: Metadata,
        }
        #[derive(Default, serde::Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        struct Metadata {
            name: String,
            generate_name: String,
        }
        if !self.name.is_empty() {
            return self.name.clone();
        }
        let object = self.object.as_deref().unwrap_or_default();
        let metadata = serde_json::from_slice(object)
            .unwrap_or(Named::default())
            .metadata;
        [metadata.name, metadata.generate_name]
            .into_iter()
            .find(|name| !name.is_empty())
            .unwrap_or_else(|| "Unknown".to_owned())
    }

    /// `pods` or `deployments.apps`.
    pub fn group_resource(&self) -> String {
        match self.resource.group.as_str() {
            "" => self.resource.resource.clone(),
            group => format!("{}.{group}", self.resource.resource),
        }
    }

    fn decode<T: DeserializeOwned>(&self, json: Option<&[u8]>, what: &str) -> Result<T, Denial> {
        let json = json.ok_or_else(|| Denial::bad_request(format!("the request has no {what}")))?;
        serde_json::from_slice(json)
            .map_err(|error| Denial::bad_request(format!("cannot read the {what}: {error}")))
    }
}

impl Denial {
    /// Any code and reason, about the object of the request.
    pub fn new(code: u16, reason: &str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason: reason.to_owned(),
            message: message.into(),
            about: None,
            causes: Vec::new(),
            retry_after_seconds: 0,
        }
    }

    /// 400 `BadRequest`.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// 404 `NotFound` about another object than the request's.
    pub fn not_found(group: &str, resource: &str, name: &str) -> Self {
        let qualified = match group {
            "" => resource.to_owned(),
            group => format!("{resource}.{group}"),
        };
        let mut denial = Self::new(404, "NotFound", format!("{qualified} \"{name}\" not found"));
        denial.about = Some(Subject {
            group: group.to_owned(),
            resource: resource.to_owned(),
            name: name.to_owned(),
        });
        denial
    }

    /// 500 `InternalError`.
    pub fn internal(message: impl std::fmt::Display) -> Self {
        Self::new(
            500,
            "InternalError",
            format!("Internal error occurred: {message}"),
        )
    }

    /// Adds a cause.
    #[must_use]
    pub fn cause(mut self, reason: &str, message: &str, field: &str) -> Self {
        self.causes.push(Cause {
            reason: reason.to_owned(),
            message: message.to_owned(),
            field: field.to_owned(),
        });
        self
    }
}

/// A refusal that a plugin got from the cluster, passed on as it is.
impl From<Status> for Denial {
    fn from(status: Status) -> Self {
        Self::new(status.code, &status.reason, status.message)
    }
}

/// Adds the plugins to the manifest, in the order of their indexes.
#[doc(hidden)]
pub fn declare(manifest: &mut Manifest, plugins: &[&dyn Admission]) {
    manifest.plugins.extend(plugins.iter().map(|plugin| {
        let entry = plugin.entry();
        crate::manifest::Plugin {
            name: entry.name,
            capabilities: entry.capabilities,
            admission: Some(entry.settings),
            ..Default::default()
        }
    }));
}

/// Implemented by [`crate::export!`] for the component.
#[doc(hidden)]
pub trait Plugins {
    fn admission(index: u32) -> Option<&'static dyn Admission>;
}

fn plugin<T: Plugins>(index: u32) -> Result<&'static dyn Admission, Denial> {
    T::admission(index).ok_or_else(|| Denial::internal(format!("no admission plugin {index}")))
}

impl<T: Plugins> bindings::mutate::exports::pilothouse::admission::mutate::Guest for T {
    fn mutate(
        index: u32,
        request: Request,
    ) -> Result<bindings::mutate::exports::pilothouse::admission::mutate::Mutation, Denial> {
        let mutation = plugin::<T>(index)?.mutate(&Host, &request)?;
        Ok(
            bindings::mutate::exports::pilothouse::admission::mutate::Mutation {
                json_patch: mutation.patch.to_json(),
                warnings: mutation.warnings,
            },
        )
    }
}

impl<T: Plugins> bindings::validate::exports::pilothouse::admission::validate::Guest for T {
    fn validate(
        index: u32,
        request: Request,
    ) -> Result<bindings::validate::exports::pilothouse::admission::validate::Approval, Denial>
    {
        let warnings = plugin::<T>(index)?.validate(&Host, &request)?;
        Ok(bindings::validate::exports::pilothouse::admission::validate::Approval { warnings })
    }
}

#[doc(hidden)]
#[macro_export]
macro_rules! __admission_export {
    ($component:ident, $first:expr, ($($interface:ident),+), [$($plugin:expr),+]) => {
        impl $crate::admission::Plugins for $component {
            fn admission(index: u32) -> Option<&'static dyn $crate::admission::Admission> {
                const PLUGINS: &[&dyn $crate::admission::Admission] = &[$(&$plugin),+];
                PLUGINS.get((index as usize).checked_sub($first)?).copied()
            }
        }
        $($crate::__admission_export!(@$interface $component);)+
    };
    (@mutate $component:ident) => {
        $crate::bindings::mutate::export_mutate!($component with_types_in $crate::bindings::mutate);
    };
    (@validate $component:ident) => {
        $crate::bindings::validate::export_validate!($component with_types_in $crate::bindings::validate);
    };
}
#[doc(hidden)]
pub use __admission_export as export;
