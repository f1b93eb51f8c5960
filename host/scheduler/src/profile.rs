//! The plugins that schedule a pod, by extension point, in their order.

use std::sync::Arc;

use pilothouse_plugin::{
    manifest::{ExtensionPoint, FailurePolicy, Normalize, SchedulerSettings},
    scheduler::{ClusterEvent, Component, EventSet, Needs, SchedulerPlugin},
};

/// The default profile's name, as pods name it in `spec.schedulerName`.
pub const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// A plugin of the profile, with the position of its component.
#[derive(Clone, Debug)]
pub(crate) struct ProfilePlugin {
    pub(crate) component: usize,
    pub(crate) index: u32,
    pub(crate) name: Arc<str>,
    pub(crate) weight: i64,
    pub(crate) normalize: Normalize,
    pub(crate) events: EventSet,
    settings: SchedulerSettings,
}

impl ProfilePlugin {
    fn new(component: usize, plugin: &SchedulerPlugin) -> Self {
        let settings = plugin.settings.clone();
        Self {
            component,
            index: plugin.index,
            name: plugin.name.as_str().into(),
            weight: i64::from(settings.weight),
            normalize: settings.normalize,
            events: settings.events(),
            settings,
        }
    }

    pub(crate) fn has(&self, point: ExtensionPoint) -> bool {
        self.settings.has(point)
    }

    /// Whether a failure there is passed over.
    pub(crate) fn ignores_failures_at(&self, point: ExtensionPoint) -> bool {
        self.settings.failure_policy_at(point) == FailurePolicy::Ignore
    }

    pub(crate) fn has_cycle(&self) -> bool {
        self.settings.has_cycle()
    }
}

/// A set of components and their plugins. Constant; a change of the loaded plugins makes another profile.
#[derive(Clone, Default)]
pub(crate) struct Profile {
    pub(crate) components: Vec<Arc<dyn Component>>,
    /// In the order in which they run.
    pub(crate) plugins: Vec<ProfilePlugin>,
}

impl Profile {
    /// All plugins of these components.
    pub(crate) fn of(components: Vec<Arc<dyn Component>>) -> Self {
        let mut plugins: Vec<_> = components
            .iter()
            .enumerate()
            .flat_map(|(at, component)| {
                component
                    .plugins()
                    .iter()
                    .map(move |plugin| ProfilePlugin::new(at, plugin))
            })
            .collect();
        plugins.sort_by(|a, b| (a.settings.order, &a.name).cmp(&(b.settings.order, &b.name)));
        Self {
            components,
            plugins,
        }
    }

    /// The plugins that take part at an extension point, with their places.
    pub(crate) fn with(
        &self,
        point: ExtensionPoint,
    ) -> impl DoubleEndedIterator<Item = (usize, &ProfilePlugin)> {
        self.plugins
            .iter()
            .enumerate()
            .filter(move |(_, plugin)| plugin.has(point))
    }

    /// The changes that matter to a pod that no plugin in particular turned down.
    pub(crate) fn any_node(&self) -> EventSet {
        ClusterEvent::NodeAdd.into()
    }

    /// What a component's mirror is told.
    pub(crate) fn needs(&self, component: usize) -> Option<Needs> {
        self.components.get(component)?.needs()
    }
}
