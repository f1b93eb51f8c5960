//! The subresources that only pods have.

use serde_json::json;

use crate::harness::{Api, PODS, pod};

#[tokio::test]
async fn a_binding_assigns_once() {
    let api = Api::start().await;
    let created = api.post(PODS, pod("p")).await.expect(201);
    assert_eq!(created["status"]["phase"], "Pending");
    let path = format!("{PODS}/p/binding");
    let binding = |node: &str| {
        json!({
            "apiVersion": "v1", "kind": "Binding",
            "metadata": { "name": "p", "annotations": { "a": "b" } },
            "target": { "kind": "Node", "name": node },
        })
    };
    api.post(&path, binding(""))
        .await
        .refused(422, "Invalid", "target.name");
    let mut other = binding("node-0");
    other["metadata"]["uid"] = json!("other");
    api.post(&path, other).await.refused(409, "Conflict", "UID");
    let mut other = binding("node-0");
    other["metadata"]["name"] = json!("q");
    api.post(&path, other)
        .await
        .refused(400, "BadRequest", "name in URL");

    let answer = api.post(&path, binding("node-0")).await.expect(201);
    assert_eq!(
        (&answer["kind"], &answer["status"]),
        (&json!("Status"), &json!("Success"))
    );
    let bound = api.get(&format!("{PODS}/p")).await.expect(200);
    assert_eq!(
        (
            &bound["spec"]["nodeName"],
            &bound["metadata"]["annotations"]["a"]
        ),
        (&json!("node-0"), &json!("b"))
    );
    let conditions = bound["status"]["conditions"].as_array().unwrap();
    assert!(
        conditions
            .iter()
            .any(|c| c["type"] == "PodScheduled" && c["status"] == "True")
    );
    let again = api
        .post("/api/v1/namespaces/default/bindings", binding("node-1"))
        .await;
    again.refused(409, "Conflict", "already assigned to node \"node-0\"");
    api.post(
        &format!("{PODS}/none/binding"),
        json!({ "target": { "name": "n" } }),
    )
    .await
    .refused(404, "NotFound", "");
}

#[tokio::test]
async fn an_eviction_deletes() {
    let api = Api::start().await;
    for name in ["p", "q"] {
        let mut scheduled = pod(name);
        scheduled["spec"]["nodeName"] = json!("node-0");
        api.post(PODS, scheduled).await.expect(201);
    }
    let eviction =
        json!({ "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": "p" } });
    let answer = api
        .post(&format!("{PODS}/p/eviction"), eviction)
        .await
        .expect(201);
    assert_eq!(answer["status"], "Success");
    let evicted = api.get(&format!("{PODS}/p")).await.expect(200);
    assert_eq!(evicted["metadata"]["deletionGracePeriodSeconds"], 30);
    let at_once =
        json!({ "metadata": { "name": "q" }, "deleteOptions": { "gracePeriodSeconds": 0 } });
    api.post(&format!("{PODS}/q/eviction"), at_once)
        .await
        .expect(201);
    assert_eq!(api.get(&format!("{PODS}/q")).await.code, 404);
}

const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

fn budget(name: &str) -> serde_json::Value {
    json!({
        "metadata": { "name": name },
        "spec": { "minAvailable": 1, "selector": { "matchLabels": { "app": "web" } } },
    })
}

/// A pod of the app that runs, ready or not.
async fn running(api: &Api, name: &str, ready: &str) {
    let mut web = pod(name);
    web["metadata"]["labels"] = json!({ "app": "web" });
    web["spec"]["nodeName"] = json!("node-0");
    api.post(PODS, web).await.expect(201);
    let status = json!({ "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": ready }] } });
    api.patch(&format!("{PODS}/{name}/status"), "merge", status)
        .await
        .expect(200);
}

#[tokio::test]
async fn an_eviction_honours_the_pods_budget() {
    let api = Api::start().await;
    for name in ["a", "b"] {
        running(&api, name, "True").await;
    }
    running(&api, "sick", "False").await;
    let created = api.post(BUDGETS, budget("web")).await.expect(201);
    assert_eq!(created["metadata"]["generation"], 1);
    let evict = async |name: &str| {
        let eviction = json!({ "metadata": { "name": name } });
        api.post(&format!("{PODS}/{name}/eviction"), eviction).await
    };
    let cause = |status: serde_json::Value| {
        let cause = &status["details"]["causes"][0];
        assert_eq!(cause["reason"], "DisruptionBudget");
        cause["message"].as_str().unwrap().to_owned()
    };
    let answer = evict("a").await;
    assert_eq!(answer.header("retry-after"), "10");
    let refused = answer.refused(429, "TooManyRequests", "disruption budget");
    assert_eq!(
        cause(refused),
        "The disruption budget web is still being processed by the server."
    );

    let judged = |allowed: i32| {
        json!({ "status": {
            "observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 3,
        } })
    };
    let status = format!("{BUDGETS}/web/status");
    api.patch(&status, "merge", judged(1)).await.expect(200);
    let dry = json!({ "metadata": { "name": "a" }, "deleteOptions": { "dryRun": ["All"] } });
    api.post(&format!("{PODS}/a/eviction"), dry)
        .await
        .expect(201);
    let left = api.get(&format!("{BUDGETS}/web")).await.expect(200);
    assert_eq!(left["status"]["disruptionsAllowed"], 1);

    evict("sick").await.expect(201);
    let left = api.get(&format!("{BUDGETS}/web")).await.expect(200);
    assert_eq!(
        left["status"]["disruptionsAllowed"], 1,
        "a pod that counts for nothing costs nothing"
    );

    evict("a").await.expect(201);
    let evicted = api.get(&format!("{PODS}/a")).await.expect(200);
    assert!(evicted["metadata"]["deletionTimestamp"].is_string());
    let conditions = evicted["status"]["conditions"].as_array().unwrap();
    assert!(
        conditions
            .iter()
            .any(|c| c["type"] == "DisruptionTarget" && c["reason"] == "EvictionByEvictionAPI")
    );
    let spent = api.get(&format!("{BUDGETS}/web")).await.expect(200);
    assert_eq!(spent["status"]["disruptionsAllowed"], 0);
    assert!(spent["status"]["disruptedPods"]["a"].is_string());
    assert_eq!(spent["metadata"]["generation"], 1);

    let refused = evict("b")
        .await
        .refused(429, "TooManyRequests", "disruption budget");
    assert_eq!(
        cause(refused),
        "The disruption budget web needs 1 healthy pods and has 2 currently"
    );
    api.post(BUDGETS, budget("web-too")).await.expect(201);
    evict("b").await.refused(500, "", "more than one");
}

#[tokio::test]
async fn a_budget_is_not_overwritten_blindly() {
    let api = Api::start().await;
    api.post(BUDGETS, budget("web")).await.expect(201);
    let path = format!("{BUDGETS}/web");
    api.put(&path, budget("web"))
        .await
        .refused(422, "Invalid", "metadata.resourceVersion");
}

#[tokio::test]
async fn ephemeral_containers_come_and_stay() {
    let api = Api::start().await;
    running(&api, "p", "True").await;
    let path = format!("{PODS}/p/ephemeralcontainers");
    let add = async |container: serde_json::Value| {
        let patch = json!({ "spec": { "ephemeralContainers": [container], "nodeName": "other" } });
        api.patch(&path, "strategic-merge", patch).await
    };
    let before = api.get(&path).await.expect(200);
    let debugged =
        add(json!({ "name": "debug", "image": "busybox", "targetContainerName": "main" }))
            .await
            .expect(200);
    let container = &debugged["spec"]["ephemeralContainers"][0];
    assert_eq!(container["imagePullPolicy"], "Always");
    assert_eq!(
        debugged["spec"]["nodeName"], "node-0",
        "everything else stays as it was"
    );
    assert_eq!(
        debugged["metadata"]["generation"].as_i64(),
        before["metadata"]["generation"].as_i64().map(|g| g + 1)
    );
    for (container, message) in [
        (
            json!({ "name": "debug", "image": "other" }),
            "existing ephemeral containers \"debug\" may not be changed",
        ),
        (
            json!({ "name": "main", "image": "busybox" }),
            "spec.ephemeralContainers[0].name: Duplicate value: \"main\"",
        ),
        (
            json!({ "name": "x", "image": "busybox", "targetContainerName": "none" }),
            "spec.ephemeralContainers[0].targetContainerName: Not found: \"none\"",
        ),
        (
            json!({ "name": "x", "image": "busybox", "ports": [{ "containerPort": 80 }] }),
            "ports: Forbidden: cannot be set for an Ephemeral Container",
        ),
        (
            json!({ "name": "x" }),
            "spec.ephemeralContainers[0].image: Required value",
        ),
    ] {
        add(container).await.refused(422, "Invalid", message);
    }
    let none = json!([{ "op": "remove", "path": "/spec/ephemeralContainers" }]);
    api.patch(&path, "json", none).await.refused(
        422,
        "Invalid",
        "existing ephemeral containers \"debug\" may not be removed",
    );
    let through_the_pod = json!({ "spec": { "ephemeralContainers": null } });
    api.patch(&format!("{PODS}/p"), "merge", through_the_pod)
        .await
        .refused(422, "Invalid", "spec: Forbidden");
}

#[tokio::test]
async fn cpu_and_memory_of_running_pods_change_through_resize_only() {
    let api = Api::start().await;
    let mut sized = pod("p");
    sized["spec"]["containers"][0]["resources"] =
        json!({ "requests": { "cpu": "100m", "memory": "1Gi" }, "limits": { "memory": "2Gi" } });
    api.post(PODS, sized).await.expect(201);
    let resize = async |path: &str, resources: serde_json::Value| {
        let patch = json!({ "spec": { "containers": [{ "name": "main", "image": "other", "resources": resources }] } });
        api.patch(path, "strategic-merge", patch).await
    };
    let path = format!("{PODS}/p/resize");
    let resized = resize(&path, json!({ "requests": { "cpu": "200m" } }))
        .await
        .expect(200);
    let container = &resized["spec"]["containers"][0];
    assert_eq!(container["resources"]["requests"]["cpu"], "200m");
    assert_eq!(container["image"], "nginx", "only resources are taken");
    assert_eq!(resized["metadata"]["generation"], 2);
    for (resources, message) in [
        (
            json!({ "limits": { "memory": null } }),
            "spec.containers[0].resources.limits: Forbidden: resource limits cannot be removed",
        ),
        (
            json!({ "limits": { "cpu": "200m", "memory": "1Gi" } }),
            "Pod QOS Class may not change as a result of resizing",
        ),
        (
            json!({ "requests": { "ephemeral-storage": "1Gi" } }),
            "only cpu and memory resources are mutable",
        ),
        (
            json!({ "requests": { "cpu": "-1" } }),
            "spec.containers[0].resources.requests[cpu]: Invalid value: \"-1\": must be greater than or equal to 0",
        ),
    ] {
        resize(&path, resources)
            .await
            .refused(422, "Invalid", message);
    }
    let mut whole = pod("whole");
    whole["spec"]["resources"] = json!({ "requests": { "cpu": "1" }, "limits": { "cpu": "2" } });
    api.post(PODS, whole).await.expect(201);
    let patch =
        json!({ "spec": { "resources": { "requests": { "cpu": "1500m" } }, "nodeName": "n" } });
    let resized = api
        .patch(&format!("{PODS}/whole/resize"), "merge", patch)
        .await
        .expect(200);
    assert_eq!(
        resized["spec"]["resources"],
        json!({ "requests": { "cpu": "1500m" }, "limits": { "cpu": "2" } })
    );

    let main = format!("{PODS}/p");
    let patch = json!({ "spec": { "containers": [{ "name": "main", "resources": { "requests": { "cpu": "300m" } } }] } });
    api.patch(&main, "strategic-merge", patch).await.refused(
        422,
        "Invalid",
        "pod updates may not change fields other than",
    );
}

#[tokio::test]
async fn what_needs_a_kubelet_says_so() {
    let api = Api::start().await;
    running(&api, "p", "True").await;
    let mut two = pod("two");
    two["spec"]["containers"] = json!([
        { "name": "a", "image": "i" },
        { "name": "b", "image": "i" },
    ]);
    two["spec"]["initContainers"] = json!([{ "name": "first", "image": "i" }]);
    api.post(PODS, two).await.expect(201);
    let refusals = [
        (
            "GET",
            "p/log",
            501,
            "NotImplemented",
            "the kubelet of node \"node-0\"",
        ),
        (
            "POST",
            "p/exec?command=ls",
            501,
            "NotImplemented",
            "no connection",
        ),
        (
            "GET",
            "p/proxy/some/path",
            501,
            "NotImplemented",
            "no connection",
        ),
        (
            "GET",
            "p/log?container=x",
            400,
            "BadRequest",
            "container x is not valid for pod p",
        ),
        (
            "GET",
            "two/log",
            400,
            "BadRequest",
            "a container name must be specified for pod two, choose one of: [a b] or one of the init containers: [first]",
        ),
        (
            "GET",
            "two/log?container=first",
            400,
            "BadRequest",
            "pod two does not have a host assigned",
        ),
        (
            "GET",
            "none/log",
            404,
            "NotFound",
            "pods \"none\" not found",
        ),
        ("DELETE", "p/log", 405, "MethodNotAllowed", ""),
    ];
    for (method, path, code, reason, message) in refusals {
        let answer = api.send(method, &format!("{PODS}/{path}"), &[], "").await;
        answer.refused(code, reason, message);
    }
    let node = json!({ "metadata": { "name": "node-0" } });
    api.post("/api/v1/nodes", node).await.expect(201);
    api.get("/api/v1/nodes/node-0/proxy/metrics").await.refused(
        501,
        "NotImplemented",
        "the kubelet of node \"node-0\"",
    );
    api.get("/api/v1/namespaces/default/services/kubernetes/proxy/")
        .await
        .refused(501, "NotImplemented", "service \"kubernetes\"");
}

#[tokio::test]
async fn component_statuses_are_found_out() {
    let api = Api::start().await;
    let path = "/api/v1/componentstatuses";
    let answer = api.get(path).await;
    assert!(answer.header("warning").contains("deprecated"));
    let list = answer.expect(200);
    assert_eq!(list["items"].as_array().map(Vec::len), Some(1));
    let one = api.get(&format!("{path}/etcd-0")).await.expect(200);
    assert_eq!(
        one["conditions"],
        json!([{ "type": "Healthy", "status": "True", "message": "ok" }])
    );
    let lease = |seconds: i64| {
        json!({
            "metadata": { "name": "kube-scheduler", "namespace": "kube-system" },
            "spec": { "holderIdentity": "me", "leaseDurationSeconds": seconds, "renewTime": "2026-01-01T00:00:00.000000Z" },
        })
    };
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
    api.post(leases, lease(1)).await.expect(201);
    let table = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
    let shown = api.send("GET", path, &table, "").await.expect(200);
    assert_eq!(
        shown["rows"][1]["cells"],
        json!([
            "scheduler",
            "Unhealthy",
            "",
            "its leader has not renewed its lease"
        ])
    );
    let mut renewed = lease(i64::from(i32::MAX));
    let stored = api
        .get(&format!("{leases}/kube-scheduler"))
        .await
        .expect(200);
    renewed["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"].clone();
    api.put(&format!("{leases}/kube-scheduler"), renewed)
        .await
        .expect(200);
    let one = api.get(&format!("{path}/scheduler")).await.expect(200);
    assert_eq!(one["conditions"][0]["status"], "True");
    api.get(&format!("{path}/none")).await.refused(
        404,
        "NotFound",
        "componentstatuses \"none\" not found",
    );
    api.post(path, json!({}))
        .await
        .refused(405, "MethodNotAllowed", "");
}
