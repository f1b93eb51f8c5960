//! A scripted API server for tests: answers requests in order, with bodies that tests feed.

use std::{collections::VecDeque, pin::Pin, sync::Arc};

use bytes::Bytes;
use futures::StreamExt;
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use parking_lot::Mutex;
use pilothouse_api::{Object, SharedObject, Status};
use tokio::sync::mpsc;

use crate::{
    client::Client,
    transport::{Body, Transport, UserInfo},
};

type Answer = Result<http::Response<Body>, Status>;

/// Answers what was queued; a request without an answer waits for ever.
#[derive(Default)]
pub(crate) struct Script {
    answers: Mutex<VecDeque<Answer>>,
    asked: Mutex<Vec<http::Request<Bytes>>>,
}

/// The open end of a watch's body; dropping it ends the watch.
pub(crate) type Feed = mpsc::UnboundedSender<Result<Bytes, std::io::Error>>;

impl Script {
    pub(crate) fn client() -> (Client, Arc<Self>) {
        let script = Arc::new(Self::default());
        let user = UserInfo::new("tester", &[]);
        (Client::new(script.clone(), user), script)
    }

    pub(crate) fn answer(&self, code: u16, headers: &[(&str, &str)], body: &str) {
        let mut response = http::Response::builder().status(code);
        for (name, value) in headers {
            response = response.header(*name, *value);
        }
        let body = Full::new(Bytes::copy_from_slice(body.as_bytes()));
        let body = body.map_err(|never| match never {}).boxed_unsync();
        self.answers
            .lock()
            .push_back(Ok(response.body(body).unwrap()));
    }

    pub(crate) fn refuse(&self, status: &Status) {
        let body = String::from_utf8(status.to_json()).unwrap();
        self.answer(status.code, &[], &body);
    }

    pub(crate) fn break_down(&self) {
        let status = Status::new(503, "ServiceUnavailable", "no connection");
        self.answers.lock().push_back(Err(status));
    }

    pub(crate) fn stream(&self) -> Feed {
        let (feed, frames) = mpsc::unbounded_channel::<Result<Bytes, std::io::Error>>();
        let frames = futures::stream::unfold(frames, |mut frames| async move {
            frames.recv().await.map(|frame| (frame, frames))
        });
        let body = StreamBody::new(frames.map(|frame| frame.map(Frame::data))).boxed_unsync();
        self.answers.lock().push_back(Ok(http::Response::new(body)));
        feed
    }

    /// Method and URI of the requests since the last call.
    pub(crate) fn asked(&self) -> Vec<String> {
        let asked = std::mem::take(&mut *self.asked.lock());
        let line = |r: &http::Request<Bytes>| format!("{} {}", r.method(), r.uri());
        asked.iter().map(line).collect()
    }

    /// The requests themselves.
    pub(crate) fn requests(&self) -> Vec<http::Request<Bytes>> {
        std::mem::take(&mut *self.asked.lock())
    }
}

impl Transport for Script {
    fn send(
        &self,
        _user: &UserInfo,
        request: http::Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Answer> + Send + '_>> {
        self.asked.lock().push(request);
        let answer = self.answers.lock().pop_front();
        Box::pin(async move {
            match answer {
                Some(answer) => answer,
                None => futures::future::pending().await,
            }
        })
    }
}

pub(crate) fn json(namespace: &str, name: &str, revision: u64, more: &str) -> String {
    format!(
        r#"{{"metadata":{{"namespace":"{namespace}","name":"{name}","uid":"uid-{name}","resourceVersion":"{revision}"{more}}}}}"#
    )
}

pub(crate) fn object(namespace: &str, name: &str, revision: u64, more: &str) -> SharedObject {
    let bytes = Bytes::from(json(namespace, name, revision, more));
    Arc::new(Object::from_response(bytes, &["spec.nodeName"]).unwrap())
}

pub(crate) fn list(revision: u64, items: &[String]) -> String {
    let items = items.join(",");
    format!(r#"{{"metadata":{{"resourceVersion":"{revision}"}},"items":[{items}]}}"#)
}

pub(crate) fn event(kind: &str, object: &str) -> Result<Bytes, std::io::Error> {
    Ok(Bytes::from(format!(
        "{{\"type\":\"{kind}\",\"object\":{object}}}\n"
    )))
}
