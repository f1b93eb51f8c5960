//! GET and LIST: bytes as they are, one after the other.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::{BufMut, Bytes, BytesMut};
use flate2::{Compression, write::GzEncoder};
use http::{HeaderValue, Response, header};
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt;
use pilothouse_api::{SharedObject, Status, protobuf::Encoder};
use pilothouse_client::Body;
use serde_json::json;

use super::{
    Request,
    view::{self, IncludeObject},
};
use crate::{
    environment::whole_seconds,
    negotiation::{Media, Negotiated, View},
    query::ListOptions,
    registry::{Page, Resource, Selection},
    response::{self, GZIP_FROM_BYTES, accepts_gzip, mark_gzip},
    state::State,
};

/// A list is written in pieces of about this size.
const PIECE_BYTES: usize = 64 * 1024;

/// GET of one object.
pub(crate) async fn get(
    state: &Arc<State>,
    resource: &Arc<Resource>,
    request: &Request<'_>,
    negotiated: Negotiated,
) -> Result<Response<Body>, Status> {
    let (namespace, name) = request.key(resource);
    let version = request.query.get("resourceVersion").unwrap_or_default();
    let object = state
        .registry
        .get(resource, namespace, name, version)
        .await?;
    match negotiated.view {
        View::Whole => {
            let headers = request.headers();
            Ok(response::document(
                200,
                object.bytes.clone(),
                negotiated,
                headers,
            ))
        }
        _ => {
            let typed = resource.strategy.decode(&object.bytes)?;
            let now = whole_seconds(state.environment.now());
            view::object(
                200,
                resource,
                &typed,
                negotiated,
                request.query,
                request.headers(),
                now,
            )
        }
    }
}

/// GET of a collection.
pub(crate) async fn list(
    state: &Arc<State>,
    resource: &Arc<Resource>,
    request: &Request<'_>,
    negotiated: Negotiated,
) -> Result<Response<Body>, Status> {
    let page = select(state, resource, request).await?;
    answer_list(state, resource, request, negotiated, page)
}

/// What the request's selectors and options select.
pub(crate) async fn select(
    state: &Arc<State>,
    resource: &Arc<Resource>,
    request: &Request<'_>,
) -> Result<Page, Status> {
    let options = ListOptions::parse(request.query, false)?;
    let selection = Selection::parse(resource, &request.info.namespace, &options)?;
    state.registry.list(resource, &selection, &options).await
}

/// The answer to a list.
pub(crate) fn answer_list(
    state: &State,
    resource: &Arc<Resource>,
    request: &Request<'_>,
    negotiated: Negotiated,
    page: Page,
) -> Result<Response<Body>, Status> {
    match (negotiated.view, negotiated.media, negotiated.pretty) {
        (View::PartialObject, ..) => Err(view::is_a_list()),
        (View::Whole, Media::Json, false) => {
            let compress = accepts_gzip(request.headers());
            Ok(stream(ListBody::new(resource, page), compress))
        }
        (View::Whole, Media::Protobuf, _) => {
            let body = protobuf_list(resource, &page)?;
            Ok(response::encoded(
                200,
                body,
                Media::Protobuf.content_type(),
                request.headers(),
            ))
        }
        _ => {
            let body = match negotiated.view {
                View::Table => table(state, resource, request, negotiated, &page)?,
                View::PartialObjectList => partial_list(negotiated, &page)?,
                _ => ListBody::new(resource, page).concat(),
            };
            Ok(response::document(200, body, negotiated, request.headers()))
        }
    }
}

fn table(
    state: &State,
    resource: &Resource,
    request: &Request<'_>,
    negotiated: Negotiated,
    page: &Page,
) -> Result<Bytes, Status> {
    let include = IncludeObject::parse(request.query)?;
    let now = whole_seconds(state.environment.now());
    let mut head = view::table_head(resource, negotiated, true);
    head["metadata"] = list_metadata(page);
    let rows = page
        .items
        .iter()
        .map(|item| {
            let object = resource.strategy.decode(&item.bytes)?;
            view::row(resource, &object, &item.bytes, negotiated, include, now)
        })
        .collect::<Result<Vec<_>, _>>()?;
    head["rows"] = rows.into();
    Ok(head.to_string().into())
}

fn partial_list(negotiated: Negotiated, page: &Page) -> Result<Bytes, Status> {
    let version = negotiated.view_version();
    let metadata = list_metadata(page);
    let head = format!(
        "{{\"kind\":\"PartialObjectMetadataList\",\"apiVersion\":\"{version}\",\"metadata\":{metadata},\"items\":["
    );
    let mut body = BytesMut::from(head.as_bytes());
    for (index, item) in page.items.iter().enumerate() {
        if index > 0 {
            body.put_u8(b',');
        }
        body.extend_from_slice(&view::partial(&item.bytes, negotiated)?);
    }
    body.put_slice(b"]}");
    Ok(body.freeze())
}

fn protobuf_list(resource: &Resource, page: &Page) -> Result<Bytes, Status> {
    let info = &resource.info;
    let encoder = Encoder::new(&info.gvr.api_version(), &format!("{}List", info.kind));
    let encoder = encoder.ok_or_else(|| {
        Status::internal(format!("{} has no list in protobuf", info.kind)) // the table has a list for every kind
    })?;
    let metadata = list_metadata(page).to_string();
    let items = page.items.iter().map(|item| &item.bytes[..]);
    encoder
        .list(metadata.as_bytes(), items)
        .map(Bytes::from)
        .map_err(Status::internal)
}

fn list_metadata(page: &Page) -> serde_json::Value {
    let mut metadata = json!({ "resourceVersion": page.revision.to_string() });
    if !page.continue_token.is_empty() {
        metadata["continue"] = json!(page.continue_token);
    }
    if let Some(remaining) = page.remaining {
        metadata["remainingItemCount"] = json!(remaining);
    }
    metadata
}

/// A list on its way out: its items are copied piece by piece, as the connection takes them.
struct ListBody {
    head: Option<Bytes>,
    items: std::vec::IntoIter<SharedObject>,
    /// What items begin with and lists leave out.
    type_meta: Bytes,
    first: bool,
    done: bool,
    left_bytes: u64,
}

const TAIL: &[u8] = b"]}\n";

impl ListBody {
    fn new(resource: &Resource, page: Page) -> Self {
        let api_version = resource.info.gvr.api_version();
        let kind = &resource.info.kind;
        let metadata = list_metadata(&page);
        let head = format!(
            "{{\"kind\":\"{kind}List\",\"apiVersion\":\"{api_version}\",\"metadata\":{metadata},\"items\":["
        );
        let mut body = Self {
            left_bytes: 0,
            head: Some(head.into()),
            items: page.items.into_iter(),
            type_meta: format!("{{\"apiVersion\":\"{api_version}\",\"kind\":\"{kind}\",").into(),
            first: true,
            done: false,
        };
        let items = body.items.as_slice();
        let item_bytes: usize = items.iter().map(|item| body.item_bytes(item)).sum();
        let commas = items.len().saturating_sub(1);
        let head = body.head.as_ref().map_or(0, Bytes::len);
        body.left_bytes = (head + item_bytes + commas + TAIL.len()) as u64;
        body
    }

    fn item_bytes(&self, item: &SharedObject) -> usize {
        match item.bytes.starts_with(&self.type_meta) {
            true => item.bytes.len() - self.type_meta.len() + 1,
            false => item.bytes.len(),
        }
    }

    /// The next piece; `None` at the end.
    fn piece(&mut self) -> Option<BytesMut> {
        if self.done {
            return None;
        }
        let mut piece = BytesMut::with_capacity(PIECE_BYTES.min(self.left_bytes as usize));
        if let Some(head) = self.head.take() {
            piece.put(head);
        }
        while piece.len() < PIECE_BYTES {
            let Some(item) = self.items.next() else {
                piece.put_slice(TAIL);
                self.done = true;
                break;
            };
            if !std::mem::replace(&mut self.first, false) {
                piece.put_u8(b',');
            }
            match item.bytes.strip_prefix(&*self.type_meta) {
                Some(rest) => {
                    piece.put_u8(b'{');
                    piece.put_slice(rest);
                }
                None => piece.put_slice(&item.bytes),
            }
        }
        self.left_bytes = self.left_bytes.saturating_sub(piece.len() as u64);
        Some(piece)
    }

    /// All of it at once.
    fn concat(mut self) -> Bytes {
        let mut whole = BytesMut::with_capacity(self.left_bytes as usize);
        while let Some(piece) = self.piece() {
            whole.unsplit(piece);
        }
        whole.freeze()
    }
}

impl http_body::Body for ListBody {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Poll::Ready(self.piece().map(|piece| Ok(Frame::data(piece.freeze()))))
    }

    fn is_end_stream(&self) -> bool {
        self.done
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left_bytes)
    }
}

/// The same, compressed on the way.
struct GzipBody {
    list: ListBody,
    encoder: Option<GzEncoder<Vec<u8>>>,
}

impl GzipBody {
    fn piece(&mut self) -> std::io::Result<Option<Bytes>> {
        use std::io::Write;
        let Some(mut encoder) = self.encoder.take() else {
            return Ok(None);
        };
        while let Some(piece) = self.list.piece() {
            encoder.write_all(&piece)?;
            let ready = encoder.get_mut();
            if ready.len() >= PIECE_BYTES {
                let ready = std::mem::take(ready);
                self.encoder = Some(encoder);
                return Ok(Some(ready.into()));
            }
        }
        encoder.finish().map(|rest| Some(rest.into()))
    }
}

impl http_body::Body for GzipBody {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Poll::Ready(self.piece().transpose().map(|piece| piece.map(Frame::data)))
    }
}

fn stream(list: ListBody, compress: bool) -> Response<Body> {
    let gzip = compress && list.left_bytes > GZIP_FROM_BYTES as u64;
    let body = match gzip {
        false => list.boxed_unsync(),
        true => GzipBody {
            list,
            encoder: Some(GzEncoder::new(
                Vec::with_capacity(2 * PIECE_BYTES),
                Compression::fast(),
            )),
        }
        .boxed_unsync(),
    };
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static(Media::Json.content_type()),
    );
    if gzip {
        mark_gzip(headers);
    }
    response
}
