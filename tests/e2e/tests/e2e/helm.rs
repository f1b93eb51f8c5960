//! helm installs, upgrades, rolls back and uninstalls charts, with its defaults (server-side apply).

use anyhow::{Result, ensure};
use pilothouse_e2e::{Cluster, root};

fn chart(name: &str) -> String {
    let folder = root().join("tests/fixtures/charts").join(name);
    folder.display().to_string()
}

#[test]
fn a_chart_through_its_life() -> Result<()> {
    let cluster = Cluster::start()?;
    let chart = chart("web");
    let installed = cluster.helm(&format!("install shop {chart} --wait --timeout 60s"))?;
    ensure!(installed.contains("STATUS: deployed"), "{installed}");
    let image = "get deployment shop -o jsonpath={.spec.template.spec.containers[0].image}/{.spec.replicas}";
    assert_eq!(cluster.kubectl(image)?, "nginx:1.27/2");
    let newer = "--set image=nginx:1.28 --set replicas=3";
    cluster.helm(&format!(
        "upgrade shop {chart} {newer} --wait --timeout 60s"
    ))?;
    assert_eq!(cluster.kubectl(image)?, "nginx:1.28/3");
    cluster.helm("rollback shop 1 --wait --timeout 60s")?;
    assert_eq!(cluster.kubectl(image)?, "nginx:1.27/2");
    ensure!(cluster.helm("list")?.contains("shop"));
    cluster.helm("uninstall shop --wait --timeout 60s")?;
    assert_eq!(cluster.kubectl("get deployments -o name")?, "");
    Ok(())
}

#[test]
fn a_chart_with_hooks_and_a_kind_that_comes_and_goes() -> Result<()> {
    let cluster = Cluster::start()?;
    let chart = chart("database");
    cluster.helm(&format!("install db {chart}"))?;
    let hook = "get configmap db-installed -o jsonpath={.data.storage}";
    assert_eq!(cluster.kubectl(hook)?, "1Gi");
    let of = "get statefulset db -o jsonpath={.spec.replicas}/{.spec.podManagementPolicy}/{.spec.volumeClaimTemplates[0].spec.volumeMode}";
    assert_eq!(cluster.kubectl(of)?, "3/Parallel/Filesystem");
    let secret = "get secret db -o jsonpath={.data.PASSWORD}";
    assert_eq!(cluster.kubectl(secret)?, "Y2hhbmdlaXQ=");

    cluster.helm(&format!(
        "upgrade db {chart} --set budget.enabled=false --set replicas=5"
    ))?;
    assert_eq!(cluster.kubectl("get poddisruptionbudgets -o name")?, "");
    assert_eq!(cluster.kubectl(of)?, "5/Parallel/Filesystem");
    // storage of an existing StatefulSet cannot change: the release fails, what was there stays
    let refused = cluster.try_helm(&format!("upgrade db {chart} --set storage=2Gi"))?;
    let refused = refused.refused()?;
    ensure!(
        refused.contains("updates to statefulset spec for fields other than"),
        "{refused}"
    );
    cluster.helm("rollback db 1")?;
    assert_eq!(cluster.kubectl(of)?, "3/Parallel/Filesystem");
    let budget = "get poddisruptionbudget db -o jsonpath={.spec.maxUnavailable}";
    assert_eq!(cluster.kubectl(budget)?, "1");
    let history = cluster.helm("history db")?;
    ensure!(history.contains("failed"), "{history}");
    cluster.helm("uninstall db")?;
    assert_eq!(
        cluster.kubectl("get statefulsets,poddisruptionbudgets,secrets -o name")?,
        ""
    );
    Ok(())
}

#[test]
fn a_chart_of_many_kinds() -> Result<()> {
    let cluster = Cluster::start()?;
    let chart = chart("platform");
    cluster.helm(&format!(
        "install teams {chart} --namespace blue --create-namespace"
    ))?;
    let kinds = "resourcequotas,limitranges,roles,rolebindings,networkpolicies,ingresses,horizontalpodautoscalers";
    let names = cluster.kubectl(&format!("-n blue get {kinds} -o name"))?;
    assert_eq!(names.lines().count(), 7, "{names}");
    cluster.helm(&format!(
        "upgrade teams {chart} --namespace blue --set maxReplicas=9 --reuse-values"
    ))?;
    let most = "-n blue get hpa blue -o jsonpath={.spec.maxReplicas}/{.spec.metrics[0].resource.target.averageUtilization}";
    assert_eq!(cluster.kubectl(most)?, "9/70");
    cluster.helm("rollback teams 1 --namespace blue")?;
    assert_eq!(cluster.kubectl(most)?, "4/70");
    let manifest = cluster.helm("get manifest teams --namespace blue")?;
    ensure!(manifest.contains("kind: NetworkPolicy"), "{manifest}");
    cluster.helm("uninstall teams --namespace blue")?;
    assert_eq!(
        cluster.kubectl(&format!("-n blue get {kinds} -o name"))?,
        ""
    );
    assert_eq!(
        cluster.kubectl("get clusterroles teams-viewer --ignore-not-found -o name")?,
        ""
    );
    Ok(())
}
