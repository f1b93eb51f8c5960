//! Requests from this process: the same pipeline as remote ones, entered behind authentication.

use std::{pin::Pin, sync::Arc};

use bytes::Bytes;
use http::{Request, Response};
use pilothouse_api::Status;
use pilothouse_client::{Body, Transport, UserInfo};

use crate::{
    body::RequestBody,
    filters::{self, Caller},
    state::State,
};

/// Reaches the server without a network.
#[derive(Clone)]
pub struct InProcess {
    state: Arc<State>,
}

impl InProcess {
    pub(crate) fn new(state: Arc<State>) -> Self {
        Self { state }
    }
}

impl Transport for InProcess {
    fn send(
        &self,
        user: &UserInfo,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Body>, Status>> + Send + '_>> {
        let (parts, body) = request.into_parts();
        let caller = Caller::Local(user.clone());
        Box::pin(async move {
            Ok(filters::serve(&self.state, caller, parts, RequestBody::Whole(body)).await)
        })
    }
}
