//! What a role prints when it is ready.

use std::time::Instant;

use pilothouse_apiserver::RunningServer;
use pilothouse_plugin::{PluginRegistry, PluginStatus};

/// The state of an API server, its plugins and nodes.
pub(crate) fn print(
    started: Instant,
    server: &RunningServer,
    plugins: &PluginRegistry,
    nodes: &[String],
) {
    println!("API server   {}", server.url());
    println!("kubeconfig   {}", server.kubeconfig().display());
    print_plugins(plugins);
    match nodes {
        [] => println!("nodes        none (`--nodes 3` simulates three)"),
        few if few.len() <= 10 => println!("nodes        {}", few.join(" ")),
        many => println!(
            "nodes        {} … {} ({})",
            many[0],
            many[many.len() - 1],
            many.len()
        ),
    }
    println!(
        "Pilothouse {} (Kubernetes v1.36) is ready after {:.2} s",
        env!("CARGO_PKG_VERSION"),
        started.elapsed().as_secs_f64()
    );
    println!(
        "Try: kubectl --kubeconfig {} get nodes",
        server.kubeconfig().display()
    );
}

/// The state of a component that works for another API server.
pub(crate) fn print_component(started: Instant, name: &str, plugins: &PluginRegistry) {
    print_plugins(plugins);
    println!(
        "{name} is ready after {:.2} s",
        started.elapsed().as_secs_f64()
    );
}

fn print_plugins(plugins: &PluginRegistry) {
    let status = plugins.status();
    let width = status.iter().map(|s| s.name.len()).max().unwrap_or(0);
    for (n, plugin) in status.iter().enumerate() {
        let head = if n == 0 { "plugins" } else { "" };
        println!(
            "{head:<12} {:<width$}  {}  {}",
            plugin.name,
            short_digest(plugin),
            interfaces(plugin)
        );
    }
}

/// `sha256:` and twelve digits.
fn short_digest(plugin: &PluginStatus) -> String {
    let digest = plugin.digest.map(|d| d.to_string()).unwrap_or_default();
    digest.chars().take(19).collect()
}

/// Interfaces without their package's version: `admission/mutate scheduler/filter`.
pub(crate) fn interfaces(plugin: &PluginStatus) -> String {
    let short = |name: &String| {
        name.trim_start_matches("pilothouse:")
            .split('@')
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    plugin
        .interfaces
        .iter()
        .map(short)
        .collect::<Vec<_>>()
        .join(" ")
}
