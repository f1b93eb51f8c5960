//! The command line. Flags have the names that Kubernetes' components give them, where there is one.

use std::{net::IpAddr, path::PathBuf, time::Duration};

use anyhow::Context as _;
use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};

use pilothouse_plugin::{Bounds, Limits, capability::Grant};

use crate::plugin_command::{Language, PluginKind};

/// A Kubernetes-compatible control plane whose policy is made of WebAssembly plugins.
///
/// `pilothouse up` runs everything in one process: API server, storage, scheduler, controllers, and simulated nodes if you ask
/// for them. The other roles run one part each, against any conformant API server.
#[derive(Debug, Parser)]
#[command(
    name = "pilothouse",
    version,
    propagate_version = true,
    max_term_width = 110,
    args_override_self = true
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) role: Role,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Role {
    /// Run the whole control plane in this process.
    #[command(args_override_self = true)]
    Up(UpFlags),
    /// Run the API server alone.
    #[command(args_override_self = true)]
    Apiserver(ApiServerFlags),
    /// Run the scheduler against the API server of a kubeconfig.
    #[command(args_override_self = true)]
    Scheduler(ComponentFlags),
    /// Run the controllers against the API server of a kubeconfig.
    #[command(args_override_self = true)]
    ControllerManager(ComponentFlags),
    /// Look at plugins and prepare them.
    #[command(subcommand)]
    Plugin(PluginCommand),
    /// Back up what is stored, look at a backup, restore it.
    #[command(subcommand)]
    Snapshot(SnapshotCommand),
    /// Move what is stored to another engine.
    #[command(subcommand)]
    Storage(StorageCommand),
}

/// `pilothouse up`
#[derive(Debug, Args)]
pub(crate) struct UpFlags {
    #[command(flatten)]
    pub(crate) api_server: ApiServerFlags,
    /// How many simulated nodes to register and play the kubelet for; without it, as many as at the last start.
    /// At most 16384: each has a range of 254 pod addresses.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=16_384))]
    pub(crate) nodes: Option<u32>,
    /// Of several of these on one etcd, one schedules and one runs the controllers.
    #[command(flatten)]
    pub(crate) leader: LeaderFlags,
}

/// `pilothouse apiserver`
#[derive(Debug, Args)]
pub(crate) struct ApiServerFlags {
    #[command(flatten)]
    pub(crate) common: CommonFlags,
    /// The address to serve HTTPS on.
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    pub(crate) bind_address: IpAddr,
    /// The address under which other machines reach this server: an endpoint of the `kubernetes` Service. By default the one it
    /// serves on.
    #[arg(long, value_name = "IP")]
    pub(crate) advertise_address: Option<IpAddr>,
    /// The port to serve HTTPS on; 0 takes a free one.
    #[arg(long, value_name = "PORT", default_value_t = 6443)]
    pub(crate) secure_port: u16,
    /// Take no writes and change nothing in the data directory: to look at data that is damaged, and to save what is left of it.
    #[arg(long, conflicts_with = "etcd_servers")]
    pub(crate) storage_read_only: bool,
    /// Keep the data in this etcd instead of the embedded engine; may be repeated or separated by commas.
    #[arg(long, value_name = "URL", value_delimiter = ',', action = ArgAction::Append)]
    pub(crate) etcd_servers: Vec<String>,
    #[command(flatten)]
    pub(crate) etcd: EtcdFlags,
    /// Encrypt what is stored as this EncryptionConfiguration says.
    #[arg(long, value_name = "FILE")]
    pub(crate) encryption_provider_config: Option<PathBuf>,
    /// Read that file again when it changes.
    #[arg(long, requires = "encryption_provider_config", default_value_t = false, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub(crate) encryption_provider_config_automatic_reload: bool,
    /// Save a snapshot so often: `30m`, `1h`.
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub(crate) snapshot_every: Option<Duration>,
    /// How many of these snapshots to keep.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 24,
        requires = "snapshot_every"
    )]
    pub(crate) snapshot_keep: usize,
    /// Where these snapshots go; default `<data-dir>/snapshots`.
    #[arg(long, value_name = "DIR", requires = "snapshot_every")]
    pub(crate) snapshot_dir: Option<PathBuf>,
    /// Namespaces with all that is in them that only built-in admission plugins see, so that no other can lock its owner out;
    /// may be repeated or separated by commas, empty for none.
    #[arg(long, value_name = "NAMESPACE", value_delimiter = ',', action = ArgAction::Append, default_value = "kube-system")]
    pub(crate) plugin_exempt_namespaces: Vec<String>,
    /// Resources that only built-in admission plugins see, such as nodes or deployments.apps, besides Leases, Events and
    /// Plugins; may be repeated or separated by commas.
    #[arg(long, value_name = "RESOURCE", value_delimiter = ',', action = ArgAction::Append)]
    pub(crate) plugin_exempt_resources: Vec<String>,
    /// The server certificate; by default one is made with a CA of the data directory.
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    pub(crate) tls_cert_file: Option<PathBuf>,
    /// The key of the server certificate.
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    pub(crate) tls_private_key_file: Option<PathBuf>,
    /// A CA whose client certificates are accepted, besides the data directory's own.
    #[arg(long, value_name = "FILE")]
    pub(crate) client_ca_file: Option<PathBuf>,
    /// A CSV file of bearer tokens: token,user,uid,"group1,group2".
    #[arg(long, value_name = "FILE")]
    pub(crate) token_auth_file: Option<PathBuf>,
    /// How many requests that only read are served at a time; flow control shares out this and the next number together.
    #[arg(long, value_name = "N", default_value_t = 400)]
    pub(crate) max_requests_inflight: u32,
    /// How many requests that write are served at a time.
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub(crate) max_mutating_requests_inflight: u32,
    /// How long to serve on, not ready any more, once told to stop: time for load balancers to notice, such as 10s.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = humantime::parse_duration)]
    pub(crate) shutdown_delay_duration: Duration,
    #[command(flatten)]
    pub(crate) service_accounts: ServiceAccountFlags,
    /// The range that Services get their cluster IPs from.
    #[arg(long, value_name = "CIDR", default_value = "10.96.0.0/16")]
    pub(crate) service_cluster_ip_range: String,
    /// The ports that NodePort Services get, first and last.
    #[arg(long, value_name = "FIRST-LAST", default_value = "30000-32767")]
    pub(crate) service_node_port_range: String,
}

/// How to talk to etcd.
#[derive(Clone, Debug, Args)]
pub(crate) struct EtcdFlags {
    /// The CA that etcd's certificate must be signed by.
    #[arg(long, value_name = "FILE")]
    pub(crate) etcd_cafile: Option<PathBuf>,
    /// The client certificate for etcd.
    #[arg(long, value_name = "FILE", requires = "etcd_keyfile")]
    pub(crate) etcd_certfile: Option<PathBuf>,
    /// The key of the client certificate for etcd.
    #[arg(long, value_name = "FILE", requires = "etcd_certfile")]
    pub(crate) etcd_keyfile: Option<PathBuf>,
    /// Where everything lies in etcd.
    #[arg(long, value_name = "PREFIX", default_value = "/registry")]
    pub(crate) etcd_prefix: String,
    /// How much of etcd's history is kept; one of the API servers compacts what is older. 0 leaves that to others.
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = humantime::parse_duration)]
    pub(crate) etcd_compaction_interval: Duration,
    /// The user of etcd to be; a client certificate may say so instead.
    #[arg(long, value_name = "NAME", requires = "etcd_password_file")]
    pub(crate) etcd_username: Option<String>,
    /// A file with that user's password.
    #[arg(long, value_name = "FILE", requires = "etcd_username")]
    pub(crate) etcd_password_file: Option<PathBuf>,
}

/// How tokens of service accounts are issued and believed.
#[derive(Debug, Args)]
pub(crate) struct ServiceAccountFlags {
    /// The private key that signs tokens of service accounts, PEM; by default one is made in the data directory.
    #[arg(long, value_name = "FILE")]
    pub(crate) service_account_signing_key_file: Option<PathBuf>,
    /// Further keys that tokens of service accounts may be signed with, PEM; may be repeated.
    #[arg(long, value_name = "FILE", action = ArgAction::Append)]
    pub(crate) service_account_key_file: Vec<PathBuf>,
    /// Who issues tokens of service accounts; if repeated, the first issues and all are believed.
    #[arg(long, value_name = "URL", action = ArgAction::Append, default_value = "https://kubernetes.default.svc.cluster.local")]
    pub(crate) service_account_issuer: Vec<String>,
    /// Where others read the keys of service account tokens; default: from this server.
    #[arg(long, value_name = "URL")]
    pub(crate) service_account_jwks_uri: Option<String>,
    /// Whom tokens must be for; default: the issuers of service account tokens. May be repeated or separated by commas.
    #[arg(long, value_name = "AUDIENCE", value_delimiter = ',', action = ArgAction::Append)]
    pub(crate) api_audiences: Vec<String>,
    /// The longest life of a token of a service account, such as 24h.
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub(crate) service_account_max_token_expiration: Option<Duration>,
    /// Give tokens that kubelets ask for a year, for pods that never read them again.
    #[arg(long, default_value_t = true, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub(crate) service_account_extend_token_expiration: bool,
}

impl ApiServerFlags {
    /// Whether other processes may keep their data in the same place.
    pub(crate) fn is_shared(&self) -> bool {
        !self.etcd_servers.is_empty()
    }
}

/// `pilothouse scheduler` and `pilothouse controller-manager`
#[derive(Debug, Args)]
pub(crate) struct ComponentFlags {
    #[command(flatten)]
    pub(crate) common: CommonFlags,
    /// The API server to work for, and as whom.
    #[arg(long, value_name = "FILE", env = "KUBECONFIG")]
    pub(crate) kubeconfig: PathBuf,
    #[command(flatten)]
    pub(crate) leader: LeaderFlags,
    /// The Lease's name; by default that of the Kubernetes component.
    #[arg(long, value_name = "NAME")]
    pub(crate) leader_elect_resource_name: Option<String>,
}

/// How processes of which one works at a time agree which.
#[derive(Clone, Debug, Args)]
pub(crate) struct LeaderFlags {
    /// Work only while holding the Lease, so that several instances may run.
    #[arg(long, default_value_t = true, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub(crate) leader_elect: bool,
    /// How long others wait after the leader's last sign of life.
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = humantime::parse_duration)]
    pub(crate) leader_elect_lease_duration: Duration,
    /// How long the leader tries to renew the Lease before it stops to lead.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = humantime::parse_duration)]
    pub(crate) leader_elect_renew_deadline: Duration,
    /// Between two attempts to take or renew the Lease.
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = humantime::parse_duration)]
    pub(crate) leader_elect_retry_period: Duration,
    /// The Lease's namespace.
    #[arg(long, value_name = "NAMESPACE", default_value = "kube-system")]
    pub(crate) leader_elect_resource_namespace: String,
}

/// What every role has.
#[derive(Clone, Debug, Args)]
pub(crate) struct CommonFlags {
    /// Where everything is kept: data, certificates, compiled plugins, the admin kubeconfig.
    #[arg(long, value_name = "DIR", default_value = "pilothouse-data")]
    pub(crate) data_dir: PathBuf,
    /// The watched directory of plugins; default `<data-dir>/plugins`.
    #[arg(long, value_name = "DIR")]
    pub(crate) plugin_dir: Option<PathBuf>,
    /// Where compiled plugins are kept, so that they are compiled once; default `<data-dir>/cache/compiled`.
    #[arg(long, value_name = "DIR")]
    pub(crate) cache_dir: Option<PathBuf>,
    /// What a plugin may do whose Plugin object grants nothing in so many words, such as a file that was just dropped in, of what
    /// its manifest asks for.
    #[arg(long, value_name = "POLICY", default_value = "as-needed")]
    pub(crate) plugin_dir_policy: DirectoryPolicy,
    /// No plugin but those that ship has a higher limit, whatever its Plugin object says: a name of `spec.limits` and a number,
    /// such as timeMs=1000; may be repeated.
    #[arg(long, value_name = "LIMIT=N", action = ArgAction::Append)]
    pub(crate) plugin_max_limit: Vec<String>,
    /// A YAML file of flags; the command line wins over it.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// What to log: error, warn, info, debug, trace, or a filter such as `pilothouse_scheduler=debug`.
    #[arg(
        long,
        value_name = "FILTER",
        default_value = "warn",
        env = "PILOTHOUSE_LOG"
    )]
    pub(crate) log: String,
    /// Log lines as JSON.
    #[arg(long)]
    pub(crate) log_json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DirectoryPolicy {
    /// Nothing.
    None,
    /// Reads, but not of Secrets.
    ReadOnly,
    /// Reads, but not of Secrets; controllers also write what gives nobody rights.
    AsNeeded,
    /// All of it.
    All,
}

impl CommonFlags {
    /// What the operator allows to plugins that do not ship with the host.
    pub(crate) fn plugin_bounds(&self) -> anyhow::Result<Bounds> {
        let mut maxima = serde_json::to_value(Limits::NONE)?;
        for maximum in &self.plugin_max_limit {
            let number = maximum.split_once('=').and_then(|(name, number)| {
                let number: u64 = number.parse().ok().filter(|number| *number > 0)?;
                Some((name, number))
            });
            let (name, number) = number.with_context(|| {
                format!("--plugin-max-limit {maximum} is no name and number, such as timeMs=1000")
            })?;
            maxima[name] = number.into();
        }
        let maxima = serde_json::from_value(maxima).context("--plugin-max-limit")?;
        Ok(Bounds {
            maxima,
            grant: match self.plugin_dir_policy {
                DirectoryPolicy::None => Grant::Nothing,
                DirectoryPolicy::ReadOnly => Grant::ReadOnly,
                DirectoryPolicy::AsNeeded => Grant::AsNeeded,
                DirectoryPolicy::All => Grant::Asked,
            },
        })
    }

    /// Where compiled plugins are kept.
    pub(crate) fn cache_dir(&self) -> PathBuf {
        self.cache_dir
            .clone()
            .unwrap_or_else(|| self.data_dir.join("cache/compiled"))
    }

    /// Where the versions of plugins that were active are kept.
    pub(crate) fn history_dir(&self) -> PathBuf {
        self.data_dir.join("cache/revisions")
    }

    /// The watched directory.
    pub(crate) fn plugin_dir(&self) -> PathBuf {
        self.plugin_dir
            .clone()
            .unwrap_or_else(|| self.data_dir.join("plugins"))
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum PluginCommand {
    /// List the plugins of a running control plane: interfaces, digest, state, calls, latencies, traps.
    List {
        #[command(flatten)]
        common: CommonFlags,
        /// The API server to ask; default `<data-dir>/admin.kubeconfig`.
        #[arg(long, value_name = "FILE")]
        kubeconfig: Option<PathBuf>,
    },
    /// Show what a component is: plugins, interfaces with versions, size, digest, capabilities asked for.
    Inspect {
        #[command(flatten)]
        common: CommonFlags,
        file: PathBuf,
    },
    /// Run the contract of every interface that a component exports, and print each clause with what was found.
    Test {
        #[command(flatten)]
        common: CommonFlags,
        /// Where the chance begins that adds inputs to the samples: another number tries others.
        #[arg(long, value_name = "N", default_value_t = 0)]
        seed: u64,
        /// What the plugin is configured with, as JSON: the `spec.config` of its Plugin object.
        #[arg(long, value_name = "JSON")]
        plugin_config: Option<String>,
        file: PathBuf,
    },
    /// Call a plugin once about an object, and print its answer, its time, its memory and its log.
    Run {
        #[command(flatten)]
        common: CommonFlags,
        #[command(flatten)]
        trial: TrialFlags,
        /// How to print.
        #[arg(long, short, default_value = "yaml")]
        output: OutputFormat,
        file: PathBuf,
    },
    /// Measure what a call of a plugin costs: time on a warm and on a fresh instance, instructions, memory.
    Bench {
        #[command(flatten)]
        common: CommonFlags,
        #[command(flatten)]
        trial: TrialFlags,
        /// How many calls to make; a tenth of them on fresh instances.
        #[arg(long, value_name = "N", default_value_t = 2000)]
        calls: u32,
        file: PathBuf,
    },
    /// Write down the calls of a plugin of a running control plane, with what it asked and was told, a JSON document a line.
    Record {
        #[command(flatten)]
        common: CommonFlags,
        /// The API server to ask; default `<data-dir>/admin.kubeconfig`.
        #[arg(long, value_name = "FILE")]
        kubeconfig: Option<PathBuf>,
        /// How long to listen.
        #[arg(long = "for", value_name = "DURATION", default_value = "60s", value_parser = humantime::parse_duration)]
        length: Duration,
        /// How many calls are enough.
        #[arg(long, value_name = "N", default_value_t = u64::MAX, hide_default_value = true)]
        calls: u64,
        /// Where to write them; default standard output.
        #[arg(long, value_name = "FILE")]
        to: Option<PathBuf>,
        /// The plugin, as `pilothouse plugin list` names it.
        name: String,
    },
    /// Make recorded calls again of a component, and print where it answers or writes otherwise.
    Replay {
        #[command(flatten)]
        common: CommonFlags,
        /// Another configuration than the recorded one, as JSON.
        #[arg(long, value_name = "JSON")]
        plugin_config: Option<String>,
        /// What `plugin record` wrote.
        #[arg(long, value_name = "FILE")]
        calls: PathBuf,
        /// How to print.
        #[arg(long, short, default_value = "yaml")]
        output: OutputFormat,
        file: PathBuf,
    },
    /// List the versions of a plugin that were active and are kept in the data directory.
    History {
        #[command(flatten)]
        common: CommonFlags,
        name: String,
    },
    /// Go back to an earlier version of a plugin, by the data directory alone.
    Rollback {
        #[command(flatten)]
        common: CommonFlags,
        /// The version, by the first digits of its digest; the one before the active one by default.
        #[arg(long, value_name = "DIGEST")]
        to: Option<String>,
        name: String,
    },
    /// Let the candidate of a plugin (`spec.candidate`) take the place of the version that serves, with its configuration.
    Promote {
        #[command(flatten)]
        common: CommonFlags,
        /// The API server to ask; default `<data-dir>/admin.kubeconfig`.
        #[arg(long, value_name = "FILE")]
        kubeconfig: Option<PathBuf>,
        name: String,
    },
    /// Stop a plugin being called, also a built-in one, by the data directory alone: for when it has locked you out.
    Disable {
        #[command(flatten)]
        common: CommonFlags,
        name: String,
    },
    /// Let a disabled plugin be called again.
    Enable {
        #[command(flatten)]
        common: CommonFlags,
        name: String,
    },
    /// Make a project for a plugin that builds and passes its contract as it stands.
    New {
        #[command(flatten)]
        common: CommonFlags,
        #[arg(long)]
        kind: PluginKind,
        #[arg(long)]
        lang: Language,
        /// The folder to make; its last part is the plugin's name.
        #[arg(value_name = "NAME")]
        path: PathBuf,
    },
    /// Build a project to a component with the ordinary tools of its language.
    Build {
        #[command(flatten)]
        common: CommonFlags,
        #[arg(value_name = "PROJECT", default_value = ".")]
        project: PathBuf,
    },
    /// Compile the built-in plugins into the data directory's cache, so that no start compiles them.
    Precompile {
        #[command(flatten)]
        common: CommonFlags,
    },
}

/// What to try a plugin with.
#[derive(Debug, Args)]
pub(crate) struct TrialFlags {
    /// The object that the call is about, as YAML or JSON, or for admission a whole AdmissionReview; `-` is standard input. A
    /// scheduler plugin judges a Pod, a controller reconciles the key that its watches map the object to.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) input: Option<PathBuf>,
    /// The object before an update.
    #[arg(long, value_name = "FILE")]
    pub(crate) old: Option<PathBuf>,
    /// What is done to the object.
    #[arg(long, default_value = "create")]
    pub(crate) operation: TrialOperation,
    /// Who does it.
    #[arg(long, value_name = "USER", default_value = "kubernetes-admin")]
    pub(crate) user: String,
    /// The groups of who does it; may be repeated.
    #[arg(long, value_name = "GROUP", default_values = ["system:masters", "system:authenticated"])]
    pub(crate) group: Vec<String>,
    /// What else there is: the nodes and pods that a scheduler plugin sees, the objects that others read.
    #[arg(long, value_name = "FILE")]
    pub(crate) cluster: Option<PathBuf>,
    /// How many nodes to make up if there are none in the cluster.
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub(crate) nodes: u32,
    /// Call only this interface or family: `admission/mutate`, `scheduler`.
    #[arg(long, value_name = "INTERFACE")]
    pub(crate) interface: Option<String>,
    /// Call only the plugin of this name in the component's manifest.
    #[arg(long, value_name = "NAME")]
    pub(crate) plugin: Option<String>,
    /// What the plugin is configured with, as JSON: the `spec.config` of its Plugin object.
    #[arg(long, value_name = "JSON")]
    pub(crate) plugin_config: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TrialOperation {
    Create,
    Update,
    Delete,
    Connect,
}

impl From<TrialOperation> for pilothouse_plugin::admission::Operation {
    fn from(operation: TrialOperation) -> Self {
        match operation {
            TrialOperation::Create => Self::Create,
            TrialOperation::Update => Self::Update,
            TrialOperation::Delete => Self::Delete,
            TrialOperation::Connect => Self::Connect,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    Yaml,
    Json,
}

impl OutputFormat {
    /// Several documents: of YAML divided by `---`, of JSON one a line.
    pub(crate) fn text(self, documents: &[serde_json::Value]) -> anyhow::Result<String> {
        match self {
            Self::Yaml => {
                let texts = documents.iter().map(serde_saphyr::to_string);
                Ok(texts.collect::<Result<Vec<_>, _>>()?.join("---\n"))
            }
            Self::Json => Ok(documents.iter().map(|json| format!("{json}\n")).collect()),
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum SnapshotCommand {
    /// Save a snapshot of a running API server, or of a data directory that none is using. From a server on etcd comes an
    /// ordinary snapshot of etcd, for `etcdutl`.
    Save {
        #[command(flatten)]
        common: CommonFlags,
        /// The API server to ask; default `<data-dir>/admin.kubeconfig`, if the data directory is in use.
        #[arg(long, value_name = "FILE")]
        kubeconfig: Option<PathBuf>,
        file: PathBuf,
    },
    /// Check a snapshot and print its hash, revision, keys and size.
    Status {
        #[command(flatten)]
        common: CommonFlags,
        file: PathBuf,
    },
    /// Make the storage of a new data directory from a snapshot. Certificates and keys are not in it: copy `pki/`, too.
    Restore {
        #[command(flatten)]
        common: CommonFlags,
        /// How far above the snapshot's revision to go on: more than was written since it was taken, so that no client takes
        /// what it saw for what is there.
        #[arg(long, value_name = "N", default_value_t = 1_000_000_000)]
        bump_revision: u64,
        file: PathBuf,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum StorageCommand {
    /// Copy everything from one engine into an empty other one, while no API server uses either.
    Migrate(MigrateFlags),
}

/// `pilothouse storage migrate`
#[derive(Debug, Args)]
pub(crate) struct MigrateFlags {
    #[command(flatten)]
    pub(crate) common: CommonFlags,
    /// Where to copy from: a data directory, or etcd's URLs separated by commas.
    #[arg(long, value_name = "DIR|URLS")]
    pub(crate) from: String,
    /// Where to copy to: a data directory, or etcd's URLs separated by commas.
    #[arg(long, value_name = "DIR|URLS")]
    pub(crate) to: String,
    #[command(flatten)]
    pub(crate) etcd: EtcdFlags,
}

impl Role {
    /// The flags that every role has.
    pub(crate) fn common(&self) -> &CommonFlags {
        match self {
            Self::Up(flags) => &flags.api_server.common,
            Self::Apiserver(flags) => &flags.common,
            Self::Scheduler(flags) | Self::ControllerManager(flags) => &flags.common,
            Self::Plugin(
                PluginCommand::List { common, .. }
                | PluginCommand::Inspect { common, .. }
                | PluginCommand::Test { common, .. }
                | PluginCommand::Run { common, .. }
                | PluginCommand::Bench { common, .. }
                | PluginCommand::Record { common, .. }
                | PluginCommand::Replay { common, .. }
                | PluginCommand::History { common, .. }
                | PluginCommand::Rollback { common, .. }
                | PluginCommand::Promote { common, .. }
                | PluginCommand::Disable { common, .. }
                | PluginCommand::Enable { common, .. }
                | PluginCommand::New { common, .. }
                | PluginCommand::Build { common, .. }
                | PluginCommand::Precompile { common },
            ) => common,
            Self::Snapshot(
                SnapshotCommand::Save { common, .. }
                | SnapshotCommand::Status { common, .. }
                | SnapshotCommand::Restore { common, .. },
            ) => common,
            Self::Storage(StorageCommand::Migrate(flags)) => &flags.common,
        }
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use std::path::Path;

    use super::*;

    /// The flags of a data directory.
    pub(crate) fn common(data_dir: &Path) -> CommonFlags {
        CommonFlags {
            data_dir: data_dir.to_owned(),
            plugin_dir: None,
            cache_dir: None,
            plugin_dir_policy: DirectoryPolicy::AsNeeded,
            plugin_max_limit: Vec::new(),
            config: None,
            log: "warn".to_owned(),
            log_json: false,
        }
    }
}
