//! Which providers a key's value has: by the resource that the key belongs to.
//! Source: <https://kubernetes.io/docs/tasks/administer-cluster/encrypt-data/>

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use pilothouse_api::GroupResource;

use super::providers::{Provider, Providers};

/// Where every resource is kept.
#[derive(Clone, Debug, Default)]
pub struct KeyLayout {
    /// By the path below `/registry/`, without slashes at its ends.
    places: BTreeMap<String, GroupResource>,
}

/// Kept outside the API: upstream's names for what is there, which only wildcards can mean.
const INTERNAL: [(&str, &str); 3] = [
    ("masterleases", "apiserveripinfo"),
    ("ranges/serviceips", "serviceipallocations"),
    ("ranges/servicenodeports", "servicenodeportallocations"),
];

impl KeyLayout {
    /// From resources with their paths below `/registry/`. What is not listed is looked for where custom resources are kept,
    /// below their group and plural.
    pub fn new(places: impl IntoIterator<Item = (String, GroupResource)>) -> Self {
        let internal = INTERNAL.map(|(place, name)| (place.to_owned(), core(name)));
        Self {
            places: internal.into_iter().chain(places).collect(),
        }
    }

    /// The resource of a key; `None` if it is nobody's.
    fn resource(&self, key: &str) -> Option<GroupResource> {
        let path = key.strip_prefix("/registry/")?;
        let mut ends = path.match_indices('/').map(|(at, _)| at);
        let first = ends.next()?;
        let second = ends.next().unwrap_or(path.len());
        let listed = self.places.get(&path[..second]);
        let listed = listed.or_else(|| self.places.get(&path[..first]));
        listed.cloned().or_else(|| {
            let (group, resource) = (&path[..first], &path[first + 1..second]);
            let is_custom = group.contains('.') && !resource.is_empty();
            is_custom.then(|| GroupResource {
                group: group.to_owned().into(),
                resource: resource.to_owned().into(),
            })
        })
    }
}

fn core(resource: &'static str) -> GroupResource {
    GroupResource {
        group: "".into(),
        resource: resource.into(),
    }
}

/// Reads `secrets`, `deployments.apps`, `*.`, `*.apps`, `*.*`.
pub(super) fn parse_resource(text: &str) -> GroupResource {
    let (resource, group) = text.split_once('.').unwrap_or((text, ""));
    GroupResource {
        group: group.to_owned().into(),
        resource: resource.to_owned().into(),
    }
}

const ANY: &str = "*";

/// The providers of every resource. The most exact rule counts: the resource, all of its group, everything; what has none is
/// not encrypted.
pub(super) struct Rules {
    by_group: HashMap<String, HashMap<String, Vec<Arc<Provider>>>>,
    otherwise: [Arc<Provider>; 1],
}

impl Rules {
    pub(super) fn new() -> Self {
        Self {
            by_group: HashMap::new(),
            otherwise: [Provider::Identity.into()],
        }
    }

    /// Adds providers behind those that the resource has already. An earlier wildcard that would hide this rule is an error,
    /// and named by it.
    pub(super) fn add(
        &mut self,
        resource: &GroupResource,
        providers: &[Arc<Provider>],
    ) -> Result<(), String> {
        for group in [&*resource.group, ANY] {
            let wildcard = self.by_group.get(group).and_then(|rules| rules.get(ANY));
            if wildcard.is_some() {
                return Err(match group {
                    "" => "*.".to_owned(),
                    group => format!("*.{group}"),
                });
            }
        }
        let rules = self.by_group.entry(resource.group.to_string()).or_default();
        let list = rules.entry(resource.resource.to_string()).or_default();
        list.extend(providers.iter().cloned());
        Ok(())
    }

    /// The providers of the value under a key.
    pub(super) fn providers(&self, layout: &KeyLayout, key: &str) -> Providers<'_> {
        let found = layout.resource(key).and_then(|resource| {
            let exact = self.rule(&resource.group, &resource.resource);
            let all = || self.rule(&resource.group, ANY);
            exact.or_else(all).or_else(|| self.rule(ANY, ANY))
        });
        Providers(found.map_or(&self.otherwise, |list| list))
    }

    fn rule(&self, group: &str, resource: &str) -> Option<&Vec<Arc<Provider>>> {
        self.by_group.get(group)?.get(resource)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout() -> KeyLayout {
        KeyLayout::new([
            ("secrets".to_owned(), parse_resource("secrets")),
            ("services/specs".to_owned(), parse_resource("services")),
            ("deployments".to_owned(), parse_resource("deployments.apps")),
            (
                "ingress".to_owned(),
                parse_resource("ingresses.networking.k8s.io"),
            ),
            (
                "apiextensions.k8s.io/customresourcedefinitions".to_owned(),
                parse_resource("customresourcedefinitions.apiextensions.k8s.io"),
            ),
        ])
    }

    #[test]
    fn keys_belong_to_resources() {
        // key, resource as the configuration writes it
        for (key, resource) in [
            ("/registry/secrets/default/db", Some("secrets")),
            ("/registry/services/specs/default/web", Some("services")),
            (
                "/registry/deployments/default/web",
                Some("deployments.apps"),
            ),
            (
                "/registry/ingress/default/web",
                Some("ingresses.networking.k8s.io"),
            ),
            (
                "/registry/apiextensions.k8s.io/customresourcedefinitions/pandas.bears.example",
                Some("customresourcedefinitions.apiextensions.k8s.io"),
            ),
            (
                "/registry/bears.example/pandas/default/po",
                Some("pandas.bears.example"),
            ),
            ("/registry/masterleases/10.0.0.1", Some("apiserveripinfo")),
            ("/registry/ranges/serviceips", Some("serviceipallocations")),
            ("/registry/unknown/x", None),
            ("/registry/secrets", None),
            ("compact_rev_key", None),
        ] {
            assert_eq!(
                layout().resource(key),
                resource.map(parse_resource),
                "{key}"
            );
        }
    }

    #[test]
    fn the_most_exact_rule_counts() {
        let mut rules = Rules::new();
        // told apart by their number
        let of = |count| -> Vec<_> { (0..count).map(|_| Provider::Identity.into()).collect() };
        for (resource, count) in [
            ("secrets", 2),
            ("*.apps", 3),
            ("pandas.bears.example", 4),
            ("secrets", 1),
            ("*.*", 7),
        ] {
            rules.add(&parse_resource(resource), &of(count)).unwrap();
        }
        // key, number of providers
        for (key, count) in [
            ("/registry/secrets/default/db", 3), // two rules for one resource add up
            ("/registry/services/specs/default/web", 7),
            ("/registry/deployments/default/web", 3),
            ("/registry/bears.example/pandas/default/po", 4),
            ("/registry/bears.example/grizzlies/default/po", 7),
            ("/registry/unknown/x", 1),
        ] {
            assert_eq!(rules.providers(&layout(), key).0.len(), count, "{key}");
        }
    }

    #[test]
    fn a_rule_behind_its_wildcard_is_refused() {
        // earlier rules, the later one, what hides it
        let cases: [(&[&str], &str, Option<&str>); 6] = [
            (&["*.apps"], "deployments.apps", Some("*.apps")),
            (&["*."], "secrets", Some("*.")),
            (&["*.*"], "secrets", Some("*.*")),
            (&["*.*"], "*.apps", Some("*.*")),
            (&["*.apps"], "secrets", None),
            (&["secrets", "*."], "*.*", None),
        ];
        for (earlier, later, hidden_by) in cases {
            let mut rules = Rules::new();
            for rule in earlier {
                rules.add(&parse_resource(rule), &[]).unwrap();
            }
            let added = rules.add(&parse_resource(later), &[]);
            assert_eq!(added.err().as_deref(), hidden_by, "{earlier:?} {later}");
        }
    }
}
