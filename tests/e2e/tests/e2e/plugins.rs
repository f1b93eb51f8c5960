//! Plugins dropped into a running control plane: live without a restart, swapped, removed, refused.

use anyhow::{Result, ensure};
use pilothouse_e2e::Cluster;

/// Waits until a plugin's object says that it is in a state.
fn wait_for_state(cluster: &Cluster, plugin: &str, state: &str) -> Result<()> {
    cluster.kubectl(&format!("wait plugin/{plugin} --for=create --timeout=30s"))?;
    cluster.kubectl(&format!(
        "wait plugin/{plugin} --for=jsonpath={{.status.state}}={state} --timeout=30s"
    ))?;
    Ok(())
}

fn wait_until_gone(cluster: &Cluster, plugin: &str) -> Result<()> {
    cluster.kubectl(&format!("wait plugin/{plugin} --for=delete --timeout=30s"))?;
    Ok(())
}

#[test]
fn the_built_in_plugins_are_listed() -> Result<()> {
    let cluster = Cluster::start()?;
    let shown = cluster.kubectl("get plugins -o wide")?;
    let header = shown.lines().next().unwrap_or_default();
    for column in [
        "NAME",
        "INTERFACES",
        "DIGEST",
        "STATE",
        "CALLS",
        "P50",
        "P99",
        "TRAPS",
    ] {
        ensure!(header.contains(column), "no column {column} in:\n{shown}");
    }
    for plugin in [
        "scheduler-defaults",
        "controller-deployment",
        "admission-service-account",
        "simulated-kubelet",
    ] {
        wait_for_state(&cluster, plugin, "Serving")?;
    }
    let listed = cluster.pilothouse("plugin list")?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    for text in [
        "scheduler-defaults",
        "pilothouse:scheduler/filter@0.1.0",
        "sha256:",
        "Serving",
    ] {
        ensure!(listed.contains(text), "{text:?} is missing in:\n{listed}");
    }
    Ok(())
}

#[test]
fn a_dropped_filter_decides_and_a_removed_one_does_not() -> Result<()> {
    let cluster = Cluster::start()?;
    cluster.kubectl("wait node --all --for=condition=Ready --timeout=60s")?;
    cluster.kubectl("label nodes --all quarantine=true")?;
    cluster.drop_plugin("quarantine", "quarantine.wasm")?;
    wait_for_state(&cluster, "quarantine", "Serving")?;

    cluster.kubectl("run held --image=nginx")?;
    cluster.kubectl(
        "wait pod/held --for=jsonpath={.status.conditions[0].reason}=Unschedulable --timeout=60s",
    )?;
    let message = cluster.kubectl("get pod held -o jsonpath={.status.conditions[0].message}")?;
    ensure!(
        message.starts_with("0/3 nodes are available: 3 node(s) were in quarantine."),
        "{message}"
    );

    cluster.kubectl("label node node-1 quarantine-")?;
    cluster.kubectl("wait pod/held --for=condition=Ready --timeout=60s")?;
    assert_eq!(
        cluster.kubectl("get pod held -o jsonpath={.spec.nodeName}")?,
        "node-1"
    );

    cluster.kubectl("label node node-1 quarantine=true")?;
    std::fs::remove_file(cluster.data_dir().join("plugins/quarantine.wasm"))?;
    wait_until_gone(&cluster, "quarantine")?;
    cluster.kubectl("run free --image=nginx")?;
    cluster.kubectl("wait pod/free --for=condition=Ready --timeout=60s")?;
    Ok(())
}

#[test]
fn a_dropped_admission_plugin_judges_and_a_broken_file_leaves_it_serving() -> Result<()> {
    let cluster = Cluster::start()?;
    cluster.kubectl("create configmap before --from-literal=a=1")?;
    cluster.drop_plugin("team-label", "team-label.wasm")?;
    wait_for_state(&cluster, "team-label", "Serving")?;
    let refused = cluster
        .try_kubectl("create configmap without --from-literal=a=1")?
        .refused()?;
    ensure!(
        refused.contains("the label \"team\" is missing"),
        "{refused}"
    );

    std::fs::write(
        cluster.data_dir().join("plugins/team-label.wasm"),
        b"\0asm this is no component",
    )?;
    cluster.kubectl("wait plugin/team-label --for=condition=Degraded --timeout=30s")?;
    let why = cluster.kubectl(
        "get plugin team-label -o jsonpath={.status.conditions[?(@.type=='Degraded')].message}",
    )?;
    ensure!(why.contains("component"), "{why}");
    cluster
        .try_kubectl("create configmap without --from-literal=a=1")?
        .refused()?;

    cluster.drop_plugin("team-label", "team-label.wasm")?;
    cluster.kubectl("wait plugin/team-label --for=condition=Degraded=false --timeout=30s")?;
    let configured = r#"{"spec":{"config":{"defaultTeam":"payments"}}}"#;
    cluster.kubectl_words(&[
        "patch",
        "plugin",
        "team-label",
        "--type=merge",
        "-p",
        configured,
    ])?;
    cluster.kubectl(
        "wait plugin/team-label --for=jsonpath={.status.observedGeneration}=2 --timeout=30s",
    )?;
    cluster.kubectl("create configmap with-default --from-literal=a=1")?;
    assert_eq!(
        cluster.kubectl("get configmap with-default -o jsonpath={.metadata.labels.team}")?,
        "payments"
    );

    std::fs::remove_file(cluster.data_dir().join("plugins/team-label.wasm"))?;
    wait_until_gone(&cluster, "team-label")?;
    cluster.kubectl("create configmap after --from-literal=a=1")?;
    assert_eq!(
        cluster.kubectl("get configmap after -o jsonpath={.metadata.labels}")?,
        ""
    );
    Ok(())
}

#[test]
fn a_plugin_goes_back_to_its_last_version_and_can_be_disabled() -> Result<()> {
    let cluster = Cluster::start()?;
    cluster.drop_plugin("require-owner", "policy.wasm")?;
    wait_for_state(&cluster, "policy", "Serving")?;
    let first = cluster.kubectl("get plugin policy -o jsonpath={.status.digest}")?;
    cluster.drop_plugin("team-label", "policy.wasm")?;
    cluster.kubectl(&format!(
        "wait plugin/policy --for=jsonpath={{.status.previousRevision}}={first} --timeout=30s"
    ))?;
    let history = cluster.pilothouse("plugin history policy")?;
    let history = String::from_utf8_lossy(&history.stdout).into_owned();
    ensure!(
        history.lines().count() == 3 && history.contains(&first),
        "{history}"
    );

    ensure!(
        cluster
            .pilothouse("plugin rollback policy")?
            .status
            .success()
    );
    cluster.kubectl(&format!(
        "wait plugin/policy --for=jsonpath={{.status.digest}}={first} --timeout=30s"
    ))?;
    let kept = cluster.kubectl("get plugin policy -o jsonpath={.status.history[0]}")?;
    ensure!(kept == first, "{kept}");

    let create = "create configmap unowned --from-literal=a=1";
    cluster.drop_plugin("team-label", "policy.wasm")?;
    cluster.kubectl(&format!(
        "wait plugin/policy --for=jsonpath={{.status.previousRevision}}={first} --timeout=30s"
    ))?;
    cluster.try_kubectl(create)?.refused()?;
    ensure!(
        cluster
            .pilothouse("plugin disable policy")?
            .status
            .success()
    );
    wait_for_state(&cluster, "policy", "Disabled")?;
    cluster.kubectl(create)?;
    ensure!(cluster.pilothouse("plugin enable policy")?.status.success());
    wait_for_state(&cluster, "policy", "Serving")?;

    std::fs::write(cluster.data_dir().join("plugins/policy.wasm"), "no plugin")?;
    wait_for_state(&cluster, "policy", "Degraded")?;
    let metrics = cluster.kubectl("get --raw /metrics")?;
    for shown in [
        "pilothouse_plugin_state{component=\"policy\",state=\"Degraded\"} 1",
        "pilothouse_plugin_calls_total{component=\"policy\"} ",
        "workqueue_depth{name=\"",
    ] {
        ensure!(
            metrics.contains(shown),
            "{shown:?} is missing in:\n{metrics}"
        );
    }
    let told = "get events --field-selector involvedObject.name=policy,reason=Degraded -o name";
    let mut asked = 0..200; // events are written behind
    ensure!(
        asked.any(|_| cluster.kubectl(told).is_ok_and(|found| !found.is_empty())),
        "no event says that the plugin is degraded"
    );
    Ok(())
}

#[test]
fn match_rules_narrow_a_plugin_to_namespaces() -> Result<()> {
    let cluster = Cluster::start()?;
    cluster.kubectl("create namespace strict")?;
    cluster.kubectl("label namespace strict policy=strict")?;
    cluster.drop_plugin("team-label", "team-label.wasm")?;
    wait_for_state(&cluster, "team-label", "Serving")?;
    let create = "create configmap unowned --from-literal=a=1";
    cluster.try_kubectl(create)?.refused()?;

    let narrowed =
        r#"{"spec":{"matchRules":{"namespaceSelector":{"matchLabels":{"policy":"strict"}}}}}"#;
    cluster.kubectl_words(&[
        "patch",
        "plugin",
        "team-label",
        "--type=merge",
        "-p",
        narrowed,
    ])?;
    cluster.kubectl(
        "wait plugin/team-label --for=jsonpath={.status.observedGeneration}=2 --timeout=30s",
    )?;
    cluster.kubectl(create)?;
    cluster
        .try_kubectl(&format!("-n strict {create}"))?
        .refused()?;
    Ok(())
}

#[test]
fn what_is_exempt_reaches_no_plugin_and_a_broken_file_at_a_start_leaves_the_last_version_serving()
-> Result<()> {
    let mut cluster = Cluster::start()?;
    cluster.drop_plugin("team-label", "team-label.wasm")?;
    wait_for_state(&cluster, "team-label", "Serving")?;
    let create = "create configmap unowned --from-literal=a=1";
    cluster.try_kubectl(create)?.refused()?;
    cluster.kubectl(&format!("-n kube-system {create}"))?;

    cluster.process.kill()?;
    let file = cluster.data_dir().join("plugins/team-label.wasm");
    std::fs::write(file, "half a fi")?;
    cluster.restart()?;
    cluster.try_kubectl(create)?.refused()?;
    wait_for_state(&cluster, "team-label", "Degraded")?;

    cluster.restart_with(vec!["--plugin-exempt-resources=configmaps".to_owned()])?;
    cluster.kubectl(create)?;
    Ok(())
}

#[test]
fn plugins_dropped_one_upon_the_other_all_stay() -> Result<()> {
    let cluster = Cluster::start()?;
    let names: Vec<String> = (0..12).map(|n| format!("owner-{n}")).collect();
    for name in &names {
        cluster.drop_plugin("require-owner", &format!("{name}.wasm"))?;
    }
    for name in &names {
        wait_for_state(&cluster, name, "Serving")?;
        let file = cluster.data_dir().join(format!("plugins/{name}.wasm"));
        ensure!(file.exists(), "{} was removed", file.display());
    }
    Ok(())
}

#[test]
fn plugin_test_runs_the_contract_of_a_file() -> Result<()> {
    let cluster = Cluster::start()?;
    let report = |component: &str, config: &str| -> Result<(bool, String)> {
        let file = pilothouse_e2e::component(component)?;
        let line = format!("plugin test {} --plugin-config {config}", file.display());
        let output = cluster.pilothouse(&line)?;
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok((output.status.success(), printed))
    };
    let (passed, printed) = report("require-owner", "{}")?;
    ensure!(passed, "{printed}");
    ensure!(
        printed.contains("ok       admission: no-trap-on-hostile-input"),
        "{printed}"
    );
    let (passed, printed) = report("bad-admission", r#"{"behaviour":"append"}"#)?;
    ensure!(!passed, "{printed}");
    ensure!(
        printed.contains("BROKEN   admission: mutation-is-idempotent"),
        "{printed}"
    );
    Ok(())
}

#[test]
fn a_dropped_controller_works_on_what_is_there_and_what_comes() -> Result<()> {
    let cluster = Cluster::start()?;
    cluster.kubectl("create namespace early")?;
    cluster.kubectl("label namespace early welcome=true")?;
    cluster.drop_plugin("welcome", "welcome.wasm")?;
    wait_for_state(&cluster, "welcome", "Serving")?;
    cluster.kubectl("-n early wait configmap/welcome --for=create --timeout=30s")?;
    cluster.kubectl_with_input("create -f -", LATE)?.ok()?;
    cluster.kubectl("-n late wait configmap/welcome --for=create --timeout=30s")?;
    cluster.kubectl("-n late delete configmap welcome")?;
    cluster.kubectl("-n late wait configmap/welcome --for=create --timeout=30s")?;
    let text = cluster.kubectl("-n late get configmap welcome -o jsonpath={.data.text}")?;
    assert_eq!(text, "welcome to late");
    Ok(())
}

const LATE: &str = r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"late","labels":{"welcome":"true"}}}"#;

#[test]
fn what_is_no_plugin_is_refused_in_one_sentence() -> Result<()> {
    let cluster = Cluster::start()?;
    std::fs::write(cluster.data_dir().join("plugins/text.wasm"), "hello")?;
    cluster.kubectl("wait plugin/text --for=create --timeout=30s")?;
    cluster.kubectl("wait plugin/text --for=condition=Ready=false --timeout=30s")?;
    let why = cluster
        .kubectl("get plugin text -o jsonpath={.status.conditions[?(@.type=='Ready')].message}")?;
    ensure!(why.contains("WebAssembly component"), "{why}");
    assert_eq!(cluster.kubectl("get --raw /readyz")?, "ok");
    Ok(())
}
