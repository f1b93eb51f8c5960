//! How the server is to be started. Names follow upstream's flags.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    ops::RangeInclusive,
    path::PathBuf,
    time::Duration,
};

use crate::registry::allocation::{ClusterIpRange, DEFAULT_CLUSTER_IP_RANGE, DEFAULT_NODE_PORTS};

/// Everything that can be chosen.
#[derive(Clone, Debug)]
pub struct ApiServerOptions {
    pub bind_address: IpAddr,
    /// Zero: any free port.
    pub secure_port: u16,
    /// Holds `pki/` and `admin.kubeconfig`.
    pub data_dir: PathBuf,
    /// Further CAs whose client certificates are believed, PEM.
    pub client_ca_file: Option<PathBuf>,
    /// The server's certificate and key, PEM; without them those of `pki/` are used. Both or neither.
    pub tls_cert_file: Option<PathBuf>,
    pub tls_private_key_file: Option<PathBuf>,
    /// Static bearer tokens, CSV.
    pub token_auth_file: Option<PathBuf>,
    /// Where others find the server; `None`: at `bind_address`, or at the loopback if that is every address.
    pub advertise_address: Option<IpAddr>,
    /// Where cluster IPs come from, one range of each family at most, the default first. The first address is that of the
    /// `kubernetes` service.
    pub service_cluster_ip_ranges: Vec<ClusterIpRange>,
    pub service_node_port_range: RangeInclusive<u16>,
    pub service_accounts: ServiceAccountOptions,
    /// How many requests that only read, and how many others, are served at a time: flow control shares out the sum.
    pub max_requests_inflight: u32,
    pub max_mutating_requests_inflight: u32,
    /// How long the server says that it is not ready and goes on, once it has been told to stop.
    pub shutdown_delay: Duration,
    /// How long requests may go on after the server has been told to stop.
    pub shutdown_grace: Duration,
}

/// How tokens of service accounts are issued and believed.
#[derive(Clone, Debug)]
pub struct ServiceAccountOptions {
    /// The first issues, all are believed.
    pub issuers: Vec<String>,
    /// The private key that signs, PEM; without it `pki/sa.key`.
    pub signing_key_file: Option<PathBuf>,
    /// Further keys that tokens may be signed with, PEM.
    pub key_files: Vec<PathBuf>,
    /// Whom tokens are for that name no audience; empty: the issuers.
    pub api_audiences: Vec<String>,
    /// The longest life that may be asked for.
    pub max_token_seconds: Option<i64>,
    /// Tokens that a kubelet asks for are good for a year, as long as there are clients that do not read them again.
    pub extend_expiration: bool,
    /// Where others read the key set; `None`: from this server.
    pub jwks_uri: Option<String>,
}

impl Default for ServiceAccountOptions {
    fn default() -> Self {
        Self {
            issuers: vec!["https://kubernetes.default.svc.cluster.local".to_owned()],
            signing_key_file: None,
            key_files: Vec::new(),
            api_audiences: Vec::new(),
            max_token_seconds: None,
            extend_expiration: true,
            jwks_uri: None,
        }
    }
}

impl ServiceAccountOptions {
    /// Whom tokens are for that name no audience.
    pub(crate) fn audiences(&self) -> &[String] {
        match self.api_audiences.is_empty() {
            true => &self.issuers,
            false => &self.api_audiences,
        }
    }

    /// Says what cannot be used.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.issuers.is_empty() || self.issuers.iter().any(String::is_empty) {
            return Err("--service-account-issuer must not be empty".to_owned());
        }
        for issuer in self.issuers.iter().filter(|issuer| issuer.contains(':')) {
            let parsed = issuer.parse::<http::Uri>();
            if !parsed.is_ok_and(|url| url.scheme().is_some()) {
                return Err(format!(
                    "--service-account-issuer {issuer:?} contains a ':' but is not a URL"
                ));
            }
        }
        if self
            .jwks_uri
            .as_ref()
            .is_some_and(|uri| !uri.starts_with("https://"))
        {
            return Err("--service-account-jwks-uri must be an https URL".to_owned());
        }
        match self.max_token_seconds {
            Some(seconds) if !(3600..=1 << 32).contains(&seconds) => Err(
                "--service-account-max-token-expiration must be between 1 hour and 2^32 seconds"
                    .to_owned(),
            ),
            _ => Ok(()),
        }
    }
}

impl Default for ApiServerOptions {
    fn default() -> Self {
        Self {
            bind_address: Ipv4Addr::UNSPECIFIED.into(),
            secure_port: 6443,
            data_dir: PathBuf::from("pilothouse-data"),
            client_ca_file: None,
            tls_cert_file: None,
            tls_private_key_file: None,
            token_auth_file: None,
            advertise_address: None,
            service_cluster_ip_ranges: DEFAULT_CLUSTER_IP_RANGE.parse().into_iter().collect(),
            service_node_port_range: DEFAULT_NODE_PORTS,
            service_accounts: ServiceAccountOptions::default(),
            max_requests_inflight: 400,
            max_mutating_requests_inflight: 200,
            shutdown_delay: Duration::ZERO,
            shutdown_grace: Duration::from_secs(10),
        }
    }
}

impl ApiServerOptions {
    /// Says what cannot be used, of what can be seen without reading files.
    pub(crate) fn check(&self) -> Result<(), String> {
        let ranges = &self.service_cluster_ip_ranges;
        if ranges.is_empty() {
            return Err("--service-cluster-ip-range must not be empty".to_owned());
        }
        let two_of_a_family =
            matches!(&ranges[..], [one, other] if one.is_ipv4() == other.is_ipv4());
        if ranges.len() > 2 || two_of_a_family {
            let why = "must be one range, or one of IPv4 and one of IPv6";
            return Err(format!("--service-cluster-ip-range {why}"));
        }
        if self.max_requests_inflight + self.max_mutating_requests_inflight == 0 {
            return Err(
                "--max-requests-inflight and --max-mutating-requests-inflight must not both be 0"
                    .to_owned(),
            );
        }
        let ports = &self.service_node_port_range;
        if ports.is_empty() || *ports.start() == 0 {
            let (first, last) = (ports.start(), ports.end());
            return Err(format!(
                "--service-node-port-range {first}-{last} must begin at 1 or later and not end before it begins"
            ));
        }
        Ok(())
    }

    /// The address to listen on.
    pub(crate) fn listen_address(&self) -> SocketAddr {
        SocketAddr::new(self.bind_address, self.secure_port)
    }

    /// The address that is reached from this machine at least.
    pub(crate) fn reached_at(&self) -> IpAddr {
        match self.bind_address.is_unspecified() {
            true => self.public_ip(),
            false => self.bind_address,
        }
    }

    /// The address to tell others.
    pub(crate) fn public_ip(&self) -> IpAddr {
        match (self.advertise_address, self.bind_address) {
            (Some(address), _) => address,
            (None, address) if !address.is_unspecified() => address,
            (None, _) => Ipv4Addr::LOCALHOST.into(),
        }
    }
}
