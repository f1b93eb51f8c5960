//! DeviceClasses: kinds of devices, with settings for all of them.

use k8s_openapi::api::resource::v1::DeviceClass;
use pilothouse_api::{
    ResourceInfo,
    field::{ErrorList, Path},
};

use super::{GROUP, names};
use crate::registry::{
    kinds::{checks, describe},
    strategy::Strategy,
};

pub(super) const MAX_CONFIG: usize = 32;

pub(in crate::registry::kinds) struct DeviceClassStrategy;

impl Strategy for DeviceClassStrategy {
    type Object = DeviceClass;

    fn resource(&self) -> ResourceInfo {
        describe::cluster_scoped(GROUP, "v1", "deviceclasses", "DeviceClass")
    }

    fn generation_changed(&self, new: &DeviceClass, old: &DeviceClass) -> Option<bool> {
        Some(new.spec != old.spec)
    }

    fn validate(&self, class: &DeviceClass) -> ErrorList {
        let mut errors = ErrorList::new();
        let path = Path::new("spec");
        let spec = &class.spec;
        names::selectors(
            &mut errors,
            &path.child("selectors"),
            spec.selectors.as_deref(),
        );
        let config = spec.config.as_deref().unwrap_or_default();
        let config_path = path.child("config");
        for (i, config) in config.iter().enumerate() {
            names::opaque(&mut errors, &config_path.index(i), config.opaque.as_ref());
        }
        names::at_most(&mut errors, &config_path, config.len(), MAX_CONFIG);
        if let Some(name) = &spec.extended_resource_name {
            let path = path.child("extendedResourceName");
            checks::qualified_name(&mut errors, &path, name);
        }
        errors
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }
}
