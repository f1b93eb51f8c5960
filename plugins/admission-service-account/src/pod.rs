//! The parts of pods and service accounts that matter here. A `null` is as good as nothing.

use std::collections::BTreeMap;

use serde::Deserialize;

const MIRROR: &str = "kubernetes.io/config.mirror";

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Pod {
    pub(crate) metadata: Metadata,
    pub(crate) spec: Spec,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Metadata {
    pub(crate) name: String,
    pub(crate) annotations: Option<BTreeMap<String, String>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Spec {
    pub(crate) service_account_name: String,
    /// The old name of the same field.
    pub(crate) service_account: String,
    pub(crate) automount_service_account_token: Option<bool>,
    image_pull_secrets: Option<Vec<Named>>,
    volumes: Option<Vec<Volume>>,
    containers: Option<Vec<Container>>,
    init_containers: Option<Vec<Container>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Named {
    pub(crate) name: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Volume {
    pub(crate) name: String,
    pub(crate) secret: Option<SecretSource>,
    pub(crate) projected: Option<Projected>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SecretSource {
    pub(crate) secret_name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Projected {
    pub(crate) sources: Option<Vec<Projection>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Projection {
    pub(crate) secret: Option<Named>,
    pub(crate) service_account_token: Option<serde::de::IgnoredAny>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Container {
    pub(crate) name: String,
    volume_mounts: Option<Vec<VolumeMount>>,
    env: Option<Vec<EnvVar>>,
    env_from: Option<Vec<EnvFrom>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct VolumeMount {
    pub(crate) mount_path: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct EnvVar {
    pub(crate) name: String,
    pub(crate) value_from: Option<ValueFrom>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ValueFrom {
    pub(crate) secret_key_ref: Option<Named>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct EnvFrom {
    pub(crate) secret_ref: Option<Named>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ServiceAccount {
    pub(crate) metadata: Metadata,
    automount_service_account_token: Option<bool>,
    image_pull_secrets: Option<Vec<Named>>,
    secrets: Option<Vec<Named>>,
}

impl Pod {
    /// A pod that a kubelet reports from a file of its own.
    pub(crate) fn is_mirror(&self) -> bool {
        self.metadata
            .annotations
            .as_ref()
            .is_some_and(|all| all.contains_key(MIRROR))
    }

    /// The account that it names.
    pub(crate) fn account(&self) -> Option<&str> {
        [&self.spec.service_account_name, &self.spec.service_account]
            .into_iter()
            .map(String::as_str)
            .find(|name| !name.is_empty())
    }

    /// The pod decides, then the account; neither means yes.
    pub(crate) fn mounts_token(&self, account: &ServiceAccount) -> bool {
        let own = self.spec.automount_service_account_token;
        own.or(account.automount_service_account_token)
            .unwrap_or(true)
    }
}

impl Spec {
    pub(crate) fn image_pull_secrets(&self) -> &[Named] {
        self.image_pull_secrets.as_deref().unwrap_or_default()
    }

    pub(crate) fn volumes(&self) -> &[Volume] {
        self.volumes.as_deref().unwrap_or_default()
    }

    /// Both lists with their field names.
    pub(crate) fn container_lists(&self) -> [(&'static str, &[Container]); 2] {
        [
            (
                "initContainers",
                self.init_containers.as_deref().unwrap_or_default(),
            ),
            ("containers", self.containers.as_deref().unwrap_or_default()),
        ]
    }

    pub(crate) fn all_containers(&self) -> impl Iterator<Item = &Container> {
        self.container_lists()
            .into_iter()
            .flat_map(|(_, list)| list)
    }
}

impl Container {
    pub(crate) fn volume_mounts(&self) -> &[VolumeMount] {
        self.volume_mounts.as_deref().unwrap_or_default()
    }

    pub(crate) fn has_volume_mounts(&self) -> bool {
        self.volume_mounts.is_some()
    }

    pub(crate) fn env(&self) -> &[EnvVar] {
        self.env.as_deref().unwrap_or_default()
    }

    pub(crate) fn env_from(&self) -> &[EnvFrom] {
        self.env_from.as_deref().unwrap_or_default()
    }
}

impl ServiceAccount {
    pub(crate) fn image_pull_secrets(&self) -> &[Named] {
        self.image_pull_secrets.as_deref().unwrap_or_default()
    }

    pub(crate) fn secrets(&self) -> &[Named] {
        self.secrets.as_deref().unwrap_or_default()
    }
}
