//! The kinds of patch. Source: <https://kubernetes.io/docs/reference/using-api/api-concepts/#patch-and-apply>

use bytes::Bytes;
use http::HeaderMap;
use pilothouse_api::{
    Cause, GroupVersionKind, ResourceInfo, Status, facts,
    patch::{self, PatchType},
};
use serde_json::Value;

use crate::body::content_type;

/// The media types that a PATCH may have.
const ACCEPTED: &str = "application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json, application/apply-patch+yaml";

/// A patch, read and ready to be applied as often as needed.
pub(crate) struct Patch(patch::Patch);

impl Patch {
    /// The type of the request's patch; it is checked before anything else.
    pub(crate) fn media(headers: &HeaderMap) -> Result<PatchType, Status> {
        let sent = match headers.contains_key(http::header::CONTENT_TYPE) {
            true => content_type(headers),
            false => "",
        };
        match PatchType::from_content_type(sent) {
            Some(media) => Ok(media),
            None => Err(Status::unsupported_media_type(format!(
                "the body of the request was in an unknown format - accepted media types include: {ACCEPTED}"
            ))),
        }
    }

    /// Reads a patch of that type.
    pub(crate) fn parse(media: PatchType, body: Bytes) -> Result<Self, Status> {
        match media {
            PatchType::Json => patch::Patch::json(&body),
            PatchType::Strategic => patch::Patch::strategic(&body),
            PatchType::Merge | PatchType::Apply => patch::Patch::merge(&body),
        }
        .map(Self)
    }

    /// The patched document.
    pub(crate) fn apply(&self, current: &[u8], gvk: &GroupVersionKind) -> Result<Vec<u8>, Status> {
        let current: Value = serde_json::from_slice(current).map_err(Status::internal)?;
        let patched = self.0.apply(&current, facts::by_kind(gvk))?;
        serde_json::to_vec(&patched).map_err(Status::internal)
    }

    /// 422 on the field `patch`: what came out is no such object.
    pub(crate) fn unreadable_result(
        info: &ResourceInfo,
        name: &str,
        patched: &[u8],
        why: Status,
    ) -> Status {
        let shown = String::from_utf8_lossy(patched);
        let cause = Cause {
            reason: "FieldValueInvalid".to_owned(),
            message: format!("Invalid value: {shown:?}: {}", why.message),
            field: "patch".to_owned(),
        };
        Status::invalid(&info.gvr.group, &info.kind, name, vec![cause])
    }
}
