//! The status of a claim: which devices it got, who may use them, and how they are.

use std::collections::BTreeSet;

use k8s_openapi::api::resource::v1::{
    AllocatedDeviceStatus, AllocationResult, ResourceClaim, ResourceClaimStatus,
};
use pilothouse_api::{
    field::{ErrorList, FieldError, Path},
    validation::FIELD_IS_IMMUTABLE,
};

use super::{claims::RequestNames, device_class::MAX_CONFIG, names};
use crate::registry::kinds::{checks, pod::affinity, semantic};

const MAX_USERS: usize = 256;
const MAX_RESULTS: usize = 32;
const MAX_CONDITIONS: usize = 8;
const MAX_IPS: usize = 16;
const INTERFACE_NAME_MAX: usize = 256;
const HARDWARE_ADDRESS_MAX: usize = 128;

pub(super) fn validate(new: &ResourceClaim, old: &ResourceClaim) -> ErrorList {
    let mut errors = ErrorList::new();
    let path = Path::new("status");
    let none = ResourceClaimStatus::default();
    let (status, before) = (
        new.status.as_ref().unwrap_or(&none),
        old.status.as_ref().unwrap_or(&none),
    );
    validate_users(&mut errors, &path.child("reservedFor"), new, status, before);
    let devices = status.devices.as_deref().unwrap_or_default();
    let allocated = allocated(status.allocation.as_ref());
    let mut seen = BTreeSet::new();
    for (i, device) in devices.iter().enumerate() {
        let path = path.child("devices").index(i);
        let id = device_id(
            &device.driver,
            &device.pool,
            &device.device,
            &device.share_id,
        );
        validate_device(&mut errors, &path, device, allocated.contains(&id));
        if !seen.insert(id.clone()) {
            errors.push(FieldError::duplicate(&path.child("deviceID"), id));
        }
    }
    let path = path.child("allocation");
    match (&status.allocation, &before.allocation) {
        (Some(allocation), Some(before)) if allocation != before => {
            let shown = semantic::value_at(new, "/status")["allocation"].take();
            errors.push(FieldError::invalid(&path, shown, FIELD_IS_IMMUTABLE));
        }
        (Some(allocation), None) => {
            let requests = RequestNames::of(new.spec.devices.as_ref());
            validate_allocation(&mut errors, &path, allocation, &requests);
        }
        _ => {}
    }
    errors
}

fn device_id(driver: &str, pool: &str, device: &str, share: &Option<String>) -> String {
    match share.as_deref().unwrap_or_default() {
        "" => format!("{driver}/{pool}/{device}"),
        share => format!("{driver}/{pool}/{device}/{share}"),
    }
}

fn allocated(allocation: Option<&AllocationResult>) -> BTreeSet<String> {
    let devices = allocation.and_then(|a| a.devices.as_ref());
    let results = devices
        .and_then(|d| d.results.as_deref())
        .unwrap_or_default();
    results
        .iter()
        .map(|r| device_id(&r.driver, &r.pool, &r.device, &r.share_id))
        .collect()
}

/// Who may use the devices: nobody before there are any, nobody new once the claim is to go.
fn validate_users(
    errors: &mut ErrorList,
    path: &Path,
    claim: &ResourceClaim,
    status: &ResourceClaimStatus,
    before: &ResourceClaimStatus,
) {
    let users = status.reserved_for.as_deref().unwrap_or_default();
    for (i, user) in users.iter().enumerate() {
        let path = path.index(i);
        checks::required(errors, &path.child("resource"), &user.resource);
        checks::required(errors, &path.child("name"), &user.name);
        checks::required(errors, &path.child("uid"), &user.uid);
    }
    names::at_most(errors, path, users.len(), MAX_USERS);
    names::no_duplicates(
        errors,
        path,
        "uid",
        users.iter().map(|user| user.uid.as_str()),
    );
    if users.is_empty() {
        return;
    }
    let known = before.reserved_for.as_deref().unwrap_or_default();
    if status.allocation.is_none() {
        let why = "may not be specified when `allocated` is not set";
        errors.push(FieldError::forbidden(path, why));
    } else if claim.metadata.deletion_timestamp.is_some()
        && users.iter().any(|user| !known.contains(user))
    {
        let why = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set";
        errors.push(FieldError::forbidden(path, why));
    }
}

fn validate_device(
    errors: &mut ErrorList,
    path: &Path,
    device: &AllocatedDeviceStatus,
    is_allocated: bool,
) {
    checks::csi_driver_name(errors, &path.child("driver"), &device.driver);
    names::pool(errors, &path.child("pool"), &device.pool);
    checks::dns_label(errors, &path.child("device"), &device.device);
    if !is_allocated {
        let id = device_id(
            &device.driver,
            &device.pool,
            &device.device,
            &device.share_id,
        );
        let why = "must be an allocated device in the claim";
        errors.push(FieldError::invalid(path, id, why));
    }
    let conditions = device.conditions.as_ref().map_or(0, Vec::len);
    names::at_most(
        errors,
        &path.child("conditions"),
        conditions,
        MAX_CONDITIONS,
    );
    if let Some(data) = &device.data {
        names::raw_object(errors, &path.child("data"), &data.0);
    }
    let Some(network) = &device.network_data else {
        return;
    };
    let path = path.child("networkData");
    let mut bounded = |field: &str, value: &Option<String>, max: usize| {
        if value.as_ref().is_some_and(|value| value.len() > max) {
            errors.push(FieldError::too_long(&path.child(field), max));
        }
    };
    bounded("interfaceName", &network.interface_name, INTERFACE_NAME_MAX);
    bounded(
        "hardwareAddress",
        &network.hardware_address,
        HARDWARE_ADDRESS_MAX,
    );
    let ips = network.ips.as_deref().unwrap_or_default();
    let path = path.child("ips");
    for (i, ip) in ips.iter().enumerate() {
        checks::cidr(errors, &path.index(i), ip);
    }
    names::at_most(errors, &path, ips.len(), MAX_IPS);
    names::no_duplicates(errors, &path, "", ips.iter().map(String::as_str));
}

fn validate_allocation(
    errors: &mut ErrorList,
    path: &Path,
    allocation: &AllocationResult,
    requests: &RequestNames<'_>,
) {
    let devices = allocation.devices.clone().unwrap_or_default();
    let results = devices.results.unwrap_or_default();
    let results_path = path.child("devices").child("results");
    for (i, result) in results.iter().enumerate() {
        let path = results_path.index(i);
        requests.validate_reference(errors, &path.child("request"), &result.request);
        checks::csi_driver_name(errors, &path.child("driver"), &result.driver);
        names::pool(errors, &path.child("pool"), &result.pool);
        checks::dns_label(errors, &path.child("device"), &result.device);
    }
    names::at_most(errors, &results_path, results.len(), MAX_RESULTS);
    let config = devices.config.unwrap_or_default();
    let config_path = path.child("devices").child("config");
    for (i, config) in config.iter().enumerate() {
        let path = config_path.index(i);
        let source = Some(config.source.as_str());
        let sources = ["FromClaim", "FromClass"];
        checks::required_one_of(errors, &path.child("source"), source, &sources);
        let of = config.requests.as_deref();
        requests.validate_references(errors, &path.child("requests"), of);
        names::opaque(errors, &path, config.opaque.as_ref());
    }
    names::at_most(errors, &config_path, config.len(), 2 * MAX_CONFIG); // of class and claim
    if let Some(selector) = &allocation.node_selector {
        affinity::validate_node_selector(errors, &path.child("nodeSelector"), selector);
    }
}
