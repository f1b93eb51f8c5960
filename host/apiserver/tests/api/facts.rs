//! What Kubernetes v1.36 serves by default, read from `tests/resources.txt`, which says what its lines mean.

#![allow(
    dead_code,
    reason = "two test binaries share this, and each looks at a part of it"
)]

const TABLE: &str = include_str!("../resources.txt");

/// One resource.
pub(crate) struct Fact {
    /// False: it may be missing still.
    pub served: bool,
    pub group: &'static str,
    pub version: &'static str,
    pub resource: &'static str,
    pub kind: &'static str,
    pub namespaced: bool,
    pub verbs: Vec<&'static str>,
    pub short_names: Vec<&'static str>,
    pub categories: Vec<&'static str>,
    /// Empty: it is not stored.
    pub storage_prefix: &'static str,
    pub rules: Vec<&'static str>,
    pub subresources: Vec<Subresource>,
}

/// One subresource.
pub(crate) struct Subresource {
    pub served: bool,
    pub name: &'static str,
    /// `Kind` or `group/version/Kind`.
    pub kind: &'static str,
    pub verbs: Vec<&'static str>,
}

/// All of them, in the order of the table.
pub(crate) fn facts() -> Vec<Fact> {
    let mut facts: Vec<Fact> = Vec::new();
    for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
        let below = line.starts_with(' ');
        let line = line.trim_start();
        let (served, line) = match line.strip_prefix("? ") {
            Some(line) => (false, line),
            None => (true, line),
        };
        let fields: Vec<&'static str> = line.split(' ').collect();
        match (below, fields.as_slice()) {
            (true, [name, kind, verbs]) => {
                let owner = facts
                    .last_mut()
                    .expect("a resource before its subresources");
                owner.subresources.push(Subresource {
                    served: served && owner.served,
                    name,
                    kind,
                    verbs: list(verbs),
                });
            }
            (
                false,
                [
                    group,
                    version,
                    resource,
                    kind,
                    scope,
                    verbs,
                    short,
                    categories,
                    prefix,
                    rules,
                ],
            ) => {
                facts.push(Fact {
                    served,
                    group: if *group == "core" { "" } else { group },
                    version,
                    resource,
                    kind,
                    namespaced: *scope == "namespaced",
                    verbs: list(verbs),
                    short_names: list(short),
                    categories: list(categories),
                    storage_prefix: if *prefix == "-" { "" } else { prefix },
                    rules: list(rules),
                    subresources: Vec::new(),
                });
            }
            _ => panic!("a line of the table of resources is malformed: {line}"),
        }
    }
    facts
}

fn list(text: &'static str) -> Vec<&'static str> {
    match text {
        "-" => Vec::new(),
        "full" => "create,delete,deletecollection,get,list,patch,update,watch"
            .split(',')
            .collect(),
        "write" => "get,patch,update".split(',').collect(),
        text => text.split(',').collect(),
    }
}
