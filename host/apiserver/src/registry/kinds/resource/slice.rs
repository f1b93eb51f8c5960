//! ResourceSlices: the devices that a driver offers.

use k8s_openapi::api::resource::v1::{
    Device, DeviceAttribute, ResourcePool, ResourceSlice, ResourceSliceSpec,
};
use pilothouse_api::{
    ResourceInfo,
    field::{ErrorList, FieldError, Path},
};
use serde_json::{Value, json};

use super::{GROUP, names};
use crate::registry::{
    kinds::{cells, checks, describe, pod::affinity},
    printing::Column,
    strategy::Strategy,
};

const MAX_DEVICES: usize = 128;
const MAX_DEVICES_WITH_MORE: usize = 64;
const MAX_ATTRIBUTES: usize = 32;
const MAX_TAINTS: usize = 16;
const ATTRIBUTE_MAX_BYTES: usize = 64;
const ONE_OF: &str =
    "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";

pub(in crate::registry::kinds) struct ResourceSliceStrategy;

impl Strategy for ResourceSliceStrategy {
    type Object = ResourceSlice;

    fn resource(&self) -> ResourceInfo {
        ResourceInfo {
            selectable_fields: describe::texts(&["spec.nodeName", "spec.driver"]),
            ..describe::cluster_scoped(GROUP, "v1", "resourceslices", "ResourceSlice")
        }
    }

    fn generation_changed(&self, new: &ResourceSlice, old: &ResourceSlice) -> Option<bool> {
        Some(new.spec != old.spec)
    }

    fn validate(&self, slice: &ResourceSlice) -> ErrorList {
        let mut errors = ErrorList::new();
        validate(&mut errors, &Path::new("spec"), &slice.spec);
        errors
    }

    /// Whose slice it is stays.
    fn validate_update(&self, new: &ResourceSlice, old: &ResourceSlice) -> ErrorList {
        let mut errors = ErrorList::new();
        let path = Path::new("spec");
        let (new, old) = (&new.spec, &old.spec);
        let pool = path.child("pool").child("name");
        let same = new.pool.name == old.pool.name;
        checks::immutable(&mut errors, &pool, same, new.pool.name.as_str());
        let same = new.driver == old.driver;
        checks::immutable(
            &mut errors,
            &path.child("driver"),
            same,
            new.driver.as_str(),
        );
        let node = json!(new.node_name);
        let same = new.node_name == old.node_name;
        checks::immutable(&mut errors, &path.child("nodeName"), same, node);
        errors
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::NAME,
            Column::string("Node", "The node that the devices are at."),
            Column::string("Driver", "Who offers them."),
            Column::string("Pool", "The pool that they are of."),
            Column::AGE,
        ]
    }

    fn row(&self, slice: &ResourceSlice, now: jiff::Timestamp) -> Vec<Value> {
        let spec = &slice.spec;
        vec![
            json!(slice.metadata.name),
            json!(spec.node_name.as_deref().unwrap_or_default()),
            json!(spec.driver),
            json!(spec.pool.name),
            json!(cells::since(
                slice.metadata.creation_timestamp.as_ref(),
                now
            )),
        ]
    }
}

fn validate(errors: &mut ErrorList, path: &Path, spec: &ResourceSliceSpec) {
    checks::csi_driver_name(errors, &path.child("driver"), &spec.driver);
    validate_pool(errors, &path.child("pool"), &spec.pool);
    let node = spec.node_name.as_deref().unwrap_or_default();
    if !node.is_empty() {
        checks::dns_subdomain(errors, &path.child("nodeName"), node);
    }
    if let Some(selector) = &spec.node_selector {
        let path = path.child("nodeSelector");
        affinity::validate_node_selector(errors, &path, selector);
        if selector.node_selector_terms.len() != 1 {
            let path = path.child("nodeSelectorTerms");
            let count = selector.node_selector_terms.len();
            let why = "must have exactly one node selector term";
            errors.push(FieldError::invalid(&path, count, why));
        }
    }
    let set: Vec<&str> = [
        ("`nodeName`", !node.is_empty()),
        ("`nodeSelector`", spec.node_selector.is_some()),
        ("`allNodes`", spec.all_nodes == Some(true)),
        (
            "`perDeviceNodeSelection`",
            spec.per_device_node_selection == Some(true),
        ),
    ]
    .iter()
    .filter(|(_, set)| *set)
    .map(|(name, _)| *name)
    .collect();
    match set.as_slice() {
        [] => errors.push(FieldError::required(path, ONE_OF)),
        [_] => {}
        several => {
            let shown = format!("{{{}}}", several.join(", "));
            let why = format!("{ONE_OF}, but multiple fields are set");
            errors.push(FieldError::invalid(path, shown, &why));
        }
    }
    let devices = spec.devices.as_deref().unwrap_or_default();
    let path = path.child("devices");
    for (i, device) in devices.iter().enumerate() {
        validate_device(errors, &path.index(i), device);
    }
    let more = devices.iter().any(|device| {
        device
            .taints
            .as_ref()
            .is_some_and(|taints| !taints.is_empty())
            || device
                .consumes_counters
                .as_ref()
                .is_some_and(|counters| !counters.is_empty())
    });
    let max = if more {
        MAX_DEVICES_WITH_MORE
    } else {
        MAX_DEVICES
    };
    names::at_most(errors, &path, devices.len(), max);
    names::no_duplicates(
        errors,
        &path,
        "name",
        devices.iter().map(|d| d.name.as_str()),
    );
}

fn validate_pool(errors: &mut ErrorList, path: &Path, pool: &ResourcePool) {
    names::pool(errors, &path.child("name"), &pool.name);
    if pool.resource_slice_count <= 0 {
        let path = path.child("resourceSliceCount");
        errors.push(FieldError::invalid(
            &path,
            pool.resource_slice_count,
            checks::POSITIVE,
        ));
    }
    if pool.generation < 0 {
        let why = "must be greater than or equal to zero";
        errors.push(FieldError::invalid(
            &path.child("generation"),
            pool.generation,
            why,
        ));
    }
}

fn validate_device(errors: &mut ErrorList, path: &Path, device: &Device) {
    checks::dns_label(errors, &path.child("name"), &device.name);
    let attributes_path = path.child("attributes");
    for (name, attribute) in device.attributes.iter().flatten() {
        let path = attributes_path.key(name);
        names::qualified(errors, &path, name);
        validate_attribute(errors, &path, attribute);
    }
    for name in device.capacity.iter().flatten().map(|(name, _)| name) {
        names::qualified(errors, &path.child("capacity").key(name), name);
    }
    let count = device.attributes.as_ref().map_or(0, |a| a.len())
        + device.capacity.as_ref().map_or(0, |c| c.len());
    if count > MAX_ATTRIBUTES {
        let why = format!(
            "the total number of attributes and capacities must not exceed {MAX_ATTRIBUTES}"
        );
        errors.push(FieldError::invalid(path, count, &why));
    }
    let taints = device.taints.as_deref().unwrap_or_default();
    let path = path.child("taints");
    for (i, taint) in taints.iter().enumerate() {
        names::taint(errors, &path.index(i), taint);
    }
    names::at_most(errors, &path, taints.len(), MAX_TAINTS);
}

/// An attribute has one value, or one list of values.
fn validate_attribute(errors: &mut ErrorList, path: &Path, attribute: &DeviceAttribute) {
    let set = [
        attribute.bool.is_some(),
        attribute.bools.is_some(),
        attribute.int.is_some(),
        attribute.ints.is_some(),
        attribute.string.is_some(),
        attribute.strings.is_some(),
        attribute.version.is_some(),
        attribute.versions.is_some(),
    ];
    let strings = attribute.strings.iter().flatten().chain(&attribute.string);
    for value in strings {
        if value.len() > ATTRIBUTE_MAX_BYTES {
            errors.push(FieldError::too_long(
                &path.child("string"),
                ATTRIBUTE_MAX_BYTES,
            ));
        }
    }
    let versions = attribute
        .versions
        .iter()
        .flatten()
        .chain(&attribute.version);
    for value in versions {
        let path = path.child("version");
        if !is_semantic_version(value) {
            let why = "must be a string compatible with semver.org spec 2.0.0";
            errors.push(FieldError::invalid(&path, value.as_str(), why));
        }
        if value.len() > ATTRIBUTE_MAX_BYTES {
            errors.push(FieldError::too_long(&path, ATTRIBUTE_MAX_BYTES));
        }
    }
    const ONE: &str = "exactly one value must be specified";
    match set.iter().filter(|set| **set).count() {
        0 => errors.push(FieldError::required(path, ONE)),
        1 => {}
        count => errors.push(FieldError::invalid(path, count, ONE)),
    }
}

/// `1.2.3-alpha.1+build`. Source: <https://semver.org/spec/v2.0.0.html>
fn is_semantic_version(version: &str) -> bool {
    let (rest, build) = match version.split_once('+') {
        Some((rest, build)) => (rest, Some(build)),
        None => (version, None),
    };
    let (core, pre) = match rest.split_once('-') {
        Some((core, pre)) => (core, Some(pre)),
        None => (rest, None),
    };
    let numeric = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|b| b.is_ascii_digit())
            && (part == "0" || !part.starts_with('0'))
    };
    let word = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    let identifier =
        |part: &str| word(part) && (numeric(part) || !part.bytes().all(|b| b.is_ascii_digit()));
    core.split('.').count() == 3
        && core.split('.').all(numeric)
        && pre.is_none_or(|pre| pre.split('.').all(identifier))
        && build.is_none_or(|build| build.split('.').all(word))
}
