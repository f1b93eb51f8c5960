//! Group, version, kind and resource, the coordinates of every API object.
//! Source: <https://kubernetes.io/docs/reference/using-api/api-concepts/>

use std::{borrow::Cow, fmt};

/// A group and a plural resource name, as error messages name them: `deployments.apps`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupResource {
    pub group: Cow<'static, str>,
    pub resource: Cow<'static, str>,
}

/// A group, version and plural resource name: `apps/v1, Resource=deployments`. The core group is `""`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupVersionResource {
    pub group: Cow<'static, str>,
    pub version: Cow<'static, str>,
    pub resource: Cow<'static, str>,
}

/// A group, version and kind: `apps/v1, Kind=Deployment`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupVersionKind {
    pub group: Cow<'static, str>,
    pub version: Cow<'static, str>,
    pub kind: Cow<'static, str>,
}

impl GroupVersionResource {
    /// From static parts; `group` is `""` for core.
    pub const fn of(group: &'static str, version: &'static str, resource: &'static str) -> Self {
        Self {
            group: Cow::Borrowed(group),
            version: Cow::Borrowed(version),
            resource: Cow::Borrowed(resource),
        }
    }

    /// `v1` or `apps/v1`.
    pub fn api_version(&self) -> String {
        api_version(&self.group, &self.version)
    }

    /// The same without the version.
    pub fn group_resource(&self) -> GroupResource {
        GroupResource {
            group: self.group.clone(),
            resource: self.resource.clone(),
        }
    }

    /// The URL prefix of the resource's group and version: `/api/v1` or `/apis/apps/v1`.
    pub fn url_prefix(&self) -> String {
        match &*self.group {
            "" => format!("/api/{}", self.version),
            group => format!("/apis/{group}/{}", self.version),
        }
    }
}

impl GroupVersionKind {
    /// From static parts; `group` is `""` for core.
    pub const fn of(group: &'static str, version: &'static str, kind: &'static str) -> Self {
        Self {
            group: Cow::Borrowed(group),
            version: Cow::Borrowed(version),
            kind: Cow::Borrowed(kind),
        }
    }

    /// From `apiVersion` and `kind` as a manifest has them.
    pub fn parse(api_version: &str, kind: &str) -> Self {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Self {
            group: Cow::Owned(group.to_owned()),
            version: Cow::Owned(version.to_owned()),
            kind: Cow::Owned(kind.to_owned()),
        }
    }

    /// `v1` or `apps/v1`.
    pub fn api_version(&self) -> String {
        api_version(&self.group, &self.version)
    }
}

fn api_version(group: &str, version: &str) -> String {
    match group {
        "" => version.to_owned(),
        group => format!("{group}/{version}"),
    }
}

impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.group {
            "" => f.write_str(&self.resource),
            group => write!(f, "{}.{group}", self.resource),
        }
    }
}

impl fmt::Display for GroupVersionResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, Resource={}", self.api_version(), self.resource)
    }
}

impl fmt::Display for GroupVersionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, Kind={}", self.api_version(), self.kind)
    }
}
