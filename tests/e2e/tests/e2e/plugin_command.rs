//! `pilothouse plugin run` and `bench`: a plugin by itself, without a control plane.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use pilothouse_e2e::{Cluster, compiled_plugins, component, pilothouse_command};
use serde_json::Value;
use tempfile::TempDir;

/// `pilothouse plugin …`: whether it was content, and what it printed.
fn plugin(words: &[&str]) -> Result<(bool, String)> {
    let output = pilothouse_command()?
        .arg("plugin")
        .args(words)
        .arg("--cache-dir")
        .arg(compiled_plugins())
        .output()?;
    let mut printed = String::from_utf8_lossy(&output.stdout).into_owned();
    printed += &String::from_utf8_lossy(&output.stderr);
    Ok((output.status.success(), printed))
}

/// Runs a plugin about an object and returns the calls.
fn run(wasm: &Path, object: &str, more: &[&str]) -> Result<Vec<Value>> {
    let folder = TempDir::new()?;
    let input = folder.path().join("input.yaml");
    fs::write(&input, object)?;
    let (wasm, input) = (wasm.display().to_string(), input.display().to_string());
    let mut words = vec!["run", &wasm, "--input", &input, "--output", "json"];
    words.extend(more);
    let (ok, printed) = plugin(&words)?;
    ensure!(ok, "{printed}");
    let lines = printed.lines().map(serde_json::from_str);
    lines
        .collect::<Result<_, _>>()
        .with_context(|| printed.clone())
}

fn file(folder: &TempDir, name: &str, text: &str) -> Result<PathBuf> {
    let path = folder.path().join(name);
    fs::write(&path, text)?;
    Ok(path)
}

const CONFIG_MAP: &str = "
apiVersion: v1
kind: ConfigMap
metadata: { name: settings }
";

const POD: &str = "
apiVersion: v1
kind: Pod
metadata: { name: web }
spec:
  containers: [{ name: c, image: nginx }]
";

#[test]
fn an_admission_plugin_is_run_once_about_an_object() -> Result<()> {
    let wasm = component("team-label")?;
    let calls = run(&wasm, CONFIG_MAP, &[])?;
    let interfaces: Vec<_> = calls.iter().map(|call| &call["interface"]).collect();
    assert_eq!(interfaces, ["admission/mutate", "admission/validate"]);
    let judged = &calls[1]["answer"];
    assert_eq!(judged["allowed"], false, "{judged}");
    assert_eq!(judged["status"]["reason"], "Forbidden", "{judged}");
    assert!(calls[1]["memoryBytes"].as_u64() > Some(0));
    assert!(calls[1]["timeMicros"].as_u64() > Some(0));

    let labelled = CONFIG_MAP.replace("name: settings", "name: settings, labels: { team: red }");
    let calls = run(&wasm, &labelled, &["--interface", "admission/validate"])?;
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0]["answer"]["allowed"], true, "{calls:?}");
    Ok(())
}

#[test]
fn a_scheduler_plugin_is_run_about_a_pod_and_the_nodes_of_a_file() -> Result<()> {
    let folder = TempDir::new()?;
    let nodes = "
apiVersion: v1
kind: List
items:
- { apiVersion: v1, kind: Node, metadata: { name: good } }
- { apiVersion: v1, kind: Node, metadata: { name: ill, labels: { quarantine: 'true' } } }
";
    let cluster = file(&folder, "cluster.yaml", nodes)?.display().to_string();
    let calls = run(&component("quarantine")?, POD, &["--cluster", &cluster])?;
    let judged = &calls[0]["answer"]["nodes"];
    assert_eq!(judged["good"]["fits"], true, "{calls:?}");
    assert_eq!(judged["ill"]["fits"], false, "{calls:?}");
    assert!(judged["ill"]["reasons"][0].is_string(), "{calls:?}");
    Ok(())
}

#[test]
fn a_controller_is_run_about_an_object_and_its_writes_are_shown() -> Result<()> {
    let namespace = "{ apiVersion: v1, kind: Namespace, metadata: { name: shop, labels: { welcome: 'true' } } }";
    let calls = run(&component("welcome")?, namespace, &[])?;
    let answer = &calls[0]["answer"];
    assert_eq!(answer["result"], "done", "{calls:?}");
    let writes = answer["writes"].to_string();
    assert!(writes.contains("create configmaps"), "{writes}");
    Ok(())
}

#[test]
fn what_no_plugin_is_called_for_is_said() -> Result<()> {
    let folder = TempDir::new()?;
    let node = "{ apiVersion: v1, kind: Node, metadata: { name: n } }";
    let input = file(&folder, "node.yaml", node)?.display().to_string();
    let wasm = component("quarantine")?.display().to_string();
    let (ok, printed) = plugin(&["run", &wasm, "--input", &input])?;
    assert!(!ok);
    assert!(printed.contains("it judges Pods"), "{printed}");
    let (ok, printed) = plugin(&["run", &wasm])?;
    assert!(!ok);
    assert!(printed.contains("--input"), "{printed}");
    Ok(())
}

#[test]
fn bench_prints_a_line_for_every_interface() -> Result<()> {
    for (name, interface) in [
        ("team-label", "admission/validate"),
        ("quarantine", "scheduler/filter"),
        ("welcome", "controller/reconcile"),
    ] {
        let wasm = component(name)?.display().to_string();
        let (ok, printed) = plugin(&["bench", &wasm, "--calls", "20"])?;
        ensure!(ok, "{printed}");
        let line = printed.lines().find(|line| line.contains(interface));
        let line = line.with_context(|| printed.clone())?;
        let instructions = line.split_whitespace().rev().nth(2);
        let instructions = instructions.and_then(|word| word.parse::<u64>().ok());
        assert!(instructions > Some(100), "{printed}");
    }
    Ok(())
}

#[test]
fn recorded_calls_are_replayed_and_another_version_shows_its_differences() -> Result<()> {
    let cluster = Cluster::start()?;
    cluster.drop_plugin("team-label", "team-label.wasm")?;
    cluster.drop_plugin("welcome", "welcome.wasm")?;
    for plugin in ["team-label", "welcome"] {
        cluster.kubectl(&format!(
            "wait --for=jsonpath={{.status.state}}=Serving plugin/{plugin} --timeout=30s"
        ))?;
    }
    let folder = TempDir::new()?;
    let calls = |plugin: &str| folder.path().join(format!("{plugin}.jsonl"));
    let mut recorders = Vec::new();
    for (plugin, enough) in [("team-label", "12"), ("welcome", "2")] {
        let mut command = pilothouse_command()?;
        command.args([
            "plugin", "record", plugin, "--for", "60s", "--calls", enough,
        ]);
        command.arg("--to").arg(calls(plugin));
        command.arg("--data-dir").arg(cluster.data_dir());
        recorders.push(command.spawn()?);
    }
    // a recorder says nothing before its first call: calls are made until all have enough
    let mut turn = 0;
    while !recorders.is_empty() {
        ensure!(turn < 100, "nothing was recorded");
        turn += 1;
        cluster.kubectl(&format!(
            "label namespace default welcome=true turn={turn} --overwrite"
        ))?;
        let labelled = format!(
            "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: c{turn}, labels: {{team: red}}}}}}"
        );
        cluster.kubectl_with_input("apply -f -", &labelled)?.ok()?;
        let mut going = Vec::new();
        for mut recorder in recorders {
            match recorder.try_wait()? {
                Some(status) => ensure!(status.success(), "recording ended with {status}"),
                None => going.push(recorder),
            }
        }
        recorders = going;
    }
    let replay = |plugin: &str, wasm: &str, more: &[&str]| -> Result<(bool, String)> {
        let (calls, wasm) = (calls(plugin), component(wasm)?);
        let (calls, wasm) = (calls.display().to_string(), wasm.display().to_string());
        let mut words = vec!["replay", &wasm, "--calls", &calls];
        words.extend(more);
        self::plugin(&words)
    };
    let (same, printed) = replay("team-label", "team-label", &[])?;
    ensure!(same, "{printed}");
    assert!(
        printed.contains("12 calls went as they were recorded"),
        "{printed}"
    );
    let (same, printed) = replay("welcome", "welcome", &[])?;
    ensure!(same, "{printed}");

    // the record asks for a label that the record's objects have; one that has it not is refused
    let text = fs::read_to_string(calls("team-label"))?;
    fs::write(
        calls("team-label"),
        text.replace("\"team\":\"red\"", "\"crew\":\"red\""),
    )?;
    let (same, printed) = replay("team-label", "team-label", &[])?;
    ensure!(!same, "{printed}");
    assert!(printed.contains("allowed: false"), "{printed}");
    assert!(printed.contains("went otherwise"), "{printed}");
    let (same, printed) = replay("welcome", "team-label", &[])?;
    ensure!(!same, "{printed}");
    assert!(printed.contains("has no plugin welcome"), "{printed}");
    Ok(())
}
