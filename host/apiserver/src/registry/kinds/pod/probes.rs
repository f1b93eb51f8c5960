//! Probes and lifecycle handlers.
//! Source: <https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#container-probes>

use k8s_openapi::api::core::v1::{
    Container, ExecAction, GRPCAction, HTTPGetAction, Lifecycle, LifecycleHandler, Probe,
    SleepAction, TCPSocketAction,
};
use pilothouse_api::field::{ErrorList, FieldError, Path};

use crate::registry::kinds::checks;

/// Probes and handlers of a container that goes on running. `grace` is the pod's termination grace period in seconds.
pub(super) fn validate(
    errors: &mut ErrorList,
    path: &Path,
    container: &Container,
    grace: Option<i64>,
) {
    if let Some(lifecycle) = &container.lifecycle {
        validate_lifecycle(errors, &path.child("lifecycle"), lifecycle, grace);
    }
    for (field, probe) in [
        ("livenessProbe", &container.liveness_probe),
        ("readinessProbe", &container.readiness_probe),
        ("startupProbe", &container.startup_probe),
    ] {
        if let Some(probe) = probe {
            validate_probe(errors, &path.child(field), probe, field == "readinessProbe");
        }
    }
}

/// Init containers run to their end: nothing may probe them.
pub(super) fn forbid(errors: &mut ErrorList, path: &Path, container: &Container) {
    let set = [
        ("lifecycle", container.lifecycle.is_some()),
        ("livenessProbe", container.liveness_probe.is_some()),
        ("readinessProbe", container.readiness_probe.is_some()),
        ("startupProbe", container.startup_probe.is_some()),
    ];
    for (field, _) in set.iter().filter(|(_, set)| *set) {
        errors.push(FieldError::forbidden(
            &path.child(field),
            "may not be set for init containers without restartPolicy=Always",
        ));
    }
}

fn validate_lifecycle(
    errors: &mut ErrorList,
    path: &Path,
    lifecycle: &Lifecycle,
    grace: Option<i64>,
) {
    for (field, handler) in [
        ("postStart", &lifecycle.post_start),
        ("preStop", &lifecycle.pre_stop),
    ] {
        if let Some(handler) = handler {
            validate_handler(errors, &path.child(field), handler.into(), grace);
        }
    }
}

fn validate_probe(errors: &mut ErrorList, path: &Path, probe: &Probe, readiness: bool) {
    validate_handler(errors, path, probe.into(), None);
    for (field, value) in [
        ("initialDelaySeconds", probe.initial_delay_seconds),
        ("timeoutSeconds", probe.timeout_seconds),
        ("periodSeconds", probe.period_seconds),
        ("successThreshold", probe.success_threshold),
        ("failureThreshold", probe.failure_threshold),
    ] {
        checks::not_negative(errors, &path.child(field), value.map(i64::from));
    }
    let grace_path = path.child("terminationGracePeriodSeconds");
    let grace = probe.termination_grace_period_seconds;
    if let Some(grace) = grace.filter(|g| *g <= 0) {
        errors.push(FieldError::invalid(
            &grace_path,
            grace,
            "must be greater than 0",
        ));
    }
    let threshold = probe.success_threshold.unwrap_or_default();
    match (readiness, grace) {
        (true, Some(grace)) => errors.push(FieldError::invalid(
            &grace_path,
            grace,
            "must not be set for readinessProbes",
        )),
        (false, _) if threshold != 1 => errors.push(FieldError::invalid(
            &path.child("successThreshold"),
            threshold,
            "must be 1",
        )),
        _ => {}
    }
}

/// What probes and lifecycle handlers have in common: one way out of several.
#[derive(Default)]
struct Handler<'a> {
    exec: Option<&'a ExecAction>,
    http_get: Option<&'a HTTPGetAction>,
    tcp_socket: Option<&'a TCPSocketAction>,
    grpc: Option<&'a GRPCAction>,
    sleep: Option<&'a SleepAction>,
}

impl<'a> From<&'a Probe> for Handler<'a> {
    fn from(probe: &'a Probe) -> Self {
        Self {
            exec: probe.exec.as_ref(),
            http_get: probe.http_get.as_ref(),
            tcp_socket: probe.tcp_socket.as_ref(),
            grpc: probe.grpc.as_ref(),
            sleep: None,
        }
    }
}

impl<'a> From<&'a LifecycleHandler> for Handler<'a> {
    fn from(handler: &'a LifecycleHandler) -> Self {
        Self {
            exec: handler.exec.as_ref(),
            http_get: handler.http_get.as_ref(),
            tcp_socket: handler.tcp_socket.as_ref(),
            grpc: None,
            sleep: handler.sleep.as_ref(),
        }
    }
}

fn validate_handler(errors: &mut ErrorList, path: &Path, handler: Handler<'_>, grace: Option<i64>) {
    let set = [
        ("exec", handler.exec.is_some()),
        ("httpGet", handler.http_get.is_some()),
        ("tcpSocket", handler.tcp_socket.is_some()),
        ("grpc", handler.grpc.is_some()),
        ("sleep", handler.sleep.is_some()),
    ];
    let mut set = set.iter().filter(|(_, set)| *set).map(|(field, _)| *field);
    let Some(first) = set.next() else {
        errors.push(FieldError::required(path, "must specify a handler type"));
        return;
    };
    validate_action(errors, &path.child(first), &handler, first, grace);
    for more in set {
        errors.push(FieldError::forbidden(
            &path.child(more),
            "may not specify more than 1 handler type",
        ));
    }
}

fn validate_action(
    errors: &mut ErrorList,
    path: &Path,
    handler: &Handler<'_>,
    field: &str,
    grace: Option<i64>,
) {
    let port = path.child("port");
    if let ("exec", Some(exec)) = (field, handler.exec)
        && exec.command.as_ref().is_none_or(|c| c.is_empty())
    {
        errors.push(FieldError::required(&path.child("command"), ""));
    }
    if let ("httpGet", Some(http)) = (field, handler.http_get) {
        validate_http(errors, path, http);
    }
    if let ("tcpSocket", Some(tcp)) = (field, handler.tcp_socket) {
        checks::port_number_or_name(errors, &port, &tcp.port);
    }
    if let ("grpc", Some(grpc)) = (field, handler.grpc) {
        checks::port_number(errors, &port, grpc.port);
    }
    if let ("sleep", Some(sleep), Some(grace)) = (field, handler.sleep, grace)
        && !(0..=grace).contains(&sleep.seconds)
    {
        let why =
            format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
        errors.push(FieldError::invalid(path, sleep.seconds, &why));
    }
}

fn validate_http(errors: &mut ErrorList, path: &Path, http: &HTTPGetAction) {
    let text = http.path.as_deref().unwrap_or_default();
    checks::required(errors, &path.child("path"), text);
    checks::port_number_or_name(errors, &path.child("port"), &http.port);
    let scheme = http.scheme.as_deref().unwrap_or_default();
    checks::one_of(errors, &path.child("scheme"), scheme, &["HTTP", "HTTPS"]);
    for header in http.http_headers.iter().flatten() {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
        if header.name.is_empty() || !header.name.bytes().all(allowed) {
            errors.push(FieldError::invalid(
                &path.child("httpHeaders"),
                header.name.as_str(),
                "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')",
            ));
        }
    }
}
