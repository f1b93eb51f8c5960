//! The kinds of `storage.k8s.io`. Source: <https://kubernetes.io/docs/concepts/storage/>

mod csi_driver;
mod csi_node;
mod csi_storage_capacity;
mod parameters;
mod storage_class;
mod volume_attachment;
mod volume_attributes_class;

pub(super) use csi_driver::CsiDriverStrategy;
pub(super) use csi_node::CsiNodeStrategy;
pub(super) use csi_storage_capacity::CsiStorageCapacityStrategy;
pub(super) use storage_class::StorageClassStrategy;
pub(super) use volume_attachment::VolumeAttachmentStrategy;
pub(super) use volume_attributes_class::VolumeAttributesClassStrategy;

const GROUP: &str = "storage.k8s.io";
