//! What is allowed in pods and templates but hardly meant: `Warning` headers.
//! Source: <https://kubernetes.io/blog/2020/09/03/warnings/>

use std::collections::{BTreeMap, HashMap, HashSet};

use k8s_openapi::api::core::v1::{Container, ContainerPort, NodeSelectorTerm, PodSpec, Volume};
use pilothouse_api::{field::Path, quantity::Quantity};

use super::resources::ResourceList;

/// Labels of nodes that have other names now.
const OLD_NODE_LABELS: [(&str, &str, &str); 5] = [
    ("beta.kubernetes.io/arch", "1.14", "kubernetes.io/arch"),
    ("beta.kubernetes.io/os", "1.14", "kubernetes.io/os"),
    (
        "failure-domain.beta.kubernetes.io/region",
        "1.17",
        "topology.kubernetes.io/region",
    ),
    (
        "failure-domain.beta.kubernetes.io/zone",
        "1.17",
        "topology.kubernetes.io/zone",
    ),
    (
        "beta.kubernetes.io/instance-type",
        "1.17",
        "node.kubernetes.io/instance-type",
    ),
];
/// Annotations that have become fields.
const OLD_ANNOTATIONS: [(&str, &str, &str); 3] = [
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        "1.16",
        "priorityClassName",
    ),
    ("security.alpha.kubernetes.io/sysctls", "1.11", "sysctls"),
    (
        "security.alpha.kubernetes.io/unsafe-sysctls",
        "1.11",
        "sysctls",
    ),
];

/// Warnings about a pod (`path` is empty) or a template.
pub(in crate::registry::kinds) fn of(
    path: &Path,
    spec: &PodSpec,
    annotations: Option<&BTreeMap<String, String>>,
) -> Vec<String> {
    let mut warnings = Vec::new();
    let annotations_path = path.child("metadata").child("annotations");
    let path = path.child("spec");
    of_nodes(&mut warnings, &path, spec);
    for (key, version, field) in OLD_ANNOTATIONS {
        if annotations.is_some_and(|annotations| annotations.contains_key(key)) {
            let path = annotations_path.key(key);
            warnings.push(format!(
                "{path}: non-functional in v{version}+; use the \"{field}\" field instead"
            ));
        }
    }
    for (i, volume) in spec.volumes.iter().flatten().enumerate() {
        of_volume(&mut warnings, &path.child("volumes").index(i), volume);
    }
    let ips = spec.host_aliases.iter().flatten().map(|alias| &alias.ip);
    of_duplicates(&mut warnings, &path.child("hostAliases"), "ip", ips);
    let secrets_path = path.child("imagePullSecrets");
    let names = || spec.image_pull_secrets.iter().flatten().map(|s| &s.name);
    of_duplicates(&mut warnings, &secrets_path, "name", names());
    for (i, _) in names().enumerate().filter(|(_, name)| name.is_empty()) {
        let path = secrets_path.index(i).child("name");
        warnings.push(format!("{path}: invalid empty name \"\""));
    }
    of_amounts(
        &mut warnings,
        &path.child("overhead"),
        spec.overhead.as_ref(),
    );
    for (container, path) in containers(&path, spec) {
        of_container(&mut warnings, &path, container);
    }
    of_ports(&mut warnings, &path, spec);
    if spec.termination_grace_period_seconds.is_some_and(|s| s < 0) {
        let path = path.child("terminationGracePeriodSeconds");
        warnings.push(format!(
            "{path}: must be >= 0; negative values are invalid and will be treated as 1"
        ));
    }
    warnings
}

fn old_label(key: &str) -> Option<String> {
    let (_, version, new) = OLD_NODE_LABELS.iter().find(|(old, ..)| *old == key)?;
    Some(format!(
        "deprecated since v{version}; use \"{new}\" instead"
    ))
}

fn of_nodes(warnings: &mut Vec<String>, path: &Path, spec: &PodSpec) {
    for key in spec.node_selector.iter().flat_map(|labels| labels.keys()) {
        if let Some(why) = old_label(key) {
            warnings.push(format!("{}: {why}", path.child("nodeSelector").key(key)));
        }
    }
    let affinity = spec
        .affinity
        .as_ref()
        .and_then(|a| a.node_affinity.as_ref());
    if let Some(affinity) = affinity {
        let path = path.child("affinity").child("nodeAffinity");
        let required = path.child("requiredDuringSchedulingIgnoredDuringExecution");
        let terms = affinity
            .required_during_scheduling_ignored_during_execution
            .iter()
            .flat_map(|selector| &selector.node_selector_terms);
        for (i, term) in terms.enumerate() {
            of_term(
                warnings,
                &required.child("nodeSelectorTerms").index(i),
                term,
            );
        }
        let preferred = path.child("preferredDuringSchedulingIgnoredDuringExecution");
        let terms = affinity
            .preferred_during_scheduling_ignored_during_execution
            .iter()
            .flatten();
        for (i, term) in terms.enumerate() {
            of_term(
                warnings,
                &preferred.index(i).child("preference"),
                &term.preference,
            );
        }
    }
    for (i, spread) in spec
        .topology_spread_constraints
        .iter()
        .flatten()
        .enumerate()
    {
        let path = path.child("topologySpreadConstraints").index(i);
        if let Some(why) = old_label(&spread.topology_key) {
            let path = path.child("topologyKey");
            warnings.push(format!("{path}: {} is {why}", spread.topology_key));
        }
        if spread.label_selector.is_none() {
            let path = path.child("labelSelector");
            warnings.push(format!(
                "{path}: a null labelSelector results in matching no pod"
            ));
        }
    }
}

fn of_term(warnings: &mut Vec<String>, path: &Path, term: &NodeSelectorTerm) {
    for (i, requirement) in term.match_expressions.iter().flatten().enumerate() {
        if let Some(why) = old_label(&requirement.key) {
            let path = path.child("matchExpressions").index(i).child("key");
            warnings.push(format!("{path}: {} is {why}", requirement.key));
        }
    }
}

/// Kinds of volumes that are on their way out, or gone.
fn of_volume(warnings: &mut Vec<String>, path: &Path, volume: &Volume) {
    let since = |deprecated: &str, gone: &str| match gone {
        "" => format!("deprecated in v{deprecated}"),
        gone => format!("deprecated in v{deprecated}, non-functional in v{gone}+"),
    };
    for (field, set, why) in [
        (
            "photonPersistentDisk",
            volume.photon_persistent_disk.is_some(),
            since("1.11", "1.16"),
        ),
        (
            "gitRepo",
            volume.git_repo.is_some(),
            "deprecated in v1.11, and disabled by default in v1.33+".to_owned(),
        ),
        ("scaleIO", volume.scale_io.is_some(), since("1.16", "1.22")),
        ("flocker", volume.flocker.is_some(), since("1.22", "1.25")),
        (
            "storageOS",
            volume.storageos.is_some(),
            since("1.22", "1.25"),
        ),
        ("quobyte", volume.quobyte.is_some(), since("1.22", "1.25")),
        (
            "glusterfs",
            volume.glusterfs.is_some(),
            since("1.25", "1.26"),
        ),
        ("cephfs", volume.cephfs.is_some(), since("1.28", "1.31")),
        ("rbd", volume.rbd.is_some(), since("1.28", "1.31")),
    ] {
        if set {
            warnings.push(format!("{}: {why}", path.child(field)));
        }
    }
}

fn of_duplicates<'a>(
    warnings: &mut Vec<String>,
    path: &Path,
    field: &str,
    values: impl Iterator<Item = &'a String>,
) {
    let mut seen = HashSet::new();
    for (i, value) in values.enumerate() {
        if !seen.insert(value) {
            let path = path.index(i).child(field);
            warnings.push(format!("{path}: duplicate {field} {value:?}"));
        }
    }
}

/// Bytes are whole.
fn of_amounts(warnings: &mut Vec<String>, path: &Path, list: Option<&ResourceList>) {
    for name in ["memory", "ephemeral-storage"] {
        let Some(quantity) = list.and_then(|list| list.get(name)) else {
            continue;
        };
        if Quantity::parse(&quantity.0).is_ok_and(|amount| amount.milli_value() % 1000 != 0) {
            let path = path.key(name);
            warnings.push(format!(
                "{path}: fractional byte value {:?} is invalid, must be an integer",
                quantity.0
            ));
        }
    }
}

/// Init containers, then the others, each with its path.
fn containers<'a>(
    path: &Path,
    spec: &'a PodSpec,
) -> impl Iterator<Item = (&'a Container, Path)> + use<'a> {
    let (init, main) = (path.child("initContainers"), path.child("containers"));
    let of = |list: &'a [Container], path: Path| {
        let with_path = list.iter().enumerate();
        with_path.map(move |(i, container)| (container, path.index(i)))
    };
    of(spec.init_containers.as_deref().unwrap_or_default(), init).chain(of(&spec.containers, main))
}

fn of_container(warnings: &mut Vec<String>, path: &Path, container: &Container) {
    if let Some(requirements) = &container.resources {
        let path = path.child("resources");
        of_amounts(
            warnings,
            &path.child("limits"),
            requirements.limits.as_ref(),
        );
        let requests = requirements.requests.as_ref();
        of_amounts(warnings, &path.child("requests"), requests);
    }
    let mut seen = HashSet::new();
    for (i, variable) in container.env.iter().flatten().enumerate() {
        if seen.insert(&variable.name) {
            continue;
        }
        // a value that goes on from the one before is meant
        let before = format!("$({})", variable.name);
        let value = variable.value.as_deref().unwrap_or_default();
        let goes_on = variable.value_from.is_none() && value != before && value.contains(&before);
        if !goes_on {
            let path = path.child("env").index(i);
            warnings.push(format!(
                "{path}: hides previous definition of {:?}, which may be dropped when using apply",
                variable.name
            ));
        }
    }
}

/// Ports that collide, or nearly do.
fn of_ports(warnings: &mut Vec<String>, path: &Path, spec: &PodSpec) {
    let mut known: HashMap<(i32, &str), Vec<(Path, &ContainerPort)>> = HashMap::new();
    for (container, path) in containers(path, spec) {
        for (i, port) in container.ports.iter().flatten().enumerate() {
            let path = path.child("ports").index(i);
            let protocol = port.protocol.as_deref().unwrap_or_default();
            let others = known.entry((port.container_port, protocol)).or_default();
            for (other_path, other) in others.iter() {
                if let Some(how) = collision(port, other) {
                    warnings.push(format!("{path}: {how} port definition with {other_path}"));
                }
            }
            others.push((path, port));
        }
    }
}

fn collision(port: &ContainerPort, other: &ContainerPort) -> Option<&'static str> {
    let ip = |port: &ContainerPort| port.host_ip.clone().unwrap_or_default();
    let number = |port: &ContainerPort| port.host_port.unwrap_or_default();
    let one_is_open = ip(port).is_empty() != ip(other).is_empty();
    match (number(port), number(other)) {
        (a, b) if a == b && ip(port) == ip(other) => Some("duplicate"),
        (0, _) | (_, 0) => Some("overlapping"),
        (a, b) if a == b && one_is_open => Some("dangerously ambiguous"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    use super::*;
    use crate::registry::kinds::testing::{object, with};

    #[test]
    fn what_is_hardly_meant_is_warned_of() {
        let base = json!({
            "metadata": {"name": "p"},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        });
        let env = "/spec/containers/0/env";
        for (changes, expected) in [
            (vec![], vec![]),
            (
                vec![(
                    "/spec/nodeSelector",
                    json!({"beta.kubernetes.io/os": "linux", "disk": "ssd"}),
                )],
                vec![
                    "spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use \"kubernetes.io/os\" instead",
                ],
            ),
            (
                vec![(
                    "/spec/topologySpreadConstraints",
                    json!([{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]),
                )],
                vec![
                    "spec.topologySpreadConstraints[0].labelSelector: a null labelSelector results in matching no pod",
                ],
            ),
            (
                vec![(
                    "/metadata/annotations",
                    json!({"scheduler.alpha.kubernetes.io/critical-pod": ""}),
                )],
                vec![
                    "metadata.annotations[scheduler.alpha.kubernetes.io/critical-pod]: non-functional in v1.16+; use the \"priorityClassName\" field instead",
                ],
            ),
            (
                vec![(
                    "/spec/volumes",
                    json!([{"name": "g", "rbd": {"monitors": ["m"], "image": "i"}}]),
                )],
                vec!["spec.volumes[0].rbd: deprecated in v1.28, non-functional in v1.31+"],
            ),
            (
                vec![(
                    "/spec/imagePullSecrets",
                    json!([{"name": "a"}, {"name": "a"}, {"name": ""}]),
                )],
                vec![
                    "spec.imagePullSecrets[1].name: duplicate name \"a\"",
                    "spec.imagePullSecrets[2].name: invalid empty name \"\"",
                ],
            ),
            (
                vec![(
                    "/spec/containers/0/resources/limits",
                    json!({"memory": "1500m"}),
                )],
                vec![
                    "spec.containers[0].resources.limits[memory]: fractional byte value \"1500m\" is invalid, must be an integer",
                ],
            ),
            (
                vec![(
                    env,
                    json!([{"name": "A", "value": "1"}, {"name": "A", "value": "$(A)2"}]),
                )],
                vec![],
            ),
            (
                vec![(
                    env,
                    json!([{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]),
                )],
                vec![
                    "spec.containers[0].env[1]: hides previous definition of \"A\", which may be dropped when using apply",
                ],
            ),
            (
                vec![(
                    "/spec/containers/0/ports",
                    json!([{"containerPort": 80}, {"containerPort": 80}, {"containerPort": 80, "hostPort": 80}]),
                )],
                vec![
                    "spec.containers[0].ports[1]: duplicate port definition with spec.containers[0].ports[0]",
                    "spec.containers[0].ports[2]: overlapping port definition with spec.containers[0].ports[0]",
                    "spec.containers[0].ports[2]: overlapping port definition with spec.containers[0].ports[1]",
                ],
            ),
            (
                vec![("/spec/terminationGracePeriodSeconds", json!(-1))],
                vec![
                    "spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1",
                ],
            ),
        ] {
            let pod: Pod = object(&with(&base, &changes));
            let spec = pod.spec.unwrap_or_default();
            let found = of(&Path::default(), &spec, pod.metadata.annotations.as_ref());
            assert_eq!(found, expected, "{changes:?}");
        }
    }
}
