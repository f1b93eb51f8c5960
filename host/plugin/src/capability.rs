//! What a plugin may do to the cluster: rules as those of an RBAC role. What its manifest asks for and what its Plugin object
//! grants must both allow an access.
//! Source: <https://kubernetes.io/docs/reference/access-authn-authz/rbac/>

use serde::{Deserialize, Serialize};

use crate::manifest::PluginEntry;

/// One rule. `"*"` means any; no names mean all names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rule {
    pub verbs: Vec<String>,
    pub api_groups: Vec<String>,
    /// Plurals; a subresource is `pods/status`, that of any resource `*/scale`.
    pub resources: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<String>,
}

/// One access to judge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access<'a> {
    pub verb: &'a str,
    pub group: &'a str,
    pub resource: &'a str,
    /// Empty for the resource itself.
    pub subresource: &'a str,
    /// Empty for lists and creates.
    pub name: &'a str,
}

/// What the owner of a plugin lets it do, of what its manifest asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Grant {
    /// All of it.
    #[default]
    Asked,
    /// What these rules allow.
    Rules(Vec<Rule>),
    /// Reads, but not of Secrets.
    ReadOnly,
    /// Reads, but not of Secrets; controllers, which are there to write, may also write what does not widen anybody's rights.
    AsNeeded,
    /// Nothing of it.
    Nothing,
}

/// What a plugin asked for and what it was granted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    asked: Vec<Rule>,
    granted: Grant,
    controller: bool,
}

impl Capabilities {
    /// `granted` narrows what was `asked` for.
    pub fn new(asked: Vec<Rule>, granted: Grant) -> Self {
        Self {
            asked,
            granted,
            controller: false,
        }
    }

    /// The capabilities of a plugin by its manifest.
    pub fn of(entry: &PluginEntry, granted: Grant) -> Self {
        Self {
            controller: entry.controller.is_some(),
            ..Self::new(entry.capabilities.clone(), granted)
        }
    }

    /// Whether both sides allow the access.
    pub fn allow(&self, access: Access<'_>) -> bool {
        let any = |rules: &[Rule]| rules.iter().any(|rule| rule.allows(access));
        any(&self.asked)
            && match &self.granted {
                Grant::Asked => true,
                Grant::Rules(rules) => any(rules),
                Grant::ReadOnly => access.reads() && !access.is_of_secrets(),
                Grant::AsNeeded if access.reads() => !access.is_of_secrets(),
                Grant::AsNeeded => self.controller && !access.widens_rights(),
                Grant::Nothing => false,
            }
    }

    /// The rules to give to the plugin's user, those asked for.
    pub fn asked(&self) -> &[Rule] {
        &self.asked
    }
}

impl Access<'_> {
    fn reads(&self) -> bool {
        matches!(self.verb, "get" | "list" | "watch")
    }

    fn is_of_secrets(&self) -> bool {
        self.group.is_empty() && self.resource == "secrets"
    }

    /// Whether a write may give its author, or somebody else, rights or a say in what others do.
    fn widens_rights(&self) -> bool {
        const GROUPS: [&str; 6] = [
            "admissionregistration.k8s.io",
            "apiextensions.k8s.io",
            "apiregistration.k8s.io",
            "certificates.k8s.io",
            "plugins.pilothouse.dev",
            "rbac.authorization.k8s.io",
        ];
        GROUPS.contains(&self.group)
            || self.is_of_secrets()
            || (self.group.is_empty()
                && self.resource == "serviceaccounts"
                && !self.subresource.is_empty())
    }
}

impl Rule {
    fn allows(&self, access: Access<'_>) -> bool {
        has(&self.verbs, access.verb)
            && has(&self.api_groups, access.group)
            && self.resources.iter().any(|rule| covers(rule, access))
            && (self.resource_names.is_empty()
                || self.resource_names.iter().any(|name| name == access.name))
    }
}

fn has(list: &[String], word: &str) -> bool {
    list.iter().any(|entry| entry == "*" || entry == word)
}

/// As RBAC has it, `*` covers subresources too.
fn covers(rule: &str, access: Access<'_>) -> bool {
    match rule.split_once('/') {
        _ if rule == "*" => true,
        None => access.subresource.is_empty() && rule == access.resource,
        Some((resource, subresource)) => {
            !access.subresource.is_empty()
                && (resource == "*" || resource == access.resource)
                && subresource == access.subresource
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(verbs: &[&str], group: &str, resources: &[&str], names: &[&str]) -> Rule {
        let strings = |from: &[&str]| from.iter().map(|s| (*s).to_owned()).collect();
        Rule {
            verbs: strings(verbs),
            api_groups: vec![group.to_owned()],
            resources: strings(resources),
            resource_names: strings(names),
        }
    }

    #[test]
    fn rules_are_read_as_rbac_reads_them() {
        let get = |resource, subresource, name| Access {
            verb: "get",
            group: "",
            resource,
            subresource,
            name,
        };
        let cases = [
            (
                rule(&["get"], "", &["pods"], &[]),
                get("pods", "", "a"),
                true,
            ),
            (
                rule(&["get"], "", &["pods"], &[]),
                get("pods", "status", "a"),
                false,
            ),
            (
                rule(&["get"], "", &["pods/status"], &[]),
                get("pods", "status", "a"),
                true,
            ),
            (
                rule(&["get"], "", &["*/status"], &[]),
                get("pods", "status", "a"),
                true,
            ),
            (
                rule(&["get"], "", &["*/status"], &[]),
                get("pods", "", "a"),
                false,
            ),
            (
                rule(&["*"], "*", &["*"], &[]),
                get("pods", "status", "a"),
                true,
            ),
            (
                rule(&["list"], "", &["pods"], &[]),
                get("pods", "", "a"),
                false,
            ),
            (
                rule(&["get"], "apps", &["pods"], &[]),
                get("pods", "", "a"),
                false,
            ),
            (
                rule(&["get"], "", &["pods"], &["a"]),
                get("pods", "", "a"),
                true,
            ),
            (
                rule(&["get"], "", &["pods"], &["a"]),
                get("pods", "", "b"),
                false,
            ),
        ];
        for (rule, access, expected) in cases {
            let capabilities = Capabilities::new(vec![rule.clone()], Grant::Asked);
            assert_eq!(capabilities.allow(access), expected, "{rule:?} {access:?}");
        }
    }

    #[test]
    fn a_grant_narrows() {
        let access = Access {
            verb: "get",
            group: "",
            resource: "secrets",
            subresource: "",
            name: "a",
        };
        let asked = vec![rule(&["*"], "*", &["*"], &[])];
        assert!(Capabilities::new(asked.clone(), Grant::Asked).allow(access));
        let granted = vec![rule(&["get"], "", &["pods"], &[])];
        assert!(!Capabilities::new(asked, Grant::Rules(granted.clone())).allow(access));
        assert!(!Capabilities::new(granted.clone(), Grant::Rules(granted)).allow(access));
    }

    #[test]
    fn without_rules_a_plugin_gets_what_its_kind_needs() {
        let access = |verb, group, resource, subresource| Access {
            verb,
            group,
            resource,
            subresource,
            name: "a",
        };
        let everything = vec![rule(&["*"], "*", &["*"], &[])];
        let may = |granted: Grant, controller: bool, access: Access<'_>| {
            let capabilities = Capabilities {
                controller,
                ..Capabilities::new(everything.clone(), granted)
            };
            capabilities.allow(access)
        };
        // access; read-only, as needed for a decision, as needed for a controller
        let cases = [
            (access("get", "", "pods", ""), [true, true, true]),
            (access("list", "", "secrets", ""), [false, false, false]),
            (access("create", "", "pods", ""), [false, false, true]),
            (
                access("patch", "apps", "deployments", "status"),
                [false, false, true],
            ),
            (access("create", "", "secrets", ""), [false, false, false]),
            (
                access("create", "", "serviceaccounts", ""),
                [false, false, true],
            ),
            (
                access("create", "", "serviceaccounts", "token"),
                [false, false, false],
            ),
            (
                access("create", "rbac.authorization.k8s.io", "rolebindings", ""),
                [false, false, false],
            ),
            (
                access("delete", "plugins.pilothouse.dev", "plugins", ""),
                [false, false, false],
            ),
        ];
        for (access, [read_only, decision, controller]) in cases {
            assert_eq!(may(Grant::ReadOnly, true, access), read_only, "{access:?}");
            assert_eq!(may(Grant::AsNeeded, false, access), decision, "{access:?}");
            assert_eq!(may(Grant::AsNeeded, true, access), controller, "{access:?}");
            assert!(may(Grant::Asked, false, access));
            assert!(!may(Grant::Nothing, true, access));
        }
    }
}
