//! Plugins that prove themselves before they act: shadow mode, candidates with and without weight, promotion.

use anyhow::{Result, ensure};
use pilothouse_e2e::{Cluster, component};

const WAIT: &str = "--timeout=30s";

fn patch(cluster: &Cluster, plugin: &str, spec: &str) -> Result<()> {
    let patch = format!("{{\"spec\":{spec}}}");
    cluster.kubectl_words(&["patch", "plugin", plugin, "--type=merge", "-p", &patch])?;
    Ok(())
}

fn wait_for(cluster: &Cluster, plugin: &str, field: &str, value: &str) -> Result<()> {
    cluster.kubectl(&format!("wait plugin/{plugin} --for=create {WAIT}"))?;
    cluster.kubectl(&format!(
        "wait plugin/{plugin} --for=jsonpath={{.status.{field}}}={value} {WAIT}"
    ))?;
    Ok(())
}

/// Puts a built component where candidates are.
fn candidate(cluster: &Cluster, crate_name: &str, file: &str) -> Result<()> {
    let dir = cluster.data_dir().join("plugins/candidates");
    std::fs::create_dir_all(&dir)?;
    std::fs::copy(component(crate_name)?, dir.join(file))?;
    Ok(())
}

#[test]
fn a_plugin_in_shadow_refuses_nothing_also_after_a_restart_and_tells_what_it_would_have_refused()
-> Result<()> {
    let mut cluster = Cluster::start()?;
    cluster.drop_plugin("team-label", "team-label.wasm")?;
    wait_for(&cluster, "team-label", "state", "Serving")?;
    let create = |name: &str| format!("create configmap {name} --from-literal=a=1");
    cluster.try_kubectl(&create("first"))?.refused()?;
    patch(&cluster, "team-label", r#"{"mode":"Shadow"}"#)?;
    wait_for(&cluster, "team-label", "state", "Shadow")?;
    cluster.kubectl(&create("first"))?;
    cluster.kubectl_words(&[
        "wait",
        "plugin/team-label",
        "--for=jsonpath={.status.shadow.samples[?(@.about=='CREATE configmaps default/first')].kind}=decision",
        WAIT,
    ])?;
    let told = cluster.kubectl_words(&[
        "get",
        "plugin",
        "team-label",
        "-o",
        "jsonpath={.status.shadow.samples[?(@.about=='CREATE configmaps default/first')].shadow}",
    ])?;
    ensure!(told.contains("the label \"team\" is missing"), "{told}");
    let metrics = cluster.kubectl("get --raw /metrics")?;
    let shown =
        "pilothouse_plugin_shadow_differences_total{component=\"team-label\",kind=\"decision\"} ";
    ensure!(
        metrics.contains(shown),
        "{shown:?} is missing in:\n{metrics}"
    );

    cluster.process.kill()?;
    cluster.restart()?;
    cluster.kubectl(&create("second"))?;
    Ok(())
}

#[test]
fn a_candidate_is_compared_then_decides_a_share_then_takes_the_place() -> Result<()> {
    let cluster = Cluster::start()?;
    cluster.drop_plugin("team-label", "policy.wasm")?;
    wait_for(&cluster, "policy", "state", "Serving")?;
    patch(
        &cluster,
        "policy",
        r#"{"config":{"defaultTeam":"payments"}}"#,
    )?;
    wait_for(&cluster, "policy", "observedGeneration", "2")?;

    let wrong = cluster.kubectl_words(&[
        "patch",
        "plugin",
        "policy",
        "--type=merge",
        "-p",
        r#"{"spec":{"candidate":{"source":{"path":"next.wasm"},"weight":101}}}"#,
    ]);
    let why = wrong
        .err()
        .map(|error| format!("{error:#}"))
        .unwrap_or_default();
    ensure!(why.contains("must be in a subdirectory"), "{why}");
    ensure!(
        why.contains("must be between 0 and 100, inclusive"),
        "{why}"
    );

    candidate(&cluster, "team-label", "next.wasm")?;
    let spec = |weight| {
        format!(
            r#"{{"candidate":{{"source":{{"path":"candidates/next.wasm"}},"config":{{"defaultTeam":"search"}},"weight":{weight}}}}}"#
        )
    };
    patch(&cluster, "policy", &spec(0))?;
    wait_for(&cluster, "policy", "candidate.state", "Shadow")?;
    let team = |name: &str| -> Result<String> {
        cluster.kubectl(&format!("create configmap {name} --from-literal=a=1"))?;
        cluster.kubectl(&format!(
            "get configmap {name} -o jsonpath={{.metadata.labels.team}}"
        ))
    };
    assert_eq!(team("shadowed")?, "payments");
    cluster.kubectl_words(&[
        "wait",
        "plugin/policy",
        "--for=jsonpath={.status.shadow.samples[?(@.about=='CREATE configmaps default/shadowed')].kind}=object",
        WAIT,
    ])?;

    patch(&cluster, "policy", &spec(100))?;
    wait_for(&cluster, "policy", "candidate.state", "Weighted")?;
    assert_eq!(team("weighted")?, "search");

    ensure!(
        cluster
            .pilothouse("plugin promote policy")?
            .status
            .success()
    );
    cluster.kubectl(&format!(
        "wait plugin/policy --for=jsonpath={{.spec.config.defaultTeam}}=search {WAIT}"
    ))?;
    wait_for(&cluster, "policy", "observedGeneration", "5")?;
    let left =
        cluster.kubectl("get plugin policy -o jsonpath={.status.candidate}{.spec.candidate}")?;
    assert_eq!(left, "");
    assert_eq!(team("promoted")?, "search");
    Ok(())
}

#[test]
fn a_candidate_that_traps_is_withdrawn_and_no_request_fails() -> Result<()> {
    let cluster = Cluster::start()?;
    cluster.drop_plugin("bad-admission", "judge.wasm")?;
    wait_for(&cluster, "judge", "state", "Serving")?;
    candidate(&cluster, "bad-admission", "next.wasm")?;
    patch(
        &cluster,
        "judge",
        r#"{"rollback":{"failures":3,"withinSeconds":60},
            "candidate":{"source":{"path":"candidates/next.wasm"},"config":{"behaviour":"trap-by-name"},"weight":100}}"#,
    )?;
    wait_for(&cluster, "judge", "candidate.state", "Weighted")?;
    for n in 0..4 {
        cluster.kubectl(&format!("run trap-{n} --image=nginx"))?;
    }
    wait_for(&cluster, "judge", "candidate.state", "Withdrawn")?;
    wait_for(&cluster, "judge", "candidate.traps", "3")?;
    wait_for(&cluster, "judge", "state", "Serving")?;
    let told =
        "get events --field-selector involvedObject.name=judge,reason=CandidateWithdrawn -o name";
    let mut asked = 0..200; // events are written behind
    ensure!(
        asked.any(|_| cluster.kubectl(told).is_ok_and(|found| !found.is_empty())),
        "no event says that the candidate was withdrawn"
    );
    Ok(())
}
