//! A plugin's typed refusal and its outward form.

use pilothouse_api::{Cause, GroupResource, Status};

use super::{Request, bindings::types};

/// A plugin's refusal as it gave it.
pub type Denial = types::Denial;

impl Denial {
    /// The whole `Status`, about the object of the request unless the plugin says otherwise.
    pub fn into_status(self, request: &Request) -> Status {
        let code = match self.code {
            code if code < 400 => 403,
            code => code,
        };
        let reason = match self.reason.as_str() {
            "" => reason_of(code),
            reason => reason,
        };
        let (resource, name) = match self.about {
            Some(about) => (
                GroupResource {
                    group: about.group.into(),
                    resource: about.resource.into(),
                },
                about.name,
            ),
            None => (request.resource.group_resource(), request.name.clone()),
        };
        let mut status = Status::new(code, reason, self.message).about(&resource, &name);
        for cause in self.causes {
            status = status.with_cause(Cause {
                reason: cause.reason,
                message: cause.message,
                field: cause.field,
            });
        }
        match self.retry_after_seconds {
            0 => status,
            seconds => status.retry_after(seconds),
        }
    }
}

/// What Kubernetes gives for a code alone.
fn reason_of(code: u16) -> &'static str {
    match code {
        400 => "BadRequest",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        405 => "MethodNotAllowed",
        406 => "NotAcceptable",
        409 => "Conflict",
        410 => "Gone",
        413 => "RequestEntityTooLarge",
        415 => "UnsupportedMediaType",
        422 => "Invalid",
        429 => "TooManyRequests",
        500 => "InternalError",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "Unknown",
    }
}
