//! Plugins in every language, made and built as their authors would: what `plugin new` makes passes its contract as it stands,
//! and the examples decide in a running control plane.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Mutex,
};

use anyhow::{Context, Result, ensure};
use pilothouse_e2e::{Cluster, compiled_plugins, pilothouse_command, root, tools};
use tempfile::TempDir;

/// Builds take all cores, and contracts hold plugins to time limits: one language after the other.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// `pilothouse plugin …` with the fetched tools in its path; returns what it printed.
fn plugin(words: &[&str]) -> Result<String> {
    let (componentize, zig) = (
        tools("componentize-py", "componentize_py")?,
        tools("zig", "ziglang")?,
    );
    let node = tools("node/node_modules", "componentize-qjs")?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let own = [
        componentize.join("bin"),
        zig.join("ziglang"),
        node.join(".bin"),
    ];
    let path = std::env::join_paths(own.into_iter().chain(std::env::split_paths(&path)))?;
    let mut command = pilothouse_command()?;
    command
        .arg("plugin")
        .args(words)
        .arg("--cache-dir")
        .arg(compiled_plugins())
        .env("PATH", path)
        .env("PYTHONPATH", componentize)
        .env(
            "ZIG_GLOBAL_CACHE_DIR",
            root().join("target/tools/zig-cache"),
        )
        .env("CARGO_TARGET_DIR", root().join("target/tmp/new-plugins"));
    let output = command.output()?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(
        output.status.success(),
        "{command:?} failed:\n{printed}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(printed)
}

/// Builds a project and runs its contract; returns the component.
fn build_and_test(project: &Path) -> Result<PathBuf> {
    let built = plugin(&["build", &project.display().to_string()])?;
    let component = built.trim();
    let report = plugin(&["test", component])?;
    ensure!(
        report.contains("ok       "),
        "no clause was tried: {report}"
    );
    Ok(PathBuf::from(component))
}

/// A new project of every kind.
fn new_projects(language: &str) -> Result<()> {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    let folder = TempDir::new()?;
    for kind in ["admission", "filter", "score", "controller"] {
        let project = folder.path().join(format!("my-{kind}"));
        let shown = project.display().to_string();
        plugin(&["new", "--kind", kind, "--lang", language, &shown])?;
        let component = build_and_test(&project)?;
        assert_eq!(component.file_stem(), project.file_name());
    }
    Ok(())
}

/// The example of this name, built outside of the sources and dropped in.
fn drop_example(cluster: &Cluster, folder: &TempDir, name: &str) -> Result<()> {
    let project = folder.path().join(name);
    fs::create_dir(&project)?;
    for entry in fs::read_dir(root().join("plugins/examples").join(name))? {
        let file = entry?.path();
        if file.is_file() {
            fs::copy(&file, project.join(file.file_name().unwrap_or_default()))?;
        }
    }
    let component = build_and_test(&project)?;
    let to = cluster.data_dir().join(format!("plugins/{name}.wasm"));
    fs::copy(&component, &to).with_context(|| format!("copying to {}", to.display()))?;
    cluster.kubectl(&format!("wait plugin/{name} --for=create --timeout=60s"))?;
    cluster.kubectl(&format!(
        "wait plugin/{name} --for=jsonpath={{.status.state}}=Serving --timeout=60s"
    ))?;
    Ok(())
}

/// Both examples in a running control plane.
fn examples_decide(language: &str) -> Result<()> {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    let cluster = Cluster::start()?;
    let folder = TempDir::new()?;
    let team_label = format!("{language}-team-label");
    drop_example(&cluster, &folder, &team_label)?;
    let create = "create configmap settings --from-literal=a=ä";
    let refused = cluster.try_kubectl(create)?.refused()?;
    ensure!(
        refused.contains("configmaps \"settings\" is forbidden: the label \"team\" is missing"),
        "{refused}"
    );
    let configured = r#"{"spec":{"config":{"defaultTeam":"payments"}}}"#;
    cluster.kubectl_words(&[
        "patch",
        "plugin",
        &team_label,
        "--type=merge",
        "-p",
        configured,
    ])?;
    cluster.kubectl(&format!(
        "wait plugin/{team_label} --for=jsonpath={{.status.observedGeneration}}=2 --timeout=60s"
    ))?;
    cluster.kubectl(create)?;
    let team = cluster.kubectl("get configmap settings -o jsonpath={.metadata.labels.team}")?;
    assert_eq!(team, "payments");

    cluster.kubectl("wait node --all --for=condition=Ready --timeout=60s")?;
    cluster.kubectl("label node node-0 renewable-percent=20")?;
    cluster.kubectl("label node node-1 renewable-percent=49")?;
    cluster.kubectl("label node node-2 renewable-percent=dark")?;
    drop_example(&cluster, &folder, &format!("{language}-green-energy"))?;
    cluster.kubectl("run green --image=nginx --labels=energy=green")?;
    cluster.kubectl(
        "wait pod/green --for=jsonpath={.status.conditions[0].reason}=Unschedulable --timeout=60s",
    )?;
    let message = cluster.kubectl("get pod green -o jsonpath={.status.conditions[0].message}")?;
    ensure!(
        message.starts_with("0/3 nodes are available: 3 node(s) had too little renewable energy."),
        "{message}"
    );
    cluster.kubectl("label node node-1 renewable-percent=90 --overwrite")?;
    cluster.kubectl("wait pod/green --for=condition=Ready --timeout=60s")?;
    cluster.kubectl("run any --image=nginx")?;
    cluster.kubectl("wait pod/any --for=condition=Ready --timeout=60s")?;
    for pod in ["green", "any"] {
        let node = cluster.kubectl(&format!("get pod {pod} -o jsonpath={{.spec.nodeName}}"))?;
        assert_eq!(node, "node-1", "{pod}");
    }
    Ok(())
}

#[test]
fn new_projects_in_rust() -> Result<()> {
    new_projects("rust")
}

#[test]
fn new_projects_in_python() -> Result<()> {
    new_projects("python")
}

#[test]
fn new_projects_in_javascript() -> Result<()> {
    new_projects("js")
}

#[test]
fn new_projects_in_c() -> Result<()> {
    new_projects("c")
}

#[test]
fn examples_in_python() -> Result<()> {
    examples_decide("python")
}

#[test]
fn examples_in_javascript() -> Result<()> {
    examples_decide("js")
}

#[test]
fn examples_in_c() -> Result<()> {
    examples_decide("c")
}
