use serde_json::{Value, json};

use super::base;
use crate::registry::kinds::{
    pod::PodStrategy,
    testing::{create_errors, with},
};

/// A field, its value, and what is said of it.
type Cases = Vec<(&'static str, Value, Vec<&'static str>)>;

pub(super) fn check(cases: Cases) {
    for (pointer, value, expected) in cases {
        let pod = with(&base(), &[(pointer, value.clone())]);
        assert_eq!(
            create_errors(&PodStrategy, &pod),
            expected,
            "{pointer} {value}"
        );
    }
}

const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";

#[test]
fn containers() {
    let container = |name: &str| json!({"name": name, "image": "i"});
    check(vec![
        (
            "/spec/containers",
            json!([]),
            vec!["spec.containers: Required value"],
        ),
        (
            "/spec/containers/0/name",
            json!(""),
            vec!["spec.containers[0].name: Required value"],
        ),
        (
            "/spec/containers/0/image",
            json!(null),
            vec!["spec.containers[0].image: Required value"],
        ),
        (
            "/spec/containers/0/image",
            json!(" nginx"),
            vec![
                "spec.containers[0].image: Invalid value: \" nginx\": must not have leading or trailing whitespace",
            ],
        ),
        (
            "/spec/containers/-",
            container("nginx"),
            vec!["spec.containers[1].name: Duplicate value: \"nginx\""],
        ),
        (
            "/spec/initContainers",
            json!([container("nginx")]),
            vec!["spec.initContainers[0].name: Duplicate value: \"nginx\""],
        ),
        (
            "/spec/containers/0/imagePullPolicy",
            json!("Sometimes"),
            vec![
                "spec.containers[0].imagePullPolicy: Unsupported value: \"Sometimes\": supported values: \"Always\", \"IfNotPresent\", \"Never\"",
            ],
        ),
        (
            "/spec/containers/0/terminationMessagePolicy",
            json!("x"),
            vec![
                "spec.containers[0].terminationMessagePolicy: Unsupported value: \"x\": supported values: \"FallbackToLogsOnError\", \"File\"",
            ],
        ),
        (
            "/spec/ephemeralContainers",
            json!([container("e")]),
            vec!["spec.ephemeralContainers: Forbidden: cannot be set on create"],
        ),
    ]);
    let named = with(&base(), &[("/spec/containers/0/name", json!("Nginx"))]);
    assert_eq!(
        create_errors(&PodStrategy, &named),
        [format!(
            "spec.containers[0].name: Invalid value: \"Nginx\": {LABEL}"
        )]
    );
}

#[test]
fn ports() {
    let port = |extra: Value| {
        with(
            &json!([{"containerPort": 80}]),
            &[(
                "/0",
                with(
                    &json!({"containerPort": 80}),
                    &extra
                        .as_object()
                        .into_iter()
                        .flatten()
                        .map(|(k, v)| (k.as_str(), v.clone()))
                        .collect::<Vec<_>>(),
                ),
            )],
        )
    };
    let at = "/spec/containers/0/ports";
    check(vec![
        (
            at,
            port(json!({"containerPort": 0})),
            vec!["spec.containers[0].ports[0].containerPort: Required value"],
        ),
        (
            at,
            port(json!({"containerPort": 65536})),
            vec![
                "spec.containers[0].ports[0].containerPort: Invalid value: 65536: must be between 1 and 65535, inclusive",
            ],
        ),
        (
            at,
            port(json!({"hostPort": -1})),
            vec![
                "spec.containers[0].ports[0].hostPort: Invalid value: -1: must be between 1 and 65535, inclusive",
            ],
        ),
        (
            at,
            port(json!({"protocol": "tcp"})),
            vec![
                "spec.containers[0].ports[0].protocol: Unsupported value: \"tcp\": supported values: \"SCTP\", \"TCP\", \"UDP\"",
            ],
        ),
        (
            at,
            port(json!({"name": "much-too-long-a-name"})),
            vec![
                "spec.containers[0].ports[0].name: Invalid value: \"much-too-long-a-name\": must be no more than 15 characters",
            ],
        ),
        (
            at,
            json!([{"name": "http", "containerPort": 80}, {"name": "http", "containerPort": 81}]),
            vec!["spec.containers[0].ports[1].name: Duplicate value: \"http\""],
        ),
        (
            "/spec/containers",
            json!([
                {"name": "a", "image": "i", "ports": [{"containerPort": 80, "hostPort": 8080}]},
                {"name": "b", "image": "i", "ports": [{"containerPort": 81, "hostPort": 8080}, {"containerPort": 82, "hostPort": 8080, "protocol": "UDP"}]},
            ]),
            vec!["spec.containers[1].ports[0].hostPort: Duplicate value: \"TCP//8080\""],
        ),
    ]);
    let network = with(
        &base(),
        &[
            ("/spec/hostNetwork", json!(true)),
            (at, json!([{"containerPort": 80, "hostPort": 81}])),
        ],
    );
    assert_eq!(
        create_errors(&PodStrategy, &network),
        [
            "spec.containers[0].ports[0].hostPort: Invalid value: 81: must match `containerPort` when `hostNetwork` is true"
        ]
    );
}

#[test]
fn environment() {
    let from = |source: Value| json!([{"name": "A", "valueFrom": source}]);
    let at = "/spec/containers/0/env";
    check(vec![
        (
            at,
            json!([{"name": ""}]),
            vec!["spec.containers[0].env[0].name: Required value"],
        ),
        (at, json!([{"name": "1.ok-now"}]), vec![]),
        (
            at,
            json!([{"name": "a=b"}]),
            vec![
                "spec.containers[0].env[0].name: Invalid value: \"a=b\": a valid environment variable name must consist only of printable ASCII characters other than '='",
            ],
        ),
        (
            at,
            json!([{"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]),
            vec![
                "spec.containers[0].env[0].valueFrom: Invalid value: \"\": may not be specified when `value` is not empty",
            ],
        ),
        (
            at,
            from(json!({"fieldRef": {"fieldPath": "metadata.labels['app']"}})),
            vec![],
        ),
        (
            at,
            from(json!({"fieldRef": {"fieldPath": "metadata.nonsense"}})),
            vec![
                "spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Invalid value: \"metadata.nonsense\": error converting fieldPath: field label not supported: metadata.nonsense",
            ],
        ),
        (
            at,
            from(json!({"fieldRef": {"fieldPath": "metadata.labels"}})),
            vec![
                "spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Unsupported value: \"metadata.labels\": supported values: \"metadata.name\", \"metadata.namespace\", \"metadata.uid\", \"spec.nodeName\", \"spec.serviceAccountName\", \"status.hostIP\", \"status.hostIPs\", \"status.podIP\", \"status.podIPs\"",
            ],
        ),
        (
            at,
            from(json!({"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}})),
            vec![],
        ),
        (
            at,
            from(json!({"resourceFieldRef": {"resource": "limits.cpu", "divisor": "2m"}})),
            vec![
                "spec.containers[0].env[0].valueFrom.resourceFieldRef.divisor: Invalid value: \"limits.cpu\": only divisor's values 1m and 1 are supported with the cpu resource",
            ],
        ),
        (
            at,
            from(json!({"secretKeyRef": {"name": "s", "key": ""}})),
            vec!["spec.containers[0].env[0].valueFrom.secretKeyRef.key: Required value"],
        ),
        (
            at,
            from(
                json!({"configMapKeyRef": {"name": "c", "key": "k"}, "secretKeyRef": {"name": "s", "key": "k"}}),
            ),
            vec![
                "spec.containers[0].env[0].valueFrom: Invalid value: \"\": may not have more than one field specified at a time",
            ],
        ),
        (
            "/spec/containers/0/envFrom",
            json!([{}]),
            vec![
                "spec.containers[0].envFrom: Invalid value: \"\": must specify one of: `configMapRef` or `secretRef`",
            ],
        ),
        (
            "/spec/containers/0/envFrom",
            json!([{"prefix": "X_", "secretRef": {"name": "s"}}]),
            vec![],
        ),
    ]);
}

#[test]
fn volumes_and_mounts() {
    let volumes = "/spec/volumes";
    check(vec![
        (
            volumes,
            json!([{"name": "v"}, {"name": "v"}]),
            vec!["spec.volumes[1].name: Duplicate value: \"v\""],
        ),
        (
            volumes,
            json!([{"name": ""}]),
            vec!["spec.volumes[0].name: Required value"],
        ),
        (
            volumes,
            json!([{"name": "v", "emptyDir": {}, "secret": {"secretName": "s"}}]),
            vec!["spec.volumes[0].secret: Forbidden: may not specify more than 1 volume type"],
        ),
        (
            volumes,
            json!([{"name": "v", "secret": {}}]),
            vec!["spec.volumes[0].secret.secretName: Required value"],
        ),
        (
            volumes,
            json!([{"name": "v", "secret": {"secretName": "s", "defaultMode": 512}}]),
            vec![
                "spec.volumes[0].secret.defaultMode: Invalid value: 512: must be a number between 0 and 0777 (octal), both inclusive",
            ],
        ),
        (
            volumes,
            json!([{"name": "v", "configMap": {"name": "c", "items": [{"key": "k", "path": "../x"}]}}]),
            vec![
                "spec.volumes[0].configMap.items[0].path: Invalid value: \"../x\": must not contain '..'",
            ],
        ),
        (
            volumes,
            json!([{"name": "v", "hostPath": {"path": "/a/../b"}}]),
            vec![
                "spec.volumes[0].hostPath.path: Invalid value: \"/a/../b\": must not contain '..'",
            ],
        ),
        (
            volumes,
            json!([{"name": "v", "nfs": {"server": "s", "path": "x"}}]),
            vec!["spec.volumes[0].nfs.path: Invalid value: \"x\": must be an absolute path"],
        ),
        (
            volumes,
            json!([{"name": "v", "projected": {"sources": [{"secret": {"name": "a", "items": [{"key": "k", "path": "p"}]}}, {"configMap": {"name": "b", "items": [{"key": "k", "path": "p"}]}}]}}]),
            vec!["spec.volumes[0].projected: Invalid value: \"b\": conflicting duplicate paths"],
        ),
        (
            volumes,
            json!([{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "token", "expirationSeconds": 60}}]}}]),
            vec![
                "spec.volumes[0].projected.sources[0].serviceAccountToken.expirationSeconds: Invalid value: 60: may not specify a duration less than 10 minutes",
                "spec.volumes[0].projected.sources[0].serviceAccountToken: Forbidden: must not be specified when serviceAccountName is not set",
            ],
        ),
        (
            volumes,
            json!([{"name": "v", "ephemeral": {}}]),
            vec!["spec.volumes[0].ephemeral.volumeClaimTemplate: Required value"],
        ),
        (
            "/spec/containers/0/volumeMounts",
            json!([{"name": "v", "mountPath": "/x"}]),
            vec!["spec.containers[0].volumeMounts[0].name: Not found: \"v\""],
        ),
    ]);
    let mounts = |mounts: Value| {
        with(
            &base(),
            &[
                (volumes, json!([{"name": "v"}])),
                ("/spec/containers/0/volumeMounts", mounts),
            ],
        )
    };
    for (given, expected) in [
        (
            json!([{"name": "v", "mountPath": "/x"}, {"name": "v", "mountPath": "/y"}]),
            vec![],
        ),
        (
            json!([{"name": "v", "mountPath": "/x"}, {"name": "v", "mountPath": "/x"}]),
            vec![
                "spec.containers[0].volumeMounts[1].mountPath: Invalid value: \"/x\": must be unique",
            ],
        ),
        (
            json!([{"name": "v", "mountPath": ""}]),
            vec!["spec.containers[0].volumeMounts[0].mountPath: Required value"],
        ),
        (
            json!([{"name": "v", "mountPath": "/x", "subPath": "/abs"}]),
            vec![
                "spec.containers[0].volumeMounts.subPath: Invalid value: \"/abs\": must be a relative path",
            ],
        ),
        (
            json!([{"name": "v", "mountPath": "/x", "mountPropagation": "Bidirectional"}]),
            vec![
                "spec.containers[0].volumeMounts.mountPropagation: Forbidden: Bidirectional mount propagation is available only to privileged containers",
            ],
        ),
    ] {
        assert_eq!(create_errors(&PodStrategy, &mounts(given)), expected);
    }
}

#[test]
fn probes() {
    let liveness = "/spec/containers/0/livenessProbe";
    check(vec![
        (
            liveness,
            json!({}),
            vec!["spec.containers[0].livenessProbe: Required value: must specify a handler type"],
        ),
        (
            liveness,
            json!({"exec": {"command": ["x"]}, "tcpSocket": {"port": 1}}),
            vec![
                "spec.containers[0].livenessProbe.tcpSocket: Forbidden: may not specify more than 1 handler type",
            ],
        ),
        (
            liveness,
            json!({"exec": {}}),
            vec!["spec.containers[0].livenessProbe.exec.command: Required value"],
        ),
        (
            liveness,
            json!({"tcpSocket": {"port": 0}}),
            vec![
                "spec.containers[0].livenessProbe.tcpSocket.port: Invalid value: 0: must be between 1 and 65535, inclusive",
            ],
        ),
        (
            liveness,
            json!({"exec": {"command": ["x"]}, "successThreshold": 2}),
            vec!["spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1"],
        ),
        (
            liveness,
            json!({"exec": {"command": ["x"]}, "periodSeconds": -1}),
            vec![
                "spec.containers[0].livenessProbe.periodSeconds: Invalid value: -1: must be greater than or equal to 0",
            ],
        ),
        (
            "/spec/containers/0/readinessProbe",
            json!({"exec": {"command": ["x"]}, "successThreshold": 2, "terminationGracePeriodSeconds": 5}),
            vec![
                "spec.containers[0].readinessProbe.terminationGracePeriodSeconds: Invalid value: 5: must not be set for readinessProbes",
            ],
        ),
        (
            "/spec/containers/0/lifecycle",
            json!({"preStop": {"sleep": {"seconds": 31}}}),
            vec![
                "spec.containers[0].lifecycle.preStop.sleep: Invalid value: 31: must be non-negative and less than terminationGracePeriodSeconds (30)",
            ],
        ),
        (
            "/spec/initContainers",
            json!([{"name": "i", "image": "i", "livenessProbe": {"exec": {"command": ["x"]}}}]),
            vec![
                "spec.initContainers[0].livenessProbe: Forbidden: may not be set for init containers without restartPolicy=Always",
            ],
        ),
        (
            "/spec/initContainers",
            json!([{"name": "i", "image": "i", "restartPolicy": "Always", "livenessProbe": {"exec": {"command": ["x"]}}}]),
            vec![],
        ),
    ]);
}

#[test]
fn resources() {
    let at = "/spec/containers/0/resources";
    check(vec![
        (
            at,
            json!({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
            vec![
                "spec.containers[0].resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1",
            ],
        ),
        (
            at,
            json!({"requests": {"cpu": "-1"}}),
            vec![
                "spec.containers[0].resources.requests[cpu]: Invalid value: \"-1\": must be greater than or equal to 0",
            ],
        ),
        (
            at,
            json!({"requests": {"gold": "1"}}),
            vec![
                "spec.containers[0].resources.requests[gold]: Invalid value: \"gold\": must be a standard resource type or fully qualified",
                "spec.containers[0].resources.requests[gold]: Invalid value: \"gold\": must be a standard resource for containers",
            ],
        ),
        (
            at,
            json!({"requests": {"pods": "1"}}),
            vec![
                "spec.containers[0].resources.requests[pods]: Invalid value: \"pods\": must be a standard resource for containers",
            ],
        ),
        (at, json!({"limits": {"example.com/gpu": "1"}}), vec![]),
        (
            at,
            json!({"limits": {"example.com/gpu": "0.5"}}),
            vec![
                "spec.containers[0].resources.limits[example.com/gpu]: Invalid value: \"500m\": must be an integer",
                "spec.containers[0].resources.requests[example.com/gpu]: Invalid value: \"500m\": must be an integer",
            ],
        ),
        (
            at,
            json!({"requests": {"example.com/gpu": "1"}}),
            vec![
                "spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources",
            ],
        ),
        (
            at,
            json!({"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "2"}}),
            vec![
                "spec.containers[0].resources.requests: Invalid value: \"1\": must be equal to example.com/gpu limit of 2",
            ],
        ),
        (
            at,
            json!({"limits": {"hugepages-2Mi": "4Mi"}}),
            vec!["spec.containers[0].resources: Forbidden: HugePages require cpu or memory"],
        ),
        (
            at,
            json!({"limits": {"hugepages-2Mi": "3Mi", "cpu": "1"}}),
            vec![
                "spec.containers[0].resources.limits[hugepages-2Mi]: Invalid value: \"3Mi\": 3Mi is not positive integer multiple of hugepages-2Mi",
                "spec.containers[0].resources.requests[hugepages-2Mi]: Invalid value: \"3Mi\": 3Mi is not positive integer multiple of hugepages-2Mi",
            ],
        ),
        (
            at,
            json!({"claims": [{"name": "c"}]}),
            vec![
                "spec.containers[0].resources.claims[0]: Not found: \"c\": must be one of the names in pod.spec.resourceClaims which is empty",
            ],
        ),
        (
            "/spec/resources",
            json!({"limits": {"storage": "1"}}),
            vec![
                "spec.resources.limits[storage]: Unsupported value: \"storage\": supported values: \"cpu\", \"hugepages-\", \"memory\"",
            ],
        ),
    ]);
    let pod = with(
        &base(),
        &[
            (
                "/spec/resources",
                json!({"requests": {"cpu": "500m"}, "limits": {"cpu": "500m"}}),
            ),
            (
                at,
                json!({"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}),
            ),
        ],
    );
    assert_eq!(
        create_errors(&PodStrategy, &pod),
        [
            "spec.resources.requests[cpu]: Invalid value: \"500m\": must be greater than or equal to aggregate container requests of 1",
            "spec.resources.containers[0][cpu].limits: Invalid value: \"1\": must be less than or equal to pod limits of 500m",
        ]
    );
}

#[test]
fn the_rest_of_the_specification() {
    check(vec![
        (
            "/spec/restartPolicy",
            json!("Maybe"),
            vec![
                "spec.restartPolicy: Unsupported value: \"Maybe\": supported values: \"Always\", \"OnFailure\", \"Never\"",
            ],
        ),
        (
            "/spec/dnsPolicy",
            json!("x"),
            vec![
                "spec.dnsPolicy: Unsupported value: \"x\": supported values: \"ClusterFirstWithHostNet\", \"ClusterFirst\", \"Default\", \"None\"",
            ],
        ),
        (
            "/spec/dnsPolicy",
            json!("None"),
            vec![
                "spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None",
            ],
        ),
        (
            "/spec/activeDeadlineSeconds",
            json!(0),
            vec![
                "spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive",
            ],
        ),
        (
            "/spec/securityContext/runAsUser",
            json!(-1),
            vec![
                "spec.securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive",
            ],
        ),
        (
            "/spec/securityContext/seccompProfile",
            json!({"type": "Localhost"}),
            vec![
                "spec.securityContext.seccompProfile.localhostProfile: Required value: must be set when seccomp type is Localhost",
            ],
        ),
        (
            "/spec/os",
            json!({"name": "plan9"}),
            vec!["spec.os: Unsupported value: \"plan9\": supported values: \"linux\", \"windows\""],
        ),
        (
            "/spec/schedulingGates",
            json!([{"name": "a"}, {"name": "a"}]),
            vec!["spec.schedulingGates[1]: Duplicate value: \"a\""],
        ),
        (
            "/metadata/annotations",
            json!({"controller.kubernetes.io/pod-deletion-cost": "+5"}),
            vec![
                "metadata.annotations[controller.kubernetes.io/pod-deletion-cost]: Invalid value: \"+5\": must be a 32bit integer",
            ],
        ),
        (
            "/metadata/annotations",
            json!({"kubernetes.io/config.mirror": "x"}),
            vec![
                "metadata.annotations[kubernetes.io/config.mirror]: Invalid value: \"x\": must set spec.nodeName if mirror pod annotation is set",
            ],
        ),
        (
            "/spec/hostAliases",
            json!([{"ip": "nonsense"}]),
            vec![
                "spec.hostAliases[0].ip: Invalid value: \"nonsense\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
            ],
        ),
    ]);
    let gated = with(
        &base(),
        &[
            ("/spec/nodeName", json!("n")),
            ("/spec/schedulingGates", json!([{"name": "a"}])),
        ],
    );
    assert_eq!(
        create_errors(&PodStrategy, &gated),
        ["spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared"]
    );
    let privileged = with(
        &base(),
        &[(
            "/spec/containers/0/securityContext",
            json!({"privileged": true, "allowPrivilegeEscalation": false}),
        )],
    );
    assert_eq!(
        create_errors(&PodStrategy, &privileged),
        [
            "spec.containers[0].securityContext: Invalid value: {\"allowPrivilegeEscalation\":false,\"privileged\":true}: cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
        ]
    );
}
