//! Where a Service's traffic goes: EndpointSlices, and the older Endpoints of the same content.
//! Source: <https://kubernetes.io/docs/concepts/services-networking/endpoint-slices/>
//!
//! [`backend`] says which pods are behind a Service and where; [`slicing`] spreads them over slices of at most 100 with as few
//! writes as it can; [`subsets`] is the form of Endpoints.

mod backend;
mod endpoint_slices;
mod endpoints;
mod objects;
mod slicing;
mod subsets;

use endpoint_slices::EndpointSlices;
use endpoints::Endpoints;

pilothouse_sdk::export! {
    controller(reconcile): [EndpointSlices, Endpoints],
}
