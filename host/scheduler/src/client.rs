//! The scheduler on a real API server: informers in front, the client behind, plugins from the registry.

use std::sync::Arc;

use async_trait::async_trait;
use pilothouse_api::{GroupVersionResource, SharedObject, Status};
use pilothouse_client::{CacheEvent, Client, EventRecorder, InformerSet, PatchType, Regarding};
use pilothouse_plugin::scheduler::Component;
use tokio::sync::{mpsc, watch};

use crate::{
    api::{Api, PodEvent},
    core::{Input, Options},
    node::NodeInfo,
    pod::{PodInfo, Uid},
    run::{Handle, start_with},
};

const PODS: GroupVersionResource = GroupVersionResource::of("", "v1", "pods");
const NODES: GroupVersionResource = GroupVersionResource::of("", "v1", "nodes");

/// Parsed objects that wait for the scheduler.
const INPUTS: usize = 4_096;

/// The API server through a client.
struct ClientApi {
    client: Client,
    recorder: EventRecorder,
    reporter: String,
}

#[async_trait]
impl Api for ClientApi {
    async fn get_pod(&self, namespace: &str, name: &str) -> Result<PodInfo, Status> {
        let object = self.client.get(&PODS, namespace, name).await?;
        PodInfo::parse(object.revision, object.bytes.clone())
    }

    async fn patch_pod_status(
        &self,
        namespace: &str,
        name: &str,
        patch: Vec<u8>,
    ) -> Result<(), Status> {
        self.client
            .patch(
                &PODS,
                namespace,
                name,
                "status",
                PatchType::Strategic,
                patch,
            )
            .await
            .map(|_| ())
    }

    fn record(&self, pod: &PodInfo, event: PodEvent) {
        let regarding = Regarding {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            namespace: pod.record.namespace.clone(),
            name: pod.record.name.clone(),
            uid: pod.uid.to_string(),
        };
        self.recorder.record(
            &self.reporter,
            regarding,
            event.event_type,
            event.reason,
            event.action,
            &event.note,
        );
    }
}

/// A change of an object, on its way to be parsed.
enum Raw {
    Pod(CacheEvent),
    Node(CacheEvent),
    Synced,
}

/// Starts a scheduler that watches through `informers` and writes through `client`. `plugins` are the components that can be
/// called now (see [`Roster`](crate::Roster)). Must be called within a tokio runtime.
pub fn start(
    client: Client,
    informers: &InformerSet,
    recorder: EventRecorder,
    plugins: watch::Receiver<Vec<Arc<dyn Component>>>,
    options: Options,
) -> Handle {
    let api = Arc::new(ClientApi {
        client,
        recorder,
        reporter: options.scheduler_name.clone(),
    });
    start_with(api, observe_all(informers), plugins, options)
}

/// What comes in of pods and nodes, parsed, for as long as the receiver is there.
pub(crate) fn observe_all(informers: &InformerSet) -> mpsc::Receiver<Input> {
    let (raw_to, raw) = mpsc::unbounded_channel(); // the informers' handlers must not wait; bounded by what the cluster holds
    let (inputs_to, inputs) = mpsc::channel(INPUTS);
    tokio::spawn(observe(informers.clone(), raw_to));
    tokio::spawn(parse(raw, inputs_to));
    inputs
}

/// Follows pods and nodes for as long as the scheduler listens. Nodes first: a pod's node is then known when it comes.
async fn observe(informers: InformerSet, to: mpsc::UnboundedSender<Raw>) {
    let nodes = informers.get(&NODES);
    let pods = informers.get(&PODS);
    nodes.cache().wait_synced().await;
    let node_events = to.clone();
    let _nodes = nodes.cache().subscribe(Arc::new(move |event: &CacheEvent| {
        drop(node_events.send(Raw::Node(event.clone()))); // fails only when nobody listens any more
    }));
    pods.cache().wait_synced().await;
    let pod_events = to.clone();
    let _pods = pods.cache().subscribe(Arc::new(move |event: &CacheEvent| {
        drop(pod_events.send(Raw::Pod(event.clone())));
    }));
    drop(to.send(Raw::Synced));
    to.closed().await;
}

/// Parses beside the scheduler, in order.
async fn parse(mut raw: mpsc::UnboundedReceiver<Raw>, to: mpsc::Sender<Input>) {
    while let Some(raw) = raw.recv().await {
        let input = match raw {
            Raw::Synced => Some(Input::Synced),
            Raw::Pod(CacheEvent::Deleted(pod)) => Some(Input::PodGone(uid(&pod))),
            Raw::Pod(event) => {
                parsed(event.object(), PodInfo::parse).map(|pod| Input::Pod(Arc::new(pod)))
            }
            Raw::Node(CacheEvent::Deleted(node)) => Some(Input::NodeGone(node.header.name.clone())),
            Raw::Node(event) => parsed(event.object(), NodeInfo::parse).map(Input::Node),
        };
        let Some(input) = input else { continue };
        if to.send(input).await.is_err() {
            return;
        }
    }
}

fn uid(object: &SharedObject) -> Uid {
    object.header.uid.as_str().into()
}

fn parsed<T>(
    object: &SharedObject,
    parse: impl Fn(pilothouse_api::Revision, bytes::Bytes) -> Result<T, Status>,
) -> Option<T> {
    match parse(object.revision, object.bytes.clone()) {
        Ok(parsed) => Some(parsed),
        Err(status) => {
            let header = &object.header;
            tracing::warn!(
                namespace = header.namespace,
                name = header.name,
                error = status.message,
                "an object that cannot be read is passed over"
            );
            None
        }
    }
}
