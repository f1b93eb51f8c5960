//! What a plugin may do to the cluster: rules as those of an RBAC role. What its manifest asks for and what its Plugin object
//! grants must both allow an access; without a grant the request stands as it is.
//! Source: <https://kubernetes.io/docs/reference/access-authn-authz/rbac/>

use serde::{Deserialize, Serialize};

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

/// What a plugin asked for and what it was granted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    asked: Vec<Rule>,
    granted: Option<Vec<Rule>>,
}

impl Capabilities {
    /// `granted` narrows what was `asked` for; `None` grants all of it.
    pub fn new(asked: Vec<Rule>, granted: Option<Vec<Rule>>) -> Self {
        Self { asked, granted }
    }

    /// Whether both sides allow the access.
    pub fn allow(&self, access: Access<'_>) -> bool {
        let any = |rules: &[Rule]| rules.iter().any(|rule| rule.allows(access));
        any(&self.asked) && self.granted.as_deref().is_none_or(any)
    }

    /// The rules to give to the plugin's user, those asked for.
    pub fn asked(&self) -> &[Rule] {
        &self.asked
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
            let capabilities = Capabilities::new(vec![rule.clone()], None);
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
        assert!(Capabilities::new(asked.clone(), None).allow(access));
        let granted = vec![rule(&["get"], "", &["pods"], &[])];
        assert!(!Capabilities::new(asked, Some(granted.clone())).allow(access));
        assert!(!Capabilities::new(granted.clone(), Some(granted)).allow(access));
    }
}
