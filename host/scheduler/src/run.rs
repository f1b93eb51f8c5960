//! The task that owns the core.

use std::sync::Arc;

use pilothouse_plugin::scheduler::Component;
use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
    time::{Duration, Instant},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    api::Api,
    binding::Finished,
    core::{Core, Input, Options, Step},
    queue::Millis,
};

/// How many bindings are under way at most; beyond, decisions wait.
const MAX_BINDINGS: usize = 256;

/// How much is observed at once before the next pod has its turn.
const MAX_OBSERVED: usize = 1_000;

/// A running scheduler.
pub struct Handle {
    shutdown: CancellationToken,
    task: JoinHandle<()>,
}

impl Handle {
    /// Stops deciding, lets bindings under way end, and returns when all is done.
    pub async fn stop(self) {
        self.shutdown.cancel();
        if let Err(error) = self.task.await {
            tracing::error!(%error, "the scheduler did not end well");
        }
    }
}

/// Runs a scheduler on what `inputs` brings. `components` are the loaded plugins; a change takes effect between two cycles.
pub fn start_with(
    api: Arc<dyn Api>,
    inputs: mpsc::Receiver<Input>,
    components: watch::Receiver<Vec<Arc<dyn Component>>>,
    options: Options,
) -> Handle {
    let shutdown = CancellationToken::new();
    let (finished_to, finished) = mpsc::unbounded_channel(); // at most MAX_BINDINGS are in it
    let task = Task {
        core: Core::new(options),
        api,
        inputs,
        components,
        finished,
        finished_to,
        tracker: TaskTracker::new(),
        bindings: 0,
        synced: false,
        started: Instant::now(),
        shutdown: shutdown.clone(),
    };
    Handle {
        shutdown,
        task: tokio::spawn(task.run()),
    }
}

struct Task {
    core: Core,
    api: Arc<dyn Api>,
    inputs: mpsc::Receiver<Input>,
    components: watch::Receiver<Vec<Arc<dyn Component>>>,
    finished: mpsc::UnboundedReceiver<Finished>,
    finished_to: mpsc::UnboundedSender<Finished>,
    tracker: TaskTracker,
    bindings: usize,
    synced: bool,
    started: Instant,
    shutdown: CancellationToken,
}

impl Task {
    async fn run(mut self) {
        let shutdown = self.shutdown.clone();
        self.take_components();
        while !shutdown.is_cancelled() {
            self.take_in().await;
            let may_decide = self.synced && self.bindings < MAX_BINDINGS;
            let step = match may_decide {
                true => self.core.schedule_one(self.now()).await,
                false => None,
            };
            match step {
                Some(step) => {
                    self.carry_out(step);
                    tokio::task::yield_now().await;
                }
                None if self.wait().await => {}
                None => break,
            }
        }
        self.tracker.close();
        self.tracker.wait().await;
    }

    /// Takes in what has come, without waiting.
    async fn take_in(&mut self) {
        if self.components.has_changed().unwrap_or(false) {
            self.take_components();
        }
        while let Ok(finished) = self.finished.try_recv() {
            self.finish(finished).await;
        }
        for _ in 0..MAX_OBSERVED {
            let Ok(input) = self.inputs.try_recv() else {
                break;
            };
            self.observe(input);
        }
    }

    /// Waits until there is something to do; `false` when nothing will come any more.
    async fn wait(&mut self) -> bool {
        let wake = self.core.queue().next_wake();
        let wake = wake.map(|at| self.started + Duration::from_millis(at));
        let backoff_over = async {
            match wake {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.shutdown.cancelled() => return false,
            input = self.inputs.recv() => match input {
                Some(input) => self.observe(input),
                None => return false,
            },
            Some(finished) = self.finished.recv() => self.finish(finished).await,
            Ok(()) = self.components.changed() => self.take_components(),
            () = backoff_over, if self.synced && self.bindings < MAX_BINDINGS => {}
        }
        true
    }

    fn observe(&mut self, input: Input) {
        self.synced |= matches!(input, Input::Synced);
        let now = self.now();
        self.core.observe(input, now);
    }

    fn take_components(&mut self) {
        let components = self.components.borrow_and_update().clone();
        let now = self.now();
        self.core.set_components(components, now);
    }

    fn carry_out(&mut self, step: Step) {
        let api = Arc::clone(&self.api);
        match step {
            Step::Bind(binding) => {
                self.bindings += 1;
                let finished_to = self.finished_to.clone();
                self.tracker.spawn(async move {
                    let finished = binding.run(&*api).await;
                    drop(finished_to.send(finished)); // nobody listens after shutdown
                });
            }
            Step::Tell(pod, report) => {
                self.tracker
                    .spawn(async move { report.tell(&pod, &*api).await });
            }
        }
    }

    async fn finish(&mut self, finished: Finished) {
        self.bindings -= 1;
        let now = self.now();
        if let Some((pod, report)) = self.core.finish(finished, now).await {
            self.carry_out(Step::Tell(pod, report));
        }
    }

    fn now(&self) -> Millis {
        self.started.elapsed().as_millis() as Millis
    }
}
