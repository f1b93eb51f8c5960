use super::*;

fn of(group: &'static str, version: &'static str, kind: &'static str) -> &'static Type {
    by_kind(&GroupVersionKind::of(group, version, kind)).unwrap()
}

/// Follows JSON names through messages, lists and maps.
fn field(start: &'static Type, path: &str) -> &'static Field {
    let mut at = start;
    let mut found = None;
    for name in path.split('.') {
        let field = at
            .json_field(name)
            .unwrap_or_else(|| panic!("{path}: no {name}"));
        if let Kind::Message(next) = field.shape.kind() {
            at = next.get();
        }
        found = Some(field);
    }
    found.unwrap()
}

#[test]
fn fields_have_the_published_numbers_and_shapes() {
    let deployment = of("apps", "v1", "Deployment");
    assert_eq!(deployment.schema_name(), "io.k8s.api.apps.v1.Deployment");
    for (path, number, shape) in [
        ("metadata.labels", 11, Shape::Map(Kind::String)),
        ("metadata.creationTimestamp", 8, Shape::One(Kind::Time)),
        (
            "metadata.managedFields.fieldsV1",
            7,
            Shape::One(Kind::FieldsV1),
        ),
        ("spec.replicas", 1, Shape::One(Kind::Int32)),
        (
            "spec.strategy.rollingUpdate.maxSurge",
            2,
            Shape::One(Kind::IntOrString),
        ),
        (
            "spec.template.spec.terminationGracePeriodSeconds",
            4,
            Shape::One(Kind::Int64),
        ),
        (
            "spec.template.spec.containers.resources.limits",
            1,
            Shape::Map(Kind::Quantity),
        ),
        (
            "spec.template.spec.containers.command",
            3,
            Shape::List(Kind::String),
        ),
    ] {
        let field = field(deployment, path);
        assert_eq!((field.number, field.shape), (number, shape), "{path}");
    }
    let secret = of("", "v1", "Secret");
    assert_eq!(field(secret, "data").shape, Shape::Map(Kind::Bytes));
    let review = of("authorization.k8s.io", "v1", "SubjectAccessReview");
    assert_eq!(
        field(review, "spec.extra").shape,
        Shape::Map(Kind::StringList)
    );
}

#[test]
fn inline_messages_are_one_field_in_protobuf_and_many_in_json() {
    let pod = of("", "v1", "Pod");
    let volume = match field(pod, "spec.volumes").shape {
        Shape::List(Kind::Message(volume)) => volume.get(),
        other => panic!("{other:?}"),
    };
    assert!(
        volume
            .by_number(2)
            .is_some_and(|f| f.is_inline && f.proto_name == "volumeSource")
    );
    assert!(volume.json_field("volumeSource").is_none());
    assert_eq!(field(pod, "spec.volumes.configMap.items.path").number, 2);
    assert_eq!(
        field(pod, "spec.containers.livenessProbe.httpGet.port").shape,
        Shape::One(Kind::IntOrString)
    );
    assert_eq!(field(pod, "spec.ephemeralContainers.image").number, 2);
}

#[test]
fn lists_have_their_keys() {
    let pod = of("", "v1", "Pod");
    let service = of("", "v1", "Service");
    for (start, path, list_type, merge_key) in [
        (
            pod,
            "spec.containers",
            Some(ListType::Map("name")),
            Some("name"),
        ),
        (
            pod,
            "spec.containers.ports",
            Some(ListType::Map("containerPort,protocol")),
            Some("containerPort"),
        ),
        (
            service,
            "spec.ports",
            Some(ListType::Map("port,protocol")),
            Some("port"),
        ),
        (pod, "spec.tolerations", Some(ListType::Atomic), None),
        (pod, "metadata.finalizers", Some(ListType::Set), None),
        (
            pod,
            "metadata.ownerReferences",
            Some(ListType::Map("uid")),
            Some("uid"),
        ),
    ] {
        let field = field(start, path);
        assert_eq!(
            (field.list_type, field.patch.merge_key),
            (list_type, merge_key),
            "{path}"
        );
        assert_eq!(
            field.patch.merge,
            merge_key.is_some() || path.ends_with("finalizers"),
            "{path}"
        );
    }
    assert!(field(pod, "spec.volumes").patch.retain_keys);
    assert!(field(pod, "spec.nodeSelector").is_atomic);
    assert!(
        by_schema_name("io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector")
            .unwrap()
            .is_atomic
    );
}

#[test]
fn zero_and_absent_are_told_apart_where_they_differ() {
    let deployment = of("apps", "v1", "Deployment");
    assert!(field(deployment, "spec.replicas").is_pointer);
    assert!(!field(deployment, "spec.minReadySeconds").is_pointer);
    assert!(field(deployment, "spec.template.spec.containers.name").is_always_present);
    assert!(!field(deployment, "spec.paused").is_always_present);
}

#[test]
fn every_type_is_complete() {
    let mut kinds = 0;
    for each in types() {
        kinds += usize::from(each.is_kind);
        assert!(
            each.fields().is_sorted_by_key(|f| f.number),
            "{}",
            each.schema_name()
        );
        let json = each.json_fields();
        assert!(
            json.windows(2).all(|pair| pair[0].name < pair[1].name),
            "{}",
            each.schema_name()
        );
        assert!(std::ptr::eq(
            by_schema_name(&each.schema_name()).unwrap(),
            each
        ));
        for field in each.fields() {
            let is_list = matches!(field.shape, Shape::List(_) | Shape::One(Kind::StringList));
            assert!(
                is_list || field.list_type.is_none(),
                "{}.{}",
                each.schema_name(),
                field.name
            );
            if let (Some(key), Kind::Message(element)) = (field.patch.merge_key, field.shape.kind())
            {
                assert!(
                    element.get().json_field(key).is_some(),
                    "{}.{}",
                    each.schema_name(),
                    field.name
                );
            }
        }
    }
    assert!(kinds > 200, "{kinds}");
    assert!(by_kind(&GroupVersionKind::of("", "v1", "Nothing")).is_none());
    assert!(object_meta().is_some());
}
